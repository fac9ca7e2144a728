"""Turns of a dialogue, and replies to them: the input step of models that find a reply, and the step that names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.ranking import top_k
from pdl.runtime.sample import Sample
from pdl.runtime.steps import Input, Resources
from pdl.runtime.steps.arguments import check, count, text
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep, Ranking, ranked_alike
from pdl_nlp.steps.passages import TextIndex
from pdl_nlp.steps.tokens import Tokenized, TokensInput
from pdl_nlp.steps.vectors import FOUND, SEARCH, Nearest
from pdl_nlp.tokenizers.base import Encoding, Tokenizer

REPLY = "reply"


def spoken(tokenizer: Tokenizer, turns: Sequence[str], max_length: int, *, reply: bool = False) -> Tokenized:
    """Turns as a model reads them: [CLS] turn [SEP] turn [SEP] ..., as far as the tokenizer has such tokens. Segments
    are 0 for who said the last turn and 1 for who answers, in turn; those of a reply are 1. Of more than `max_length`
    tokens the last ones count, of a reply the first.
    """
    made = tokenizer.encode_many(list(turns))
    none = np.zeros(0, np.int32)
    begin = none if tokenizer.cls is None else np.array([tokenizer.cls], np.int32)
    end = none if tokenizer.sep is None else np.array([tokenizer.sep], np.int32)
    parts = [Encoding(begin, np.zeros((len(begin), 2), np.int32), np.full(len(begin), -1, np.int32))]
    segments = [np.full(len(begin), int(reply), np.int32)]
    room = max_length - len(begin)
    for at in range(len(turns)):
        own, last = made.text(at), np.full(len(end), -1, np.int32)
        if reply:
            own = Encoding(*(each[: room - len(end)] for each in own))
        joined = Encoding(
            np.concatenate([own.ids, end]),
            np.concatenate([own.offsets, np.zeros((len(end), 2), np.int32)]),
            np.concatenate([own.words, last]),
        )
        parts.append(joined)
        segments.append(np.full(len(joined.ids), 1 if reply else (len(turns) - 1 - at) % 2, np.int32))
    whole = Encoding(*(np.concatenate(each)[-room:] for each in zip(*parts[1:], strict=True)))
    found = Encoding(*(np.concatenate(each) for each in zip(parts[0], whole, strict=True)))
    kinds = np.concatenate([segments[0], np.concatenate(segments[1:])[-room:]])
    return Tokenized(list(turns), found, kinds)


class TurnsInput(TokensInput):
    """The turns of a dialogue -> the numbers of their tokens int64 [T], or of their segments, as `spoken` has them and
    `TokensInput` fills them. An item is a list of turns; a text, which is one turn, or several with tabs between them;
    {"turns": [...]}; or {"reply": text}, a reply.

    most  how many of the last turns count
    """

    name = "turns"

    def __init__(
        self,
        vocabulary: str,
        tokenizer: Mapping[str, Any],
        max_length: int = 64,
        most: int = 3,
        gives: str = "ids",
    ) -> None:
        super().__init__(vocabulary, tokenizer, max_length, gives=gives)
        self.most = count("most", most)
        self.takes, self.metavar, self.about = "turns", "'TURN<TAB>TURN...'", "turns of a dialogue, tabs between them"

    def _tokenized(self, item: Any) -> Tokenized:
        if isinstance(item, Mapping) and set(item) == {REPLY}:
            return self._checked(spoken(self.tokenizer, [str(item[REPLY])], self.max_length, reply=True))
        given = item.get("turns") if isinstance(item, Mapping) else item
        turns = given.split("\t") if isinstance(given, str) else given
        if not isinstance(turns, Sequence) or not turns or not all(isinstance(each, str) for each in turns):
            raise DataError(f"{item!r:.60}: expected turns, as a list of texts or with tabs between them")
        return self._checked(spoken(self.tokenizer, turns[-self.most :], self.max_length))

    def _checked(self, made: Tokenized) -> Tokenized:
        if not (made.encoding.words >= 0).any():
            raise DataError(f"{made.texts[-1]!r:.60} has no tokens: give a text with at least one word")
        return made

    def conversation(self, turns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """The last turns."""
        return list(turns[-self.most :]), ()

    def candidate(self, text: str) -> Any:
        return {REPLY: text}

    def file(self, path: str | Path) -> Iterator[Input]:
        """A dialogue a line, tabs between its turns."""
        return super().file(path)

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Made-up turns of a few tokens."""
        found = super().samples(rng)
        return [found[:k] for k in range(1, len(found) + 1)]


class Replies(Ranking):
    """{"found": [the k best of the replies that the bundle holds, each {"score", "text"}]} of the vector of turns; the
    score is the product of the vectors, which have the length 1. With `--search` the best lines of a file instead.

    vocabulary  of the replies; their vectors float [R, C] are the constant vectors.NAME
    """

    name = "replies"
    any_script = True
    finds_text = True

    def __init__(self, vocabulary: str = "replies", k: int = FOUND) -> None:
        self.vocabulary, self.k = text("vocabulary", vocabulary), count("k", k)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        self.texts = resources.vocabularies[self.vocabulary].names
        name = f"vectors.{self.vocabulary}"
        vectors = resources.constants.get(name)
        check(vectors is not None and vectors.ndim == 2, f"replies: no constant {name} with vectors of the replies")
        self.vectors: Array = np.asarray(vectors, np.float32)
        check(len(self.vectors) == len(self.texts), f"replies: {len(self.texts)} texts, {len(self.vectors)} vectors")

    def __call__(self, value: Any, sample: Sample) -> Any:
        check(value.shape == self.vectors.shape[1:], f"replies: {value.shape} is no vector of {self.vectors.shape[1:]}")
        scores, numbers = top_k((self.vectors @ value.astype(np.float32))[None], min(self.k, len(self.texts)), first=0)
        ranked = zip(scores[0].tolist(), numbers[0].tolist(), strict=True)
        return {"found": [{"score": score, "text": self.texts[at]} for score, at in ranked]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["found"])

    def caption(self, answer: Any) -> str:
        return str(answer["found"][0]["text"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        allowed = tolerance * float(np.abs(self.vectors).sum(axis=1).max())
        return ranked_alike(ours["found"], theirs["found"], "text", allowed)

    @property
    def flags(self) -> Sequence[Flag]:
        return (SEARCH,)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        places = values.get(SEARCH.name, ())
        return Nearest(TextIndex.of(places, predictor)) if places else self

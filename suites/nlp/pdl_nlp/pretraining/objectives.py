"""What an encoder is to learn beside masked tokens, from texts without labels: the tasks of ERNIE 2.0 (Sun et al.,
arXiv 1907.12412, section 4.2) and the dialogues of ERNIE 1.0 (arXiv 1904.09223, section 3.4).

    name        what is to be found                                                  needs
    masking     masked tokens and nothing else                                       texts
    reordering  of a passage cut into segments that changed places their order       documents of several sentences
    distance    whether two sentences are neighbours, of one document or of two      several documents
    relation    of each token whether it is anywhere else in its document            documents longer than a sequence
    capitals    of each token whether its word begins with a capital                 letters with case, tokens lowered
    relevance   the class of a pair: a query and a title, and how these fit          pairs with classes (`WithPairs`)
    response    whether a dialogue's last query and response are its own             `DialogueFile`

An objective makes samples of documents, each a function of (seed, pass over the data, its number).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count, permutations
from math import factorial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pdl.data import Sample, SampleRandom
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl_nlp.pretraining.documents import Document, documents
from pdl_nlp.pretraining.loader import Packing
from pdl_nlp.pretraining.units import PHRASE, WORD, samples_of

Piece: TypeAlias = tuple[Array, Array]
"""Tokens and their marks."""
Draw: TypeAlias = Callable[[int], SampleRandom]
"""The random numbers of a sample by its number."""

HELD = 64  # other documents that a sentence or a turn is drawn from


class Objective(ABC):
    """How samples are made of documents, and how many classes they have.

    packing  the tokenizer, and the length of sequences
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    """What the data must have, for messages."""
    tokenwise: ClassVar[bool] = False
    """Whether each token has a class, or each sequence."""
    paired: ClassVar[bool] = False
    """Whether segments are told apart."""
    classes: int

    def __init__(self, packing: Packing) -> None:
        self.packing, self.tokenizer, self.length = packing, packing.tokenizer, packing.length

    def read(self, dataset: Any, draw: Draw) -> Iterator[Sample]:
        """The samples of one pass over a data set: {"tokens" int32 [T], "marks" uint8 [T], "segments" int8 [T] where
        `paired`, and under the objective's name a class, int64, or one for each token, int64 [T], -1 where there is
        none}."""
        return self.samples(documents(dataset, self.packing), draw)

    @abstractmethod
    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        """The samples of documents."""

    def row(self, pieces: Sequence[Piece], label: int, segments: Sequence[int] | None = None) -> Sample:
        """A sequence of pieces: `cls`, each with `sep` at its end, padding; segments by default 0, 1, ..."""
        tokens = np.full(self.length, self.tokenizer.pad, np.int32)
        marks = np.full(self.length, WORD | PHRASE, np.uint8)
        kinds = np.zeros(self.length, np.int8)
        tokens[0], at = int(self.tokenizer.cls or 0), 1
        for number, (ids, own) in enumerate(pieces):
            end = at + len(ids)
            tokens[at:end], marks[at:end], tokens[end] = ids, own, self.packing.sep
            kinds[at : end + 1] = number if segments is None else segments[number]
            at = end + 1
        made: Sample = {"tokens": tokens, "marks": marks, self.name: np.int64(label)}
        return {**made, "segments": kinds} if self.paired else made


class Masks(Objective):
    """Texts as `Packing` has them, of which masked tokens are found and nothing else."""

    name, classes = "masking", 0
    needs = "texts"

    def read(self, dataset: Any, draw: Draw) -> Iterator[Sample]:
        for tokens, marks in self.packing.sequences(dataset):
            yield from ({"tokens": tokens[row], "marks": marks[row]} for row in range(len(tokens)))

    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        raise NotImplementedError("masks are read from texts one behind another, not from documents")


class Reordering(Objective):
    """Passages of as many whole sentences as a sequence takes are cut at random into 1 to m segments, which change
    places; the class says how many there are and in which order: of n segments the order p, where place i has segment
    p[i], is the class 1! + ... + (n - 1)! plus p's place among all orders, sorted; so there are 1! + ... + m! classes.
    """

    name = "reordering"
    needs = "documents of several sentences that fit a sequence"

    def __init__(self, packing: Packing, most: int = 3) -> None:
        super().__init__(packing)
        self.most, self.classes = most, sum(map(factorial, range(1, most + 1)))
        self.orders = [list(permutations(range(n))) for n in range(1, most + 1)]
        self.before = [sum(map(factorial, range(1, n))) for n in range(1, most + 1)]

    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        room, number = self.length - 1 - self.most, count()
        for document in given:
            begin = 0
            while begin + self.most <= len(document):
                end = int(np.searchsorted(document.bounds, document.bounds[begin] + room, side="right")) - 1
                if end >= begin + self.most:
                    yield self._made(document, begin, end, draw(next(number)))
                begin = max(end, begin + 1)

    def _made(self, document: Document, begin: int, end: int, rng: SampleRandom) -> Sample:
        n = rng.integers(1, self.most + 1)
        cuts = sorted(begin + 1 + at for at in rng.permutation(end - begin - 1)[: n - 1])
        pieces = [document.piece(*pair) for pair in zip([begin, *cuts], [*cuts, end], strict=True)]
        at = rng.integers(0, factorial(n))
        order = self.orders[n - 1][at]
        return self.row([pieces[each] for each in order], self.before[n - 1] + at)


class Distance(Objective):
    """Two sentences: 0 where the second follows the first, 1 where both are of one document but no neighbours, 2 where
    the second is of another document (one of the `HELD` before)."""

    name, classes, paired = "distance", 3, True
    needs = "several documents, of three sentences at least (documents: true)"

    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        others, number = deque[Document](maxlen=HELD), count()
        half = (self.length - 3) // 2
        for document in given:
            many = len(document)
            for _ in range(many // 2 if others and many > 2 else 0):
                rng = draw(next(number))
                label, first = rng.integers(0, 3), rng.integers(0, many - 1)
                source, second = document, first + 1
                if label == 1:
                    far = [each for each in range(many) if abs(each - first) > 1]
                    if not far:  # of three the one in the middle
                        first, far = 0, [2]
                    second = far[rng.integers(0, len(far))]
                elif label == 2:
                    source = others[rng.integers(0, len(others))]
                    second = rng.integers(0, len(source))
                pieces = [document.piece(first, first + 1, half), source.piece(second, second + 1, half)]
                yield self.row(pieces, label)
            others.append(document)


class _Passages(Objective):
    """Passages of documents, one behind another, with a class for each token."""

    tokenwise, classes = True, 2

    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        room = self.length - 2
        for document in given:
            for begin in range(0, len(document.ids), room):
                rows = slice(begin, begin + room)
                found = self.labels(document, rows)
                if found is None or not (found >= 0).any():
                    continue
                marks = document.marks[rows].copy()
                marks[:1] |= WORD | PHRASE
                made = self.row([(document.ids[rows], marks)], 0)
                made[self.name] = np.full(self.length, -1, np.int64)
                made[self.name][1 : 1 + len(found)] = found
                yield made

    @abstractmethod
    def labels(self, document: Document, rows: slice) -> Array | None:
        """The classes of the tokens of a passage; None where it has none."""


class Relation(_Passages):
    """Of each token: 1 where it is in the rest of its document, too, else 0. Documents of one passage have no rest."""

    name = "relation"
    needs = "documents longer than a sequence (documents: true)"

    def labels(self, document: Document, rows: slice) -> Array | None:
        rest = np.concatenate([document.ids[: rows.start], document.ids[rows.stop :]])
        return np.isin(document.ids[rows], rest).astype(np.int64) if len(rest) else None


class Capitals(_Passages):
    """Of each token whose word begins with a letter that has case: 1 for a capital, else 0. Tokens must be lowered, or
    they say it themselves."""

    name = "capitals"
    needs = "letters with case"

    def __init__(self, packing: Packing) -> None:
        super().__init__(packing)
        if not getattr(self.tokenizer, "lower", False):
            raise ConfigError("task.objectives: capitals are known where tokens are not lowered; take a tokenizer that "
                              "lowers them, or leave this objective out")  # fmt: skip

    def labels(self, document: Document, rows: slice) -> Array | None:
        return document.cased[rows].astype(np.int64)


class Relevance(Objective):
    """Pairs with classes: of the data set itself, or of its `pairs` (`pdl_nlp.data.WithPairs`)."""

    name, paired = "relevance", True
    needs = "pairs with classes"

    def __init__(self, packing: Packing, classes: int) -> None:
        super().__init__(packing)
        self.classes = classes

    def read(self, dataset: Any, draw: Draw) -> Iterator[Sample]:
        tokenizer = self.tokenizer
        for sample in samples_of(pairs_of(dataset)):
            made = tokenizer.encode_many([sample["text"], sample["pair"]])
            both = [made.text(number).ids for number in (0, 1)]
            while sum(map(len, both)) > self.length - 3:
                longer = int(len(both[1]) > len(both[0]))
                both[longer] = both[longer][:-1]
            yield self.row([(ids, np.full(len(ids), WORD | PHRASE, np.uint8)) for ids in both], sample["label"])

    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        raise NotImplementedError("relevance reads pairs, not documents")


def pairs_of(dataset: Any) -> Any:
    """The data set of pairs with classes among this data; ConfigError where there is none."""
    found = getattr(dataset, "pairs", None)
    found = dataset if found is None or isinstance(found, list) else found
    if not len(getattr(found, "classes", ())) or not hasattr(found, "__len__") or "pair" not in found[0]:
        needed = "pairs with classes: data of pdl_nlp.data.WithPairs, or a TextFile with pair="
        raise ConfigError(f"task.objectives: relevance needs {needed}")
    return found


class Response(Objective):
    """The last turns of a dialogue up to one of them, as many as a sequence takes, with their roles as segments: 1
    where they are its own, 0 where the last one (the response) or the one before (the query) is a turn of another
    dialogue, one of the `HELD` before; half are."""

    name, classes, paired = "response", 2, True
    needs = "several dialogues of two turns at least"

    def samples(self, given: Iterator[Document], draw: Draw) -> Iterator[Sample]:
        others, number = deque[Document](maxlen=HELD), count()
        most = (self.length - 3) // 2  # of a turn: at least two have room
        for dialogue in given:
            if dialogue.roles is None:
                raise ConfigError("task.objectives: response needs dialogues: data of pdl_nlp.data.DialogueFile")
            for _ in range(max(1, len(dialogue) // 3) if others and len(dialogue) > 1 else 0):
                rng = draw(next(number))
                own, end = rng.integers(0, 2), rng.integers(2, len(dialogue) + 1)
                turns = [dialogue.piece(each, each + 1, most) for each in range(end)]
                if not own:
                    source = others[rng.integers(0, len(others))]
                    at = rng.integers(0, len(source))
                    turns[end - 1 - rng.integers(0, 2)] = source.piece(at, at + 1, most)
                begin, room = end, self.length - 1
                while begin and len(turns[begin - 1][0]) + 1 <= room:
                    begin -= 1
                    room -= len(turns[begin][0]) + 1
                yield self.row(turns[begin:], own, dialogue.roles[begin:end].tolist())
            others.append(dialogue)


KINDS: dict[str, type[Objective]] = {
    each.name: each for each in (Masks, Reordering, Distance, Relation, Capitals, Relevance, Response)
}


def endless(objective: Objective, dataset: Any, seed: int, *, passes: int | None = None) -> Iterator[Sample]:
    """The samples of an objective, pass after pass over the data; DataError where it has none."""
    for number in count() if passes is None else range(passes):
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(number)

        def draw(index: int, number: int = number) -> SampleRandom:
            return SampleRandom(seed, number, index).fork(objective.name)

        some = False
        for sample in objective.read(dataset, draw):
            some = True
            yield sample
        if not some:
            own = f"{objective.name}, which needs {objective.needs}"
            raise DataError(f"task.objectives: the data has no sample for {own}")

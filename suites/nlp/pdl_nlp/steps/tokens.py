"""The input step for texts: a text, or a pair, in; the numbers of its tokens out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.fields import part_of
from pdl.runtime.steps import Input, InputStep, Resources, Sample
from pdl.runtime.steps.arguments import check, count, one_of, text, texts
from pdl.runtime.steps.rows import ABOUT_ROW, ROW
from pdl.vocabulary import Vocabulary
from pdl_nlp.tokenizers.base import Encoding, Tokenizer

GIVES = ("ids", "segments")
MAX_LENGTH = 512
LENGTHS = (*range(4, 16), *range(16, 32, 2), *(step * k for step in (4, 8, 16, 32, 64, 128, 256) for k in range(8, 16)))
"""Lengths that arrays of texts have: 4, 5, ... 16, 18, ... 32, 36, ... 64, 72, ...."""


class Tokenized(NamedTuple):
    """What `TokensInput` keeps of an item in `sample.memo`, under its vocabulary.

    texts     one, or two of a pair
    encoding  its tokens, with the special ones
    segments  int32 [T]
    mask      the number of the token for masks, where the tokenizer has one
    """

    texts: list[str]
    encoding: Encoding
    segments: Array
    mask: int | None = None


class TokensInput(InputStep):
    """A text -> the numbers of its tokens int64 [T], or of their segments; the special tokens that belong around it
    included, filled with the number of the padding (segments with 0).

    T is the next of `LENGTHS` or `max_length`, so that few shapes occur; texts of about one size go through the model
    together, as long as the longest of them. Of longer texts the end is left out. What has no token is a DataError;
    unknown ones are listed in the answer as "unknown". `sample.memo[vocabulary]` keeps the `Tokenized`, whose offsets
    are positions in the text, for steps behind the net (of another part than the first one under "VOCABULARY.PART").

    vocabulary   the name of the tokens among the vocabularies; arrays of the tokenizer are the constants NAME.ARGUMENT
    tokenizer    its plain settings; see `held`
    part, parts  the text is this part of an item, whose parts have these names (`pdl.runtime.fields.part_of`); with
                 `pair`, the name of another part, it is both. Of an item "text<TAB>text" these are the two; without
                 `pair` the two parts, where there are two
    gives        "ids" or "segments"
    masks        whether the tokenizer's token for masks stands in texts, such as [MASK]
    """

    name = "tokens"
    leaves_out = False
    alone = False
    needs_padding = True
    batch_size = 256
    together = 512 * 8  # of so many tokens products are as fast as of more

    def __init__(
        self,
        vocabulary: str,
        tokenizer: Mapping[str, Any],
        max_length: int = MAX_LENGTH,
        part: str = "text",
        pair: str | None = None,
        parts: Sequence[str] = (),
        gives: str = "ids",
        masks: bool = False,
    ) -> None:
        check(not masks or pair is None, "tokens: masks go with one text, without pair")
        self.masks = bool(masks)
        self.vocabulary, self.max_length = text("vocabulary", vocabulary), count("max_length", max_length)
        check(isinstance(tokenizer, Mapping), f"tokenizer={tokenizer!r:.60} must be its settings")
        self.settings, self.gives = dict(tokenizer), one_of("gives", gives, GIVES)
        self.part, self.pair = text("part", part), None if pair is None else text("pair", pair)
        own = [self.part] if self.pair is None else [self.part, self.pair]
        self.parts = texts("parts", parts) or own
        check(set(own) <= set(self.parts), f"parts={self.parts!r:.200} must have {' and '.join(own)}")
        self.lengths = [*(n for n in LENGTHS if n < self.max_length), self.max_length]
        self.takes, self.metavar, self.about = "text", "TEXT", "a text"
        own = own if self.pair is not None else self.parts
        self.halves = own if len(own) == 2 else []
        self.key = vocabulary if self.part == self.parts[0] or pair is not None else f"{vocabulary}.{part}"
        if self.halves and len(self.parts) == 2:
            self.takes, self.metavar, self.about = "pair", "'TEXT<TAB>TEXT'", "two texts with a tab between them"
        elif len(self.parts) > 1:
            self.takes, self.metavar, self.about = "row", ROW, ABOUT_ROW

    def configured(self, values: Mapping[str, Sequence[str]]) -> TokensInput:
        """With `--search` one text is enough where the model reads pairs: the others are those that are searched."""
        if not values.get("--search") or self.takes != "pair":
            return self
        made = copy(self)
        made.alone = True
        return made

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        start = f"{self.vocabulary}."
        arrays = {k.removeprefix(start): v for k, v in resources.constants.items() if k.startswith(start)}
        self.tokenizer = Tokenizer.of(self.settings, {"tokens": resources.vocabularies[self.vocabulary]}, arrays)
        check(not self.masks or self.tokenizer.mask is not None, "tokens: masks: the tokenizer has no token for masks")
        lacks = self.needs_padding and self.tokenizer.pad is None
        check(not lacks, "tokens: the tokenizer has no token for padding: special={'pad': TOKEN}")

    def parse(self, item: Any, sample: Sample) -> Array:
        made = sample.memo.get(self.key)
        if made is None:
            made = sample.memo[self.key] = self._tokenized(item)
            sample.note_unknown(self._unknown(made))
            sample.note_cut(self._cut(made))
        segments = self.gives == "segments"
        numbers = made.segments if segments else made.encoding.ids
        return self._padded(numbers, next(n for n in self.lengths if n >= len(numbers)))

    @property
    def padding(self) -> int:
        """What stands behind the last token."""
        return 0 if self.gives == "segments" or self.tokenizer.pad is None else self.tokenizer.pad

    def _padded(self, numbers: Array, length: int) -> Array:
        found = np.full((length, *numbers.shape[1:]), self.padding, np.int64)
        found[: len(numbers)] = numbers
        return found

    def _tokenized(self, item: Any) -> Tokenized:
        given = self._texts(item)
        if self.masks:
            found, segments = self.tokenizer.encode_masked(given[0], max_length=self.max_length)
        else:
            found, segments = self.tokenizer.encode(*given, max_length=self.max_length)
        if not (found.words >= 0).any():
            raise DataError(f"{given[0]!r:.60} has no tokens: give a text with at least one word")
        return Tokenized(given, found, segments, self.tokenizer.mask)

    def _texts(self, item: Any) -> list[str]:
        wanted = [self.part] if self.pair is None else [self.part, self.pair]
        if self.halves:
            if self.alone and isinstance(item, str) and "\t" not in item and not item.lstrip().startswith("{"):
                item = [item, item]
            if isinstance(item, str) and "\t" in item:
                item = item.split("\t", 1)
            if isinstance(item, Sequence) and not isinstance(item, str):
                if len(item) != 2:
                    raise DataError(f"a pair is two texts, not {len(item)}")
                item = dict(zip(self.halves, item, strict=True))
            if isinstance(item, str) and len(self.parts) == 2 and "=" not in item and not item.lstrip().startswith("{"):
                raise DataError(f"{item[:60]!r} is one text; the model reads two, with a tab between them")
        return [str(part_of(item, part, self.parts)) for part in wanted]

    def conversation(self, turns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """The last turn alone: the model reads one text."""
        return (turns[-1], ()) if len(self.parts) == 1 or self.takes == "pair" else super().conversation(turns)

    def candidate(self, text: str) -> Any:
        """The item for one of the texts that are searched."""
        return text

    def _cut(self, made: Tokenized) -> int | None:
        """Where a single text was cut, in characters; None where it was not."""
        found = made.encoding
        if len(made.texts) > 1 or len(found.ids) < self.max_length:
            return None
        end = int(found.offsets[found.words >= 0][-1, 1])
        return end if made.texts[0][end:].strip() else None

    def _unknown(self, made: Tokenized) -> list[str]:
        """The parts of the texts that are the unknown token."""
        found = made.encoding
        at = np.flatnonzero((found.ids == self.tokenizer.unknown) & (found.words >= 0)) if len(made.texts) == 1 else ()
        return [made.texts[0][begin:end] for begin, end in found.offsets[at].tolist()] if len(at) else []

    def file(self, path: str | Path) -> Iterator[Input]:
        """A text a line (of pairs, with a tab between the two); or rows of a table with columns of these names."""
        if tables.is_table(path) and len(self.parts) > 1:
            found: Iterator[tuple[str, Any]] = tables.rows(path)
        else:
            found = tables.text_lines(path, self.part)
        return (Input(str(name), item) for name, item in found)

    def group(self, array: Array) -> Hashable:
        """Lengths from 3/4 of a power of two up to it, or from half of one up to 3/4."""
        bits = (len(array) - 1).bit_length()
        return bits, 4 * len(array) > 3 << bits

    def collate(self, arrays: Sequence[Array]) -> Array:
        longest = max(map(len, arrays))
        return np.stack([array if len(array) == longest else self._padded(array, longest) for array in arrays])

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Made-up texts of a few tokens."""
        names = [name for name in self.tokenizer.tokens if name not in set(self.tokenizer.special.values())]
        found = [self.tokenizer.joined(rng.choice(names, length).tolist()) for length in (1, 2, 5, 12, 30)]
        return [[text] * 2 if self.takes == "pair" else text for text in found] if len(self.parts) < 3 else []

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        if self.gives == "segments":
            return np.zeros(shape, np.int64)
        return rng.integers(1, max(2, len(self.tokenizer.tokens)), shape)


def held(tokenizer: Tokenizer, name: str = "tokens") -> tuple[dict[str, Any], dict[str, Vocabulary], dict[str, Array]]:
    """How a bundle holds a tokenizer: the arguments `vocabulary` and `tokenizer` of its step, the vocabularies, and the
    constants."""
    settings, vocabularies, arrays = tokenizer.state()
    constants = {f"{name}.{argument}": array for argument, array in arrays.items()}
    return {"vocabulary": name, "tokenizer": settings}, {name: vocabularies["tokens"]}, constants

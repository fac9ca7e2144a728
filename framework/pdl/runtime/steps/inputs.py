"""Steps before the net: parsers of inputs, which make an array of each, and steps that prepare that array.

Several inputs of a net may each begin with an input step; all of them read the same item, and the first one is asked
what `pdl predict` offers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.documents import Page
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.frame import Frame
from pdl.runtime.sample import Sample
from pdl.runtime.steps.base import Step
from pdl.runtime.tables import csv_line, is_file_of_many
from pdl.runtime.videos import Film


@dataclass(frozen=True)
class Input:
    """An input of a model, and the name of its answer; `film` is what it is a frame of, `page` what it is a page of, if
    it is one. `error` is why there is no item."""

    name: str
    item: Any
    film: Film | None = None
    error: str | None = None
    page: Page | None = None


@dataclass(frozen=True)
class Flag:
    """An option that `pdl predict` offers for a model: --row, how its value is written, and what it is for. It may be
    given several times. One that takes no value has no metavar."""

    name: str
    metavar: str
    help: str


class Feeder(Protocol):
    """What makes elements of a net's input of the pieces of a stream."""

    def feed(self, piece: Any, /) -> Array:
        """Those [n, ...] that are known with the next piece."""

    def flush(self) -> Array:
        """Those of the end."""


class InputStep(Step):
    """A step that makes an array of an input as people give it, and says all about inputs of its kind.

    takes       what an input is, in a word: "image", "row"; the name of its option, too
    metavar     how one is written on the command line
    about       what one is, in a sentence: help for people
    batch_size  how many inputs are looked at together, unless the caller says otherwise
    together    bytes of its arrays in one batch: larger ones are not faster, and take memory in proportion
    takes_content  whether an item may also be the content of a file, as bytes
    leaves_out  whether names that the model does not know are left out of an input; otherwise they are read as unknown
    tolerance   how far what a bundle makes of an input may differ from what training makes of it, per number
    """

    takes: str = ""
    metavar: str = ""
    about: str = ""
    batch_size: int = 32
    together: ClassVar[int] = 2 << 20
    takes_content: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = True
    tolerance: ClassVar[float] = 0.0

    # -- reading -------------------------------------------------------------------------------------------------------
    def parse(self, item: Any, sample: Sample) -> Array:
        """The array for an item, without a batch axis. What is worth knowing goes into `sample.notes`, and so into the
        answer; what other steps that read the same item can use, into `sample.memo`.

        DataError where the item says nothing that the model knows.
        """
        raise NotImplementedError

    def views(self, item: Any) -> Sequence[Any]:
        """The items that are answered in place of this one, as so many views of it; the answer that is the most
        certain counts (`PostStep.certainty`), the first of several. By default itself alone."""
        return (item,)

    def title(self, item: Any) -> str:
        """An item as a name for its answer."""
        if isinstance(item, str):
            return item
        return csv_line(list(map(str, item))) if isinstance(item, Sequence) else str(item)

    def hint(self, name: str) -> str:
        """`; did you mean 'x'?` for a name in an input that the model does not know; empty where none is near."""
        return ""

    def file(self, path: str | Path) -> Iterator[Input]:
        """Everything in a file of many inputs, or in standard input ("-")."""
        raise UsageError(f"{path}: this model takes a {self.takes} and reads none from files")

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        """All inputs that one of the things given to `pdl.runtime.predict.predict`, the `number`th, stands for: by
        default itself, or where it is a `Path` everything in this file."""
        return self.file(given) if isinstance(given, Path) else iter([Input(self.title(given), given)])

    # -- streams -------------------------------------------------------------------------------------------------------
    def feeder(self, **options: Any) -> Feeder:
        """What reads the pieces of a stream; UsageError where inputs are no sequences, or for an option that it does
        not have."""
        raise UsageError(f"this model takes a {self.takes} at a time, which cannot be streamed")

    def pieces_of(self, item: Any) -> tuple[dict[str, Any], Iterator[Any]]:
        """Options of `feeder`, and the pieces of an item, which is read piece by piece."""
        raise UsageError(f"this model takes a {self.takes} at a time, which is not read in pieces")

    @property
    def stream_flags(self) -> Sequence[Flag]:
        """The options of `pdl predict` for streams: --stream, and those whose values `stream_pieces` takes."""
        return ()

    def stream_pieces(
        self, words: Sequence[str], values: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, Any], Iterator[Any]]:
        """Options of `feeder`, and the pieces of the stream that words and options of a command line stand for."""
        raise UsageError(f"this model takes a {self.takes} at a time, which cannot be streamed")

    def configured(self, values: Mapping[str, Sequence[str]]) -> InputStep:
        """The step that reads inputs where options of the last steps (`PostStep.flags`) have these values."""
        return self

    def conversation(self, turns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """The item to which the answer is the next turn of a conversation, whose turns so far are these, oldest first,
        as many of the last ones as the model reads; and texts that end that answer. UsageError where an input is no
        text."""
        raise UsageError(f"one cannot talk with this model: it takes a {self.takes}; use pdl predict")

    # -- the command line ----------------------------------------------------------------------------------------------
    @property
    def flags(self) -> tuple[Flag, ...]:
        """The options of `pdl predict` for this input: by default one, whose values are inputs."""
        return (Flag(f"--{self.takes}", self.metavar or self.takes.upper(), self.about),)

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        """What the values of these options mean, by their names: things to be given to `expand`, or `Input`s."""
        return [value for flag in self.flags for value in values.get(flag.name, ())]

    def from_word(self, word: str) -> Any:
        """What an argument without an option means: by default a file of many inputs as a `Path`, else the input."""
        return Path(word) if is_file_of_many(word) else word

    def frame(self, value: Array) -> Frame | None:
        """Where the pixels of a parsed input are in the original image; None if it is no image."""
        return None

    # -- batches -------------------------------------------------------------------------------------------------------
    def group(self, array: Array) -> Hashable:
        """Arrays for which this is the same go through the model together; `collate` must take them."""
        return array.shape

    def collate(self, arrays: Sequence[Array]) -> Array:
        """The batch [N, ...] of several arrays."""
        return np.stack(arrays) if len(arrays) > 1 else arrays[0][None]

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array | None:
        """A batch of valid values of this shape, to measure speed with; `sizes` are those of the symbolic axes. None
        where any numbers will do."""
        return None

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """A few made-up items, to check a model with; none where the step makes none up."""
        return []

    # -- answers -------------------------------------------------------------------------------------------------------
    def draw(self, item: Any, caption: str, marks: Sequence[Mark]) -> Drawing:
        """An input with what was said about it, to look at."""
        raise UsageError(f"answers about a {self.takes} are not drawn; leave out --save")


class PreStep(Step):
    """A step between input step and net."""

    def __call__(self, value: Any) -> Any:
        """The value after this step."""
        raise NotImplementedError

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        """Where the pixels of `after`, which this step made of `before`, lie in the original image; by default where
        those of `before` do, as of steps that move none, or add some on the right and below only."""
        return frame

    def error(self, before: float) -> float:
        """How large an error of `before` in a value becomes by this step, at most."""
        return before

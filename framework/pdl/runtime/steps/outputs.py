"""Steps after the net: what is made of its outputs, and how an answer is written, drawn and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, Self

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import number
from pdl.runtime.steps.base import Resources, Step
from pdl.runtime.steps.inputs import Flag, InputStep
from pdl.vocabulary import Vocabulary


@dataclass(frozen=True)
class Writer:
    """A form of file that `pdl predict` writes for a model: its option, what it is, and `write(path, predictions)`,
    which takes `pdl.runtime.predict.Prediction`s and returns how many these were, and how many answers they hold."""

    option: str
    help: str
    write: Callable[[Path, Iterable[Any]], tuple[int, int]]


class Pages(Protocol):
    """A file that answers are being written to."""

    def add(self, prediction: Any, /) -> None:
        """The next answer, a `pdl.runtime.predict.Prediction`."""

    def close(self) -> None:
        """Write what follows the last one. The file stays open."""


@dataclass(frozen=True)
class Form:
    """A form of file that `pdl predict --save DIR --format NAME` writes in place of drawings: one for each input, one
    for all pages of a document.

    suffix  at the end of the names of its files
    help    what it is
    begin   called with a file open for writing bytes and the name of the input: what the answers are added to
    """

    name: str
    suffix: str
    help: str
    begin: Callable[[BinaryIO, str], Pages]


class Follower(Protocol):
    """What makes events of the steps of a stream."""

    def feed(self, rows: Any, /) -> list[Any]:
        """The events of the next rows [n, ...]."""

    def finish(self, length: int, /) -> list[Any]:
        """Those of the end of a sequence of so many elements."""


@dataclass(frozen=True)
class Kept:
    """What a bundle holds of the values of a step's options.

    arguments     of the step, in pipeline.json
    vocabularies  by name
    constants     arrays by name
    about         facts for people, by name
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Kept) -> Kept:
        """Both."""
        mine, theirs = vars(self), vars(other)
        return Kept(**{name: {**mine[name], **theirs[name]} for name in mine})


@dataclass(frozen=True)
class Objects:
    """What a step lists of an image, for readers of the outputs themselves (`pdl compile`): of boxes [K, 4] in pixels
    of the net's input those with a label and a score.

    score           from which on
    most            so many at most
    scores, labels  the outputs [K] with scores and class numbers, -1 where there is no object
    """

    score: float
    most: int
    scores: str
    labels: str


class PostStep(Step):
    """A step for one output of one sample. The last one of an output gives the answer, and says how it is written to a
    table, compared and drawn.

    any_script   captions are text of any script
    reads        names of the inputs whose values it takes from the sample
    beside       names of further outputs that it takes from the sample
    unordered    rows of the outputs are in an order that nearly equal values decide, so that two runs of a model are
                 compared by their answers alone
    by_rows      whether it does the same to each row of a sequence, so that rows may come in any groups
    finds_text   whether the rows of an answer are texts of others under "text", best first, as in a conversation
    unprinted    keys of an answer that are left out where answers are printed, such as a waveform
    keeps        whether a bundle can hold the values of its options (`kept`)
    """

    any_script: ClassVar[bool] = False
    reads: Sequence[str] = ()
    beside: Sequence[str] = ()
    unordered: ClassVar[bool] = False
    finds_text: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False
    unprinted: ClassVar[Sequence[str]] = ()
    keeps: ClassVar[bool] = False

    @property
    def in_time(self) -> bool:
        """Whether answers for parts of a recording can be joined (`joined_in_time`)."""
        return False

    def __call__(self, value: Any, sample: Sample) -> Any:
        """The value after this step, of an output of the net for `sample`."""
        raise NotImplementedError

    def certainty(self, answer: Any) -> float:
        """How certain an answer is, to take the best one of several views of an input (`InputStep.views`): its score;
        UsageError for an answer that has none."""
        if not isinstance(answer, Mapping) or "score" not in answer:
            raise UsageError(f"{self.name} answers without a score, so that no view of an input is the best")
        return float(answer["score"])

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """The answer as rows of a table, best first: by default one, of its own keys."""
        return [answer] if isinstance(answer, dict) else [{"output": answer}]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Whether two answers for `sample` are the same, where the outputs they were made of differ by at most
        `tolerance`. By default: the same keys and words, and numbers that differ by no more than the outputs."""
        return alike(ours, theirs, tolerance)

    def follower(self) -> Follower:
        """What answers while a sequence is still read, in events; UsageError where answers are for whole ones."""
        raise UsageError(f"{self.name} answers for whole inputs, so this model cannot be streamed")

    def joined_in_time(self, answers: Sequence[Any], starts: Sequence[float]) -> Any:
        """The answer for a recording, of those for parts of it that begin at these seconds."""
        raise UsageError(f"{self.name} answers for whole inputs; leave out --vad")

    def joined(self, answers: Sequence[Any], places: Sequence[tuple[int, int]], size: tuple[int, int]) -> Any:
        """The answer for an image of `size` (height, width), of those for tiles of it whose upper left corners are at
        `places` (x, y); UsageError where such answers cannot be joined."""
        raise UsageError("this model's answers are for whole images; leave out --tiles")

    @property
    def objects(self) -> Objects | None:
        """What it lists, where an answer is nothing but boxes with scores and classes."""
        return None

    @property
    def writers(self) -> Sequence[Writer]:
        """Forms of files, beside tables, that answers can be written in."""
        return ()

    @property
    def forms(self) -> Sequence[Form]:
        """Forms of files, beside drawings, that answers are saved in, each in its own."""
        return ()

    @property
    def flags(self) -> Sequence[Flag]:
        """Options of `pdl predict` by which another step answers in place of this one: `configured`."""
        return ()

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        """The step that answers where options of `flags` have these values; `predictor`
        (`pdl.runtime.predict.Predictor`) is the model without them."""
        return self

    def kept(self) -> Kept:
        """What a bundle holds so that this step, which `configured` made, answers in it without options."""
        raise NotImplementedError(f"{type(self).__name__}.keeps, so it must define kept")

    def caption(self, answer: Any) -> str:
        """The answer in one line; UsageError where it has no such form."""
        raise UsageError("this model's answers are arrays, which cannot be drawn; leave out --save")

    def marks(self, answer: Any) -> Sequence[Mark]:
        """What an answer marks on an image."""
        return ()

    def draw(self, item: Any, answer: Any, source: InputStep) -> Drawing:
        """The input with its answer, to look at: by default as its input step draws it, with caption and marks."""
        return replace(source.draw(item, self.caption(answer), self.marks(answer)), any_script=self.any_script)


class Ranking(PostStep):
    """A step that ranks: it gives the `k` best answers, and `pdl predict --topk` says how many these are."""

    k: int

    def limited(self, k: int) -> Self:
        """The same step with at most `k` answers."""
        made = copy(self)
        made.k = k
        return made


class Thresholded(PostStep):
    """A step that leaves out answers below a `score` of 0 to 1; `pdl predict --score` says which."""

    score: float

    def above(self, score: float) -> Self:
        """The same step with another least score."""
        made = copy(self)
        made.score = number("score", score, 0, 1)
        return made


class Labelled(PostStep):
    """A step that names classes: those of the bundle, or their numbers."""

    labels: Sequence[str] = ()

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        self.labels = resources.labels

    def label(self, number: int) -> str:
        """The name of a class."""
        return self.labels[number] if number < len(self.labels) else str(number)


def alike(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Whether two plain values are the same but for numbers, which may differ by `tolerance`. Arrays are outputs as
    they are, which are compared as outputs: here their shapes are."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(alike(ours[key], theirs[key], tolerance) for key in ours)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(alike(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or abs(ours - theirs) <= tolerance or (ours != ours and theirs != theirs)
    if hasattr(ours, "shape"):
        return bool(ours.shape == getattr(theirs, "shape", None))
    return bool(ours == theirs)


def ranked_alike(
    ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], key: str, tolerance: float
) -> bool:
    """Whether two rankings, best first, are the same: each name has the same score, within the tolerance; one that only
    one of them holds is as close to the last of the other."""
    if len(ours) != len(theirs):
        return False
    left, right = ({each[key]: each["score"] for each in ranking} for ranking in (ours, theirs))
    kept = all(abs(left[name] - right[name]) <= tolerance for name in left.keys() & right.keys())
    return kept and all(
        score - other[-1]["score"] <= tolerance
        for mine, names, other in ((left, right, theirs), (right, left, ours))
        for name, score in mine.items()
        if name not in names
    )

"""`predict`: the answers of a model for many inputs; the model may be a bundle, a run, or several models together."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeAlias

from pdl.dtype import Array
from pdl.errors import DataError, TimeLimitError, UsageError, listed
from pdl.files import replacing
from pdl.limits import limited, require_seconds
from pdl.runtime.cutting import VAD, Cutter
from pdl.runtime.documents import Page
from pdl.runtime.drawing import Drawing
from pdl.runtime.journal import Journal
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.session import load
from pdl.runtime.steps.inputs import Input, InputStep
from pdl.runtime.tables import SEPARATORS
from pdl.runtime.tiles import answers as tiled
from pdl.runtime.videos import Film

if TYPE_CHECKING:
    from pdl.runtime.streams import Stream


class Predictor(Protocol):
    """What answers for inputs: a pipeline, and what runs the arrays between its two halves. A session is one, and so is
    a `pdl.export.Deployment`."""

    @property
    def pipeline(self) -> Pipeline | None:
        """From what people have to arrays, and from arrays to what people want."""

    def run(self, inputs: dict[str, Array], /) -> Mapping[str, Array]:
        """The outputs by name of a batch of inputs by name."""


@dataclass(frozen=True)
class Prediction:
    """What a model says of one input."""

    name: str
    item: Any
    answer: Answer
    pipeline: Pipeline
    film: Film | None = None
    page: Page | None = None

    @property
    def error(self) -> str | None:
        """Why there is no answer for the input; None where there is one."""
        return self.answer.error

    @property
    def unknown(self) -> Sequence[str]:
        """Names in the input that the model does not know, and left out."""
        return self.answer.notes.get("unknown", ())

    @property
    def cut(self) -> int | None:
        """How many characters of a text were read, where it is longer than the model reads; else None."""
        return self.answer.notes.get("cut")

    def to_dict(self) -> dict[str, Any]:
        """As plain values: {"input": name, ... the answer, ... notes}, or {"input": name, "error": why}."""
        if self.answer.error is not None:
            return {"input": self.name, "error": self.answer.error}
        value = self.answer.value if isinstance(self.answer.value, dict) else {"output": self.answer.value}
        return {"input": self.name, **value, **self.answer.notes}

    def rows(self) -> list[dict[str, Any]]:
        """The answer as rows of a table, best first."""
        return self.pipeline.rows(self.answer)

    def draw(self) -> Drawing:
        """The input with its answer, to look at; UsageError where there is nothing to draw."""
        return self.pipeline.draw(self.item, self.answer)


def predict(
    model: str | Path | Predictor,
    inputs: Sequence[Any],
    *,
    topk: int | None = None,
    score: float | None = None,
    tiles: int | None = None,
    batch_size: int | None = None,
    skip_errors: bool | None = False,
    skip: int = 0,
    timeout: float | None = None,
    **options: Any,
) -> Iterator[Prediction]:
    """A prediction for each input, in order, by a bundle or by another predictor.

    An input is what the model takes: an image as an array uint8 [H, W] or [H, W, C] (RGB), as the bytes of a file, its
    path, a folder or a pattern (all images there), or "-" (standard input); a row {"column": value}; ... The `Path` of
    a file of many stands for all inputs in it. `options` are those of `pdl.runtime.load`.

    topk         how many answers for each input; by default as many as the model's steps say
    score        answers below are left out, of a model that leaves some out; by default what its steps say
    tiles        images with a longer side than so many pixels are looked at in overlapping tiles of that side, too
    batch_size   how many inputs go through the model together; by default what suits its kind of input
    skip_errors  an input that is not there or cannot be read, or says nothing that the model knows, gives a prediction
                 with an error, and stops no other; None: where there are several
    skip         so many inputs are left out, from the first on: those that are answered already
    timeout      seconds that opening a bundle may take, and each group of inputs that goes through the model together;
                 TimeLimitError after that
    """
    if any(each is not None and each < 1 for each in (batch_size, topk, tiles)):
        raise UsageError(f"topk={topk}, tiles={tiles} and batch_size={batch_size} must be at least 1")
    predictor = load(model, timeout=timeout, **options) if isinstance(model, str | Path) else model
    require_seconds(timeout)
    pipeline = pipeline_of(predictor)
    waiting = expanded(inputs, pipeline.input, skip_errors=len(inputs) > 1 if skip_errors is None else skip_errors)
    pipeline = pipeline if topk is None else pipeline.limited(topk)
    pipeline = pipeline if score is None else pipeline.above(score)
    if skip_errors is None:
        first = list(islice(waiting, 2))
        skip_errors, waiting = len(first) > 1, chain(first, waiting)
    waiting = islice(waiting, skip, None)
    while group := list(islice(waiting, batch_size or pipeline.input.batch_size)):
        if not skip_errors and (damage := next((each.error for each in group if each.error is not None), None)):
            raise DataError(damage)
        with limited(seconds=timeout):
            items = [each.item for each in group if each.error is None]
            if tiles is None:
                answers = pipeline.answers(items, predictor.run, skip_errors=skip_errors, batch_size=batch_size)
            else:
                answers = tiled(pipeline, items, predictor.run, tiles, skip_errors=skip_errors)
        following = iter(answers)
        for each in group:
            answer = next(following) if each.error is None else Answer(error=each.error)
            yield Prediction(each.name, each.item, answer, pipeline, each.film, each.page)


@dataclass(frozen=True)
class Configured:
    """A predictor with options of the steps behind its net: {"--search": ["FILE"]}."""

    predictor: Predictor
    pipeline: Pipeline

    @classmethod
    def of(cls, predictor: Predictor, values: Mapping[str, Sequence[str]]) -> Configured:
        """The predictor with these values of its options; UsageError for one that it does not have."""
        pipeline = pipeline_of(predictor)
        known = [flag.name for flag in pipeline.flags]
        if unknown := listed(set(values) - set(known)):
            raise UsageError(f"this model has no option {unknown}; it has {listed(known) or 'none'}")
        made = pipeline.configured(values, predictor)
        if vad := values.get(VAD.name):
            made.cutter = Cutter(load(vad[-1]))
        if made.writes is not None and made.writes.options is not None:
            predictor = predictor.with_options(made.writes.options)  # type: ignore[attr-defined]
        return cls(predictor, made)

    def run(self, inputs: dict[str, Array], /) -> Mapping[str, Array]:
        """The outputs of the predictor."""
        return self.predictor.run(inputs)

    def stream(self, **options: Any) -> Stream:
        """A stream of a predictor that reads chunk by chunk; `options` are those of its input."""
        begin = getattr(self.predictor, "begin_stream", None)
        if begin is None:
            raise UsageError("this model answers for whole inputs, so it cannot be streamed")
        return begin(self.pipeline, **options)  # type: ignore[no-any-return]

    @property
    def writing(self) -> Any:
        """How a model that writes token by token is asked."""
        return getattr(self.predictor, "writing", None)

    def stream_tokens(self, inputs: dict[str, Array], /) -> Iterator[Any]:
        """Tokens as the predictor writes them."""
        return self.predictor.stream_tokens(inputs)  # type: ignore[attr-defined, no-any-return]


def pipeline_of(predictor: Predictor) -> Pipeline:
    """The pipeline of a predictor; UsageError where it has none."""
    if predictor.pipeline is None:
        raise UsageError("this model has no pipeline, so it takes arrays alone: session.run({...})")
    return predictor.pipeline


def answers(model: Predictor, items: Sequence[Any]) -> list[Any]:
    """What a model says of some inputs, as plain values."""
    return [answer.plain() for answer in pipeline_of(model).answers(items, model.run)] if items else []


def expanded(inputs: Sequence[Any], step: InputStep, *, skip_errors: bool = False) -> Iterator[Input]:
    """All inputs that the things given to `predict` stand for, with names. With `skip_errors`, a thing that stands for
    none gives one with an error."""
    if not len(inputs):
        options = "".join(f", or {flag.name} {flag.metavar}" for flag in step.flags)
        raise UsageError(f"predict: no input; this model takes {step.about or f'a {step.takes}'}{options}")
    for number, given in enumerate(inputs):
        try:
            yield from [given] if isinstance(given, Input) else step.expand(given, number)
        except DataError as error:
            if not skip_errors or isinstance(error, TimeLimitError):
                raise
            yield Input(str(given), None, error=str(error))


#: the name of an input, and the rows of its answer
Entry: TypeAlias = "tuple[str, list[dict[str, Any]]]"


# -- files of answers --------------------------------------------------------------------------------------------------
def write_answers(
    path: str | Path, predictions: Iterable[Prediction], name: str = "input", journal: Journal | None = None
) -> tuple[int, int]:
    """Write predictions to a csv or tsv file, a row for each answer: what it is for, its rank, and what it says.

    name      of the first column, which is "input" where the answers have one of that name
    journal   keeps answers as they are found, and may have some already, which are written, too
    Returns how many predictions and how many rows; one without answers has no row. The file is there whole or not at
    all. In a tsv nothing is quoted: tabs and line ends inside of a cell are spaces.
    """
    target, separator = Path(path), separator_of(path)
    entries: Iterable[Entry] = ((each.name, each.rows()) for each in predictions)
    if journal is not None:
        for found in predictions:
            journal.add(found.name, found.rows(), found.error)
        entries = journal.entries()
    with replacing(target) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer: Any = _Tabbed(file) if separator == "\t" else csv.writer(file, lineterminator="\n")
        counts = _write(writer, entries, name)
    if journal is not None:
        journal.close()
    return counts


def separator_of(path: str | Path) -> str:
    """What stands between the columns of a file of answers; UsageError for one of another kind."""
    separator = SEPARATORS.get(Path(path).suffix.lower())
    if separator is None:
        raise UsageError(f"--out {path}: answers are written to a file *.csv or *.tsv; --json prints them as JSON")
    return separator


class _Tabbed:
    """A writer of rows between tabs, as `pdl.runtime.tables.rows` reads them."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def writerow(self, row: Iterable[Any]) -> None:
        """One line."""
        self.file.write("\t".join("" if each is None else _PARTS.sub(" ", str(each)) for each in row) + "\n")


_PARTS = re.compile(r"\r\n|[\t\r\n]")


def _write(writer: Any, entries: Iterable[Entry], name: str) -> tuple[int, int]:
    columns: list[str] = []
    count = total = 0
    for each, rows in entries:
        count += 1
        for rank, row in enumerate(rows, 1):
            if not columns:
                columns = list(row)
                writer.writerow(["input" if name in columns else name, "rank", *columns])
            writer.writerow([each, rank, *(_cell(row.get(column)) for column in columns)])
            total += 1
    if not columns:
        writer.writerow([name, "rank"])
    return count, total


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value

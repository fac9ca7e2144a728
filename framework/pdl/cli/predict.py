"""`pdl predict`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, MaxMemory, Timeout
from pdl.errors import DataError, UsageError

EXAMPLE = "Example:  pdl predict runs/digits photo.png --topk 3        pdl predict runs/digits --help"
SHOWN = 5  # inputs without an answer that are named where a file is written
SETTINGS = {"ignore_unknown_options": True, "help_option_names": []}
"""Options that typer does not know are those of the model; --help is that of the model, too."""


def command(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle, or a name of `pdl models`.", show_default=False
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT...]",
            help="Inputs, files of them, or options of the model, which pdl predict RUN --help shows.",
            show_default=False,
        ),
    ] = None,
    topk: Annotated[
        int | None, typer.Option("--topk", min=1, help="How many answers for each input, of a model that ranks.")
    ] = None,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the answers to a file *.csv or *.tsv.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Draw the answers into this folder.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, help="Inputs looked at together.", show_default=False)
    ] = None,
    timeout: Timeout = None,
    max_memory: MaxMemory = None,
    strict: Annotated[bool, typer.Option("--strict", help="End at the first input that cannot be read.")] = False,
    help: Annotated[bool, typer.Option("-h", "--help", help="Show this, and inputs and options of the model.")] = False,
) -> None:
    """Use a trained run, a bundle, or a pretrained model by name, on new data. All know how their inputs are prepared.

    What an input is depends on the model, and so do the options that give one: behind RUN, --help shows them. Files of
    many inputs are *.csv, *.tsv, *.txt, these with .gz, and - for standard input.

    A bundle runs in pdl's runtime, without any training code. A name is fetched when it is first used, and then never
    again.
    """
    if model is None or model.startswith("-"):
        if help:
            return style.out(context.get_help())
        raise UsageError("which model? write it first: pdl predict RUN ...")
    if json and out is not None:
        raise UsageError("--json prints and --out writes a file; choose one")
    from pdl.runtime.predict import pipeline_of
    from pdl.workflow.prediction import open_model, parse_options, predict_words

    predictor = open_model(model, timeout=timeout, max_memory=max_memory)
    pipeline = pipeline_of(predictor)
    if help:
        return style.out(f"{context.get_help()}\n\n{_inputs(model, pipeline)}")
    words, values = parse_options(pipeline.input, arguments or ())
    if "-" in words and sys.stdin.isatty():
        raise UsageError("'-' reads standard input: pdl predict RUN - < FILE")
    answers = predict_words(predictor, words, values, topk=topk, batch_size=batch_size, strict=strict, timeout=timeout)
    found = _with_drawings(answers, save)
    if out is not None:
        return _write(out, (each for each, _ in found), pipeline.input)
    noted = _noted(found, pipeline.input)
    kept = list(noted)
    if json:
        style.json([each.to_dict() | ({} if saved is None else {"saved": saved}) for each, saved in kept])
    else:
        rows = [row for each, saved in kept for row in _rows(each, saved)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        style.table(names, [[row.get(name, "") for name in names] for row in rows])
    return _judge(sum(each.error is not None for each, _ in kept), len(kept))


def _inputs(model: str, pipeline: Any) -> str:
    """What a model takes, for people."""
    step = pipeline.input
    width = max((len(f"{flag.name} {flag.metavar}") for flag in step.flags), default=0)
    lines = [f"  {f'{flag.name} {flag.metavar}':<{width}}  {flag.help} (any number of times)" for flag in step.flags]
    ranks = "It ranks, so --topk limits its answers." if pipeline.ranks else "It does not rank: leave --topk out."
    return "\n".join([f"Inputs of {model}: {step.about or step.takes}", *lines, ranks])


def _with_drawings(found: Iterator[Any], save: Path | None) -> Iterator[tuple[Any, str | None]]:
    """Each prediction, and the file that it was drawn into."""
    from pdl.workflow.prediction import draw_into

    for each in found:
        yield each, None if save is None or each.error is not None else str(draw_into(each, save))


def _noted(found: Iterator[tuple[Any, str | None]], step: Any) -> Iterator[tuple[Any, str | None]]:
    """The same, after saying on standard error what of its input the model did not know."""
    for each, saved in found:
        if each.error is not None:
            style.note(_error(each))
        for name in each.unknown:
            style.note(f"{each.name}: {name} is not known, and left out{step.hint(name)}")
        yield each, saved


def _error(prediction: Any) -> str:
    """Why an input has no answer, with its name."""
    named = prediction.error.startswith(prediction.name)
    return str(prediction.error) if named else f"{prediction.name}: {prediction.error}"


def _judge(without: int, total: int) -> None:
    """Say how many inputs have no answer; DataError where none has."""
    if without:
        style.note(f"{without:,} of {total:,} inputs have no answer (--strict ends at the first)")
    if without == total:
        raise DataError("none of the inputs could be used")


def _rows(prediction: Any, saved: str | None) -> Iterator[dict[str, Any]]:
    """One row for each answer; the name of the input is in the first column."""
    first = {"input": prediction.name}
    if prediction.error is not None:
        first["error"] = prediction.error
    if saved is not None:
        first["saved"] = saved
    for number, row in enumerate(prediction.rows() or [{}]):
        yield {**(first if number == 0 else {}), **row}


def _write(out: Path, found: Iterator[Any], step: Any) -> None:
    """The answers as a file; what was left out is counted."""
    from pdl.runtime.predict import write_answers

    left = {"unknown": 0, "error": 0}
    done, rows = write_answers(out, _counted(found, left, step.takes), step.takes)
    if left["unknown"]:
        style.note(f"{left['unknown']:,} names are not known to the model, and were left out")
    style.pairs([("answers", str(out)), ("inputs", done), ("rows", rows)])
    _judge(left["error"], done)


def _counted(found: Iterator[Any], left: dict[str, int], what: str) -> Iterator[Any]:
    """The same, with progress: on a terminal at once, elsewhere twice a minute."""
    began = shown = time.monotonic()
    for number, each in enumerate(found, 1):
        left["unknown"] += len(each.unknown)
        left["error"] += each.error is not None
        if each.error is not None and left["error"] <= SHOWN:
            style.note(_error(each))
        now = time.monotonic()
        if now - shown > (0.1 if sys.stderr.isatty() else 30.0):
            shown = now
            line = f"{number:,} {what}s, {number / (now - began):,.0f} a second"
            (style.working if sys.stderr.isatty() else style.note)(line)
        yield each
    style.working("")

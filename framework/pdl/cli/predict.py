"""`pdl predict`."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, MaxMemory, Timeout
from pdl.errors import DataError, UsageError, listed

EXAMPLE = "Example:  pdl predict runs/digits photo.png --topk 3        pdl predict runs/digits --help"
SHOWN = 5  # inputs without an answer that are named where a file is written
PLACES = {"FILE", "FOLDER", "DIR", "MODEL"}  # metavars of options whose values name files
LETTERS = 60  # of an input, where it is named in a remark
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
    score: Annotated[
        float | None, typer.Option("--score", min=0, max=1, help="Leave out answers below this score (0 to 1).")
    ] = None,
    tiles: Annotated[
        int | None,
        typer.Option("--tiles", min=32, metavar="PIXELS", help="Look at larger images in overlapping tiles, too."),
    ] = None,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the answers to a file *.csv or *.tsv.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with --out FILE where the same command was interrupted (FILE.partial)."),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Draw the answers into this folder; or a file, OUT.srt of words."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="What --save writes in place of drawings, of those of the model."
        ),
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
    many inputs are *.csv, *.tsv, *.txt, these with .gz, .bz2 or .xz, and - for standard input.

    A bundle runs in pdl's runtime, without any training code. A name is fetched when it is first used, and then never
    again.
    """
    if model is None or model.startswith("-"):
        if help:
            return style.out(context.get_help())
        raise UsageError("which model? write it first: pdl predict RUN ...")
    from pdl.runtime.journal import Journal
    from pdl.runtime.predict import pipeline_of, separator_of, write_answers
    from pdl.runtime.steps.writing import STREAM
    from pdl.workflow.prediction import (
        follow_words,
        open_model,
        parse_options,
        predict_words,
        require_no_form,
        saver,
        stream_words,
    )  # fmt: skip

    if save is None:
        require_no_form(form)
    predictor = open_model(model, timeout=timeout, max_memory=max_memory)
    pipeline = pipeline_of(predictor)
    if help:
        return style.out(f"{context.get_help()}\n\n{_inputs(model, pipeline)}")
    words, values = parse_options(pipeline, arguments or ())
    journal = None
    if resume and (out is None or save is not None):
        raise UsageError("--resume goes on with a file of answers: give --out FILE, without --save")
    if resume and "-" in words:
        raise UsageError("--resume reads the same inputs again, and standard input ('-') is gone: give them as a FILE")
    written = {each.option for each in pipeline.writers}
    targets = [*([] if out is None else [out]), *(Path(each) for name in written for each in values.get(name, ()))]
    others = (each for name, group in values.items() if name not in written for each in group)
    _require_apart(targets, [model, *words, *others])
    if out is not None and (resume or pipeline.writes is not None):  # what writes takes long
        separator_of(out)
        given = {"topk": topk, "score": score, "tiles": tiles}
        journal = Journal(out, _identity(model, words, values, given, pipeline, out), resume=resume)
        if journal.done:
            style.note(f"{journal.done:,} inputs are answered in {journal.path}; going on behind them")
    write = partial(write_answers, name=pipeline.input.takes, journal=journal)
    files: list[tuple[Path, Any]] = [] if out is None else [(out, write)]
    files += [(Path(path), each.write) for each in pipeline.writers for path in values.pop(each.option, ())]
    if len(files) + json > 1:
        raise UsageError("answers are printed as --json or written to one file; choose one")
    if "-" in words and sys.stdin.isatty():
        raise UsageError("'-' reads standard input: pdl predict RUN - < FILE")
    if values.pop(STREAM.name, None):
        if files or save or (json and not pipeline.streams):
            raise UsageError("--stream prints the text; leave out --out, --json and --save")
        if not pipeline.streams:
            return _stream(stream_words(predictor, words, values))
        if not words and sys.stdin.isatty():
            raise UsageError(
                "--stream reads standard input: arecord -f S16_LE -r 16000 -t raw | pdl predict RUN --stream"
            )
        return _follow(follow_words(predictor, words, values), json)
    options: dict[str, Any] = {"topk": topk, "score": score, "tiles": tiles, "batch_size": batch_size}
    done = 0 if journal is None else journal.done
    answers = predict_words(predictor, words, values, **options, strict=strict, skip=done, timeout=timeout)
    with ExitStack() as stack:
        places = None if save is None else stack.enter_context(saver(save, form, pipeline))
        found = _saved(_interruptible(answers, words), places)
        if files:
            before = (0, 0) if journal is None else (journal.done, journal.without)
            return _write(*files[0], (each for each, _ in found), pipeline.input, before)
        return _print(_noted(found, pipeline.input), json)


def _require_apart(targets: list[Path], given: list[str]) -> None:
    """UsageError where a file of answers is one of the things given, which it would replace."""
    from pdl.runtime.tables import is_there

    for target in targets:
        if is_there(target) and any(is_there(word) and target.samefile(word) for word in given):
            raise UsageError(f"{target}: the answers would replace what they are made of; name another file")


def _identity(
    model: str, words: list[str], values: dict[str, list[str]], options: dict[str, Any], pipeline: Any, out: Path
) -> dict[str, Any]:
    """What says that two commands give the same answers: options, and model and inputs with what is in their files."""
    from pdl.runtime.tables import is_there

    places = (flag.name for flag in pipeline.flags if PLACES & set(flag.metavar.split("|")))
    given = (model, *words, *(word for name in places for word in values.get(name, ())))
    content = {word: _content(Path(word), out) for word in given if is_there(word)}
    return {"model": model, "inputs": words, "content": content, "values": values, "options": options}


def _content(path: Path, out: Path) -> str:
    """A hash of what is in a file, or of names, sizes and times of the files in a folder (of a run: its weights), those
    that this command writes for `out` left out."""
    from pdl.data.store import file_hash

    if path.is_file():
        return file_hash(path)
    weights = sorted((path / "checkpoints").glob("*.safetensors"))
    files = weights or sorted(each for each in path.rglob("*") if each.is_file() and out.name not in each.name)
    about = [(str(each.relative_to(path)), (facts := each.stat()).st_size, facts.st_mtime_ns) for each in files]
    return hashlib.sha256(repr(about).encode()).hexdigest()


def _stream(found: Iterator[Iterator[str]]) -> None:
    """Texts as they are written, each on lines of its own."""
    for pieces in found:
        for piece in pieces:
            style.piece(piece)
        style.out("")


def _follow(found: Iterator[list[dict[str, Any]]], json: bool) -> None:
    """What a stream says, as it grows, on a line of the terminal, and each utterance that has ended on a line of its
    own (or where speech begins and ends, in seconds); or every event as a line of JSON."""
    for event in (event for events in found for event in events):
        said = event.get("text") or " - ".join(f"{event[end]:.2f}" for end in ("start", "end") if end in event)
        if json:
            style.json(event)
        elif event["final"]:
            style.working("")
            style.out(said)
        else:
            style.working(said, end=True)
        style.piece("")  # at once


def _print(found: Iterator[tuple[Any, str | None]], json: bool) -> None:
    """All answers, as a table, or as JSON, which is written as they come. What they are of is not kept: the frames of a
    video are many."""
    count, left = {"total": 0, "error": 0}, _Left()
    counted = _judged(found, count, left)
    if json:
        style.json_list(_printed(each) | ({} if saved is None else {"saved": saved}) for each, saved in counted)
    else:
        made = [row for each, saved in counted for row in _rows(each, saved)]
        names = list(dict.fromkeys(name for row in made for name in row))
        if made:
            style.table(names, [[row.get(name, "") for name in names] for row in made])
    left.tell(count["total"])
    _judge(count["error"], count["total"])


def _printed(prediction: Any) -> dict[str, Any]:
    """A prediction as plain values, without those that are too long to be printed."""
    return {key: value for key, value in prediction.to_dict().items() if key not in prediction.pipeline.unprinted}


def _judged(
    found: Iterator[tuple[Any, str | None]], count: dict[str, int], left: _Left
) -> Iterator[tuple[Any, str | None]]:
    """The same, counted."""
    for each, saved in found:
        count["total"] += 1
        count["error"] += each.error is not None
        left.see(each)
        yield each, saved


def _inputs(model: str, pipeline: Any) -> str:
    """What a model takes and writes, for people."""
    from pdl.workflow.prediction import options_of

    flags = options_of(pipeline)
    about = {f"{flag.name} {flag.metavar}".rstrip(): flag.help for flag in flags}
    about |= {f"--save DIR --format {form.name}": f"{form.help} (*{form.suffix})" for form in pipeline.forms}
    width = max(map(len, about), default=0)
    lines = [f"  {name:<{width}}  {help}" for name, help in about.items()]
    ranks = "It ranks, so --topk limits its answers." if pipeline.ranks else "It does not rank: leave --topk out."
    return "\n".join([f"Inputs of {model}: {pipeline.input.about or pipeline.input.takes}", *lines, ranks])


def _interruptible(found: Iterator[Any], words: list[str]) -> Iterator[Any]:
    """The same; pictures of a camera, which has no end, end with Ctrl-C."""
    from pdl.runtime.videos import camera

    try:
        yield from found
    except KeyboardInterrupt:
        if not any(camera(word) is not None for word in words):
            raise


def _saved(found: Iterator[Any], places: Any) -> Iterator[tuple[Any, str | None]]:
    """Each prediction, and the file that it is saved in by `places`, what `pdl.workflow.prediction.saver` made."""
    for each in found:
        yield each, None if places is None or each.error is not None else str(places.add(each))


def _noted(found: Iterator[tuple[Any, str | None]], step: Any) -> Iterator[tuple[Any, str | None]]:
    """The same, after saying on standard error what of its input the model did not know."""
    for each, saved in found:
        if each.error is not None:
            style.note(_error(each))
        if step.leaves_out:
            for name in each.unknown:
                style.note(f"{each.name}: {name} is not known, and left out{step.hint(name)}")
        elif each.unknown:
            style.note(f"{each.name[:LETTERS]}: read as unknown: {listed(list(dict.fromkeys(each.unknown)))}")
        if each.cut is not None:
            style.note(f"{each.name[:LETTERS]}: longer than the model reads: cut after {each.cut:,} characters")
        yield each, saved


def _error(prediction: Any) -> str:
    """Why an input has no answer, with its name."""
    named = prediction.error.startswith(prediction.name)
    return str(prediction.error) if named else f"{prediction.name}: {prediction.error}"


def _judge(without: int, total: int) -> None:
    """Say how many inputs have no answer; DataError where none has."""
    if total == 0:
        raise DataError("there is nothing to answer: the inputs are empty")
    if without:
        style.note(f"{without:,} of {total:,} inputs have no answer (--strict ends at the first)")
    if without == total:
        raise DataError("none of the inputs could be used")


class _Left:
    """How many inputs a model that leaves out answers of low scores had nothing to say of."""

    def __init__(self) -> None:
        self.count = 0
        self.score: float | None = None

    def see(self, prediction: Any) -> None:
        if prediction.error is None and (least := prediction.pipeline.least) is not None and not prediction.rows():
            self.count, self.score = self.count + 1, least

    def tell(self, total: int) -> None:
        if self.count:
            where = "" if total == 1 else f" in {self.count:,} of {total:,} inputs"
            style.note(f"nothing found{where} with a score of {self.score:g} or more (--score)")


def _rows(prediction: Any, saved: str | None) -> Iterator[dict[str, Any]]:
    """One row for each answer; the name of the input is in the first column."""
    first = {"input": prediction.name}
    if prediction.error is not None:
        first["error"] = prediction.error.removeprefix(f"{prediction.name}: ")
    if saved is not None:
        first["saved"] = saved
    for number, row in enumerate(prediction.rows() or [{}]):
        yield {**(first if number == 0 else {}), **row}


def _write(out: Path, write: Any, found: Iterator[Any], step: Any, before: tuple[int, int]) -> None:
    """The answers as a file, and how many have been left out; none where no input has an answer.

    before   inputs that a journal has already, and how many of these have no answer
    """
    left, nothing = {"unknown": 0, "cut": 0, "error": before[1]}, _Left()
    done, rows = write(out, _counted(found, left, nothing, step.takes, before[0]))
    if left["unknown"]:
        done_with = "left out" if step.leaves_out else "read as unknown"
        style.note(f"{left['unknown']:,} names are not known to the model, and were {done_with}")
    if left["cut"]:
        style.note(f"{left['cut']:,} of {done:,} {step.takes}s were longer than the model reads, and cut")
    style.pairs([("answers", str(out)), ("inputs", done), ("rows", rows)])
    nothing.tell(done)


def _counted(found: Iterator[Any], left: dict[str, int], nothing: _Left, what: str, before: int) -> Iterator[Any]:
    """The same, with progress: on a terminal at once, elsewhere twice a minute. DataError at the end where none of
    them, nor of those `before`, has an answer."""
    began = shown = time.monotonic()
    number, told = 0, left["error"] + SHOWN
    for number, each in enumerate(found, 1):
        left["unknown"] += len(each.unknown)
        left["cut"] += each.cut is not None
        left["error"] += each.error is not None
        nothing.see(each)
        if each.error is not None and left["error"] <= told:
            style.note(_error(each))
        now = time.monotonic()
        if now - shown > (0.1 if sys.stderr.isatty() else 30.0):
            shown = now
            line = f"{number:,} {what}s, {number / (now - began):,.0f} a second"
            (style.working if sys.stderr.isatty() else style.note)(line)
        yield each
    style.working("")
    _judge(left["error"], before + number)

"""`pdl predict`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, located
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl predict runs/digits photo.png --topk 3        pdl predict runs/shop --session item1,item2"
Inputs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[INPUT...]", help="Files, folders, patterns, or - for standard input.", show_default=False),
]
Sessions = Annotated[
    list[str] | None,
    typer.Option(
        "--session", metavar="ITEM,ITEM,...", help="A session, for models of sessions; may be given several times."
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Option("--row", metavar="COLUMN=VALUE,...", help="A row, or JSON, for models of rows; likewise."),
]

Nodes = Annotated[
    list[str] | None,
    typer.Option("--nodes", metavar="NODE,NODE,...", help="Nodes, for models of graphs; likewise."),
]
Pairs = Annotated[
    list[str] | None,
    typer.Option(
        "--pairs", metavar="FILE|A:B", help="Pairs of nodes: a table with the columns source, target, or one pair."
    ),
]
NewGraph = Annotated[
    Path | None,
    typer.Option(
        "--new-graph", metavar="DIR", help="A graph (edges.csv, nodes.csv) instead of the one that was learned from."
    ),
]


def command(
    run: Annotated[
        str, typer.Argument(metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle, or a name of `pdl models`.")
    ],
    inputs: Inputs = None,
    session: Sessions = None,
    row: Rows = None,
    nodes: Nodes = None,
    pairs: Pairs = None,
    new_graph: NewGraph = None,
    topk: Annotated[
        int | None, typer.Option("--topk", min=1, help="How many answers for each input; 5 classes or 20 items.")
    ] = None,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the answers to a file *.csv or *.tsv.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Draw the answers into this folder.")
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Inputs looked at together.")] = 32,
) -> None:
    """Use a trained run, a bundle, or a pretrained model by name, on new data. All know how their inputs are prepared.

    A model of sessions takes them from the command line, or from files: *.csv and *.tsv with a row for each event, the
    columns named as in the recipe's data or session, item, time; other files with a session on each line. So does a
    model of rows: *.csv and *.tsv with a header, other files with `label slot:id slot:id ...` on each line.

    A model of a knowledge graph takes rows of head and relation, or relation and tail, and names what is missing; files
    other than *.csv and *.tsv have a row as JSON on each line.

    A model of a graph answers for --nodes or --pairs of the graph it learned from, or of a --new-graph; without nodes
    or pairs for all of it.

    A trained circuit answers for observables: products of Pauli matrices ("Z0 X2"), and "energy"; files have one on
    each line.

    A bundle runs in pdl's runtime, without any training code. A name is fetched when it is first used, and then never
    again.
    """
    from pdl.runtime.use import Given

    words = list(inputs or ())
    if not any((words, session, row, nodes, pairs, new_graph)):
        ways = "--session item1,item2, --row column=value, --nodes A,B, --pairs FILE or --new-graph DIR"
        raise UsageError(f"predict what? write: pdl predict RUN INPUT..., {ways}")
    if "-" in words and sys.stdin.isatty():
        raise UsageError("'-' reads a file from standard input: pdl predict RUN - < photo.png")
    if json and out is not None:
        raise UsageError("--json prints and --out writes a file; choose one")
    given = [*words, *(Given("session", each) for each in session or ()), *(Given("row", each) for each in row or ())]
    found, reader = _answers(run, [*given, *_of_graph(nodes, pairs, new_graph)], topk, batch_size, save)
    if out is not None:
        _write(out, found, reader)
    elif json:
        style.json([_told(each, reader) for each in found])
    else:
        rows = [row for each in found for row in _rows(_told(each, reader))]
        names = list(dict.fromkeys(name for row in rows for name in row))
        style.table(names, [[row.get(name, "") for name in names] for row in rows])


def _of_graph(nodes: list[str] | None, pairs: list[str] | None, graph: Path | None) -> list[Any]:
    """What is asked of a graph: nodes, pairs, or all of it."""
    if nodes is None and pairs is None and graph is None:
        return []
    from pdl.runtime.graph_input import asked
    from pdl.runtime.names import split_names
    from pdl.runtime.use import Given

    named = asked("node", [name for each in nodes or () for name in split_names(each)], graph)
    found = [Given("node", item, name) for name, item in named]
    found += [Given("pair", item, name) for name, item in asked("pair", pairs or (), graph)]
    if not found and (nodes is not None or pairs is not None):
        option, things = ("--nodes", nodes) if nodes is not None else ("--pairs", pairs)
        given = " ".join(things or ())
        raise UsageError(f"{option} {given!r}: nothing is asked; name nodes, or a file with a row for each pair")
    return found or [Given("graph", graph)]


def _answers(
    run: str, given: list[Any], topk: int | None, batch_size: int, save: Path | None
) -> tuple[Iterator[dict[str, Any]], Any]:
    """The predictions of a run, a bundle or a system, one after the other; and what reads its inputs."""
    from pdl.runtime.bundle import is_bundle
    from pdl.runtime.session import load
    from pdl.runtime.use import reader_of
    from pdl.workflow.prediction import Predictor

    whole = _system(run)
    model = located(run) if whole is None else whole
    if whole is None and not is_bundle(model):
        options: dict[str, Any] = {} if topk is None else {"topk": topk}
        opened = Predictor(model, batch_size=batch_size, **options)
        meant, tell = _meant(given, opened.reader)
        return opened.answers(meant, save=save, on_error="tell" if tell else "raise"), opened.reader
    predictor = load(model) if whole is None else whole
    meant, tell = _meant(given, reader_of(predictor))
    return _of_bundle(predictor, meant, topk, batch_size, save, tell=tell), reader_of(predictor)


def _meant(given: list[Any], reader: Any) -> tuple[list[Any], bool]:
    """The inputs, words that mean files of many as paths where there is a reader; and whether there are such files, in
    which an input that nothing can be said about says so and does not stop the others."""
    if reader is None:
        return given, False
    files = [
        isinstance(each, str)
        and (each == "-" or Path(each).suffix.lower() in (".csv", ".tsv", ".txt", ".gz") or Path(each).exists())
        for each in given
    ]
    return [Path(each) if file else each for each, file in zip(given, files, strict=True)], any(files)


def _system(word: str) -> Any:
    """The models that a name of the hub stands for, ready to answer together; None where it stands for one, or none."""
    if Path(word).expanduser().exists():
        return None
    from pdl.export.from_hub import open_system
    from pdl.hub.systems import system

    known = system(word)
    return None if known is None else open_system(known)


def _of_bundle(
    bundle: Any, inputs: list[Any], topk: int | None, batch_size: int, save: Path | None, *, tell: bool
) -> Iterator[dict[str, Any]]:
    """Predictions of a bundle, or of a system; pictures with the answer drawn go into `save`."""
    from pdl.runtime.use import predict

    how: Any = "tell" if tell else "raise"
    for _, item, prediction in predict(bundle, inputs, topk=topk, batch_size=batch_size, on_error=how):
        if save is not None:
            from pdl.report.answers import draw

            prediction["saved"] = str(draw(item, prediction, save))
        yield prediction


def _told(prediction: dict[str, Any], reader: Any) -> dict[str, Any]:
    """The prediction, after saying on standard error what of its input the model did not know."""
    from pdl.suites import suggest

    if "error" in prediction:
        style.note(f"{prediction['input']}: {prediction['error']}")
    for name in prediction.get("unknown", ()):
        style.note(f"{prediction['input']}: {name} is not known, and left out{suggest(name, reader.names)}")
    return prediction


def _write(out: Path, found: Iterator[dict[str, Any]], reader: Any) -> None:
    """The answers as a file; what was left out is counted."""
    from pdl.runtime.tables import write_answers

    left: dict[str, int] = {"unknown": 0, "error": 0}
    first = reader.takes if reader is not None else "input"
    done, rows = write_answers(out, _counted(found, left, first), first)
    if left["unknown"]:
        style.note(f"{left['unknown']:,} names are not known to the model, and were left out")
    if left["error"]:
        style.note(f"{left['error']:,} of {done:,} inputs have no answer: the model knows nothing of them")
    style.pairs([("answers", str(out)), ("inputs", done), ("rows", rows)])


def _counted(found: Iterator[dict[str, Any]], left: dict[str, int], what: str) -> Iterator[dict[str, Any]]:
    """The same, telling how far it is: on a terminal at once, elsewhere twice a minute."""
    began = shown = time.monotonic()
    for number, each in enumerate(found, 1):
        left["unknown"] += len(each.get("unknown", ()))
        left["error"] += "error" in each
        now = time.monotonic()
        if now - shown > (0.1 if sys.stderr.isatty() else 30.0):
            shown = now
            line = f"{number:,} {what}s, {number / (now - began):,.0f} a second"
            (style.working if sys.stderr.isatty() else style.note)(line)
        yield each
    style.working("")


def _rows(prediction: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each answer; what is the same for all of them stands in the first."""
    single = {name: value for name, value in prediction.items() if not isinstance(value, list)}
    answers: list[dict[str, Any]] = next((value for value in prediction.values() if _is_answers(value)), [{}])
    for number, answer in enumerate(answers):
        yield {**(single if number == 0 else {}), **answer}


def _is_answers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)

"""report.html of a run: the monitored metric next to the best baseline, the curves, what came out, the task's own
sections, the recipe and the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdl.config import to_yaml
from pdl.files import write_atomic
from pdl.report import Section, charts, command, document, escape, facts, figure, folded, line_chart, number, table
from pdl.train.log import duration, read_log
from pdl.train.loop import Evaluation, better
from pdl.train.pictures import FOLDER as PICTURES
from pdl.train.pictures import picture_sections
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.baselines import best_baseline, comparison
from pdl.workflow.opening import samples
from pdl.workflow.result import Result
from pdl.workflow.run_warnings import below_baseline

Line = dict[str, Any]
SPLITS = ("test", "val", "train")
CHARTS, ROWS = 6, 10  # that are shown at once


def write_report(
    folder: Path,
    recipe: Recipe,
    result: Result,
    task: Task,
    evaluation: Evaluation,
    dataset: Any,
    *,
    monitored: tuple[str, str],
    datasets: Mapping[str, Any],
) -> Path:
    """Write `folder`/report.html and return its path.

    monitored  the metric that decides which weights are best ("val/accuracy"), and which of its values are ("max")
    datasets   by split, of which the report says how many samples they have; `dataset` is the one of the test
    """
    lines = read_log(folder / "metrics.jsonl")
    made_with = [*result.versions.items(), *result.machine.items(), ("seed", result.seed)]
    written = to_yaml(recipe.config)
    sections = [
        Section("Curves", curves(lines, first=monitored[0].partition("/")[2])),
        Section("Result", metric_table(result), narrow=True),
        *([Section("Baselines", _baselines(result), narrow=True)] if result.baselines else []),
        *task.reporter().log_sections(lines),
        *task.reporter().sections(evaluation, dataset),
        *picture_sections(folder / PICTURES),
        Section("Made with", table(made_with), narrow=True),
        Section("Recipe", folded(f"{len(written.splitlines())} lines", f"<pre>{escape(written)}</pre>"), narrow=True),
    ]
    title = f"{result.recipe}: {result.model.rpartition('.')[2]}"
    lead = headline(result, evaluation.split, monitored) + _about(recipe, result, datasets)
    path = folder / "report.html"
    write_atomic(path, document(title, sections, lead=f'<div class="head">{lead}</div>{_next(result)}').encode())
    return path


def headline(result: Result, split: str, monitored: tuple[str, str]) -> str:
    """The monitored metric on the split of the test, large, the best baseline next to it, and warnings."""
    monitor, mode = monitored
    wanted = (f"{split}/{monitor.partition('/')[2]}", monitor, *result.metrics)
    name = next((each for each in wanted if result.metrics.get(each) is not None), None)
    said = [] if name is None else [f"<b>{number(result.metrics[name])}</b><div>{escape(name)}</div>"]
    best = None if name is None else best_baseline(result, name, mode)
    if name is not None and best is not None:
        method, value = best
        by = number(abs(result.metrics[name] - value))
        ahead = better(result.metrics[name], value, mode)
        word = f"better by {by}" if ahead else "equal" if value == result.metrics[name] else f"worse by {by}"
        said.append(
            f"<p>best baseline {number(value)}, {escape(method)}: the model is "
            f'<span class="{"good" if ahead else "bad"}">{word}</span></p>'
        )
    known = below_baseline(result, monitor, mode)
    said += [f'<p class="bad">{escape(each)}</p>' for each in result.warnings if best is None or each != known]
    return f'<div class="score">{"".join(said)}</div>' if said else ""


def _about(recipe: Recipe, result: Result, datasets: Mapping[str, Any]) -> str:
    """What was trained on what, and which weights were tested."""
    source = recipe.data.source
    named = "" if source is None else f"{source.target}: "
    sizes = ", ".join(f"{split} {samples(data)}" for split, data in datasets.items())
    speed = f", {result.samples_per_second:,.0f} samples/s" if result.samples_per_second else ""
    length = f"{result.epochs:,} epoch{'s' if result.epochs != 1 else ''}, {result.steps:,} steps{speed}"
    rows = [
        ("model", f"{result.model}, {result.parameters:,} parameters"),
        ("task", result.task),
        ("data", f"{named}{sizes} samples" if sizes else named.rstrip(": ")),
        ("weights", f"{result.weights}. {result.selection}" if result.selection else result.weights),
        *(("pretrained", each) for each in result.pretrained_lines()),
        ("ended", f"{result.status}: {result.stopped}" if result.stopped else result.status),
        ("time", f"{duration(result.seconds)}: {length}"),
    ]
    return facts((name, text) for name, text in rows if text)


def _next(result: Result) -> str:
    return command(result.next) if result.next else ""


def metric_table(result: Result) -> str:
    """The metrics of a run as a whole, then those of splits: a row for each metric, a column for each split."""
    whole = [row for row in result.measured() if "/" not in row[0]]
    found = {name: value for name, value in result.metrics.items() if "/" in name}
    splits = [split for split in SPLITS if any(name.startswith(f"{split}/") for name in found)]
    names = dict.fromkeys(name.partition("/")[2] for name in found)
    values = [[found.get(f"{split}/{name}") for split in splits] for name in names]
    rows = [
        (name, *("-" if value is None else value for value in row)) for name, row in zip(names, values, strict=True)
    ]
    return (table(whole, fold=ROWS) if whole else "") + (table(rows, head=("", *splits), fold=ROWS) if rows else "")


def _baselines(result: Result) -> str:
    """A table with the model first."""
    head, rows = comparison(result)
    said = "<p>Fitted on the same training data, on the same split and protocol.</p>"
    return table([["-" if value is None else value for value in row] for row in rows], head=head, fold=ROWS) + said


def curves(lines: Sequence[Line], *, first: str = "") -> str:
    """A chart for each metric that was ever known, those at several cut-offs (recall@5, recall@20) in one, and one of
    the learning rate. The loss stands first, then the metric `first`."""
    epochs = [line for line in lines if line["kind"] == "epoch"]
    names = sorted(
        {
            name.partition("/")[2]
            for line in epochs
            for name, value in line.items()
            if "/" in name and value is not None
        },
        key=lambda name: (name != "loss", name != first, name),
    )
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.partition("@")[0], []).append(name)
    figures = [
        figure(line_chart(_series(epochs, each), x_label="epoch"), kind if each[1:] else each[0])
        for kind, each in kinds.items()
    ]
    rates = sorted(dict(_points((line for line in lines if line["kind"] in ("step", "epoch")), "step", "lr")).items())
    figures.insert(min(2, len(figures)), figure(line_chart({"lr": rates}, x_label="step"), "learning rate"))
    return charts(figures, fold=CHARTS)


def _series(epochs: Sequence[Line], names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Curves by split, and by cut-off, ascending, where a metric has several."""
    order = sorted(names, key=lambda name: (len(name), name))
    return {
        f"{split} {name.partition('@')[1]}{name.partition('@')[2]}" if names[1:] else split: points
        for split in ("train", "val")
        for name in order
        if (points := _points(epochs, "epoch", f"{split}/{name}")) or not names[1:]
    }


def _points(lines: Iterable[Line], x: str, y: str) -> list[tuple[float, float]]:
    return [(line[x], line[y]) for line in lines if line.get(y) is not None]

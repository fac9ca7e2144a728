"""report.html of a run: what came out, the curves, the task's own sections, the recipe and the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pdl.config import to_yaml
from pdl.files import write_atomic
from pdl.report import Section, document, escape, line_chart, table
from pdl.train.log import read_log
from pdl.train.loop import Evaluation
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.baselines import comparison
from pdl.workflow.result import Result

Line = dict[str, Any]


def write_report(
    folder: Path, recipe: Recipe, result: Result, task: Task, evaluation: Evaluation, dataset: Any
) -> Path:
    """Write `folder`/report.html and return its path."""
    lines = read_log(folder / "metrics.jsonl")
    sections = [
        Section("Result", table(result.rows())),
        *([Section("Baselines", _baselines(result))] if result.baselines else []),
        Section("Curves", curves(lines)),
        *task.reporter().log_sections(lines),
        *task.reporter().sections(evaluation, dataset),
        Section("Recipe", f"<pre>{escape(to_yaml(recipe.config))}</pre>"),
        Section(
            "Made with",
            table(
                [
                    *result.versions.items(),
                    *result.machine.items(),
                    ("seed", result.seed),
                    ("parameters", result.parameters),
                ]
            ),
        ),
    ]
    path = folder / "report.html"
    write_atomic(path, document(f"{result.recipe}: {result.model.rpartition('.')[2]}", sections).encode())
    return path


def _baselines(result: Result) -> str:
    """A table with the model first."""
    head, rows = comparison(result)
    said = "<p>Fitted on the same training data, on the same split and protocol.</p>"
    return said + table([["-" if value is None else value for value in row] for row in rows], head=head)


def curves(lines: Sequence[Line]) -> str:
    """A chart for each metric, those at several cut-offs (recall@5, recall@20) in one, and one of the learning rate."""
    epochs = [line for line in lines if line["kind"] == "epoch"]
    steps = [line for line in lines if line["kind"] == "step"]
    names = sorted(
        {name.partition("/")[2] for line in epochs for name in line if "/" in name},
        key=lambda name: (name != "loss", name),
    )
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.partition("@")[0], []).append(name)
    charts = [_figure(_series(epochs, each), "epoch", kind if each[1:] else each[0]) for kind, each in kinds.items()]
    source, x = (steps, "step") if steps else (epochs, "epoch")
    charts.append(_figure({"lr": _points(source, x, "lr")}, x, "learning rate"))
    return f'<div class="charts">{"".join(charts)}</div>'


def _series(epochs: Sequence[Line], names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Curves by split, and by cut-off, ascending, where a metric has several."""
    order = sorted(names, key=lambda name: (len(name), name))
    return {
        f"{split} {name.partition('@')[1]}{name.partition('@')[2]}" if names[1:] else split: points
        for split in ("train", "val")
        for name in order
        if (points := _points(epochs, "epoch", f"{split}/{name}")) or not names[1:]
    }


def _figure(series: dict[str, list[tuple[float, float]]], x: str, caption: str) -> str:
    return f'<figure class="wide">{line_chart(series, x_label=x)}<figcaption>{escape(caption)}</figcaption></figure>'


def _points(lines: Iterable[Line], x: str, y: str) -> list[tuple[float, float]]:
    return [(line[x], line[y]) for line in lines if line.get(y) is not None]

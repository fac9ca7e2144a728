"""`compare`: runs side by side: the settings in which they differ, what they reached, and their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdl.errors import UsageError
from pdl.report import Section, charts, document, figure, line_chart, table
from pdl.train.log import duration, read_log
from pdl.workflow.listing import Entry
from pdl.workflow.run import Run

Rows = list[tuple[str, list[Any]]]
FACTS = ("status", "epochs", "parameters")
CHARTS, ROWS, NAMED = 6, 10, 4  # of a page: charts and rows that are shown at once, runs that its title names


@dataclass(frozen=True)
class Comparison:
    """Runs beside each other: rows of a name and a value for each run, None where one lacks it.

    settings   by dotted key, those that are not the same in all of them
    reached    status, epochs, parameters and time, then every metric
    curves     by metric and run: [(epoch, value), ...]
    """

    runs: list[str]
    settings: Rows
    reached: Rows
    curves: dict[str, dict[str, list[tuple[float, float]]]]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        settings, reached = (dict(rows) for rows in (self.settings, self.reached))
        return {"runs": self.runs, "settings": settings, "reached": reached}

    def page(self) -> str:
        """An HTML page with the curves of all runs in one chart for each metric."""
        drawn = [figure(line_chart(series, x_label="epoch"), name) for name, series in self.curves.items()]
        parts = (("Reached", self.reached, "result"), ("Settings that differ", self.settings, "setting"))
        tables = [Section(title, _table(rows, name, self.runs), narrow=True) for title, rows, name in parts if rows]
        title = ", ".join(self.runs) if len(self.runs) <= NAMED else f"{len(self.runs)} runs"
        return document(title, [*tables, Section("Curves", charts(drawn, fold=CHARTS))])


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Runs as they are, finished or not. UsageError for fewer than two."""
    entries = list({run.path.resolve(): Entry(run) for run in map(Run.open, folders)}.values())
    if len(entries) < 2:
        raise UsageError("which runs? name two at least: pdl compare RUN RUN")
    names = [str(entry.folder.path) for entry in entries]
    keys = dict.fromkeys(key for entry in entries for key in entry.settings)
    every = [(key, [entry.settings.get(key) for entry in entries]) for key in keys]
    settings = [(key, values) for key, values in every if any(repr(value) != repr(values[0]) for value in values)]
    metrics = dict.fromkeys(name for entry in entries for name in entry.metrics)
    reached: Rows = [(name, [entry.facts[name] for entry in entries]) for name in FACTS]
    seconds = [entry.facts["seconds"] for entry in entries]
    reached.append(("time", [None if each is None else duration(each) for each in seconds]))
    reached += [(name, [entry.metrics.get(name) for entry in entries]) for name in metrics]
    return Comparison(names, settings, reached, _curves(dict(zip(names, entries, strict=True))))


def _curves(entries: dict[str, Entry]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run, entry in entries.items():
        file = entry.folder.path / "metrics.jsonl"
        for line in read_log(file) if file.is_file() else []:
            for name, value in line.items() if line.get("kind") == "epoch" else ():
                if "/" in name and value is not None:
                    found.setdefault(name, {}).setdefault(run, []).append((line["epoch"], value))
    return dict(sorted(found.items(), key=lambda each: (not each[0].endswith("/loss"), each[0])))


def _table(rows: Rows, name: str, runs: Sequence[str]) -> str:
    lines = [[key, *("-" if value is None else value for value in values)] for key, values in rows]
    return f'<div class="scroll">{table(lines, head=[name, *runs], fold=ROWS)}</div>'

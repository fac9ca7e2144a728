"""sweep.html: all trials of a sweep in parallel coordinates, what they reached one after another, how much each setting
alone explains, and a table with links to their reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np

from pdl.config.sweeps import Interval
from pdl.files import write_atomic
from pdl.report import Section, document, figure, folded, named_bars, number
from pdl.report.parallel import Line, Scale, best_so_far, parallel_chart
from pdl.workflow.sweeps.trials import Trial, Trials

ENOUGH = 10  # trials, for anything to be said of what matters
PARTS = 4  # of the values of an interval, for that
ROWS = 20  # of the table that are shown at once


def write_page(file: Path, trials: Trials) -> None:
    """Write the page of what is known by now."""
    every = list(trials.trials.values())
    values = [each.row.mean(trials.monitor) for each in every]
    order = sorted(range(len(every)), key=lambda k: _key(every[k], values[k], trials.less))
    keys = list(dict.fromkeys(key for each in every for key in each.settings))
    parts = [Section("Settings", _coordinates(trials, keys, every, values, order))] if keys else []
    whole = [not each.ended for each in every]
    said = [_said(each, value, trials.monitor, keys) for each, value in zip(every, values, strict=True)]
    course = best_so_far(values, whole, said, less=trials.less, y_label=trials.monitor)
    parts.append(Section("One after another", figure(course, "hollow: did not come to the end"), narrow=True))
    numbers = {key for key, part in (trials.space or {}).items() if isinstance(part, Interval)}
    places = [None if math.isnan(value) else order.index(k) for k, value in enumerate(values)]
    shares = importance({key: [each.settings[key] for each in every] for key in keys}, places, numbers=numbers)
    if shares:
        bars = named_bars(shares, [f"{share:.0%}" for share in shares.values()])
        how = (
            "share of the variance of ranks that a setting explains alone (Kruskal-Wallis, epsilon squared; "
            f"intervals in {PARTS} parts): it says nothing of settings that matter together only"
        )
        parts.append(Section("What matters", figure(bars, how), narrow=True))
    parts.append(Section("Trials", _table(trials, keys, [every[k] for k in order])))
    title = f"{trials.maker.file.stem}: {len(every)} trial{'s' * (len(every) != 1)}"
    write_atomic(file, document(title, parts).encode())


def _key(trial: Trial, value: float, less: bool) -> tuple[bool, bool, int, float]:
    """The best first, then those that did not come to their end, the longer they were trained."""
    epochs = max(trial.values, default=0) if trial.ended else 0
    return math.isnan(value), bool(trial.ended), -epochs, value if less else -value


def _said(trial: Trial, value: float, metric: str, keys: Sequence[str]) -> list[str]:
    reached = trial.row.ended or ("failed" if trial.row.failures else "under way" if math.isnan(value) else "")
    first = "" if math.isnan(value) else f"{metric} {number(value)}"
    begins = f"trial {trial.number}: {', '.join(filter(None, (first, reached)))}"
    return [begins, *(f"{key.lstrip('+')}={trial.settings[key]}" for key in keys)]


def _coordinates(
    trials: Trials, keys: Sequence[str], every: Sequence[Trial], values: Sequence[float], order: Sequence[int]
) -> str:
    scales = []
    for key in keys:
        part = (trials.space or {}).get(key)
        listed = [] if isinstance(part, Interval) else list(trials.maker.axes[key])
        scales.append(Scale(key.lstrip("+"), listed, isinstance(part, Interval) and part.log))
    known = [k for k in order if not math.isnan(values[k])]
    bounds = _bounds([values[k] for k in known if not every[k].ended], trials.less)
    lines = [
        Line(
            [*(every[k].settings[key] for key in keys), min(max(values[k], bounds[0]), bounds[1])],
            place / max(len(known) - 1, 1),
            "  ".join(_said(every[k], values[k], trials.monitor, keys)), _link(trials, every[k]), not every[k].ended,
        )
        for place, k in enumerate(known)
    ]  # fmt: skip
    if not lines:
        return "<p>no trial has come to its end</p>"
    beyond = any(values[k] < bounds[0] or values[k] > bounds[1] for k in known)
    note = "green: the best, orange: the worst; dashed: stopped" + ("; what is far worse lies at the edge" * beyond)
    return f"{parallel_chart([*scales, Scale(trials.monitor)], lines)}<p>{escape(note)}</p>"


def _bounds(values: Sequence[float], less: bool) -> tuple[float, float]:
    """What the axis of the metric shows: all, but for what is far worse than most."""
    if len(values) < 4:
        return -math.inf, math.inf
    middle, best = float(np.median(values)), min(values) if less else max(values)
    edge = middle + 5 * (middle - best)
    return (-math.inf, edge) if less else (edge, math.inf)


def importance(
    settings: Mapping[str, Sequence[str]], places: Sequence[int | None], *, numbers: set[str]
) -> dict[str, float]:
    """How much of the variance of the ranks of trials each setting explains alone, in [0, 1], the largest first:
    epsilon squared of Kruskal & Wallis (1952), of which chance is taken off. {} for fewer than `ENOUGH` trials.

    places    the rank of each trial (None: left out)
    numbers   settings that are numbers, whose values are cut into `PARTS` groups of equal size
    """
    found_at = {k: place for k, place in enumerate(places) if place is not None}
    known, n = list(found_at), len(found_at)
    if n < ENOUGH:
        return {}
    ranks = np.argsort(np.argsort(list(found_at.values()))) + 1.0
    found = {}
    for key, texts in settings.items():
        own = [texts[k] for k in known]
        names = np.unique(own, return_inverse=True)[1]
        groups = (np.argsort(np.argsort([float(text) for text in own])) * PARTS) // n if key in numbers else names
        sizes = np.bincount(groups)
        count = int((sizes > 0).sum())
        if count < 2 or count >= n:
            continue
        sums = np.bincount(groups, weights=ranks)
        h = 12 / (n * (n + 1)) * float((sums[sizes > 0] ** 2 / sizes[sizes > 0]).sum()) - 3 * (n + 1)
        found[key.lstrip("+")] = min(max((h - count + 1) / (n - count), 0.0), 1.0)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _link(trials: Trials, trial: Trial) -> str:
    """The report of the first run, as seen from the page."""
    report = trial.first.plan.folder.path / "report.html"
    return f"{quote(report.parent.name)}/{report.name}" if report.is_file() else ""


def _table(trials: Trials, keys: Sequence[str], every: Sequence[Trial]) -> str:
    tested = [f"test/{trials.monitor.partition('/')[2]}"]
    metrics = [trials.monitor, *(name for name in tested if any(name in each.row.values for each in every))]
    head = ["trial", *(key.lstrip("+") for key in keys), *metrics, "runs", "", "report"]
    lines = [_line(trials, keys, metrics, each) for each in every]
    top = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>"
    shown = f"<table>{top}{''.join(lines[:ROWS])}</table>"
    rest = f"<table>{top}{''.join(lines[ROWS:])}</table>"
    return shown + (folded(f"{len(lines) - ROWS} more", rest) if len(lines) > ROWS else "")


def _line(trials: Trials, keys: Sequence[str], metrics: Sequence[str], trial: Trial) -> str:
    row, link = trial.row, _link(trials, trial)
    cells = [str(trial.number), *(trial.settings[key] for key in keys)]
    for metric in metrics:
        off = row.deviation(metric)
        cells.append(number(row.mean(metric)) + (f" ± {number(off)}" if off is not None else ""))
    said = row.ended or ("failed: " + row.failures[0].splitlines()[0] if row.failures else "")
    said = said or ("" if trial.state == "finished" else "under way")
    cells += [str(len(row.seeds)), said]
    made = "".join(f'<td class="n">{escape(each)}</td>' for each in cells[:-1])
    report = f'<a href="{escape(link)}">report</a>' if link else ""
    return f"<tr>{made}<td>{escape(said)}</td><td>{report}</td></tr>"

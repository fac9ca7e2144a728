"""The page of `pdl compress --plan`: what each step made of size, speed and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdl.config import from_dict, to_yaml
from pdl.files import write_atomic
from pdl.report import Section, charts, document, escape, figure, line_chart, table

if TYPE_CHECKING:
    from pdl.workflow.slimming import Step


def write_search(
    path: Path, steps: Sequence[Step], chosen: Step, monitor: str, mode: str, given: Mapping[str, Any]
) -> None:
    """Write the page of a search under a budget: all nets, the curves with the budget, and the chosen one.

    given   "model", "plan" and "within", the points that may be lost
    """
    first, tested = steps[0], f"test/{monitor.partition('/')[2]}"
    columns = [name for name in (monitor, tested) if name in first.metrics]
    head = ["net", *columns, "kB", "million multiply-adds", "ms", "times as fast", ""]
    rows = [
        [
            step.name.replace("_", " "),
            *(step.metrics.get(name, "") for name in columns),
            step.size / 1e3,
            step.adds / 1e6,
            step.milliseconds,
            first.milliseconds / step.milliseconds,
            "chosen" if step is chosen else "",
        ]
        for step in sorted(steps, key=lambda step: -step.milliseconds)
    ]
    least = first.metrics[monitor] + given["within"] / 100 * (-1 if mode == "max" else 1)
    curves = []
    for label, of in (("ms of one input", _milliseconds), ("kB", _kilobytes)):
        marked = {f"chosen: {chosen.name.replace('_', ' ')}": [(of(chosen), chosen.metrics[monitor])]}
        rest = {
            step.name.replace("_", " "): [(of(step), step.metrics[monitor])] for step in steps if step is not chosen
        }
        ends = [(end(map(of, steps)), least) for end in (min, max)]
        drawn = line_chart(marked | rest, x_label=label, y_label=monitor, guides={"the budget": ends})
        curves.append(figure(drawn, f"{monitor} over {label}"))
    of_test = f", {escape(tested)} {chosen.metrics[tested] - first.metrics[tested]:+.4f}" if tested in columns else ""
    lead = (
        f"<p>{escape(str(given['model']))}, at most {given['within']:g} points of {escape(monitor)} lost: "
        f"{escape(chosen.name.replace('_', ' '))}, {chosen.size / first.size:.3g} of the size, "
        f"{first.milliseconds / chosen.milliseconds:.3g} times as fast{of_test}</p>"
    )
    plan = {name: value for name, value in given["plan"].items() if value is not None}
    sections = [
        Section("Size, speed, accuracy", charts(curves)),
        Section("Nets", table(rows, head=head)),
        Section("Plan", f"<pre>{escape(to_yaml(from_dict(plan)))}</pre>", narrow=True),
    ]
    write_atomic(path, document(f"{Path(str(given['model'])).stem}, compressed", sections, lead=lead).encode())


def write_page(path: Path, steps: Sequence[Step], monitor: str, mode: str, model: str, plan: Mapping[str, Any]) -> None:
    """Write the page: a table of the steps, curves of the monitored metric over size and time, and the plan."""
    first, last = steps[0], steps[-1]
    metric = monitor.partition("/")[2]
    names = [name for name in (monitor, f"test/{metric}") if name in first.metrics]
    in_c = first.compiled is not None
    emulated = in_c and first.compiled.emulated is not None  # type: ignore[union-attr]
    beside = ["kB in C", "ms in C", "C differs by", "objects of one alone"] if in_c else []
    beside += ["emulated by"] if emulated else []
    head = ["step", *names, "kB", "of it", "million multiply-adds", "ms", "times as fast", *beside]
    rows = [
        [
            step.name.replace("_", " "),
            *(step.metrics.get(name, "") for name in names),
            step.size / 1e3,
            step.size / first.size,
            step.adds / 1e6,
            step.milliseconds,
            first.milliseconds / step.milliseconds,
            *_as_c(step),
        ]
        for step in steps
    ]
    shown = names[:1]
    curves = [
        figure(_curve(steps, name, label, of), f"{name} over {label}, step by step")
        for name in shown
        for label, of in (("kB", _kilobytes), ("ms of one input", _milliseconds))
    ]
    given = {name: value for name, value in plan.items() if value is not None}
    ahead = last.metrics.get(names[-1], 0.0) - first.metrics.get(names[-1], 0.0) if names else 0.0
    lead = (
        f"<p>{escape(model)}: {last.size / first.size:.3g} of the size, {first.milliseconds / last.milliseconds:.3g} "
        f"times as fast, {escape(names[-1] if names else '')} {ahead:+.4f}</p>"
    )
    sections = [
        Section("Steps", table(rows, head=head)),
        *([Section("Size, speed, accuracy", charts(curves))] if curves else []),
        Section("Plan", f"<pre>{escape(to_yaml(from_dict(given)))}</pre>", narrow=True),
    ]
    write_atomic(path, document(f"{Path(model).stem}, compressed", sections, lead=lead).encode())


def _as_c(step: Step) -> list[Any]:
    """What is said of a net in C."""
    made = step.compiled
    if made is None:
        return []
    emulated = [] if made.emulated is None else [f"{made.emulated:.1e}"]
    return [made.size / 1e3, made.milliseconds, f"{made.difference:.1e}", made.alone, *emulated]


def _kilobytes(step: Step) -> float:
    return step.size / 1e3


def _milliseconds(step: Step) -> float:
    return step.milliseconds


def _curve(steps: Sequence[Step], metric: str, label: str, of: Any) -> str:
    points = {step.name.replace("_", " "): [(of(step), step.metrics[metric])] for step in steps}
    path = [(of(step), step.metrics[metric]) for step in steps]
    return line_chart(points, x_label=label, y_label=metric, guides={"in this order": path})

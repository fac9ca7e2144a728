"""What the report says of a QAOA run: the value against the optimum, the best sample, the most frequent ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, figure, line_chart, table
from pdl.train import Evaluation
from pdl_quantum.drawing import svg
from pdl_quantum.problems import BinaryProblem
from pdl_quantum.problems.bits import bits_of
from pdl_quantum.problems.diagonal import MOST
from pdl_quantum.problems.pictures import picture
from pdl_quantum.qaoa.circuit import QAOACircuit
from pdl_quantum.variational.report import DRAWN, VariationalReporter

if TYPE_CHECKING:
    from pdl_quantum.qaoa.task import QAOA

FREQUENT, WIDTH = 24, 220
"""Bit strings of the histogram, and the pixels of its longest bar."""


class QAOAReporter(VariationalReporter):
    """The best sample, the most frequent ones, the angles; then the sections of any variational problem."""

    task: QAOA

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        return [*_samples(self.task, evaluation), *super().sections(evaluation, dataset)]

    def log_sections(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
        return [*history(self.task.problem, lines), *super().log_sections(lines)]


def history(problem: BinaryProblem, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
    """The expected value and the best sample after every epoch, against the optimum; the chance to draw it."""
    charts = []
    names = [name for name in (problem.expected, f"best_{problem.measure}") if name is not None]
    series = {name: _points(lines, f"val/{name}") for name in names}
    series = {name: points for name, points in series.items() if points}
    if series and problem.num_qubits <= MOST:
        ends = next(iter(series.values()))
        series["optimum"] = [(x, problem.optimum) for x, _ in (ends[0], ends[-1])]
    if series:
        charts.append(figure(line_chart(series, x_label="step"), problem.measure))
    chance = _points(lines, "val/optimum_probability")
    if chance:
        charts.append(figure(line_chart({"probability": chance}, x_label="step"), "probability of the optimum"))
    return [Section(problem.measure.capitalize(), f'<div class="charts">{"".join(charts)}</div>')] if charts else []


def _samples(task: QAOA, evaluation: Evaluation) -> list[Section]:
    """The sections on the final evaluation."""
    samples = evaluation.details.get("samples")
    if samples is None or not len(samples):
        return []
    problem = task.problem
    bits = bits_of(samples[:, 0], problem.num_qubits)
    made = [_best(problem, bits[problem.best_of(bits)]), _frequent(problem, bits, samples[:, 1])]
    return [*made, *_layers(task.ansatz)] if isinstance(task.ansatz, QAOACircuit) else made


def _best(problem: BinaryProblem, bits: np.ndarray) -> Section:
    description = problem.describe(bits)
    known = [("optimum", f"{problem.optimum:.6g}")] if problem.num_qubits <= MOST else []
    rows = [(name, _plain(value)) for name, value in description.items()]
    return Section("Best sample", table([*rows, *known]) + (picture(problem, bits) or ""))


def _frequent(problem: BinaryProblem, bits: np.ndarray, counts: np.ndarray) -> Section:
    """The most frequent samples as bars; those of the least energy are marked."""
    energies, values = problem.energy(bits), problem.value(bits)
    least = problem.best.value if problem.num_qubits <= MOST else float(energies.min())
    rows = []
    for row, count, energy, value in zip(bits[:FREQUENT], counts, energies, values, strict=False):
        best = energy <= least + 1e-9 * max(1.0, abs(least))
        bar = (
            f'<svg width="{WIDTH}" height="10"><rect width="{WIDTH * count / counts[0]:.1f}" height="10" '
            f'fill="{"#2c9c5a" if best else "#3366cc"}"/></svg>'
        )
        shown = "not valid" if np.isnan(value) else f"{value:.6g}"
        text = "".join(map(str, row.tolist()))
        rows.append(f"<tr><td><code>{text}</code></td><td class='n'>{shown}</td><td class='n'>{count}</td>"
                    f"<td>{bar}{' optimum' if best else ''}</td></tr>")  # fmt: skip
    head = f"<tr><th>bits</th><th>{escape(problem.measure)}</th><th>shots</th><th></th></tr>"
    note = f"<p>{len(bits)} different bit strings in {int(counts.sum())} shots.</p>"
    return Section("Samples", f"<table>{head}{''.join(rows)}</table>{note}")


def _layers(model: QAOACircuit) -> list[Section]:
    """The angles of all layers; a drawing of one layer where the whole circuit is too large."""
    gamma, beta = model.angles
    steps = range(1, model.layers + 1)
    series = {
        "gamma": list(zip(steps, gamma.tolist(), strict=True)),
        "beta": list(zip(steps, beta.tolist(), strict=True)),
    }
    made = [Section("Angles", f'<div class="charts">{figure(line_chart(series, x_label="layer"), "radians")}</div>')]
    one = model.alternating(1)
    if model.layers > 1 and len(model.circuit) > DRAWN >= len(one):
        made.append(Section("One layer", f'<div class="scroll">{svg(one)}</div>'))
    return made


def _points(lines: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(line["step"], line[name]) for line in lines if line.get(name) is not None]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return (
            ", ".join(map(_plain, value))
            if not any(isinstance(each, list) for each in value)
            else " | ".join(_plain(each) for each in value)
        )
    return f"{value:.6g}" if isinstance(value, float) else str(value)

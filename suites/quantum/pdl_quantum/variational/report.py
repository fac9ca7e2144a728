"""What the report says of a variational run: energies beside exact ones, the circuit, the state that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, figure, line_chart, table
from pdl.train import Evaluation, Reporter
from pdl_quantum.circuits import Circuit, counts, sample
from pdl_quantum.drawing import histogram, svg
from pdl_quantum.variational.ansatz import Ansatz

if TYPE_CHECKING:
    from pdl_quantum.variational.task import Variational

Array = np.ndarray
LARGEST, STATES, PROBLEMS, DRAWN = 16, 4, 40, 64
"""Basis states shown of a state, states shown, problems of a table, and gates of a circuit that is drawn."""
SHOTS, NOTHING = 1024, 1e-12


class VariationalReporter(Reporter):
    """The energies beside the exact ones, the circuit, and the states that it makes."""

    task: Variational

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        model, theta = task.ansatz, evaluation.details.get("theta")
        if not isinstance(model, Ansatz) or theta is None or not theta.size:
            return []
        made = [_energies(task, evaluation.details["energies"])]
        made += [_curve(task, evaluation.details["energies"])] if _along_axis(task) else []
        named = list(zip(task.state_names(), model.states(), strict=True))[:STATES]
        return [*made, _circuit(model.circuit, theta[0]), *(_state(state, name) for name, state in named)]

    def log_sections(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
        return history(lines, self.task.exact)


def history(lines: Sequence[Mapping[str, Any]], exact: Sequence[float] | None) -> list[Section]:
    """The energy against the exact one, and the error on a logarithmic scale, after every epoch."""
    points = [(line["step"], line["val/energy"]) for line in lines if line.get("val/energy") is not None]
    if not points:
        return []
    series = {"energy": points}
    if exact is not None:
        series["exact"] = [(x, float(np.mean(exact))) for x, _ in (points[0], points[-1])]
    figures = [figure(line_chart(series, x_label="step"), "energy")]
    errors = [(line["step"], line["val/energy_error"]) for line in lines if line.get("val/energy_error")]
    if errors:
        figures.append(figure(line_chart({"error": errors}, x_label="step", log=True), "|energy - exact|"))
    return [Section("Energy", f'<div class="charts">{"".join(figures)}</div>')]


def _energies(task: Variational, energies: Array) -> Section:
    exact: Sequence[float | None] = task.exact or [None] * len(energies)
    rows = []
    for name, energy, right in zip(task.state_names(), energies.tolist(), exact, strict=True):
        beside = [] if right is None else [f"{right:.8f}", f"{energy - right:.1e}"]
        rows.append((name, f"{energy:.8f}", *beside))
    head = ("state of", "energy", *([] if task.exact is None else ["exact", "difference"]))
    note = f"<p>The first {PROBLEMS} of {len(rows)}.</p>" if len(rows) > PROBLEMS else ""
    return Section("Energies", table(rows[:PROBLEMS], head=head) + note)


def _along_axis(task: Variational) -> bool:
    return len(task.problems) > 1 and all(each.x is not None for each in task.problems)


def _curve(task: Variational, energies: Array) -> Section:
    """Energies along what the problems differ in."""
    order = sorted(range(len(task.problems)), key=lambda row: task.problems[row].x or 0.0)
    x = [float(task.problems[row].x or 0.0) for row in order]
    series = {"energy": list(zip(x, energies[order].tolist(), strict=True))}
    figures = []
    if task.exact is not None:
        exact = np.asarray(task.exact)[order]
        series["exact"] = list(zip(x, exact.tolist(), strict=True))
        errors = list(zip(x, np.abs(energies[order] - exact).tolist(), strict=True))
        figures = [figure(line_chart({"error": errors}, x_label=task.problems[0].axis, log=True), "|energy - exact|")]
    figures.insert(0, figure(line_chart(series, x_label=task.problems[0].axis), "energy"))
    return Section(f"Energy by {task.problems[0].axis}", f'<div class="charts">{"".join(figures)}</div>')


def _circuit(circuit: Circuit, theta: Array) -> Section:
    """The circuit drawn, where it is small enough to be read; facts about it, always."""
    counts = ", ".join(f"{count} {name}" for name, count in circuit.count().items())
    facts = [("qubits", circuit.num_qubits), ("gates", len(circuit)), ("depth", circuit.depth),
             ("parameters", circuit.num_parameters), ("by name", counts)]  # fmt: skip
    drawing = svg(circuit, theta) if len(circuit) <= DRAWN else f"<p>Not drawn: more than {DRAWN} gates.</p>"
    return Section("Circuit", f'{table(facts)}<div class="scroll">{drawing}</div>')


def _state(state: Array, name: str) -> Section:
    """The basis states with the largest amplitudes, samples beside their probabilities, and how often a qubit is 1."""
    n = len(state).bit_length() - 1
    chances = np.abs(state) ** 2
    order = np.argsort(-chances, kind="stable")[:LARGEST]
    likely = {f"{index:0{n}b}": index for index in order.tolist() if chances[index] > NOTHING}
    rows = [
        (f"|{bits}>", f"{state[k].real:+.6f}", f"{state[k].imag:+.6f}", f"{chances[k]:.6f}")
        for bits, k in likely.items()
    ]
    amplitudes = table(rows, head=("state", "real", "imaginary", "probability"))
    picture = histogram(
        counts(sample(state, SHOTS), n), expected={bits: float(chances[k]) for bits, k in likely.items()}, most=LARGEST
    )
    ones = [chances.reshape(1 << q, 2, -1)[:, 1].sum() for q in range(n)]
    occupied = table([("in |1>", *(f"{one:.4f}" for one in ones))], head=("qubit", *map(str, range(n))))
    said = f"<figcaption>{SHOTS} samples, and probabilities</figcaption>"
    return Section(
        f"State of {name}",
        f'{amplitudes}<figure class="wide">{picture}{said}</figure><div class="scroll">{occupied}</div>',
    )

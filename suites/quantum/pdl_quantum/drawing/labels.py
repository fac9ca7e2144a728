"""Labels of gates: numbers as fractions of pi, parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import lookup

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits.angles import Angle
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import KINDS, Gate

GREEK = {
    name: lookup(f"GREEK SMALL LETTER {name.replace('lambda', 'lamda')}")
    for name in (
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
        "rho", "sigma", "tau", "phi", "chi", "psi", "omega",
    )
} | {"lam": "λ"}  # fmt: skip
"""Names of parameters that are written as the letter."""

PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, *(1 << k for k in range(4, 21)))
"""k pi / d is written so for these d."""
MOST = 1000  # of k


def number(value: float) -> str:
    """A number in four digits, or as a part of pi: "0.3", "π/2", "-3π/4"."""
    for d in PARTS:
        k = value / np.pi * d
        if 0.5 < abs(k) < MOST and abs(k - round(k)) < 1e-9:
            times = {1: "", -1: "-"}.get(round(k), str(round(k)))
            return f"{times}π" + (f"/{d}" if d > 1 else "")
    return f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of one circuit.

    row   the parameters' numbers [P], which then stand in place of the names; None for the names
    """

    circuit: Circuit
    columns: Mapping[tuple[str, int], int]
    row: np.ndarray | None = None

    @staticmethod
    def of(circuit: Circuit, values: Any = None) -> Labels:
        """`values`: one number for each parameter, as `Circuit.row` takes them; UsageError for a batch of them."""
        row = None
        if values is not None:
            rows = circuit.row(values)
            if len(rows) != 1:
                raise UsageError(f"a drawing shows one set of values, not a batch of {len(rows)}; give one row of them")
            row = rows[0]
        return Labels(circuit, circuit.columns(), row)

    def angle(self, angle: Angle) -> str:
        """An angle: its number, or factor, name and offset."""
        if angle.parameter is None:
            return number(angle.offset)
        if self.row is not None:
            return number(angle.factor * self.row[self.columns[angle.parameter, angle.index]] + angle.offset)
        name = GREEK.get(angle.parameter, angle.parameter)
        if angle.index >= 0:
            shape = self.circuit.parameters[angle.parameter].shape
            name += f"[{','.join(str(int(i)) for i in np.unravel_index(angle.index, shape))}]"
        offset = number(abs(angle.offset))
        return _times(angle.factor, name) + (f"{'+' if angle.offset > 0 else '-'}{offset}" if angle.offset else "")

    def angles(self, gate: Gate) -> str:
        """The angles of a gate, with commas between; what a channel was made with; of a measurement how often a 0 is
        read as 1, and a 1 as 0."""
        if gate.kind == "channel":
            given = (value for name, value in gate.about.arguments.items() if name != "num_qubits")
            return ", ".join(f"{value:.4g}" for value in given if isinstance(value, int | float))
        if gate.kind == "measure" and gate.about is not None:
            return f"{gate.about[0, 1]:.4g}, {gate.about[1, 0]:.4g}"
        return ", ".join(map(self.angle, gate.angles))


def _times(factor: float, name: str) -> str:
    part = 1 / factor if factor else 0.0
    if abs(factor) < 1 and abs(part - round(part)) < 1e-9:
        return f"{'-' if factor < 0 else ''}{name}/{abs(round(part))}"
    return {1.0: "", -1.0: "-"}.get(factor, number(factor)) + name


CHANNELS = {
    "bit_flip": "BF", "phase_flip": "PF", "bit_phase_flip": "BPF", "pauli_channel": "Pauli", "depolarizing": "Dep",
    "amplitude_damping": "AD", "generalized_amplitude_damping": "GAD", "phase_damping": "PD",
    "thermal_relaxation": "TR", "reset_channel": "Reset", "kraus": "Kraus",
}  # fmt: skip
"""What stands on the boxes of channels, by their names."""
OTHERS = {"unitary": "U", "measure": "M", "reset": "|0⟩"}


def title(gate: Gate) -> str:
    """The name of a gate without its controls, as a box has it."""
    if gate.kind == "channel":
        return CHANNELS.get(gate.about.name, gate.about.name)
    return KINDS[gate.kind].label if gate.kind in KINDS else OTHERS[gate.kind]

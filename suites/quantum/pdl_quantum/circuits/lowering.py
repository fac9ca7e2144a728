"""Circuits in primitives: gates each of which is one of the engine's, for density matrices and shifted parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pdl_quantum.circuits.angles import Angle
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import INSTRUCTIONS, Dense, Fixed, Flip, Gate, Parity, Phase, Primitive, Turn, lower

Array = np.ndarray


def primitives_of(gate: Gate) -> list[Primitive]:
    """Those of a gate, whatever its condition."""
    return lower(replace(gate, condition=()))


def as_gates(primitives: Iterable[Primitive]) -> list[Gate]:
    """Primitives as gates, but for global phases. Each has at most one angle, and the two eigenvalues of its generator
    differ by 1: exp(-i angle/2 P), or exp(i angle) on a subspace."""
    return [gate for one in primitives for gate in _gates(one)]


def _gates(one: Primitive) -> list[Gate]:
    if isinstance(one, Turn):
        return [Gate("p" if one.axis == "p" else f"r{one.axis}", (one.qubit,), (one.angle,))]
    if isinstance(one, Fixed):
        return [Gate("unitary", (one.qubit,), about=one.matrix)]
    if isinstance(one, Flip):
        return [Gate("x", (one.qubit,), (), one.controls, one.values)]
    if isinstance(one, Parity):
        return [Gate("pauli", one.qubits, (one.angle,), about="Z" * len(one.qubits))]
    if isinstance(one, Dense):
        return [Gate("unitary", one.qubits, (), one.controls, one.values, one.matrix)]
    return _phase_gates(one)


def _phase_gates(one: Phase) -> list[Gate]:
    if not one.qubits:
        return []
    values = one.values or (1,) * len(one.qubits)
    at = values.index(1) if 1 in values else 0
    target = one.qubits[at]
    rest, held = one.qubits[:at] + one.qubits[at + 1 :], values[:at] + values[at + 1 :]
    if values[at]:
        return [Gate("p", (target,), (one.angle,), rest, held)]
    if not rest:  # exp(i angle) on |0> is exp(-i angle) on |1>, but for a global phase
        return [Gate("p", (target,), (-one.angle,))]
    flip = Gate("x", (target,))
    return [flip, Gate("p", (target,), (one.angle,), rest, held), flip]


def conjugated(one: Primitive) -> Primitive:
    """The primitive whose matrix is the complex conjugate."""
    if isinstance(one, Turn):
        return one if one.axis == "y" else replace(one, angle=-one.angle)
    if isinstance(one, Phase | Parity):
        return replace(one, angle=-one.angle)
    if isinstance(one, Fixed | Dense):
        return replace(one, matrix=one.matrix.conj())
    return one


def on_both_sides(gate: Gate, num_qubits: int) -> list[Gate]:
    """U on the first n of 2n qubits and conj(U) on the last n: U rho U^dagger for rho's entries in rows."""
    ones = primitives_of(gate)
    ket, bra = as_gates(ones), as_gates(conjugated(one) for one in ones)
    moved = [
        replace(each, qubits=_plus(each.qubits, num_qubits), controls=_plus(each.controls, num_qubits)) for each in bra
    ]
    return ket + moved


def _plus(qubits: tuple[int, ...], by: int) -> tuple[int, ...]:
    return tuple(q + by for q in qubits)


@dataclass(frozen=True, eq=False)
class Unshared:
    """A circuit each of whose angles is a separate parameter, `angle` [K], and how these are the original's.

    circuit   in gates of two eigenvalues that differ by 1;    columns, factors, offsets  [K]: angle k is
              factors[k] * row[columns[k]] + offsets[k] of a row of the original's parameters
    """

    circuit: Circuit
    columns: Array
    factors: Array
    offsets: Array

    def angles(self, rows: Array) -> Array:
        """Rows of the original's parameters [B, P] -> [B, K]."""
        return rows[:, self.columns] * self.factors + self.offsets

    def vjp(self, slopes: Array, parameters: int) -> Array:
        """Derivatives by angle [B, K] -> by parameter [B, P]."""
        made = np.zeros((len(slopes), parameters))
        np.add.at(made.T, self.columns, (slopes * self.factors).T)
        return made


def unshared(circuit: Circuit) -> Unshared:
    """The same circuit with every use of a parameter apart, as angles that obey the two-term shift rule."""
    places, uses = circuit.columns(), list[tuple[int, float, float]]()
    gates = []
    for gate in circuit.gates:
        if gate.kind in INSTRUCTIONS:
            gates.append(gate)
            continue
        for each in as_gates(primitives_of(gate)):
            for angle in each.angles:
                if angle.parameter is not None:
                    each = replace(each, angles=(Angle("angle", len(uses)),))
                    uses.append((places[angle.parameter, angle.index], angle.factor, angle.offset))
            gates.append(replace(each, condition=gate.condition))
    made = Circuit(circuit.num_qubits, circuit.num_bits)
    if uses:
        made.parameter("angle", (len(uses),))
    for gate in gates:
        made.add(gate)
    rows = np.array(uses, np.float64).reshape(-1, 3)
    return Unshared(made, rows[:, 0].astype(np.int64), rows[:, 1], rows[:, 2])

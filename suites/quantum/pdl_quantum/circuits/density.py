"""Density matrices on the state-vector engine: circuits with noise, measurements and conditions, on average.

rho of n qubits is a vector of 2n qubits, its entries in rows: a gate U acts as U on the first n and conj(U) on the last
n, a channel as the matrix sum_k K x conj(K) over its qubits on both sides (Nielsen & Chuang, chapter 8). So rho takes
the memory and the time of a state of 2n qubits.

A measurement whose bit no condition reads only takes its qubit's coherences. Where a condition does read it, rho splits
into a part for each value of the bits, and these join again behind the last gate that asks: conditions cost parts, and
the result is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.kernels import statevector as kernels
from pdl_quantum.circuits.bits import last_measurements, live_behind
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import Gate
from pdl_quantum.circuits.lowering import on_both_sides
from pdl_quantum.circuits.paulis import PauliSum

Array = np.ndarray
MOST_QUBITS, MOST_BITS = 15, 24
DEPHASE = np.diag([1.0, 0, 0, 1]).astype(complex)
RESET = np.zeros((4, 4), complex)
RESET[0, 0] = RESET[0, 3] = 1


def density(circuit: Circuit, values: Any = None, *, initial: Any = None, dtype: Any = np.complex128) -> Array:
    """The density matrices [B, 2^n, 2^n] that a circuit makes of |0...0>, or of `initial`, on average over all that is
    drawn in it.

    initial   a state [2^n], or density matrices [2^n, 2^n] or [B, 2^n, 2^n]
    """
    rows = circuit.row(values)
    parts = evolve(circuit, rows, _start(circuit.num_qubits, len(rows), initial, dtype))
    size = 1 << circuit.num_qubits
    made: Array = sum(parts.values()).reshape(-1, size, size)  # type: ignore[union-attr]
    return made


def density_expectations(circuit: Circuit, observable: PauliSum, values: Any = None, *, initial: Any = None) -> Array:
    """tr(H rho) of `density`, float64 [B]: what `expectations` is for circuits of gates alone."""
    return mixed_expectation(density(circuit, values, initial=initial), observable)


def bit_probabilities(circuit: Circuit, values: Any = None, *, initial: Any = None) -> Array:
    """The probability of every record of the classical bits, float64 [B, 2^num_bits], bit 0 the most significant of
    the index: what `run` draws from. A record of measurements before others is a part of its own: for few of these."""
    if not circuit.num_bits:
        raise UsageError("bit_probabilities: the circuit measures nothing; add measure(qubit, bit)")
    if circuit.num_bits > MOST_BITS:
        raise UsageError(f"bit_probabilities: {circuit.num_bits} bits have too many records; give up to {MOST_BITS}, "
                         "or play shots with run")  # fmt: skip
    rows, n, size = circuit.row(values), circuit.num_qubits, 1 << circuit.num_qubits
    first, last = _apart(circuit)
    parts = evolve(first, rows, _start(n, len(rows), initial, np.complex128), keep=range(circuit.num_bits))
    made = np.zeros((len(next(iter(parts.values()))), 1 << circuit.num_bits))
    index, weights = np.arange(size), [1 << (circuit.num_bits - 1 - bit) for bit in range(circuit.num_bits)]
    for ones, rho in parts.items():
        place = np.full(size, sum(weights[bit] for bit in ones))
        for gate in last:
            value = index >> (n - 1 - gate.qubits[0]) & 1
            place = place & ~weights[gate.bits[0]] | value * weights[gate.bits[0]]
        np.add.at(made.T, place, rho[:, :: size + 1].real.T)
    for gate in last:
        if gate.about is not None:
            cube = made.reshape(len(made), 1 << gate.bits[0], 2, -1)
            made = np.einsum("batc,tr->barc", cube, gate.about).reshape(made.shape)
    return made


def _apart(circuit: Circuit) -> tuple[Circuit, list[Gate]]:
    """(the circuit without the measurements that may wait, these), made once."""
    if "apart" not in circuit.made_once:
        rest, last = last_measurements(circuit)
        first = circuit.copy()
        first.gates = rest
        circuit.made_once["apart"] = first, last
    found: tuple[Circuit, list[Gate]] = circuit.made_once["apart"]
    return found


def mixed_expectation(rho: Array, observable: PauliSum) -> Array:
    """tr(H rho) of density matrices [2^n, 2^n] or [B, 2^n, 2^n], float64 [B]."""
    if not observable.hermitian:
        raise UsageError("an expectation asks for real coefficients; this sum has others")
    held = np.asarray(rho)
    held = held[None] if held.ndim == 2 else held
    n = observable.num_qubits
    if held.shape[1:] != (1 << n, 1 << n):
        raise UsageError(f"density matrices {np.shape(rho)}, and a sum on {n} qubits")
    index, total = np.arange(1 << n), np.zeros(len(held))
    across: dict[int, Array] = {}
    for word, factor in observable.terms.items():
        flips = sum(1 << (n - 1 - q) for q, letter in enumerate(word) if letter in "XY")
        signs = sum(1 << (n - 1 - q) for q, letter in enumerate(word) if letter in "YZ")
        if flips not in across:
            across[flips] = held[:, index, index ^ flips]
        odd = np.bitwise_count(index & signs) & 1
        total += (complex(factor).real * 1j ** word.count("Y") * (across[flips] @ (1.0 - 2.0 * odd))).real
    return total


def density_of(states: Array) -> Array:
    """|z><z| of states [2^n] or [B, 2^n]."""
    z = np.atleast_2d(np.asarray(states))
    made = z[:, :, None] * z[:, None, :].conj()
    return made[0] if np.ndim(states) == 1 else made


# -- steps -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Step:
    """What is done to the parts whose bits meet a condition.

    gates   on 2n qubits, or None;    measure  the measurement of a bit that is asked for, or None
    live    the bits that are asked for behind it
    """

    condition: tuple[tuple[int, int], ...]
    gates: Circuit | None
    measure: Gate | None
    live: frozenset[int]


def evolve(circuit: Circuit, rows: Array, rho: Array, keep: Iterable[int] = ()) -> dict[frozenset[int], Array]:
    """{bits that are 1: part of rho [B, 4^n], not normalised} behind a circuit; of the bits `keep` alone."""
    parts = {frozenset[int](): rho}
    for step in _steps(circuit, frozenset(keep)):
        made: dict[frozenset[int], Array] = {}
        for ones, part in parts.items():
            if any((bit in ones) != bool(value) for bit, value in step.condition):
                _join(made, ones & step.live, part)
            elif step.measure is not None:
                for read, piece in _measured(part, step.measure, circuit.num_qubits):
                    bit = step.measure.bits[0]
                    _join(made, ((ones | {bit}) if read else (ones - {bit})) & step.live, piece)
            else:
                assert step.gates is not None
                program = step.gates.compiled()
                kernels.run(part, program.stream, program.bind(rows))
                _join(made, ones & step.live, part)
        parts = made
    return parts


def _join(parts: dict[frozenset[int], Array], ones: frozenset[int], part: Array) -> None:
    if ones in parts:
        parts[ones] += part
    else:
        parts[ones] = part


def _measured(rho: Array, gate: Gate, n: int) -> Iterable[tuple[int, Array]]:
    """(value read, part of rho), where there is something."""
    q = gate.qubits[0]
    shape = (len(rho), 1 << q, 2, 1 << (n - 1 - q), 1 << q, 2, 1 << (n - 1 - q))
    confusion = np.eye(2) if gate.about is None else gate.about
    for read in (0, 1):
        made = np.zeros(shape, rho.dtype)
        for true in (0, 1):
            if confusion[true, read]:
                block = rho.reshape(shape)[:, :, true, :, :, true, :]
                made[:, :, true, :, :, true, :] = confusion[true, read] * block
        if made.any():
            yield read, made.reshape(rho.shape)


def _steps(circuit: Circuit, keep: frozenset[int]) -> list[Step]:
    """A circuit's steps, made once."""
    name = f"density {sorted(keep)}"
    if name not in circuit.made_once:
        circuit.made_once[name] = _plan(circuit, keep)
    found: list[Step] = circuit.made_once[name]
    return found


def _plan(circuit: Circuit, keep: frozenset[int]) -> list[Step]:
    behind = live_behind(circuit.gates, keep)
    steps, held = list[Step](), list[Gate]()
    condition: tuple[tuple[int, int], ...] = ()
    alive = keep

    def close() -> None:
        if held:
            steps.append(Step(condition, _doubled(held, circuit), None, alive))
            held.clear()

    for gate, after in zip(circuit.gates, behind, strict=True):
        split = gate.kind == "measure" and gate.bits[0] in after
        if split or gate.condition != condition:
            close()
            condition = gate.condition
        alive = after
        if split:
            steps.append(Step(condition, None, gate, after))
        elif gate.kind != "barrier":
            held.append(gate)
    close()
    return steps


def _doubled(gates: list[Gate], circuit: Circuit) -> Circuit:
    """Gates and channels as gates on 2n qubits."""
    n = circuit.num_qubits
    made = Circuit(2 * n)
    made.parameters = dict(circuit.parameters)
    for gate in gates:
        if gate.kind in ("measure", "reset", "channel"):
            matrix = {"measure": DEPHASE, "reset": RESET}.get(gate.kind)
            both = (*gate.qubits, *(q + n for q in gate.qubits))
            made.add(Gate("unitary", both, about=gate.about.superoperator if matrix is None else matrix))
        else:
            for each in on_both_sides(gate, n):
                made.add(each)
    return made


def _start(n: int, batch: int, initial: Any, dtype: Any) -> Array:
    if n > MOST_QUBITS:
        raise UsageError(f"a density matrix of {n} qubits has 4^{n} entries; give up to {MOST_QUBITS}, or play shots "
                         "with run")  # fmt: skip
    size = 1 << n
    if initial is None:
        made = np.zeros((batch, size * size), dtype)
        made[:, 0] = 1
        return made
    given = np.asarray(initial)
    if given.shape == (size,):
        given = density_of(given)
    batched = given.ndim == 3
    if given.shape[batched:] != (size, size) or (batched and len(given) != batch and len(given) > 1 < batch):
        raise UsageError(f"an initial density matrix {np.shape(initial)} for {n} qubits and {batch} rows of "
                         f"parameters; give a state of {size} amplitudes, or {size} rows and columns")  # fmt: skip
    flat = given.reshape(-1, size * size)
    return np.array(np.broadcast_to(flat, (max(batch, len(flat)), size * size)), dtype, order="C")

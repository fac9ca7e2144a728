"""What quantum trajectories are made of: stretches of gates, and events that turn one state into one of several.

A stretch is a program of the engine. Channels whose operators are products of Pauli matrices belong to it: which of
them happens depends on no state, so it is drawn before, and X and Z become rotations by 0 or pi, angles of each
trajectory's own in a program that all of them share. All else is an `Event`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.kernels import statevector as kernels
from pdl_quantum.circuits.bits import last_measurements, live_behind
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import Gate
from pdl_quantum.circuits.lowering import as_gates, primitives_of

Array = np.ndarray
BLOCK = 1 << 14
"""Shots that are simulated together."""
RESET = np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]], complex)
PROJECTORS = np.array([np.diag([1, 0]), np.diag([0, 1])], complex)


@dataclass(eq=False)
class Block:
    """Shots number * BLOCK to number * BLOCK + count: their random numbers and records.

    A number is a function of the seed, the shot and the event alone, however many shots there are.
    """

    seed: int
    number: int
    count: int
    bits: Array
    held: dict[Any, Array] = field(default_factory=dict)

    def uniform(self, event: int, part: int = 0) -> Array:
        """One number in [0, 1) for each shot."""
        return self.once((event, part), lambda: np.random.default_rng(
            [self.seed, self.number, event, part]).random(self.count))  # fmt: skip

    def once(self, key: Any, make: Callable[[], Array]) -> Array:
        """Arrays made once for the block."""
        if key not in self.held:
            self.held[key] = make()
        return self.held[key]

    def read(self, true: Array, shots: Array, gate: Gate, event: int) -> Array:
        """What a measurement reads where the qubit is `true`."""
        if gate.about is None:
            return true
        wrong = np.where(true == 1, gate.about[1, 0], gate.about[0, 1])
        return true ^ (self.uniform(event, 1)[shots] < wrong).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Choice:
    """Pauli errors of one channel: `ends` [K - 1] of the probabilities of its words, and the angles of each [K, A]."""

    event: int
    ends: Array
    angles: Array


@dataclass(eq=False)
class Stretch:
    """Gates and Pauli errors as one program, whose parameters are the circuit's and the errors' angles."""

    condition: tuple[tuple[int, int], ...]
    circuit: Circuit
    choices: list[Choice]
    bound: tuple[Array, Array] | None = None  # (a row of parameters, the program's values for it)

    def choose(self, block: Block, states: Array, own: Array, shots: Array) -> tuple[Array, Array | None]:
        """(what happens to each shot [S, choices], None)."""

        def draw() -> Array:
            made = np.empty((block.count, len(self.choices)), np.uint8)
            for k, choice in enumerate(self.choices):
                made[:, k] = np.searchsorted(choice.ends, block.uniform(choice.event), side="right")
                del block.held[choice.event, 0]
            return made

        return block.once(id(self), draw)[shots], None

    def apply(self, states: Array, chosen: Array, weights: Array | None, row: Array) -> None:
        """Run the program on states in place, each with its own errors."""
        program = self.circuit.compiled()
        if self.choices:
            angles = [choice.angles[chosen[:, k]] for k, choice in enumerate(self.choices)]
            rows = np.concatenate([np.broadcast_to(row, (len(states), row.shape[1])), *angles], axis=1)
            kernels.run(states, program.stream, program.bind(rows))
            return
        if self.bound is None or self.bound[0] is not row:
            self.bound = row, program.bind(row)
        kernels.run(states, program.stream, self.bound[1])

    def record(self, block: Block, shots: Array, chosen: Array) -> None:
        """Nothing."""


@dataclass(eq=False)
class Event:
    """One of several operators, each with the probability <z|K^dagger K|z>: a channel, a reset, a measurement.

    measure  where bits are to be written;    split  whether a condition reads that bit later: shots that read different
    values part even where the qubit was the same
    """

    condition: tuple[tuple[int, int], ...]
    qubits: tuple[int, ...]
    kraus: Array
    number: int
    measure: Gate | None = None
    split: bool = False

    def choose(self, block: Block, states: Array, own: Array, shots: Array) -> tuple[Array, Array | None]:
        """(the operator of each shot [S, 1], and what is read [S, 2] if that matters; probabilities [N, K])."""
        effects = np.einsum("kji,kjl->kil", self.kraus.conj(), self.kraus)
        weights = np.einsum("kij,nji->nk", effects, reduced(states, self.qubits, diagonal(effects))).real.clip(0)
        ends = np.cumsum(weights, 1)
        draws = np.minimum(block.uniform(self.number)[shots] * ends[own, -1], np.nextafter(ends[own, -1], 0))
        found = (draws[:, None] >= ends[own, :-1]).sum(1).astype(np.uint8)
        columns = [found]
        if self.split and self.measure is not None:
            columns.append(block.read(found, shots, self.measure, self.number))
        return np.stack(columns, 1), weights / ends[:, -1:]

    def apply(self, states: Array, chosen: Array, weights: Array | None, row: Array) -> None:
        """The operators on states in place; `weights` [N], the probability of each, brings them back to norm 1."""
        assert weights is not None
        transform(states, self.qubits, self.kraus[chosen[:, 0]] / np.sqrt(weights)[:, None, None])

    def record(self, block: Block, shots: Array, chosen: Array) -> None:
        """Write the bit of each shot."""
        if self.measure is not None:
            block.bits[shots, self.measure.bits[0]] = block.read(chosen[:, 0], shots, self.measure, self.number)


Step = Stretch | Event


@dataclass(frozen=True, eq=False)
class Plan:
    """A circuit's steps, and the measurements behind all of them; `events` is the first number that no step uses."""

    steps: list[Step]
    last: list[Gate]
    events: int


def plan_of(circuit: Circuit) -> Plan:
    """The plan of a circuit, made once."""
    if "trajectories" not in circuit.made_once:
        circuit.made_once["trajectories"] = _plan(circuit)
    found: Plan = circuit.made_once["trajectories"]
    return found


def _plan(circuit: Circuit) -> Plan:
    gates, last = last_measurements(circuit)
    steps, held = list[Step](), list[tuple[int, Gate]]()
    for number, (gate, live) in enumerate(zip(gates, live_behind(gates), strict=True)):
        pauli = gate.kind == "channel" and gate.about.paulis
        event = gate.kind in ("measure", "reset", "channel") and not pauli
        if held and (event or gate.condition != held[0][1].condition):
            steps.append(_stretch(held, circuit))
            held = []
        if not event:
            held.append((number, gate))
        elif gate.kind == "measure":
            split = gate.bits[0] in live
            steps.append(Event(gate.condition, gate.qubits, PROJECTORS, number, gate, split))
        else:
            kraus = RESET if gate.kind == "reset" else gate.about.kraus
            steps.append(Event(gate.condition, gate.qubits, kraus, number))
    if held:
        steps.append(_stretch(held, circuit))
    return Plan(steps, last, len(gates))


def _stretch(held: list[tuple[int, Gate]], circuit: Circuit) -> Stretch:
    made, choices = Circuit(circuit.num_qubits), list[Choice]()
    made.parameters = dict(circuit.parameters)
    name = "error"
    while name in made.parameters:
        name += "_"
    turns: list[tuple[int, str]] = []  # (qubit, axis) of every angle
    for _, gate in held:
        if gate.kind == "channel":
            turns += _turns(gate)
    errors = made.parameter(name, (len(turns),)).angles if turns else None
    at = 0
    for number, gate in held:
        if gate.kind != "channel":
            for each in as_gates(primitives_of(gate)):
                made.add(each)
            continue
        own = _turns(gate)
        for qubit, axis in own:
            made.gate(f"r{axis}", errors[at], qubit)  # type: ignore[index]
            at += 1
        choices.append(_choice(number, gate, own))
    return Stretch(held[0][1].condition, made, choices)


def _turns(gate: Gate) -> list[tuple[int, str]]:
    """(qubit, axis) of the rotations that a channel's words need: X, Z, and both for Y."""
    return [
        (qubit, axis)
        for place, qubit in enumerate(gate.qubits)
        for axis in "xz"
        if any(word[place] in ("X", "Y") if axis == "x" else word[place] in ("Z", "Y") for word in gate.about.paulis)
    ]


def _choice(number: int, gate: Gate, turns: list[tuple[int, str]]) -> Choice:
    words: Mapping[str, float] = gate.about.paulis
    angles = np.zeros((len(words), len(turns)))
    for k, word in enumerate(words):
        for a, (qubit, axis) in enumerate(turns):
            if word[gate.qubits.index(qubit)] in ("Y", axis.upper()):
                angles[k, a] = np.pi
    return Choice(number, np.cumsum(list(words.values()))[:-1], angles)


# -- on states ---------------------------------------------------------------------------------------------------------
def diagonal(matrices: Array) -> bool:
    """Whether all of [K, d, d] are."""
    return not np.any(matrices * (1 - np.eye(matrices.shape[-1])))


def reduced(states: Array, qubits: tuple[int, ...], populations: bool) -> Array:
    """The density matrices [N, d, d] of some qubits of states [N, 2^n]; `populations`: their diagonals alone."""
    n = states.shape[1].bit_length() - 1
    if populations and len(qubits) == 1:
        parts = states.view(states.real.dtype).reshape(len(states), 1 << qubits[0], 2, -1)
        made = np.zeros((len(states), 2, 2))
        for value in (0, 1):
            half = parts[:, :, value]
            made[:, value, value] = np.einsum("nij,nij->n", half, half)
        return made
    moved = _in_front(states, qubits, n)
    return moved @ moved.conj().swapaxes(1, 2)


def transform(states: Array, qubits: tuple[int, ...], matrices: Array) -> None:
    """A matrix [d, d] for each of the states [N, 2^n], in place."""
    n, k = states.shape[1].bit_length() - 1, len(qubits)
    rows = np.arange(len(states))
    if k == 1:  # most are diagonal: products in place; the others are written over them
        rows = np.flatnonzero(np.abs(matrices[:, [0, 1], [1, 0]]).max(1) > 0)
    kept = states[rows]
    if k == 1:
        factors = matrices[:, [0, 1], [0, 1]][:, None, :, None].astype(states.dtype)
        cube = states.reshape(len(states), 1 << qubits[0], 2, -1)
        cube *= factors if factors.imag.any() else factors.real
    if len(rows):
        moved = matrices[rows].astype(states.dtype) @ _in_front(kept, qubits, n)
        back = np.moveaxis(moved.reshape((len(rows),) + (2,) * n), range(1, k + 1), [q + 1 for q in qubits])
        states[rows] = back.reshape(len(rows), -1)


def _in_front(states: Array, qubits: tuple[int, ...], n: int) -> Array:
    """[N, 2^n] -> [N, 2^k, 2^(n-k)], the qubits in front."""
    k = len(qubits)
    cube = states.reshape((len(states),) + (2,) * n)
    return np.moveaxis(cube, [q + 1 for q in qubits], range(1, k + 1)).reshape(len(states), 1 << k, -1)

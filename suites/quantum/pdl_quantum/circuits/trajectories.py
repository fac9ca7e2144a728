"""Circuits played shot by shot: measurements, resets, conditions, and noise by quantum trajectories.

A shot follows one state; at a channel one of its operators K is drawn with the probability <z|K^dagger K|z> and the
state becomes K z, normalised (the Monte Carlo wave function method: Dalibard, Castin & Molmer, Phys. Rev. Lett. 68,
580, 1992). On average that is the density matrix, for 2^n amplitudes instead of 4^n.

Shots that have met the same fate so far share one state, so what is in front of the first event runs once, and a tree
of states grows from there, as many side by side as a cache holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.density import bit_probabilities
from pdl_quantum.circuits.noise import NoiseModel, noisy
from pdl_quantum.circuits.simulate import start
from pdl_quantum.circuits.trajectory_steps import BLOCK, RESET, Block, Event, Plan, Stretch, plan_of

Array = np.ndarray
CACHE = 1 << 16
"""Amplitudes of the states that are played side by side: 1 MB of complex128."""
MIXED = 10
"""Qubits up to which a density matrix is cheaper than thousands of states."""


@dataclass(frozen=True, eq=False)
class Shots:
    """What was read.    bits  uint8 [shots, num_bits], in the order of the shots"""

    bits: Array

    def __len__(self) -> int:
        return len(self.bits)

    def indices(self) -> Array:
        """Every shot's bits as a number, bit 0 the most significant, int64 [shots]; for up to 63 bits."""
        made = np.zeros(len(self.bits), np.int64)
        for column in self.bits.T:
            made = made << 1 | column
        return made

    def counts(self) -> dict[str, int]:
        """{record: shots}, bit 0 first, the most frequent in front."""
        records, times = np.unique(self.bits, axis=0, return_counts=True)
        order = np.argsort(-times, kind="stable")
        return {"".join(map(str, records[k].tolist())): int(times[k]) for k in order}

    def __repr__(self) -> str:
        shown = ", ".join(f"{record}: {times}" for record, times in list(self.counts().items())[:6])
        return f"Shots({len(self)}: {shown}{', ...' if len(self.counts()) > 6 else ''})"


def run(
    circuit: Circuit, shots: int, values: Any = None, *, seed: int = 0, noise: NoiseModel | None = None,
    initial: Any = None, method: str = "auto", dtype: Any = np.complex128,
) -> Shots:  # fmt: skip
    """Play a circuit a number of times.

        run(Circuit(2).h(0).cx(0, 1).measure_all(), 1000).counts()      # {"00": 503, "11": 497}

    values    one row of parameters;    initial  a state [2^n] instead of |0...0>
    noise     a model whose channels and readout errors are put in first
    seed      what a shot meets is a function of the seed and its number: a run of more shots begins with those of a
              shorter one
    method    "trajectories"; "density" draws records from the density matrix' probabilities; "auto" does that where it
              is faster: for up to 10 qubits with channels that are no Pauli words, and no measurement before others

    Errors: UsageError for a circuit that measures nothing, or for a batch of parameters.
    """
    if noise is not None:
        circuit = noisy(circuit, noise)
    if not any(gate.kind == "measure" for gate in circuit.gates):
        raise UsageError("run: the circuit measures nothing; add measure(qubit, bit) or measure_all()")
    if shots < 0 or seed < 0:
        raise UsageError(f"run: {shots} shots with the seed {seed}; give 0 or more")
    row = circuit.row(values)
    state = start(circuit.num_qubits, len(row), initial, dtype)
    if len(state) != 1:
        raise UsageError(f"run: a batch of {len(state)}; give one row of parameters and one initial state")
    if method not in ("auto", "trajectories", "density"):
        raise UsageError(f"run: there is no method {method!r}; give auto, trajectories or density")
    if method == "density" or (method == "auto" and _cheap_as_density(circuit)):
        return _sampled(circuit, row, shots, seed, initial)
    bits = np.zeros((shots, circuit.num_bits), np.uint8)
    player = _Player(plan_of(circuit), row, circuit.num_qubits)
    first = player.prefix(state)
    for number, begin in enumerate(range(0, shots, BLOCK)):
        part = bits[begin : begin + BLOCK]
        player.play(Block(seed, number, len(part), part), first, state)
    return Shots(bits)


def _cheap_as_density(circuit: Circuit) -> bool:
    if circuit.num_qubits > MIXED or circuit.num_bits > 2 * MIXED or any(gate.condition for gate in circuit.gates):
        return False
    events = [step for step in plan_of(circuit).steps if isinstance(step, Event)]
    return any(event.kraus is not RESET for event in events) and all(event.measure is None for event in events)


def _sampled(circuit: Circuit, row: Array, shots: int, seed: int, initial: Any) -> Shots:
    """Records sampled from their probabilities."""
    ends = np.cumsum(bit_probabilities(circuit, row, initial=initial)[0])
    bits = np.zeros((shots, circuit.num_bits), np.uint8)
    for number, begin in enumerate(range(0, shots, BLOCK)):
        part = bits[begin : begin + BLOCK]
        draws = Block(seed, number, len(part), part).uniform(len(circuit.gates))
        found = np.searchsorted(ends, np.minimum(draws * ends[-1], np.nextafter(ends[-1], 0)), side="right")
        part[:] = found[:, None] >> np.arange(circuit.num_bits)[::-1] & 1
    return Shots(bits)


@dataclass(eq=False)
class _Nodes:
    """States at a step, and the shots that share them.

    states  [N, 2^n], also of others;    own  [S], the state of each;    shots  [S], numbers in the block
    """

    position: int
    states: Array
    own: Array
    shots: Array


class _Player:
    def __init__(self, plan: Plan, row: Array, n: int) -> None:
        self.plan, self.row, self.n = plan, row, n
        self.most = max(1, CACHE >> n)
        self.begin: Array | None = None  # the state in front of the first event
        self.kept: tuple[Array, Array] | None = None

    def prefix(self, state: Array) -> int:
        """Run what is in front of the first event, in place; its position."""
        self.begin = state
        for position, step in enumerate(self.plan.steps):
            if not isinstance(step, Stretch) or step.choices:
                return position
            if not any(value for _, value in step.condition):  # all bits are 0
                step.apply(state, np.zeros((1, 0), np.uint8), None, self.row)
        return len(self.plan.steps)

    def play(self, block: Block, first: int, state: Array) -> None:
        """Write the bits of a block's shots. Of parts that do not fit side by side the one with the fewest shots goes
        first, so that few wait: each is at most half of what was."""
        shots = np.arange(block.count)
        stack = [_Nodes(first, state, np.zeros(block.count, np.int64), shots)]
        while stack:
            nodes: _Nodes | None = stack.pop()
            while nodes is not None and nodes.position < len(self.plan.steps):
                nodes = self.step(block, nodes, stack)
            if nodes is not None:
                self.finish(block, nodes)

    def step(self, block: Block, nodes: _Nodes, stack: list[_Nodes]) -> _Nodes | None:
        """The nodes behind a step, or None where they went to the stack in parts."""
        step, position = self.plan.steps[nodes.position], nodes.position + 1
        rows, own = np.unique(nodes.own, return_inverse=True)
        states = nodes.states if len(rows) == len(nodes.states) else nodes.states[rows]
        active = np.ones(len(own), bool)
        for bit, value in step.condition:
            active &= block.bits[nodes.shots, bit] == value
        if not active.any():
            return _Nodes(position, states, own, nodes.shots)
        chosen, weights = step.choose(block, states, own, nodes.shots)
        chosen[~active] = 0  # all shots of a state agree, and the state stays
        lead, child = _grouped(own, chosen)
        if len(lead) > self.most and len(lead) > 1:
            for part in _parts(child, len(lead), self.most):
                stack.append(_Nodes(nodes.position, states, own[part], nodes.shots[part]))
            return None
        made = states[own[lead]]
        moving = np.flatnonzero(active[lead])
        acting = made if len(moving) == len(made) else made[moving]
        picked = chosen[lead[moving]]
        scale = None if weights is None else weights[own[lead[moving]], picked[:, 0]]
        step.apply(acting, picked, scale, self.row)
        if acting is not made:
            made[moving] = acting
        step.record(block, nodes.shots[active], chosen[active])
        return _Nodes(position, made, child, nodes.shots)

    def finish(self, block: Block, nodes: _Nodes) -> None:
        """Draw all measurements that waited for the end at once."""
        if not self.plan.last:
            return
        rows, own = np.unique(nodes.own, return_inverse=True)
        qubits = sorted({gate.qubits[0] for gate in self.plan.last})
        ends = self.ends(nodes.states, rows, qubits)
        size = 1 << len(qubits)
        begin = np.concatenate([[0.0], ends[size - 1 :: size]])
        draws = block.uniform(self.plan.events)[nodes.shots]
        goal = np.minimum(begin[own] + draws * (begin[own + 1] - begin[own]), np.nextafter(begin[own + 1], 0))
        found = np.searchsorted(ends, goal, side="right")
        found = np.clip(found - own * size, 0, size - 1)
        for k, gate in enumerate(self.plan.last):
            place = len(qubits) - 1 - qubits.index(gate.qubits[0])
            true = (found >> place & 1).astype(np.uint8)
            block.bits[nodes.shots, gate.bits[0]] = block.read(true, nodes.shots, gate, self.plan.events + 1 + k)


    def ends(self, states: Array, rows: Array, qubits: list[int]) -> Array:
        """The sums of the probabilities of the qubits' values, those of all states in a row: the search is one. They
        are kept for the next block where no event came before."""
        if self.kept is not None and self.kept[0] is states:
            return self.kept[1]
        chosen = states if len(rows) == len(states) else states[rows]
        chances = chosen.real.astype(np.float64) ** 2
        chances += chosen.imag.astype(np.float64) ** 2
        others = tuple(q + 1 for q in range(self.n) if q not in qubits)
        made = np.cumsum(chances.reshape((len(rows),) + (2,) * self.n).sum(others))
        if states is self.begin:
            self.kept = states, made
        return made


def _grouped(own: Array, chosen: Array) -> tuple[Array, Array]:
    """(one shot of each group [G], the group of every shot [S]) of shots with one state and one choice."""
    if not chosen.any():
        _, lead, child = np.unique(own, return_index=True, return_inverse=True)
        return lead, child
    keys = np.concatenate([own.astype(">u4").view(np.uint8).reshape(len(own), 4), chosen], axis=1)
    _, lead, child = np.unique(
        np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel(),
        return_index=True, return_inverse=True,
    )  # fmt: skip
    return lead, child


def _parts(child: Array, groups: int, most: int) -> list[Array]:
    """The shots of at most so many groups each, the groups with the most shots first."""
    order = np.argsort(-np.bincount(child, minlength=groups), kind="stable")
    rank = np.empty(groups, np.int64)
    rank[order] = np.arange(groups) // most
    part = rank[child]
    by = np.argsort(part, kind="stable")
    return np.split(by, np.flatnonzero(np.diff(part[by])) + 1)

"""The quantum approximate optimisation algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.templates.patterns import require_count
from pdl_quantum.templates.words import require_hermitian, turn_word


@part
def qaoa(
    cost: PauliSum,
    layers: Annotated[int, Range(1)],
    *,
    mixer: Literal["x", "xy"] | PauliSum = "x",
    groups: Sequence[Sequence[int]] | None = None,
    initial: Circuit | None = None,
) -> Circuit:
    """exp(-i beta_p B) exp(-i gamma_p C) ... exp(-i beta_1 B) exp(-i gamma_1 C) on the initial state (Farhi, Goldstone,
    Gutmann, arXiv 1411.4028).

    cost      C, of I and Z alone; its constant, a phase common to all amplitudes, is left out
    mixer     B: "x", the sum of X; "xy", the sum of (XX + YY)/2 over neighbours in the ring of each group, even pairs,
              odd pairs, then that of the ends, which keeps how many of a group are 1 (Hadfield et al., arXiv
              1709.03489); or a sum of words that commute
    groups    of "xy": the qubits of each; by default one of all
    initial   by default H on every qubit; with "xy" the equal superposition of what has one 1 in each group

    Parameters: gamma [layers], beta [layers]. Errors: UsageError for a cost with X or Y, a mixer whose words do not
    commute, groups that overlap.
    """
    require_count("qaoa", layers=layers)
    n = require_hermitian("qaoa", "cost", cost).num_qubits
    strange = next((word for word in cost.terms if set(word) - set("IZ")), None)
    if strange is not None:
        raise UsageError(f"qaoa: the cost has the term {strange}; it must be of I and Z alone")
    rings = _groups(groups, n) if mixer == "xy" else []
    circuit = Circuit(n)
    gamma, beta = circuit.parameter("gamma", (layers,)), circuit.parameter("beta", (layers,))
    circuit.append(_start(n, rings) if initial is None else initial)
    for layer in range(layers):
        _evolve(circuit, cost, gamma[layer])
        if isinstance(mixer, PauliSum):
            _evolve(circuit, _commuting(mixer, n), beta[layer])
        elif mixer == "x":
            circuit.rx(2 * beta[layer])
        elif mixer == "xy":
            for a, b in (pair for ring in rings for pair in _ring(ring)):
                circuit.rxx(beta[layer], a, b).ryy(beta[layer], a, b)
        else:
            raise UsageError(f"qaoa: mixer {mixer!r}; give 'x', 'xy' or a PauliSum")
    return circuit


@part
def w_state(num_qubits: int) -> Circuit:
    """(|10...0> + |01...0> + ... + |0...01>) / sqrt n of |0...0>, by rotations that hand on what is left."""
    circuit = Circuit(num_qubits).x(0)
    for k in range(num_qubits - 1):
        circuit.cry(2 * np.arccos((num_qubits - k) ** -0.5), k, k + 1).cx(k + 1, k)
    return circuit


def _start(n: int, rings: Sequence[Sequence[int]]) -> Circuit:
    if not rings:
        return Circuit(n).h()
    circuit = Circuit(n)
    for ring in rings:
        circuit.append(w_state(len(ring)), ring)
    return circuit


def _evolve(circuit: Circuit, hamiltonian: PauliSum, angle: Any) -> None:
    for word, factor in hamiltonian.terms.items():
        if set(word) != {"I"}:
            turn_word(circuit, word, angle * (2 * complex(factor).real))


def _ring(ring: Sequence[int]) -> list[tuple[int, int]]:
    """Its neighbours: pairs from the first on, from the second on, and the ends."""
    line = list(pairwise(ring))
    return line[::2] + line[1::2] + ([(ring[-1], ring[0])] if len(ring) > 2 else [])


def _groups(groups: Sequence[Sequence[int]] | None, n: int) -> list[list[int]]:
    parts = [list(range(n))] if groups is None else [[int(q) for q in group] for group in groups]
    flat = [q for group in parts for q in group]
    if not all(parts) or len(set(flat)) < len(flat) or not set(flat) <= set(range(n)):
        raise UsageError(f"qaoa: groups {parts}; each qubit from 0 to {n - 1} may stand in one of them, once")
    return parts


def _commuting(mixer: PauliSum, n: int) -> PauliSum:
    require_hermitian("qaoa", "mixer", mixer)
    if mixer.num_qubits != n:
        raise UsageError(f"qaoa: a mixer of {mixer.num_qubits} qubits for a cost of {n}")
    words = list(mixer.terms)
    for place, a in enumerate(words):
        for b in words[:place]:
            if sum(x != y and "I" not in (x, y) for x, y in zip(a, b, strict=True)) % 2:
                raise UsageError(f"qaoa: {b} and {a} of the mixer do not commute; a product of their exponentials is "
                                 "not that of their sum")  # fmt: skip
    return mixer

"""Max-Cut: part the nodes of a graph in two so that the edges between both weigh most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from pdl_quantum.circuits import PauliSum
from pdl_quantum.problems.base import BinaryProblem
from pdl_quantum.problems.edges import Edges
from pdl_quantum.problems.search import greedy, local_search

Array = np.ndarray


class MaxCut(BinaryProblem):
    """The largest cut of a graph. Node q is qubit q, its bit the side it is on.

        MaxCut([(0, 1), (1, 2), (2, 0)])

    H = sum of w_ab Z_a Z_b over the edges, which is the weight that is not cut less that which is: cut = (W - H) / 2,
    W the weight of all.
    """

    measure: ClassVar[str] = "cut"
    expected: ClassVar[str | None] = "cut"
    sense: ClassVar[Literal["min", "max"]] = "max"

    def __init__(self, graph: Edges | Iterable[Sequence[Any]], n: int | None = None) -> None:
        self.graph = graph if isinstance(graph, Edges) else Edges.of(graph, n)
        terms = {}
        for (a, b), weight in zip(self.graph.pairs.tolist(), self.graph.weights.tolist(), strict=True):
            terms["".join("Z" if q in (a, b) else "I" for q in range(self.graph.n))] = weight
        super().__init__(PauliSum(self.graph.n, terms))

    @property
    def total(self) -> float:
        """The weight of all edges."""
        return float(self.graph.weights.sum())

    def value(self, bits: Any) -> Array:
        x, (a, b) = np.asarray(bits), self.graph.pairs.T
        made: Array = ((x[..., a] != x[..., b]) * self.graph.weights).sum(-1)
        return made

    def value_of_energy(self, energy: float) -> float:
        return (self.total - energy) / 2

    def ratio(self, energy: float) -> float:
        """The cut over the largest one, where that is above 0 (the approximation ratio)."""
        return self.value_of_energy(energy) / self.optimum if self.optimum > 0 else super().ratio(energy)

    @property
    def bit_names(self) -> list[str]:
        return [self.graph.name(q) for q in range(self.graph.n)]

    def decode(self, bits: Any) -> dict[str, Any]:
        sides = [[self.graph.name(int(q)) for q in np.flatnonzero(np.asarray(bits) == side)] for side in (0, 1)]
        return {"sides": sides}

    def classical(self, seed: int = 0) -> dict[str, Array]:
        """Greedy flips, the best of 20 descents, and hyperplanes through the relaxation of Goemans and Williamson."""
        return {
            "greedy": greedy(self.qubo.value, self.num_qubits),
            "local search": local_search(self.qubo.value, self.num_qubits, seed=seed),
            "Goemans-Williamson": goemans_williamson(self.graph, seed=seed),
        }


def goemans_williamson(graph: Edges, *, rounds: int = 100, planes: int = 50, seed: int = 0) -> Array:
    """Bits uint8 [n] of the best of random hyperplanes through unit vectors that solve a semidefinite relaxation
    (Goemans & Williamson, J. ACM 42(6), 1995; at least 0.878 of the optimum in expectation for weights >= 0).

    The vectors are found by coordinate descent at rank > sqrt(2n), where it has no bad local optima (the "mixing
    method", Wang, Chang & Kolter, arXiv 1706.00476).
    """
    rng, w = np.random.default_rng(seed), graph.matrix
    rank = int(np.ceil(np.sqrt(2 * graph.n))) + 1
    v = rng.normal(size=(graph.n, rank))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    for _ in range(rounds):
        for i in range(graph.n):
            pull = -w[i] @ v
            length = float(np.linalg.norm(pull))
            if length > 1e-12:
                v[i] = pull / length
    sides = (v @ rng.normal(size=(rank, planes)) > 0).T.astype(np.uint8)
    a, b = graph.pairs.T
    cuts = ((sides[:, a] != sides[:, b]) * graph.weights).sum(1)
    best: Array = sides[int(cuts.argmax())]
    return best

"""The travelling salesman: the shortest way through all cities and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pdl.errors import DataError
from pdl_quantum.problems.base import BinaryProblem, Kept
from pdl_quantum.problems.qubo import QUBO

Array = np.ndarray


class TSP(BinaryProblem):
    """The shortest round trip through n cities, on (n - 1)^2 qubits.

    distances  [n, n], symmetric or not;    places  of the cities in the plane [n, 2], for pictures (`TSP.of_places`)
    penalty    of a broken rule (each city once, one city at a time); by default 1.5 times the largest distance

    Bit v (n - 1) + t says that city v is visited at time t; the last city is where the trip begins and ends (Lucas,
    arXiv 1302.5843, section 7).
    """

    measure: ClassVar[str] = "length"
    ruled: ClassVar[bool] = True

    def __init__(
        self, distances: Any, *, penalty: float | None = None, names: Sequence[Any] = (), places: Any = None
    ) -> None:
        given = np.array(distances, np.float64)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or len(given) < 3:
            raise DataError(f"distances {given.shape}; give [n, n], a row for each of at least 3 cities")
        if not np.isfinite(given).all() or (given < 0).any():
            raise DataError("distances must be finite and not negative")
        if names and len(names) != len(given):
            raise DataError(f"{len(names)} names for {len(given)} cities")
        self.distances, self.names = given, [str(each) for each in names]
        self.places = None if places is None else np.array(places, np.float64)
        self.penalty = 1.5 * float(given.max()) if penalty is None else float(penalty)
        super().__init__(self._cost().ising())

    @staticmethod
    def of_places(places: Any, **options: Any) -> TSP:
        """Of places in the plane [n, 2], by straight ways."""
        at = np.array(places, np.float64)
        if at.ndim != 2 or at.shape[1] != 2:
            raise DataError(f"places {at.shape}; give [n, 2]")
        return TSP(np.sqrt(((at[:, None] - at[None]) ** 2).sum(-1)), places=at, **options)

    @property
    def num_cities(self) -> int:
        """n."""
        return len(self.distances)

    def _cost(self, *, once: bool = True) -> QUBO:
        """Lengths and penalties; those of the rule that each city is visited once, if wanted."""
        d, m, a = self.distances, self.num_cities - 1, self.penalty
        q = np.zeros((m, m, m, m))  # city, time, city, time
        for t in range(m - 1):
            q[:, t, :, t + 1] += d[:m, :m]
        for v in range(m):
            q[v, 0, v, 0] += d[m, v]
            q[v, m - 1, v, m - 1] += d[v, m]
            q[v, :, v, :] += once * a * (np.ones((m, m)) - 2 * np.eye(m))  # (1 - sum of times)^2
            q[:, v, :, v] += a * (np.ones((m, m)) - 2 * np.eye(m))  # (1 - sum of cities)^2
        return QUBO(q.reshape(m * m, m * m), (1 + once) * m * a)

    @property
    def bit_names(self) -> list[str]:
        """City@time."""
        m = self.num_cities - 1
        return [f"{self.names[v] if self.names else v}@{t}" for v in range(m) for t in range(m)]

    @property
    def kept(self) -> Kept:
        """Each city once; that no two share a time is left to the cost."""
        m = self.num_cities - 1
        return Kept([[v * m + t for t in range(m)] for v in range(m)], [1] * m, self._cost(once=False).ising())

    def _grid(self, bits: Any) -> Array:
        m = self.num_cities - 1
        given = np.asarray(bits)
        return given.reshape(*given.shape[:-1], m, m)

    def valid(self, bits: Any) -> Array:
        grid = self._grid(bits)
        made: Array = (grid.sum(-1) == 1).all(-1) & (grid.sum(-2) == 1).all(-1)
        return made

    def tour(self, bits: Any) -> list[int]:
        """The cities in order, beginning with the last one; DataError where the bits are no tour."""
        if not self.valid(bits):
            raise DataError("these bits are no tour: some city is visited not once, or some time has not one city")
        return [self.num_cities - 1, *self._grid(bits).argmax(0).tolist()]

    def bits(self, tour: Any) -> Array:
        """The bits uint8 of a tour, whatever city it begins with."""
        m, given = self.num_cities - 1, [int(v) for v in tour]
        if sorted(given) != list(range(m + 1)):
            raise DataError(f"{given} does not name each of {m + 1} cities once")
        start = given.index(m)
        grid = np.zeros((m, m), np.uint8)
        grid[given[start + 1 :] + given[:start], np.arange(m)] = 1
        return grid.ravel()

    def value(self, bits: Any) -> Array:
        return np.where(self.valid(bits), self.energy(bits), np.nan)

    def decode(self, bits: Any) -> dict[str, Any]:
        if not self.valid(bits):
            return {"tour": None}
        return {"tour": [self.names[v] if self.names else str(v) for v in self.tour(bits)]}

    def classical(self, seed: int = 0) -> dict[str, Array]:
        """The nearest city next, and the same improved by turning stretches around (2-opt)."""
        near = [self.num_cities - 1]
        while len(near) < self.num_cities:
            near.append(min(set(range(self.num_cities)) - set(near), key=lambda v: self.distances[near[-1], v]))
        return {"nearest city": self.bits(near), "2-opt": self.bits(self._two_opt(near))}

    def length(self, tour: Any) -> float:
        """Of a tour, back to its first city."""
        return float(sum(self.distances[a, b] for a, b in zip(tour, [*tour[1:], tour[0]], strict=True)))

    def _two_opt(self, tour: list[int]) -> list[int]:
        best, n = tour, self.num_cities
        while True:
            turned = [best[:i] + best[i : j + 1][::-1] + best[j + 1 :] for i in range(1, n) for j in range(i + 1, n)]
            shortest = min(turned, key=self.length)
            if self.length(shortest) >= self.length(best) - 1e-12:
                return best
            best = shortest

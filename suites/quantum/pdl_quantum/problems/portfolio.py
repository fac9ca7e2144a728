"""Portfolios: which assets to hold, weighing their risk against their return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pdl.errors import DataError, UsageError
from pdl_quantum.problems.base import BinaryProblem, Kept
from pdl_quantum.problems.qubo import QUBO

Array = np.ndarray


class Portfolio(BinaryProblem):
    """`budget` of n assets, so that risk x^T C x - m^T x is least, x being 1 for those held (Markowitz's mean and
    variance, The Journal of Finance 7(1), 1952).

    returns     m [n], expected ones;    covariance  C [n, n];    risk  how much variance counts
    budget      how many assets are held;    penalty  of (number held - budget)^2; by default it outweighs all else
    """

    measure: ClassVar[str] = "cost"
    ruled: ClassVar[bool] = True

    def __init__(
        self,
        returns: Any,
        covariance: Any,
        *,
        budget: int,
        risk: float = 0.5,
        penalty: float | None = None,
        names: Sequence[str] = (),
    ) -> None:
        m, c = np.array(returns, np.float64), np.array(covariance, np.float64)
        if m.ndim != 1 or c.shape != (len(m), len(m)) or not len(m):
            raise DataError(f"returns {m.shape} and covariance {c.shape}; give [n] and [n, n]")
        if not np.isfinite(m).all() or not np.isfinite(c).all():
            raise DataError("returns or covariance have values that are not finite")
        if not np.allclose(c, c.T, atol=1e-9 * max(1.0, np.abs(c).max())):
            raise DataError("the covariance is not symmetric")
        if not 0 < budget <= len(m):
            raise UsageError(f"budget={budget} of {len(m)} assets; give 1 to {len(m)}")
        if names and len(names) != len(m):
            raise DataError(f"{len(names)} names for {len(m)} assets")
        self.returns, self.covariance, self.budget, self.risk = m, (c + c.T) / 2, budget, float(risk)
        self.names = [str(each) for each in names] or [str(i) for i in range(len(m))]
        self.objective = risk * self.covariance - np.diag(m)
        self.penalty = 2 * float(np.abs(self.objective).sum(1).max()) if penalty is None else float(penalty)
        rule = self.penalty * (np.ones((len(m), len(m))) - 2 * budget * np.eye(len(m)))
        super().__init__(QUBO(self.objective + rule, self.penalty * budget**2).ising())

    @property
    def kept(self) -> Kept:
        """The number of assets."""
        return Kept([list(range(self.num_qubits))], [self.budget], QUBO(self.objective).ising())

    @property
    def bit_names(self) -> list[str]:
        return self.names

    def valid(self, bits: Any) -> Array:
        made: Array = np.asarray(bits).sum(-1) == self.budget
        return made

    def value(self, bits: Any) -> Array:
        return np.where(self.valid(bits), self.energy(bits), np.nan)

    def decode(self, bits: Any) -> dict[str, Any]:
        x = np.asarray(bits, np.float64)
        held = [self.names[q] for q in np.flatnonzero(x)]
        return {"assets": held, "return": float(self.returns @ x), "variance": float(x @ self.covariance @ x)}

    def classical(self, seed: int = 0) -> dict[str, Array]:
        """The assets of the highest return; and these after the exchanges that lower the cost most."""
        x = np.zeros(self.num_qubits, np.uint8)
        x[np.argsort(-self.returns, kind="stable")[: self.budget]] = 1
        return {"highest return": x, "exchanges": self._exchanged(x)}

    def _exchanged(self, x: Array) -> Array:
        while True:
            pairs = [(i, j) for i in np.flatnonzero(x) for j in np.flatnonzero(x == 0)]
            if not pairs:
                return x
            swapped = np.repeat(x[None], len(pairs), 0)
            for row, (i, j) in enumerate(pairs):
                swapped[row, i], swapped[row, j] = 0, 1
            energies = self.energy(swapped)
            if energies.min() >= float(self.energy(x)) - 1e-12:
                return x
            x = swapped[int(energies.argmin())]


def moments(prices: Any) -> tuple[Array, Array]:
    """(mean [n], covariance [n, n]) of the relative changes between the rows of prices [T, n]."""
    p = np.array(prices, np.float64)
    if p.ndim != 2 or len(p) < 3:
        raise DataError(f"prices {p.shape}; give [T, n] with at least 3 rows, a column for each asset")
    if not np.isfinite(p).all() or (p <= 0).any():
        raise DataError("prices must be finite and above 0")
    changes = p[1:] / p[:-1] - 1
    return changes.mean(0), np.atleast_2d(np.cov(changes, rowvar=False))

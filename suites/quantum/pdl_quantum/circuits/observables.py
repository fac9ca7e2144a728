"""Several sums of Pauli products at once: their expectations, and what they make of states when each state weighs them
in its own way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.errors import UsageError
from pdl.kernels import memory
from pdl.kernels import statevector as kernels
from pdl_quantum.circuits.paulis import PauliSum, padded, stream_of

Array = np.ndarray


class Observables:
    """Sums H_1 ... H_K on the same qubits, all Hermitian."""

    def __init__(self, sums: Sequence[PauliSum]) -> None:
        self.sums = tuple(sums)
        if not self.sums:
            raise UsageError("name at least one observable")
        self.num_qubits = self.sums[0].num_qubits
        for each in self.sums:
            if each.num_qubits != self.num_qubits or not each.hermitian:
                raise UsageError(f"{each} is no observable on {self.num_qubits} qubits; its coefficients must be real")
        terms = [(word, factor, k) for k, each in enumerate(self.sums) for word, factor in each.terms.items()]
        self._stream, self._values, self._owners = stream_of(self.num_qubits, terms)

    def __len__(self) -> int:
        return len(self.sums)

    def expectations(self, z: Array) -> Array:
        """<z|H_k|z> of states complex [B, 2^n], float64 [B, K]."""
        made = np.empty((len(z), len(self.sums)))
        for k, each in enumerate(self.sums):
            made[:, k] = each.expectation(z)
        return made

    def weighted(self, z: Array, weights: Array) -> Array:
        """sum_k w_bk H_k z_b for states complex [B, 2^n] and weights [B, K], in one pass."""
        wide = padded(z, self.num_qubits)
        out = memory.empty(wide.shape, wide.dtype)
        values = self._values * np.asarray(weights, np.float64).take(self._owners, axis=1)
        kernels.pauli(out, wide, self._stream, values)
        return out if wide is z else np.ascontiguousarray(out[:, : z.shape[1]])

"""Quantum autoencoder (arXiv 1612.02806): states on fewer qubits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.tensor import Tensor, no_grad
from pdl_quantum.algorithms.descent import Fit, angles, best_of, descend
from pdl_quantum.algorithms.states import evolve, split
from pdl_quantum.circuits import Circuit

Array = np.ndarray


@dataclass
class QuantumAutoencoder:
    """A circuit behind which some qubits, the trash, are |0>, so that the others hold the states.

    circuit   the encoder, on n qubits;    states  complex [K, 2^n], to be compressed
    trash     the qubits that are given up;    weights  of the states, by default the same for all

    The loss is the chance that the trash is not |0...0>; the decoder is the encoder undone on fresh qubits.
    """

    circuit: Circuit
    states: Any
    trash: Sequence[int]
    weights: Any = None
    _given: Array = field(init=False, repr=False)
    _shares: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = np.atleast_2d(np.asarray(self.states, np.complex128))
        if given.shape[1] != 1 << self.circuit.num_qubits:
            raise UsageError(f"states {given.shape} for {self.circuit!r}")
        if not 0 < len(self.trash) < self.circuit.num_qubits:
            raise UsageError(f"trash={list(self.trash)}: give up some of {self.circuit.num_qubits} qubits, not all")
        self._given = given / np.linalg.norm(given, axis=1, keepdims=True)
        shares = np.ones(len(given)) if self.weights is None else np.asarray(self.weights, np.float64)
        if shares.shape != (len(given),) or (shares < 0).any() or not shares.sum() > 0:
            raise UsageError(f"weights {shares.shape} for {len(given)} states; give each one that is not negative")
        self._shares = shares / shares.sum()

    def loss(self, parameters: Tensor) -> Tensor:
        """1 - the mean chance of an empty trash."""
        behind = evolve(self.circuit, parameters, self._given)
        empty = split(behind, self.circuit.num_qubits, self.trash)[:, 0]  # [K, 2^(n - trash)]
        chances = pdl.real(empty * pdl.conj(empty)).sum(axis=1)
        return 1.0 - (pdl.as_tensor(self._shares) * chances).sum()

    def train(self, *, steps: int = 200, lr: float = 0.1, seed: int = 0, starts: int = 1, **options: Any) -> Fit:
        """Lower the loss from random angles, the best of some starts; other arguments as of `descend`."""
        return best_of(starts, seed, lambda s: descend(
            self.loss, angles(self.circuit, s), steps=steps, lr=lr, **options
        ))  # fmt: skip

    def restored(self, parameters: Any) -> Array:
        """<s|r|s> of each state s and what the decoder makes of its code r, float64 [K]."""
        values = pdl.as_tensor(np.asarray(parameters, np.float64))
        n = self.circuit.num_qubits
        with no_grad():
            parts = split(evolve(self.circuit, values, self._given), n, self.trash).numpy()
            codes = np.zeros(
                (*parts.shape[:2], *parts.shape[1:]), complex
            )  # what the trash was, [K, trash, trash, 2^k]
            codes[:, :, 0] = parts  # each outcome of the trash leaves a code; fresh qubits are |0>
            order = [*self.trash, *(q for q in range(n) if q not in set(self.trash))]
            back = codes.reshape(-1, *(2,) * n).transpose(0, *(1 + np.argsort(order))).reshape(-1, 1 << n)
            decoded = evolve(self.circuit.inverse(), values, back).numpy().reshape(len(parts), -1, 1 << n)
        return (np.abs(np.einsum("ki,kti->kt", self._given.conj(), decoded)) ** 2).sum(1)

"""What measurements of states find: probabilities of outcomes, samples of them, and counts by bitstring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.kernels import statevector as kernels

Array = np.ndarray


def probabilities(state: Any, qubits: Sequence[int] | None = None) -> Array:
    """The probability of every outcome when some qubits are measured, the others left alone.

    state    complex [2^n] or [B, 2^n]
    qubits   k different ones, the first the most significant of an outcome's index; by default all

    float64 [2^k] or [B, 2^k], a fresh array beside the state. Errors: UsageError for qubits that are not there.
    """
    held = as_states(state)
    n = held.shape[1].bit_length() - 1
    wanted = list(range(n)) if qubits is None else [int(q) for q in qubits]
    if len(set(wanted)) < len(wanted) or any(not 0 <= q < n for q in wanted):
        raise UsageError(f"probabilities: qubits {wanted} must be different ones from 0 to {n - 1}")
    bits = np.array([n - 1 - q for q in reversed(wanted)], np.int64)
    made = np.empty((len(held), 1 << len(wanted)))
    kernels.probabilities(made, held, bits)
    return made[0] if np.ndim(state) == 1 else made


def sample(state: Any, shots: int, seed: int = 0) -> Array:
    """Indices of basis states sampled by |amplitude|^2: int64 [shots] of one state, [2^n] or [1, 2^n], and [B, shots]
    of several.

    The state is read once and nothing of its size is made; its norm need not be 1. Errors: DataError where it is 0, or
    holds numbers that are none.
    """
    held = as_states(state)
    if shots < 0:
        raise UsageError(f"sample: {shots} shots; give 0 or more")
    draws = np.random.default_rng(seed).random((len(held), shots))
    order = np.argsort(draws, axis=1)
    found, total = np.empty(draws.shape, np.int64), np.ones(len(held))
    kernels.sample(found, total, held, np.take_along_axis(draws, order, 1))
    for b, weight in enumerate(total):
        if not 0 < weight < np.inf:
            raise DataError(f"sample: state {b} has the norm {weight**0.5:.3g}; nothing can be drawn of it")
    made = np.empty_like(found)
    np.put_along_axis(made, order, found, 1)
    return made[0] if len(held) == 1 else made


def bitstrings(samples: Any, num_qubits: int) -> list[str]:
    """Indices of basis states as strings of 0 and 1, qubit 0 first."""
    indices = np.asarray(samples).ravel()
    if len(indices) and not 0 <= indices.min() <= indices.max() < 1 << num_qubits:
        raise UsageError(f"bitstrings: indices from {indices.min()} to {indices.max()} are none of {num_qubits} qubits")
    return [f"{index:0{num_qubits}b}" for index in indices.tolist()]


def counts(samples: Any, num_qubits: int) -> dict[str, int]:
    """How often each outcome was sampled, {"0101": 12}: the most frequent first, equal ones in the order of their
    numbers."""
    found, times = np.unique(np.asarray(samples).ravel(), return_counts=True)
    order = np.argsort(-times, kind="stable")
    return dict(zip(bitstrings(found[order], num_qubits), times[order].tolist(), strict=True))


def as_states(state: Any) -> Array:
    """States [B, 2^n] as the kernels take them: complex, contiguous; as they are wherever they can be."""
    held = np.asarray(state)
    if held.ndim not in (1, 2) or held.shape[-1] < 1 or held.shape[-1].bit_count() != 1:
        raise UsageError(f"{held.shape} is no state; give 2^n amplitudes, or rows of them")
    if held.dtype not in (np.complex64, np.complex128):
        held = held.astype(np.complex128)
    return np.ascontiguousarray(held if held.ndim == 2 else held[None])

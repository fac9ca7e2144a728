"""The state of some qubits, of a circuit or of what a bundle says of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

import pdl
from pdl.tensor import Tensor
from pdl_quantum.algorithms.states import reduced
from pdl_quantum.ops import circuit_state
from pdl_quantum.variational.ansatz import Ansatz

Array = np.ndarray
PAULIS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])


def state_of(model: Ansatz, kept: Sequence[int]) -> Tensor:
    """The density matrix complex128 [2^k, 2^k] of some qubits of the first state."""
    pairs = circuit_state(model.circuit, model.theta)
    return reduced(pdl.make_complex(pairs[:, 0], pairs[:, 1]), model.circuit.num_qubits, kept)[0]


def state_from_expectations(bundle: Any, num_qubits: int, kept: Sequence[int]) -> Array:
    """The same from a bundle's expectations of all 4^k Pauli words on these qubits: sum of <P> P / 2^k."""
    letters = list(product(range(4), repeat=len(kept)))
    words = np.zeros((len(letters), num_qubits), np.int64)
    words[:, list(kept)] = letters
    values = bundle(pdl.as_tensor(words), pdl.as_tensor(np.zeros(len(words), np.int64))).numpy()[:, 0]
    made: Array = sum(value * reduce(np.kron, PAULIS[list(word)]) for value, word in zip(values, letters, strict=True))
    return made / (1 << len(kept))

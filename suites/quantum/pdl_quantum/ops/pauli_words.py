"""Expectations of Pauli words given as arrays: the queries to a trained circuit."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import ShapeError, UsageError
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable, not_exported
from pdl.ops.checks import check_floating
from pdl.tensor import Tensor, TensorLike, as_tensor
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.paulis import PauliSum
from pdl_quantum.circuits.plain import dumps, held_circuit
from pdl_quantum.circuits.simulate import states

LETTERS = "IXYZ"


class PauliWords(Op):
    """E [B, R] = <z_r|P_b|z_r> of z_r = U(p_r) |0...0> for parameters p [R, P] and words w int [B, n], whose entries
    0 to 3 are I, X, Y and Z."""

    circuit: str
    autocast = "wide"
    onnx = not_exported("ONNX has no quantum circuits")
    vjp = not_differentiable("it answers questions about a trained circuit; circuit_expectation has gradients")  # type: ignore[assignment]

    def infer(self, p: Spec, w: Spec) -> Spec:
        check_floating("pauli_words", p=p)
        circuit = held_circuit(self.circuit)
        if len(p.shape) != 2 or p.shape[1] != circuit.num_parameters:
            raise ShapeError(f"pauli_words: parameters {p.shape}; expected [R, {circuit.num_parameters}]")
        if len(w.shape) != 2 or w.shape[1] != circuit.num_qubits or w.dtype.kind not in "iu":
            raise ShapeError(f"pauli_words: words {w.dtype} {w.shape}; expected integers [B, {circuit.num_qubits}]")
        return Spec((w.shape[0], p.shape[0]), p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        circuit, words = held_circuit(self.circuit), np.asarray(ins[1])
        if words.size and (words.min() < 0 or words.max() >= len(LETTERS)):
            raise UsageError(f"pauli_words: letters from {words.min()} to {words.max()}; 0 to 3 are I, X, Y and Z")
        z = states(circuit, np.asarray(ins[0], np.float64))
        for row, word in enumerate(words):
            text = "".join(LETTERS[letter] for letter in word)
            outs[0][row] = PauliSum(circuit.num_qubits, {text: 1.0}).expectation(z)


def pauli_words(circuit: Circuit, parameters: TensorLike, words: TensorLike) -> Tensor:
    """Expectations of Pauli words behind a circuit.    parameters [R, P], words int [B, n] -> [B, R]

    words   a word a row, a letter for each qubit: 0 is I, 1 X, 2 Y and 3 Z

    Computed in complex128, whatever the dtype of the parameters. Errors: ShapeError where columns are not the
    circuit's, UsageError for other letters.
    """
    return apply(PauliWords(dumps(circuit)), as_tensor(parameters), as_tensor(words))  # type: ignore[no-any-return]

"""Expectations of quantum circuits as ops of tensors: circuits stand between other layers, gradients flow through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.circuits.circuit import Circuit
from pdl.circuits.paulis import PauliSum
from pdl.circuits.plain import dumps, held_circuit, held_sums, sums_as_text
from pdl.circuits.simulate import start
from pdl.errors import ShapeError, UsageError
from pdl.kernels import statevector as kernels
from pdl.ops.base import Arrays, Op, Spec, apply, demand_floating, not_differentiable
from pdl.tensor import Array, Tensor, TensorLike, as_tensor


class CircuitExpectation(Op):
    """E [B, K] = <z|H_k|z> of z = U(p) |0...0>, or of U(p) on initial states s [B, 2^n], for parameters p [B, P]."""

    circuit: str
    observables: str

    def infer(self, p: Spec, s: Spec | None = None) -> Spec:
        return self._fit(p, s)

    def _fit(self, p: Spec, s: Spec | None) -> Spec:
        demand_floating("circuit_expectation", p=p)
        circuit = held_circuit(self.circuit)
        if len(p.shape) != 2 or p.shape[1] != circuit.num_parameters:
            raise ShapeError(
                f"circuit_expectation: parameters {p.shape}; expected [B, {circuit.num_parameters}], one column for "
                "each of the circuit's"
            )
        if s is not None and (len(s.shape) != 2 or s.shape != (p.shape[0], 1 << circuit.num_qubits)):
            raise ShapeError(
                f"circuit_expectation: initial states {s.shape}; expected {(p.shape[0], 1 << circuit.num_qubits)}"
            )
        return Spec((p.shape[0], len(held_sums(self.observables, circuit.num_qubits))), p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        circuit, (z, _) = held_circuit(self.circuit), self._run(ins)
        for k, observable in enumerate(held_sums(self.observables, circuit.num_qubits)):
            outs[0][:, k] = observable.expectation(z)

    def _run(self, ins: tuple[Any, ...]) -> tuple[Array, Array]:
        """The states, and the values that the program was bound to."""
        circuit, rows = held_circuit(self.circuit), np.asarray(ins[0], np.float64)
        program = circuit.compiled()
        bound = program.bind(rows)
        z = start(circuit.num_qubits, len(rows), ins[1] if len(ins) > 1 else None, np.complex128)
        kernels.run(z, program.stream, bound)
        return z, bound

    def vjp(self, g: Tensor, y: Tensor, p: Tensor, s: Tensor | None = None) -> Any:
        made = apply(CircuitExpectationGrad(self.circuit, self.observables), g, p, *(() if s is None else (s,)))
        return made if isinstance(made, tuple) else (made,)


class CircuitExpectationGrad(CircuitExpectation):
    """(dp [B, P], and ds [B, 2^n] where there are initial states) from the gradient g [B, K] of E, by adjoint
    differentiation (Jones & Gacon, arXiv 2009.02823): the observables' sum, weighted by g, goes back once."""

    circuit: str
    observables: str
    vjp = not_differentiable("it is a first derivative, and has no second one")  # type: ignore[assignment]

    def infer(self, g: Spec, p: Spec, s: Spec | None = None) -> Any:  # type: ignore[override]
        expected = self._fit(p, s)
        if g.shape != expected.shape:
            raise ShapeError(f"circuit_expectation: a gradient {g.shape} of expectations {expected.shape}")
        return p if s is None else (p, s)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        circuit, rows = held_circuit(self.circuit), np.asarray(ins[1], np.float64)
        z, bound = self._run(ins[1:])
        program = circuit.compiled()
        back: Array | None = None
        for k, observable in enumerate(held_sums(self.observables, circuit.num_qubits)):
            made = observable.apply(z) * np.asarray(ins[0][:, k : k + 1], np.float64)
            back = made if back is None else back + made
        assert back is not None
        sums = np.zeros((len(rows), program.gradients))
        kernels.backward(z, back, program.stream, bound, sums)
        outs[0][...] = program.pull(sums, rows)
        if len(outs) > 1:
            outs[1][...] = 2 * back.real


def circuit_expectation(
    circuit: Circuit, observables: Sequence[PauliSum], parameters: TensorLike, initial: TensorLike | None = None
) -> Tensor:
    """Expectations of observables behind a circuit.    parameters [B, P] -> [B, K]

    parameters   in the order of the circuit's (`Circuit.columns`), a row for each state
    initial      real states to begin with [B, 2^n] instead of |0...0>: classical data as amplitudes

    It is computed in complex128, whatever the dtype of the parameters. Errors: ShapeError where the columns are not the
    circuit's; UsageError without observables, or for one that is not Hermitian.
    """
    if not observables:
        raise UsageError("circuit_expectation: name at least one observable")
    for each in observables:
        if each.num_qubits != circuit.num_qubits or not each.hermitian:
            raise UsageError(f"circuit_expectation: {each} is no observable on {circuit.num_qubits} qubits; its "
                             "coefficients must be real")  # fmt: skip
    op = CircuitExpectation(dumps(circuit), sums_as_text(list(observables)))
    ins = [as_tensor(parameters)] + ([] if initial is None else [as_tensor(initial)])
    return apply(op, *ins)  # type: ignore[no-any-return]


__all__ = ["CircuitExpectation", "CircuitExpectationGrad", "circuit_expectation"]

"""Expectations and states of quantum circuits as ops of tensors: circuits stand between other layers, gradients flow
through."""

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


class _OfCircuit:
    """What ops of a circuit share: z = U(p) |0...0>, or U(p) on initial states s [B, 2^n], for parameters p [B, P]."""

    circuit: str

    def _fit(self, p: Spec, s: Spec | None) -> Circuit:
        name = "circuit_state" if isinstance(self, CircuitState) else "circuit_expectation"
        demand_floating(name, p=p)
        circuit = held_circuit(self.circuit)
        if len(p.shape) != 2 or p.shape[1] != circuit.num_parameters:
            raise ShapeError(
                f"{name}: parameters {p.shape}; expected [B, {circuit.num_parameters}], one column for "
                "each of the circuit's"
            )
        if s is not None and (len(s.shape) != 2 or s.shape != (p.shape[0], 1 << circuit.num_qubits)):
            raise ShapeError(f"{name}: initial states {s.shape}; expected {(p.shape[0], 1 << circuit.num_qubits)}")
        return circuit

    def _run(self, ins: tuple[Any, ...]) -> tuple[Array, Array]:
        """The states, and the values that the program was bound to."""
        circuit, rows = held_circuit(self.circuit), np.asarray(ins[0], np.float64)
        program = circuit.compiled()
        bound = program.bind(rows)
        z = start(circuit.num_qubits, len(rows), ins[1] if len(ins) > 1 else None, np.complex128)
        kernels.run(z, program.stream, bound)
        return z, bound

    def _back(self, outs: Arrays, p: Array, z: Array, l: Array, bound: Array, overlap: Array | None = None) -> None:  # noqa: E741
        """Gradients of p, and of s where it is asked for, from l with dL = 2 Re <l|dz>, by adjoint differentiation
        (Jones & Gacon, arXiv 2009.02823): z and l go back together."""
        rows, program = np.asarray(p, np.float64), held_circuit(self.circuit).compiled()
        sums = np.zeros((len(rows), program.gradients))
        kernels.backward(z, l, program.stream, bound, sums)
        outs[0][...] = program.pull(sums, rows, overlap)
        if len(outs) > 1:
            outs[1][...] = 2 * l.real


class CircuitExpectation(_OfCircuit, Op):
    """E [B, K] = <z|H_k|z> of z = U(p) |0...0>, or of U(p) on initial states s [B, 2^n], for parameters p [B, P]."""

    circuit: str
    observables: str

    def infer(self, p: Spec, s: Spec | None = None) -> Spec:
        circuit = self._fit(p, s)
        return Spec((p.shape[0], len(held_sums(self.observables, circuit.num_qubits))), p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        circuit, (z, _) = held_circuit(self.circuit), self._run(ins)
        for k, observable in enumerate(held_sums(self.observables, circuit.num_qubits)):
            outs[0][:, k] = observable.expectation(z)

    def vjp(self, g: Tensor, y: Tensor, p: Tensor, s: Tensor | None = None) -> Any:
        made = apply(CircuitExpectationGrad(self.circuit, self.observables), g, p, *(() if s is None else (s,)))
        return made if isinstance(made, tuple) else (made,)


class CircuitExpectationGrad(CircuitExpectation):
    """(dp [B, P], and ds [B, 2^n] where there are initial states) from the gradient g [B, K] of E: the sum of the
    observables, weighted by g, goes back once."""

    circuit: str
    observables: str
    vjp = not_differentiable("it is a first derivative, and has no second one")  # type: ignore[assignment]

    def infer(self, g: Spec, p: Spec, s: Spec | None = None) -> Any:  # type: ignore[override]
        expected = super().infer(p, s)
        if g.shape != expected.shape:
            raise ShapeError(f"circuit_expectation: a gradient {g.shape} of expectations {expected.shape}")
        return p if s is None else (p, s)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        circuit, (z, bound) = held_circuit(self.circuit), self._run(ins[1:])
        back: Array | None = None
        for k, observable in enumerate(held_sums(self.observables, circuit.num_qubits)):
            made = observable.apply(z) * np.asarray(ins[0][:, k : k + 1], np.float64)
            back = made if back is None else back + made
        assert back is not None
        self._back(outs, ins[1], z, back, bound)


class CircuitState(_OfCircuit, Op):
    """z [B, 2, 2^n], real and imaginary parts, of z = U(p) |0...0>, or of U(p) on initial states s [B, 2^n], for
    parameters p [B, P]."""

    circuit: str

    def infer(self, p: Spec, s: Spec | None = None) -> Spec:
        circuit = self._fit(p, s)
        return Spec((p.shape[0], 2, 1 << circuit.num_qubits), p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        z, _ = self._run(ins)
        outs[0][:, 0], outs[0][:, 1] = z.real, z.imag

    def vjp(self, g: Tensor, y: Tensor, p: Tensor, s: Tensor | None = None) -> Any:
        made = apply(CircuitStateGrad(self.circuit), g, p, *(() if s is None else (s,)))
        return made if isinstance(made, tuple) else (made,)


class CircuitStateGrad(CircuitState):
    """(dp [B, P], and ds [B, 2^n] where there are initial states) from the gradient g [B, 2, 2^n] of the states."""

    circuit: str
    vjp = not_differentiable("it is a first derivative, and has no second one")  # type: ignore[assignment]

    def infer(self, g: Spec, p: Spec, s: Spec | None = None) -> Any:  # type: ignore[override]
        expected = super().infer(p, s)
        if g.shape != expected.shape:
            raise ShapeError(f"circuit_state: a gradient {g.shape} of states {expected.shape}")
        return p if s is None else (p, s)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        z, bound = self._run(ins[1:])
        given = np.asarray(ins[0], np.float64)  # dL = Re <g|dz>
        back = 0.5 * given[:, 0] + 0.5j * given[:, 1]
        self._back(outs, ins[1], z, back, bound, np.einsum("bi,bi->b", back.conj(), z).imag)


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


def circuit_state(circuit: Circuit, parameters: TensorLike, initial: TensorLike | None = None) -> Tensor:
    """The states that a circuit makes, real and imaginary parts.    parameters [B, P] -> [B, 2, 2^n]

    Arguments and errors as of `circuit_expectation`; for overlaps, reduced states and losses that no observable tells.
    """
    ins = [as_tensor(parameters)] + ([] if initial is None else [as_tensor(initial)])
    return apply(CircuitState(dumps(circuit)), *ins)  # type: ignore[no-any-return]


__all__ = [
    "CircuitExpectation", "CircuitExpectationGrad", "CircuitState", "CircuitStateGrad", "circuit_expectation",
    "circuit_state",
]  # fmt: skip

"""Expectations and states of quantum circuits as ops of tensors: circuits stand between other layers, gradients flow
through."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.kernels import statevector as kernels
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable, not_exported
from pdl.ops.checks import check_floating
from pdl.tensor import Tensor, TensorLike, as_tensor
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.observables import Observables
from pdl_quantum.circuits.paulis import PauliSum
from pdl_quantum.circuits.plain import dumps, held_circuit, held_observables, sums_as_text
from pdl_quantum.circuits.program import Compiled
from pdl_quantum.circuits.simulate import evolved

KEPT = 64 << 20
"""Bytes of states that a thread keeps from a run to its gradient."""


@dataclass(frozen=True, eq=False)
class _Run:
    """States z [B, 2^n] that a circuit made of parameters [B, P], bound as its program reads them."""

    circuit: str
    rows: Array
    initial: Array | None
    program: Compiled
    bound: Array
    z: Array


class _Last(threading.local):
    """A thread's last run: the gradient that most often follows goes back from its states, rather than make them anew.
    It is taken once, by the same circuit of the same numbers."""

    run: _Run | None = None

    def keep(self, run: _Run) -> None:
        self.run = run if run.z.nbytes <= KEPT else None

    def taken(self, circuit: str, ins: tuple[Any, ...]) -> _Run | None:
        held, self.run = self.run, None
        if held is None or held.circuit != circuit:
            return None
        mine = [held.rows] if held.initial is None else [held.rows, held.initial]
        same = len(mine) == len(ins) and all(np.array_equal(a, b) for a, b in zip(mine, ins, strict=True))
        return held if same else None


_last = _Last()


class _OfCircuit(Op, abstract=True):
    """What ops of a circuit share: z = U(p) |0...0>, or U(p) on initial states s [B, 2^n], for parameters p [B, P]."""

    circuit: str
    autocast = "wide"
    onnx = not_exported("ONNX has no quantum circuits")

    def _fit(self, p: Spec, s: Spec | None) -> Circuit:
        name = "circuit_state" if isinstance(self, CircuitState) else "circuit_expectation"
        check_floating(name, p=p)
        circuit = held_circuit(self.circuit)
        if len(p.shape) != 2 or p.shape[1] != circuit.num_parameters:
            raise ShapeError(
                f"{name}: parameters {p.shape}; expected [B, {circuit.num_parameters}], one column for "
                "each of the circuit's"
            )
        if s is not None and (len(s.shape) != 2 or s.shape != (p.shape[0], 1 << circuit.num_qubits)):
            raise ShapeError(f"{name}: initial states {s.shape}; expected {(p.shape[0], 1 << circuit.num_qubits)}")
        return circuit

    def _run(self, ins: tuple[Any, ...]) -> _Run:
        circuit, rows = held_circuit(self.circuit), np.array(ins[0], np.float64)
        initial = np.array(ins[1]) if len(ins) > 1 else None
        z, program, bound = evolved(circuit, rows, initial, np.complex128)
        return _Run(self.circuit, rows, initial, program, bound, z)

    def _back(self, outs: Arrays, made: _Run, l: Array, overlap: Array | None = None) -> None:  # noqa: E741
        """Gradients of p, and of s if it needs one, from l with dL = 2 Re <l|dz>, by adjoint differentiation
        (Jones & Gacon, arXiv 2009.02823): z and l go back together."""
        sums = np.zeros((len(made.rows), made.program.gradients))
        kernels.backward(made.z, l, made.program.stream, made.bound, sums)
        outs[0][...] = made.program.vjp(sums, made.rows, overlap)
        if len(outs) > 1:
            outs[1][...] = 2 * l.real


class CircuitExpectation(_OfCircuit):
    """E [B, K] = <z|H_k|z> of z = U(p) |0...0>, or of U(p) on initial states s [B, 2^n], for parameters p [B, P]."""

    circuit: str
    observables: str

    def infer(self, p: Spec, s: Spec | None = None) -> Spec:
        circuit = self._fit(p, s)
        return Spec((p.shape[0], len(held_observables(self.observables, circuit.num_qubits))), p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        made = self._run(ins)
        outs[0][...] = self._observables().expectations(made.z)
        _last.keep(made)

    def _observables(self) -> Observables:
        return held_observables(self.observables, held_circuit(self.circuit).num_qubits)

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
        made = _last.taken(self.circuit, ins[1:]) or self._run(ins[1:])
        self._back(outs, made, self._observables().weighted(made.z, ins[0]))


class CircuitState(_OfCircuit):
    """z [B, 2, 2^n], real and imaginary parts, of z = U(p) |0...0>, or of U(p) on initial states s [B, 2^n], for
    parameters p [B, P]."""

    circuit: str

    def infer(self, p: Spec, s: Spec | None = None) -> Spec:
        circuit = self._fit(p, s)
        return Spec((p.shape[0], 2, 1 << circuit.num_qubits), p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        made = self._run(ins)
        outs[0][:, 0], outs[0][:, 1] = made.z.real, made.z.imag
        _last.keep(made)

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
        made = _last.taken(self.circuit, ins[1:]) or self._run(ins[1:])
        given = np.asarray(ins[0], np.float64)  # dL = Re <g|dz>
        back = 0.5 * given[:, 0] + 0.5j * given[:, 1]
        self._back(outs, made, back, np.einsum("bi,bi->b", back.conj(), made.z).imag)


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

"""`Layer`: a circuit among the modules of a net."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import pdl
from pdl.errors import ShapeError, UsageError
from pdl.nn import Module, Parameter, init
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.ops import circuit_expectation


class Layer(Module):
    """Expectations behind a circuit.    x [B, D] -> [B, K]

        x, theta = Parameter("x", (4,)), Parameter("theta", (4,))
        circuit = Circuit(4).ry(x).cnot(0, 1).cnot(2, 3).ry(theta)
        net = Sequential(Linear(64, 4), Layer(circuit), Linear(4, 10))

    circuit      the columns of x are its parameters `inputs`, in the order in which the circuit has them; its other
                 parameters are weights
    observables  sums of Pauli products with real coefficients; by default Z of each qubit
    inputs       names of parameters; those the circuit does not have are left out, so () and ("x",) without an x in it
                 are the same: a layer of weights alone
    initial      of the weights: "uniform" in [0, 2 pi), "small" normal with deviation 0.1, "zeros"

    `forward(x, states)` begins with real states [B, 2^n] instead of |0...0>; x may be None where there are no inputs.
    Gradients, those of x and of the states too, are adjoint
    (`pdl_quantum.ops.circuit_expectation`). Computed in complex128.
    """

    def __init__(
        self,
        circuit: Circuit,
        observables: Sequence[PauliSum] | None = None,
        *,
        inputs: Sequence[str] = ("x",),
        initial: Literal["uniform", "small", "zeros"] = "uniform",
    ) -> None:
        n = circuit.num_qubits
        self.circuit = circuit
        self.observables = list(observables or (PauliSum.single(n, f"Z{q}") for q in range(n)))
        self.inputs = tuple(name for name in circuit.parameters if name in inputs)
        sizes = {name: parameter.size for name, parameter in circuit.parameters.items()}
        self.num_inputs = sum(sizes[name] for name in self.inputs)
        learned = sum(size for name, size in sizes.items() if name not in self.inputs)
        self.weight = Parameter(pdl.zeros((learned,))) if learned else None
        self.initial, self._sizes = initial, sizes
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for weight in self.parameters():
            if self.initial == "uniform":
                init.uniform_(weight, 0.0, 2 * math.pi)
            elif self.initial == "small":
                init.normal_(weight, std=0.1)
            else:
                init.zeros_(weight)

    @property
    def num_outputs(self) -> int:
        """K."""
        return len(self.observables)

    def forward(self, x: Tensor | None = None, states: Tensor | None = None) -> Tensor:
        return circuit_expectation(self.circuit, self.observables, self.rows(x, states), states)

    def rows(self, x: Tensor | None = None, states: Tensor | None = None) -> Tensor:
        """The parameters of the circuit [B, P]: columns of x and weights, in the circuit's order."""
        if (x is None) != (self.num_inputs == 0) or (x is not None and x.shape[1:] != (self.num_inputs,)):
            have = "no inputs" if x is None else f"inputs of the shape {x.shape}"
            raise ShapeError(f"Layer: {have}; its circuit reads [B, {self.num_inputs}]"
                             f"{'' if self.inputs else ', that is none: call it without x'}")  # fmt: skip
        batch = 1 if x is None and states is None else (x if x is not None else states).shape[0]  # type: ignore[union-attr]
        parts, at = [], {True: 0, False: 0}
        for name, size in self._sizes.items():
            source = x if name in self.inputs else self.weight
            begin = at[source is x]
            at[source is x] = end = begin + size
            assert source is not None
            one = source[:, begin:end] if source is x else pdl.broadcast_to(source[begin:end], (batch, size))
            parts.append(one)
        if not parts:
            raise UsageError("Layer: the circuit has no parameters; its expectations never change, compute them once")
        return pdl.concat(parts, axis=1) if len(parts) > 1 else parts[0]

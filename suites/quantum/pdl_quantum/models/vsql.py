"""VSQL: shadows of a state, classified."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Linear
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.encodings import AmplitudeEncoding
from pdl_quantum.layer import Layer
from pdl_quantum.models.base import Classifier
from pdl_quantum.ops import circuit_expectation


class VSQL(Classifier):
    """Variational shadow quantum learning (Li, Song & Wang, arXiv 2012.08288).

    Numbers are the amplitudes of n = ceil(log2 D) qubits. One small circuit U, of `width` qubits, slides over them; at
    each place i it gives a feature, and a linear layer reads all of them:

        o_i = <psi| U_i^dagger (X ... X)_(i..i+width-1) U_i |psi>,    i = 0 ... n - width,    scores = W o + b

    U is on every qubit RX, RY, RX, then `depth` times RY on each and CNOT of neighbours in a ring, with 3 width +
    depth width weights, the same at all places.
    """

    def __init__(
        self,
        num_features: Annotated[int, Range(2)] | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        *,
        width: Annotated[int, Range(1)] = 2,
        depth: Annotated[int, Range(0)] = 1,
    ) -> None:
        super().__init__(num_features, num_classes)
        assert num_features is not None
        assert num_classes is not None
        self.encoding = AmplitudeEncoding()
        self.n = n = self.encoding.qubits(num_features)
        if width > n:
            raise ConfigError(f"model.width={width}: {num_features} numbers are the amplitudes of {n} qubits only")
        self.width = width
        small = shadow(width, depth)
        self.circuits = [Circuit(n).append(small, range(i, i + width)) for i in range(n - width + 1)]
        word = " ".join(f"X{q}" for q in range(width))
        self.local = Layer(small, [PauliSum.single(width, word)], initial="uniform")
        letters = [["I"] * i + ["X"] * width + ["I"] * (n - width - i) for i in range(n - width + 1)]
        self.observables = [PauliSum(n, {"".join(each): 1.0}) for each in letters]
        self.head = Linear(len(self.circuits), num_classes)

    def scores(self, x: Tensor) -> Tensor:
        states = self.encoding.states(x)
        rows = self.local.rows(None, states)
        features = [
            circuit_expectation(circuit, [observable], rows, states)
            for circuit, observable in zip(self.circuits, self.observables, strict=True)
        ]
        return self.head(pdl.concat(features, axis=1))

    def diagram(self) -> Circuit:
        return self.local.circuit


def shadow(width: int, depth: int) -> Circuit:
    """The circuit that slides, with the parameter theta [3 + depth, width]."""
    circuit = Circuit(width)
    theta = circuit.parameter("theta", (3 + depth, width))
    circuit.rx(theta[0]).ry(theta[1]).rx(theta[2])
    for layer in range(depth):
        circuit.ry(theta[3 + layer])
        for q in range(width if width > 2 else width - 1):
            circuit.cx(q, (q + 1) % width)
    return circuit


TASK = "vsql"
VARIANTS = {"vsql": {"_target_": "pdl_quantum.VSQL"}}

"""Classifiers by a trained circuit."""

from __future__ import annotations

from typing import Annotated, Literal

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Linear, Parameter
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.encodings import AngleEncoding, Encoding
from pdl_quantum.layer import Layer
from pdl_quantum.models.base import Classifier
from pdl_quantum.templates import template

Ansatz = Literal["basic_entangler", "hardware_efficient", "real_amplitudes", "strongly_entangling"]


class VariationalClassifier(Classifier):
    """Numbers become a state, a circuit turns it, expectations are the scores (Schuld et al., arXiv 1804.00633).

        scores = W (<Z_0>, ..., <Z_(r-1)>) + b

    encoding   how numbers become states; by default rotations about y
    ansatz     the trained circuit, a template (`pdl_quantum.templates`) of `layers`
    uploads    so many times encoding and ansatz, one behind the other (data re-uploading: Perez-Salinas et al., arXiv
               1907.02085); from two on the angles of each upload are scaled by learned factors
    readout    r, how many qubits are measured; by default all
    """

    def __init__(
        self,
        num_features: Annotated[int, Range(1)] | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        *,
        encoding: Encoding | None = None,
        ansatz: Ansatz = "strongly_entangling",
        layers: Annotated[int, Range(1)] = 2,
        uploads: Annotated[int, Range(1)] = 1,
        readout: Annotated[int, Range(1)] | None = None,
    ) -> None:
        super().__init__(num_features, num_classes)
        assert num_features is not None
        assert num_classes is not None
        self.encoding = encoding or AngleEncoding()
        encoder = self.encoding.circuit(num_features)
        self.width = encoder.num_parameters
        n = encoder.num_qubits
        if uploads > 1 and not self.width:
            raise ConfigError(f"model.uploads={uploads}: {type(self.encoding).__name__} begins with a state, which can "
                              "be loaded once; use uploads=1, or AngleEncoding")  # fmt: skip
        if readout is not None and readout > n:
            raise ConfigError(f"model.readout={readout}: the circuit has {n} qubits")
        circuit = Circuit(n)
        for upload in range(uploads):
            circuit.append(encoder.renamed({name: f"{name}{upload}" for name in encoder.parameters}))
            circuit.append(template(ansatz, n, layers, name=f"theta{upload}"))
        measured = [PauliSum.single(n, f"Z{q}") for q in range(readout or n)]
        self.layer = Layer(circuit, measured, inputs=[f"x{upload}" for upload in range(uploads)])
        self.scale = Parameter(pdl.ones((uploads * self.width,))) if uploads > 1 else None
        self.uploads = uploads
        self.head = Linear(len(measured), num_classes)

    def scores(self, x: Tensor) -> Tensor:
        angles, states = self.encoding.angles(x), self.encoding.states(x)
        if angles is not None and self.scale is not None:
            angles = pdl.concat([angles] * self.uploads, axis=1) * self.scale
        return self.head(self.layer(angles, states))

    def diagram(self) -> Circuit:
        return self.layer.circuit


TASK = "quantum_classifier"
VARIANTS = {"variational": {"_target_": "pdl_quantum.VariationalClassifier"}}

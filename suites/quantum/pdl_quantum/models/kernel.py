"""Classifiers by a quantum kernel."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Buffer, Parameter
from pdl.tensor import Tensor
from pdl_quantum import kernels
from pdl_quantum.circuits import Circuit
from pdl_quantum.encodings import Encoding, IQPEncoding
from pdl_quantum.models.base import Classifier


class KernelClassifier(Classifier):
    """Kernel machines, K by `pdl_quantum.kernels`: how alike x is to known samples, the landmarks l_j.

        scores_c = sum_j alpha_jc K(s x, s l_j) + b_c

    The dual coefficients alpha and b are learned, with optim.weight_decay as the ridge.

    kernel          fidelity, or projected with gamma
    bandwidth       s: the smaller, the wider is what counts as alike (Shaydulin & Wild, arXiv 2111.05451)
    adaptive        s is learned, too, for each number
    num_landmarks   so many samples of the training data, evenly spread over it; by default all, 512 at most
    encoding  circuit that turns numbers into a state; by default `IQPEncoding`
    gamma     of the projected kernel: how fast likeness falls with distance
    """

    def __init__(
        self,
        num_features: Annotated[int, Range(1)] | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        num_landmarks: Annotated[int, Range(2)] | None = None,
        *,
        encoding: Encoding | None = None,
        kernel: Literal["fidelity", "projected"] = "fidelity",
        gamma: Annotated[float, Range(0)] = 1.0,
        bandwidth: Annotated[float, Range(0)] = 1.0,
        adaptive: bool = False,
    ) -> None:
        super().__init__(num_features, num_classes)
        if num_landmarks is None:
            raise ConfigError("KernelClassifier needs num_landmarks, which its task takes from the data")
        self.encoding = encoding or IQPEncoding()
        self.kernel, self.gamma = kernel, gamma
        self.landmarks = Buffer(pdl.zeros((num_landmarks, self.num_features)))
        scale = pdl.full((self.num_features,), float(bandwidth))
        self.scale = Parameter(scale) if adaptive else Buffer(scale)
        self.alpha = Parameter(pdl.zeros((num_landmarks, self.num_classes)))
        self.bias = Parameter(pdl.zeros((self.num_classes,)))

    def hold(self, samples: np.ndarray) -> None:
        """Take the landmarks [num_landmarks, D]."""
        self.landmarks = Buffer(pdl.as_tensor(samples.astype(np.float32)))

    def scores(self, x: Tensor) -> Tensor:
        one, other = (kernels.encoded(self.encoding, each * self.scale) for each in (x, self.landmarks))
        alike = kernels.fidelity(one, other) if self.kernel == "fidelity" else kernels.projected(one, other, self.gamma)
        return alike @ self.alpha + self.bias

    def diagram(self) -> Circuit:
        return kernels.circuit_of(self.encoding, self.num_features)


TASK = "quantum_kernel"
VARIANTS = {"kernel": {"_target_": "pdl_quantum.KernelClassifier"}}

"""Activations as layers; formulas and sources are those of the ops (`pdl.ops.activation`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pdl import ops
from pdl.hints import Range
from pdl.nn.module import Module, Parameter
from pdl.tensor import Tensor


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class ReLU6(Module):
    """min(max(x, 0), 6)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu6(x)


class Hardtanh(Module):
    """min(max(x, low), high).

    low   the least value
    high  the largest value
    """

    shown = ("low", "high")

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        self.low, self.high = low, high

    def forward(self, x: Tensor) -> Tensor:
        return ops.hardtanh(x, low=self.low, high=self.high)


class Hardsigmoid(Module):
    """min(max(x / 6 + 1/2, 0), 1)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.hardsigmoid(x)


class Hardswish(Module):
    """x hardsigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.hardswish(x)


class LeakyReLU(Module):
    """x above 0, negative_slope x below."""

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(x, negative_slope=self.negative_slope)


class PReLU(Module):
    """x above 0, weight x below; the weight, one for all or one a channel (the last axis), is learned.

    init  what the weight begins with
    """

    shown = ("num_parameters",)

    def __init__(self, num_parameters: Annotated[int, Range(1)] = 1, *, init: float = 0.25) -> None:
        self.num_parameters = num_parameters
        self.weight = Parameter(ops.full((num_parameters,), init, dtype="float32"))

    def forward(self, x: Tensor) -> Tensor:
        return ops.prelu(x, self.weight)


class ELU(Module):
    """x above 0, alpha (e^x - 1) below.

    alpha  size of what numbers far below 0 become
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return ops.elu(x, alpha=self.alpha)


class CELU(ELU):
    """x above 0, alpha (e^(x / alpha) - 1) below."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.celu(x, alpha=self.alpha)


class SELU(Module):
    """1.0507 elu(x, 1.67326): keeps mean 0 and variance 1."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.selu(x)


class GELU(Module):
    """x Phi(x), or its approximation by tanh."""

    shown = ("approximate",)

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return ops.gelu(x, approximate=self.approximate)


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.silu(x)


class Mish(Module):
    """x tanh(softplus(x))."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.mish(x)


class Sigmoid(Module):
    """1 / (1 + e^-x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)


class LogSigmoid(Module):
    """log sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.log_sigmoid(x)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.tanh(x)


class Softplus(Module):
    """log(1 + e^(beta x)) / beta.

    beta  how sharp the bend at 0 is
    """

    shown = ("beta",)

    def __init__(self, beta: Annotated[float, Range(above=0)] = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        return ops.softplus(x, beta=self.beta)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.softsign(x)


class GLU(Module):
    """a sigmoid(b), where a and b are the halves of x along `axis`."""

    shown = ("axis",)

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return ops.glu(x, axis=self.axis)


class Softmax(GLU):
    """e^x / sum e^x along `axis`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.softmax(x, axis=self.axis)


class LogSoftmax(GLU):
    """log softmax(x) along `axis`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.log_softmax(x, axis=self.axis)

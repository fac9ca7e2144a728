"""Activations: relu and its kin, the smooth gates.

An activation is a kernel's name, its parameters, and its slope written in ops; the slope serves gradients of gradients,
the
kernel the first ones.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar, cast

from pdl.errors import ShapeError, UsageError
from pdl.kernels import pointwise
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import AboveZero
from pdl.ops.base import OPS, Arrays, Fused, Op, Spec, apply
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating, normalize_axis
from pdl.ops.create import ones_like
from pdl.ops.elementwise import abs, erf, exp, minimum, square, tanh, where
from pdl.ops.logic import greater, less, logical_and
from pdl.ops.shape import split
from pdl.tensor import Tensor, TensorLike, as_tensor


class Activation(Op, abstract=True):
    """y = f(x) element by element, for floats; the attributes are the kernel's parameters a, b, c."""

    kernel: ClassVar[str]
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        if x.dtype.kind != "f":
            check_floating(self.kernel, x=x)
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        pointwise.unary(self.kernel, outs[0], contiguous(ins[0]), *self.parameters())

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        ref = y if pointwise.GRADIENT_OF[self.kernel] == "y" else x
        return cast(Tensor, apply(_gradient_of(type(self).__name__, self.values()), g, ref))

    def values(self) -> tuple[float, ...]:
        """The attributes, in order."""
        return tuple([getattr(self, n) for n in self.fields])

    def parameters(self) -> tuple[float, ...]:
        """What the kernel gets as a, b, c."""
        return self.values()

    def slope(self, ref: Tensor) -> Tensor:
        """dy/dx at x, or at y where the kernel's gradient takes that."""
        raise NotImplementedError(type(self).__name__)


class ActivationGrad(Fused):
    """dx = g f'(x) of the activation class `name`; `ref` is its x or y, as `pointwise.GRADIENT_OF` says."""

    name: str
    values: tuple[float, ...] = ()
    native_bf16 = native = True

    def activation(self) -> Activation:
        """The activation itself."""
        return _activation_of(self.name, self.values)

    def infer(self, g: Spec, ref: Spec) -> Spec:
        check_floating(self.activation().kernel, g=g)
        if g.shape != ref.shape:
            raise ShapeError(f"gradient of {self.name}: g {g.shape} and {ref.shape} differ")
        return ref

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        op = self.activation()
        g, ref = contiguous(ins[0]), contiguous(ins[1])
        pointwise.unary_grad(op.kernel, outs[0], g, ref, *op.parameters())

    def compose(self, g: Tensor, ref: Tensor) -> Tensor:
        return g * self.activation().slope(ref)


def activation_class(name: str) -> type[Activation]:
    """The op of an activation by the name of its class; UsageError where that is none."""
    kind = OPS.get(name)
    if kind is None or not issubclass(kind, Activation):
        raise UsageError(f"{name!r} is no activation; give the name of a class such as 'Relu' or 'Gelu'")
    return kind


@lru_cache(maxsize=256)
def _gradient_of(name: str, values: tuple[float, ...]) -> ActivationGrad:
    return ActivationGrad(name, values)


@lru_cache(maxsize=256)
def _activation_of(name: str, values: tuple[float, ...]) -> Activation:
    kind = activation_class(name)
    if len(values) != len(kind.fields):
        raise UsageError(f"activation {name} has the values {kind.fields}, got {values}")
    made = kind(*values)
    made.check()
    return made


def _indicator(condition: Tensor, like: Tensor) -> Tensor:
    return astype(condition, like.dtype)


# -- piecewise linear --------------------------------------------------------------------------------------------------
class Relu(Activation):
    """y = max(x, 0)."""

    kernel = "relu"

    def slope(self, ref: Tensor) -> Tensor:
        return _indicator(greater(ref, 0), ref)


class Hardtanh(Activation):
    """y = min(max(x, low), high)."""

    kernel = "clip"
    low: float = -1.0
    high: float = 1.0

    def slope(self, ref: Tensor) -> Tensor:
        return _indicator(logical_and(greater(ref, self.low), less(ref, self.high)), ref)


class LeakyRelu(Activation):
    """y = x above 0, negative_slope * x below."""

    kernel = "leaky_relu"
    negative_slope: float = 0.01

    def slope(self, ref: Tensor) -> Tensor:
        return where(greater(ref, 0), ones_like(ref), self.negative_slope)


class Hardsigmoid(Activation):
    """y = min(max(x / 6 + 1/2, 0), 1)."""

    kernel = "hardsigmoid"

    def slope(self, ref: Tensor) -> Tensor:
        return _indicator(less(abs(ref), 3), ref) / 6


class Hardswish(Activation):
    """y = x min(max(x / 6 + 1/2, 0), 1). Howard et al., Searching for MobileNetV3 (2019)."""

    kernel = "hardswish"

    def slope(self, ref: Tensor) -> Tensor:
        return where(less(abs(ref), 3), ref / 3 + 0.5, _indicator(greater(ref, 0), ref))


# -- exponential -------------------------------------------------------------------------------------------------------
class Elu(Activation):
    """y = scale x above 0, scale alpha (e^(x / width) - 1) below: ELU, SELU and CELU are settings of it."""

    kernel = "elu"
    alpha: float = 1.0
    scale: float = 1.0
    width: AboveZero = 1.0

    def parameters(self) -> tuple[float, ...]:
        return self.alpha, self.scale, 1 / self.width

    def slope(self, ref: Tensor) -> Tensor:
        below = exp(minimum(ref, 0) / self.width) * (self.scale * self.alpha / self.width)
        return where(greater(ref, 0), self.scale, below)


class Sigmoid(Activation):
    """y = 1 / (1 + e^-x)."""

    kernel = "sigmoid"

    def slope(self, ref: Tensor) -> Tensor:
        return ref * (1 - ref)


class LogSigmoid(Activation):
    """y = -log(1 + e^-x)."""

    kernel = "log_sigmoid"

    def slope(self, ref: Tensor) -> Tensor:
        return sigmoid(-ref)


class Softplus(Activation):
    """y = log(1 + e^(beta x)) / beta."""

    kernel = "softplus"
    beta: float = 1.0

    def slope(self, ref: Tensor) -> Tensor:
        return sigmoid(ref * self.beta)


class Softsign(Activation):
    """y = x / (1 + |x|)."""

    kernel = "softsign"

    def slope(self, ref: Tensor) -> Tensor:
        return 1 / square(abs(ref) + 1)


class Gelu(Activation):
    """y = x Phi(x), Phi the normal distribution function. Hendrycks and Gimpel, arXiv 1606.08415."""

    kernel = "gelu"

    def slope(self, ref: Tensor) -> Tensor:
        density = exp(square(ref) * -0.5) * (1 / math.sqrt(2 * math.pi))
        return (erf(ref * math.sqrt(0.5)) + 1) * 0.5 + ref * density


class GeluTanh(Activation):
    """y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""

    kernel = "gelu_tanh"

    def slope(self, ref: Tensor) -> Tensor:
        c, squares = 2 * math.sqrt(2 / math.pi), square(ref)
        s = sigmoid(ref * (squares * 0.044715 + 1) * c)
        return s + ref * s * (1 - s) * (squares * (3 * 0.044715) + 1) * c


class Silu(Activation):
    """y = x / (1 + e^-x). Elfwing et al., arXiv 1702.03118 (also: swish)."""

    kernel = "silu"

    def slope(self, ref: Tensor) -> Tensor:
        s = sigmoid(ref)
        return s * (ref * (1 - s) + 1)


class Mish(Activation):
    """y = x tanh(log(1 + e^x)). Misra, arXiv 1908.08681."""

    kernel = "mish"

    def slope(self, ref: Tensor) -> Tensor:
        gate = tanh(softplus(ref))
        return gate + ref * sigmoid(ref) * (1 - square(gate))


def _plain(op: Activation, x: TensorLike) -> Tensor:
    return cast(Tensor, apply(op, as_tensor(x)))


_relu, _sigmoid, _silu, _gelu, _hardswish, _hardsigmoid = Relu(), Sigmoid(), Silu(), Gelu(), Hardswish(), Hardsigmoid()
_relu6, _softplus = Hardtanh(0.0, 6.0), Softplus()


def relu(x: TensorLike) -> Tensor:
    """max(x, 0); the gradient at 0 is 0."""
    return _plain(_relu, x)


def relu6(x: TensorLike) -> Tensor:
    """min(max(x, 0), 6)."""
    return _plain(_relu6, x)


def hardtanh(x: TensorLike, *, low: float = -1.0, high: float = 1.0) -> Tensor:
    """min(max(x, low), high)."""
    if not low < high:
        raise UsageError(f"hardtanh: low {low} must be below high {high}")
    return _plain(Hardtanh(float(low), float(high)), x)


def leaky_relu(x: TensorLike, *, negative_slope: float = 0.01) -> Tensor:
    """x above 0, negative_slope * x below."""
    return _plain(LeakyRelu(float(negative_slope)), x)


def hardsigmoid(x: TensorLike) -> Tensor:
    """min(max(x / 6 + 1/2, 0), 1)."""
    return _plain(_hardsigmoid, x)


def hardswish(x: TensorLike) -> Tensor:
    """x min(max(x / 6 + 1/2, 0), 1)."""
    return _plain(_hardswish, x)


def elu(x: TensorLike, *, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha (e^x - 1) below. Clevert et al., arXiv 1511.07289."""
    return _plain(Elu(float(alpha)), x)


def selu(x: TensorLike) -> Tensor:
    """1.0507 elu(x, alpha=1.67326). Klambauer et al., arXiv 1706.02515."""
    return _plain(Elu(1.6732632423543772, 1.0507009873554805), x)


def celu(x: TensorLike, *, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha (e^(x / alpha) - 1) below. Barron, arXiv 1704.07483."""
    if not alpha > 0:
        raise UsageError(f"celu: alpha {alpha} must be above 0")
    return _plain(Elu(float(alpha), 1.0, float(alpha)), x)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + e^-x)."""
    return _plain(_sigmoid, x)


def log_sigmoid(x: TensorLike) -> Tensor:
    """log(1 / (1 + e^-x)), precise for all x."""
    return _plain(LogSigmoid(), x)


def softplus(x: TensorLike, *, beta: float = 1.0) -> Tensor:
    """log(1 + e^(beta x)) / beta, precise for all x."""
    return _plain(_softplus if beta == 1 else Softplus(float(beta)), x)


def softsign(x: TensorLike) -> Tensor:
    """x / (1 + |x|)."""
    return _plain(Softsign(), x)


def gelu(x: TensorLike, *, approximate: str = "none") -> Tensor:
    """x Phi(x), exact ("none") or by tanh ("tanh")."""
    if approximate not in ("none", "tanh"):
        raise UsageError(f"gelu: approximate is {approximate!r}; expected 'none' or 'tanh'")
    return _plain(_gelu if approximate == "none" else GeluTanh(), x)


def silu(x: TensorLike) -> Tensor:
    """x sigmoid(x)."""
    return _plain(_silu, x)


def mish(x: TensorLike) -> Tensor:
    """x tanh(softplus(x))."""
    return _plain(Mish(), x)


def prelu(x: TensorLike, weight: Tensor) -> Tensor:
    """x above 0, weight * x below; weight [C] for channels last, or one value. He et al., arXiv 1502.01852."""
    x = as_tensor(x)
    if weight.size != 1 and weight.shape != x.shape[-1:]:
        raise ShapeError(
            f"prelu: weight {weight.shape} is neither one value nor the {x.shape[-1]} channels of x {x.shape}"
        )
    return where(greater(x, 0), x, x * weight)


def glu(x: TensorLike, *, axis: int = -1) -> Tensor:
    """a sigmoid(b), where a and b are the halves of x along `axis`. Dauphin et al., arXiv 1612.08083."""
    x = as_tensor(x)
    axis = normalize_axis("glu", axis, x.ndim)
    if x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of x {x.shape} has {x.shape[axis]} elements, which do not halve")
    a, b = split(x, x.shape[axis] // 2, axis=axis)
    return a * sigmoid(b)


__all__ = [
    "celu", "elu", "gelu", "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid",
    "mish", "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign",
]  # fmt: skip

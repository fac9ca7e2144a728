"""Dropout by position: the mask is a function of a seed, the row and the column, so it is never stored."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

import numpy as np

from pdl import random
from pdl.dtype import Array, int64
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.hints import Choice
from pdl.kernels import attention as kernels
from pdl.ops.attributes import Probability
from pdl.ops.base import OPS, Arrays, Fused, Op, Spec, apply, not_differentiable
from pdl.ops.checks import check_floating, check_shapes
from pdl.tensor import Tensor, TensorLike, as_tensor

#: the activations that a kernel does together with dropout
Activated: TypeAlias = Annotated[str, Choice(("Relu", "Gelu", "GeluTanh", "Silu"))]


class Seed(Op):
    """A number in [0, 2^63), drawn from pdl's generator at every run."""

    stateful = True
    vjp = not_differentiable("a seed is an integer")

    def infer(self) -> Spec:
        return Spec((), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        outs[0][...] = int(random.generator().bit_generator.random_raw()) >> 1  # type: ignore[attr-defined]


class Dropout(Op):
    """y = x times 0 (with probability p) or 1 / (1 - p), drawn by seed [], row and column of x [..., columns]."""

    p: Probability
    native_bf16 = True
    inplace = True

    def infer(self, x: Spec, seed: Spec) -> Spec:
        check_floating("dropout", x=x)
        check_seed("dropout", seed)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.dropout(outs[0], np.ascontiguousarray(ins[0]), self.p, seed_number(ins[1]))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, seed: Tensor) -> Any:
        return lambda: apply(self, g, seed), None


class ActivatedDropout(Fused):
    """y = f(x) times 0 (with probability p) or 1 / (1 - p): `Dropout` of an activation, in one pass. `name` is the
    activation's class: Relu, Gelu, GeluTanh or Silu.
    """

    name: Activated
    p: Probability
    native_bf16 = True
    inplace = True

    def infer(self, x: Spec, seed: Spec) -> Spec:
        check_floating("dropout", x=x)
        check_seed("dropout", seed)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.dropout(outs[0], np.ascontiguousarray(ins[0]), self.p, seed_number(ins[1]), kernel_of(self.name))

    def compose(self, x: Tensor, seed: Tensor) -> Tensor:
        return cast(Tensor, apply(Dropout(self.p), apply(OPS[self.name](), x), seed))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, seed: Tensor) -> Any:
        return lambda: apply(ActivatedDropoutGrad(self.name, self.p), g, x, seed), None


class ActivatedDropoutGrad(Fused):
    """dx = g f'(x) times the factors of `ActivatedDropout`."""

    name: Activated
    p: Probability
    native_bf16 = True
    inplace = True

    def infer(self, g: Spec, x: Spec, seed: Spec) -> Spec:
        check_floating("dropout", x=x)
        check_shapes("gradient of dropout", g=(g, x.shape))
        check_seed("dropout", seed)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x = np.ascontiguousarray(ins[0]), np.ascontiguousarray(ins[1])
        kernels.dropout(outs[0], g, self.p, seed_number(ins[2]), kernel_of(self.name), x)

    def compose(self, g: Tensor, x: Tensor, seed: Tensor) -> Tensor:
        slope = OPS[self.name]().slope(x)  # type: ignore[attr-defined]
        return cast(Tensor, apply(Dropout(self.p), g, seed) * slope)


def kernel_of(name: str) -> str:
    """The kernel's name of an activation class."""
    return str(OPS[name].kernel)  # type: ignore[attr-defined]


def check_seed(name: str, seed: Spec) -> None:
    """Raise unless `seed` is one int64."""
    if seed.shape != ():
        raise ShapeError(f"{name}: seed {seed.shape} must be one number; see pdl.draw_seed")
    if seed.dtype != int64:
        raise DtypeError(f"{name}: seed is {seed.dtype.name}; expected int64")


def seed_number(seed: Array) -> int:
    """The value of a seed; UsageError where it is negative."""
    if seed < 0:
        raise UsageError(f"dropout: seed {seed} is negative; see pdl.draw_seed")
    return int(seed)


def draw_seed() -> Tensor:
    """A number in [0, 2^63) from pdl's generator, int64 []; in a program a new one at every run."""
    return cast(Tensor, apply(Seed()))


def dropout(
    x: TensorLike, *, p: float = 0.5, training: bool = True, mask: Tensor | None = None, seed: Tensor | None = None
) -> Tensor:
    """x with each value 0 with probability `p` and the others times 1 / (1 - p); x itself where not `training`.

    What is dropped follows from `seed` (int64 [], drawn from pdl's generator if left out) and the position, on every
    machine alike; or `mask` is given, which multiplies x (broadcast), see `dropout_mask`. Srivastava et al., JMLR 15,
    2014.
    """
    x = as_tensor(x)
    if not 0 <= p <= 1:
        raise UsageError(f"dropout: p {p} is outside [0, 1]")
    if not training or (p == 0 and mask is None):
        return x
    if mask is not None:
        return x * mask
    if p == 1:
        return x * 0
    return cast(Tensor, apply(Dropout(float(p)), x, draw_seed() if seed is None else seed))


#: activations that are fused with dropout, and their classes
_ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu", "gelu_tanh": "GeluTanh", "silu": "Silu"}


def activated_dropout(x: TensorLike, activation: str, *, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of an activation of x, in one pass over memory. `activation`: relu, gelu, gelu_tanh or silu."""
    if activation not in _ACTIVATIONS:
        raise UsageError(f"activated_dropout: activation {activation!r} is none of {', '.join(_ACTIVATIONS)}")
    if not 0 <= p < 1:
        raise UsageError(f"activated_dropout: p {p} is outside [0, 1)")
    x, name = as_tensor(x), _ACTIVATIONS[activation]
    if not training or p == 0:
        return cast(Tensor, apply(OPS[name](), x))
    return cast(Tensor, apply(ActivatedDropout(name, float(p)), x, draw_seed()))


__all__ = ["activated_dropout", "draw_seed", "dropout"]

"""Convolution with batch norm inside: the input is normalised and activated while it is loaded, the statistics of the
output are taken while it is hot.

Between two convolutions memory then sees the raw output of the first alone: written once and read once, where
convolution, batch norm and convolution pass over it five times; backward, the gradient of the raw output is made while
it is loaded, and the normalised value is computed again instead of being kept.
"""

from __future__ import annotations

from typing import Any, cast

from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.kernels import batch_norm as norm_kernels
from pdl.kernels import conv as conv_kernels
from pdl.kernels import norm_conv as kernels
from pdl.kernels.copies import contiguous as _c
from pdl.kernels.memory import empty
from pdl.ops.attributes import Pad, Step
from pdl.ops.base import Arrays, Fused, Spec, apply
from pdl.ops.batchnorm import WideOutputs, activate, activation_vjp, check_activation, wide_parameter
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.conv import Conv, ConvDw, ConvDx, Padding, _conv_op
from pdl.ops.elementwise import rsqrt, square
from pdl.ops.norm import _affine, _check, _parameter, _wide
from pdl.ops.reduce import mean as mean_of
from pdl.ops.reduce import sum
from pdl.ops.window import Sizes
from pdl.tensor import Tensor, TensorLike, as_tensor


class _NormConv(Fused, abstract=True):
    """What value and gradient share: the window of the convolution, and what happens before it."""

    native_bf16 = native = True
    stride: tuple[Step, ...]
    padding: tuple[tuple[Pad, Pad], ...]
    groups: Step
    eps: float = 1e-5
    activation: str | None = None

    def check(self) -> None:
        super().check()
        Conv(*self.window()).check()
        if len(self.stride) != 2:
            raise ShapeError(f"norm_conv: stride {self.stride} must have two entries")
        check_activation("norm_conv", self.activation)

    def window(self) -> tuple[Any, ...]:
        """Stride, padding, dilation and groups, as the convolutions take them."""
        return self.stride, self.padding, (1, 1), self.groups

    def window_by_name(self) -> dict[str, Any]:
        """The same by name."""
        return {"stride": self.stride, "padding": self.padding, "dilation": (1, 1), "groups": self.groups}

    def covered(self, x: Array, w: Array) -> bool:
        """Whether there is a kernel for the whole; the rest goes through those of its parts."""
        sizes = x.shape[-1], w.shape[-1], self.groups
        return cast(bool, kernels.covers(w.shape[:2], self.stride, (1, 1), self.padding, *sizes))

    def before(
        self, x: Tensor, mu: Tensor | None, var: Tensor | None, scale: Tensor | None, shift: Tensor | None
    ) -> Any:
        """(x - mean) rstd scale + shift before the activation, in ops; x where there is no norm."""
        if mu is None or var is None:
            return x
        return _affine((x - mu) * rsqrt(var + self.eps), scale, shift)

    def before_array(self, x: Array, channels: tuple[Array | None, ...]) -> Array:
        """The activated input as an array."""
        if channels[0] is None:
            return x
        h = empty(x.shape, x.dtype)
        norm_kernels.batch_norm_apply(h, x, *channels, None, self.eps, self.activation)
        return h

    def conv_arrays(self, *arrays: Array) -> tuple[Array, ...]:
        """Images for the convolution kernels: five dimensions."""
        return tuple(a.reshape(a.shape[0], 1, *a.shape[1:]) for a in arrays)

    def conv_window(self) -> tuple[Any, ...]:
        """Stride, padding before, dilation and groups in three dimensions."""
        return (1, *self.stride), (0, *(p[0] for p in self.padding)), (1, 1, 1), self.groups


class NormConv(_NormConv):
    """y = f((x - mean) rstd scale + shift) * w, f the activation; without mean and var y = x * w.

    x [N, H, W, C], mean, var, scale, shift [C] or None, w [KH, KW, C/groups, O]. Outputs y [N, H', W', O] and, with
    `statistics`, the mean and the biased variance of y over all axes but the last. Depthwise windows of stride 1 and 2
    and 1 x 1 convolutions do all in one pass over x and y.
    """

    statistics: bool = True

    def infer(
        self, x: Spec, mean: Spec | None, var: Spec | None, scale: Spec | None, shift: Spec | None, w: Spec
    ) -> Any:
        _check("norm_conv", x, mean=mean, var=var, scale=scale, shift=shift)
        if (mean is None) != (var is None):
            raise ShapeError("norm_conv: mean and var belong together")
        check_floating("norm_conv", w=w)
        made = Conv(*self.window()).infer(x, Spec(w.shape, x.dtype))
        y = Spec(made.shape, x.dtype)
        if self.statistics and 0 in y.shape:
            raise ShapeError(f"norm_conv: y {y.shape} has no values to take statistics of")
        stats = Spec(y.shape[-1:], _wide(x.dtype))
        return (y, stats, stats) if self.statistics else y

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, *channels, w = ins
        x, wide = _c(x), tuple(map(wide_parameter, channels))
        stats = outs[1:] if self.statistics else (None, None)
        if self.covered(x, w):
            weight = cast(Array, wide_parameter(w))
            kernels.forward(outs[0], *stats, x, *wide, weight, self.eps, self.activation, self.stride, self.padding,
                            self.groups)  # fmt: skip
            return
        y, h = self.conv_arrays(outs[0], self.before_array(x, wide))
        conv_kernels.forward(y, h, _c(w, x.dtype)[None], None, *self.conv_window())
        if self.statistics:
            kernels.moments(*stats, outs[0])

    def compose(
        self, x: Tensor, mu: Tensor | None, var: Tensor | None, scale: Tensor | None, shift: Tensor | None, w: Tensor
    ) -> Any:
        h = x if mu is None else activate(self.activation, self.before(x, mu, var, scale, shift))
        y = apply(Conv(*self.window()), h, astype(w, h.dtype))
        if not self.statistics:
            return astype(y, x.dtype)
        axes = tuple(range(y.ndim - 1))
        centre = mean_of(y, axis=axes)
        return astype(y, x.dtype), centre, mean_of(square(y - centre), axis=axes)

    def vjp(self, g: Any, y: Any, *ins: Any) -> Any:
        x, mu, *_, w = ins
        out: Any
        y_mean: Any
        g_mean: Any
        g_var: Any
        gy, g_mean, g_var = g if self.statistics else (g, None, None)
        out, y_mean = y[:2] if self.statistics else (y, None)
        if gy is None:
            gy = out * 0
        if g_mean is None and g_var is None:
            out = y_mean = None
        elif g_mean is None:
            g_mean = g_var * 0
        elif g_var is None:
            g_var = g_mean * 0
        inner = mu is not None or x.requires_grad
        op = NormConvGrad(self.stride, self.padding, self.groups, self.eps, self.activation, w.shape[:2], inner)
        made = apply(op, gy, out, y_mean, g_mean, g_var, *ins)
        if not inner:
            return None, None, None, None, None, made
        return (made[0], None, None, None, None, made[1]) if mu is None else (made[0], *made[2:], made[1])


class NormConvGrad(_NormConv):
    """Gradients of NormConv: dx, dw and, where the input is normed, dmean, dvar, dscale, dshift.

    g for y, g_mean and g_var for its statistics: the gradient of the raw output is g + g_mean / n
    + (y - mean(y)) 2 g_var / n, n values a channel. dx is the part that does not go through mean and var. Not `inner`:
    dw alone, for the first layer of a net.
    """

    kernel: tuple[Step, ...] = (1, 1)
    inner: bool = True

    def infer(
        self, g: Spec, y: Spec | None, y_mean: Spec | None, g_mean: Spec | None, g_var: Spec | None, x: Spec,
        mean: Spec | None, var: Spec | None, scale: Spec | None, shift: Spec | None, w: Spec,
    ) -> Any:  # fmt: skip
        name = "gradient of norm_conv"
        channels = _check(name, x, mean=mean, var=var, scale=scale, shift=shift)
        made = Conv(*self.window()).infer(x, Spec(w.shape, x.dtype)).shape
        stats = made[-1:]
        check_floating(name, g=g, w=w)
        check_shapes(
            name, g=(g, made), y=(y, made), y_mean=(y_mean, stats), g_mean=(g_mean, stats), g_var=(g_var, stats)
        )
        if len({s is None for s in (y, y_mean, g_mean, g_var)}) > 1 or (mean is None) != (var is None):
            raise ShapeError(f"{name}: y, y_mean, g_mean and g_var belong together, and so do mean and var")
        if self.kernel != w.shape[:2] or not (self.inner or mean is None):
            raise ShapeError(f"{name}: kernel {self.kernel} of w {w.shape}, inner {self.inner}, which a norm needs")
        if mean is None or var is None:
            return (x, w) if self.inner else w
        return x, w, mean, var, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, y, y_mean, g_mean, g_var, x, *channels, w = ins
        g, x, y = _c(g), _c(x), None if y is None else _c(y)
        out_stats = tuple(map(wide_parameter, (y_mean, g_mean, g_var)))
        wide = tuple(map(wide_parameter, channels))
        dx = outs[0] if self.inner else None
        made = WideOutputs(outs[self.inner :])
        dw, *sums = made.arrays
        if dx is not None and self.covered(x, w):
            weight = cast(Array, wide_parameter(w))
            kernels.backward(dx, dw, *(sums or (None,) * 4), g, y, *out_stats, x, *wide, weight, self.eps,
                             self.activation, self.stride, self.padding, self.groups)  # fmt: skip
        else:
            self.by_parts(dx, dw, sums, (g, y, *out_stats), x, wide, _c(w, x.dtype))
        made.finish()

    def by_parts(
        self, dx: Array | None, dw: Array, sums: list[Array], outer: tuple[Any, ...], x: Array,
        channels: tuple[Any, ...], w: Array,
    ) -> None:  # fmt: skip
        """The same by the kernels of its parts: dx, dw and sums OUT."""
        g, y, y_mean, g_mean, g_var = outer
        if g_mean is not None:
            raw = empty(g.shape, g.dtype)
            kernels.moments_grad(raw, g, y, y_mean, g_mean, g_var)
            g = raw
        h = self.before_array(x, channels)
        five_g, five_h = self.conv_arrays(g, h)
        conv_kernels.dw(dw[None], five_h, five_g, *self.conv_window())
        if dx is None:
            return
        dh = dx if channels[0] is None else empty(x.shape, x.dtype)
        conv_kernels.dx(self.conv_arrays(dh)[0], five_g, w[None], *self.conv_window())
        if channels[0] is not None:
            norm_kernels.batch_norm_apply_grad(dx, *sums, None, dh, x, None, *channels, self.eps, self.activation)

    def compose(
        self, g: Tensor, y: Tensor | None, y_mean: Tensor | None, g_mean: Tensor | None, g_var: Tensor | None,
        x: Tensor, mu: Tensor | None, var: Tensor | None, scale: Tensor | None, shift: Tensor | None, w: Tensor,
    ) -> Tensor | tuple[Tensor, ...]:  # fmt: skip
        if y is not None and y_mean is not None and g_mean is not None and g_var is not None:
            n = y.size // y.shape[-1]
            g = g + g_mean / n + (y - y_mean) * (g_var * 2 / n)
        z = self.before(x, mu, var, scale, shift)
        h = z if mu is None else activate(self.activation, z)
        w = astype(w, h.dtype)
        dw = cast(Tensor, apply(ConvDw(**self.window_by_name(), kernel=self.kernel), h, g))
        if not self.inner:
            return dw
        dh = apply(ConvDx(**self.window_by_name(), size=x.shape[1:-1]), g, w)
        if mu is None or var is None:
            return dh, dw
        axes = tuple(range(x.ndim - 1))
        root = rsqrt(var + self.eps)
        slope, u = root if scale is None else root * scale, activation_vjp(self.activation, dh, z)
        dshift, moment = sum(u, axis=axes), sum(u * (x - mu), axis=axes)
        return u * slope, dw, dshift * slope * -1, moment * slope * square(root) * -0.5, moment * root, dshift


def norm_conv(
    x: TensorLike,
    w: TensorLike,
    *,
    norm: tuple[Tensor, Tensor, Tensor | None, Tensor | None] | None = None,
    eps: float = 1e-5,
    activation: str | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    groups: int = 1,
    statistics: bool = True,
) -> Any:
    """`conv2d` of f((x - mean) / sqrt(var + eps) scale + shift), f the `activation`, for ``norm=(mean, var, scale,
    shift)``; of x for None.

    x [N, H, W, C], w [KH, KW, C/groups, O] -> y [N, H', W', O] or, with `statistics`, (y, mean [O], var [O]) of y over
    all axes but the last, var biased. The gradient flows through the statistics too.
    """
    x, w = as_tensor(x), as_tensor(w)
    window = _conv_op(2, w.shape, stride, padding, 1, groups)
    op = NormConv(window.stride, window.padding, window.groups, float(eps), activation if norm else None, statistics)
    return apply(op, x, *(norm or (None,) * 4), w)


__all__ = ["norm_conv"]

"""Chains of convolution, batch norm and activation that leave the normalisation to the next layer.

A net's block calls `conv_norm` for its layers in turn and `finish` at its end, instead of the layers themselves: the
same values and gradients in fewer passes over memory (`pdl.norm_conv`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pdl import ops
from pdl.errors import ShapeError
from pdl.nn.conv import Conv2d, Padding
from pdl.nn.factored import Factored
from pdl.nn.norm import Activation, BatchNorm2d
from pdl.ops.moments import moments
from pdl.tensor import Tensor


class Raw(NamedTuple):
    """The output of a convolution, and what is still to be applied to it: (value - mean) / sqrt(var + eps) scale +
    shift, then the activation.
    """

    value: Tensor
    norm: tuple[Tensor, Tensor, Tensor | None, Tensor | None]  # mean, var, scale, shift
    eps: float
    activation: Activation | None


def conv_norm(
    x: Tensor | Raw,
    conv: Conv2d | Factored,
    norm: BatchNorm2d,
    activation: Activation | None = None,
    *,
    padding: Padding | None = None,
) -> Raw:
    """``norm(conv(x), activation=activation)``, normalisation and activation left to the reader.

    `padding` replaces the convolution's own, where it depends on the size of x.
    Training takes the statistics of the batch, and moves the running ones; evaluation takes the running ones, where
    they are kept.
    """
    if conv.bias is not None:
        raise ShapeError("conv_norm: the convolution has a bias; call the layers one after the other")
    if isinstance(conv, Factored):
        x = conv.reduced(finish(x) if isinstance(x, Raw) else x, padding)
        conv, padding = conv.second, None  # type: ignore[assignment]
    assert isinstance(conv, Conv2d)
    live = norm.training or norm.running_mean is None or norm.running_var is None
    pads = conv.padding if padding is None else padding
    made: Any
    if conv.dilation == (1, 1):
        value, before = (x.value, x) if isinstance(x, Raw) else (x, None)
        made = ops.norm_conv(
            value,
            conv.weight,
            norm=before and before.norm,
            eps=before.eps if before else 1e-5,
            activation=before.activation if before else None,
            stride=conv.stride,
            padding=pads,
            groups=conv.groups,
            statistics=live,
        )
    else:
        h = finish(x) if isinstance(x, Raw) else x
        window: Any = {"stride": conv.stride, "padding": pads, "dilation": conv.dilation, "groups": conv.groups}
        made = ops.conv2d(h, conv.weight, **window)
        made = moments(made) if live else made
    if live:
        y, mean, var = made
        if norm.training:
            mean, var = norm.track(mean, var, y.size // y.shape[-1])
    else:
        y, mean, var = made, norm.running_mean, norm.running_var
    return Raw(y, (mean, var, norm.weight, norm.bias), norm.eps, activation)


def finish(raw: Raw, *, residual: Tensor | None = None) -> Tensor:
    """The normalised value, plus `residual`, then the activation."""
    return ops.batch_norm_eval(raw.value, *raw.norm, eps=raw.eps, activation=raw.activation, residual=residual)

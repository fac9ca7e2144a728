"""What the families share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple, cast

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.nn.blocks import ConvNorm


def maxima(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, H, W, C] with its maxima over windows of 5, 9 and 13 cells, each the maximum over 5 of the one before:
    [N, H, W, 4 C]."""
    found = [x]
    for _ in range(3):
        found.append(pdl.max_pool(found[-1], 5, stride=1, padding=2))
    return pdl.concat(found, axis=3)


class Auxiliary(NamedTuple):
    """What a net with auxiliary classifiers returns in training: the loss is that of `logits`, plus `weight` times the
    sum of the losses of `others`.
    """

    logits: pdl.Tensor
    others: tuple[pdl.Tensor, ...]
    weight: float


class PixelHead(nn.Module):
    """A 3 x 3 convolution, and the logits of every place."""

    def __init__(self, in_channels: int, channels: int, num_classes: int, dropout: float = 0.1) -> None:
        self.conv, self.dropout = ConvNorm(in_channels, channels, 3), nn.Dropout(dropout)
        self.logits = nn.Conv2d(channels, num_classes, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, num_classes]."""
        return self.logits(self.dropout(self.conv(x)))  # type: ignore[no-any-return]


def flatten_as_torch(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, H, W, C] -> [N, C H W], in the order that linear layers of PyTorch checkpoints expect."""
    return pdl.flatten(pdl.permute_dims(x, (0, 3, 1, 2)), start=1)


def merged(weight: Array, norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """The weight [..., channels] of a convolution with the scale of the norm behind it, and the bias that is left of
    its shift, in float64.
    """
    tensors = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    mean, var, scale, shift = (cast(pdl.Tensor, each).data.astype(np.float64) for each in tensors)
    factor = scale / np.sqrt(var + norm.eps)
    return weight.astype(np.float64) * factor, shift - mean * factor


def substituted(state: Mapping[str, Any], names: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The state with other names: each pattern, and what `re.sub` puts in its place, in turn."""
    found = {}
    for name, value in state.items():
        for theirs, ours in names:
            name = re.sub(theirs, ours, name)
        found[name] = value
    return found


#: statistics of batch norms, as Paddle calls them
_STATISTICS = {"_mean": "running_mean", "_variance": "running_var"}


def from_paddle(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a convolutional net of Paddle's in PyTorch's names; the layouts are the same."""
    found = {}
    for name, value in state.items():
        owner, _, kind = name.rpartition(".")
        found[f"{owner}.{_STATISTICS.get(kind, kind)}"] = value
    return found


def take_pretrained(model: nn.Module, pretrained: str | None) -> None:
    """Give a fresh model the weights behind `pretrained` (a name of the hub, a file or a run); None leaves it alone."""
    if pretrained is not None:
        from pdl.hub import load_pretrained

        load_pretrained(model, pretrained)


def mean_of_softmax(logits: Sequence[pdl.Tensor]) -> pdl.Tensor:
    """log of the mean of softmax(each), over the last axis of several logits of one shape."""
    each = pdl.stack([pdl.log_softmax(one, axis=-1) for one in logits])
    return pdl.logsumexp(each, axis=0) - log(len(logits))

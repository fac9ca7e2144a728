"""Dropout: values, channels or whole samples set to zero in training; the rest is scaled so that the mean is
unchanged. In evaluation nothing is dropped.
"""

from __future__ import annotations

from typing import Annotated

from pdl import ops
from pdl.hints import Range
from pdl.nn.module import Module
from pdl.tensor import Tensor


class _Drop(Module):
    shown = ("p",)

    def __init__(self, p: Annotated[float, Range(0, below=1)] = 0.5) -> None:
        self.p = p

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        """The shape of the random mask, which is broadcast over x."""
        return x.shape

    def forward(self, x: Tensor) -> Tensor:
        """x times a mask in training, x otherwise."""
        if not self.training or not self.p:
            return x
        return x * ops.dropout_mask(self.mask_shape(x), rate=self.p, dtype=x.dtype)


class Dropout(_Drop):
    """Each value is 0 with probability p. Srivastava et al., JMLR 15, 2014.

    p  probability of 0 in training; in evaluation nothing changes
    """

    def forward(self, x: Tensor) -> Tensor:
        """x, some values dropped in training."""
        return ops.dropout(x, p=self.p, training=self.training)


class ChannelDropout(_Drop):
    """Each channel of each sample, x [N, ..., C], is 0 with probability p. Tompson et al., arXiv 1411.4280 (PyTorch:
    Dropout1d to 3d).

    p  probability of 0 in training; in evaluation nothing changes
    """

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        """[N, 1, ..., 1, C]."""
        return (x.shape[0], *(1,) * (x.ndim - 2), x.shape[-1])


class DropPath(_Drop):
    """Each sample is 0 with probability p: a residual branch is skipped. Huang et al., arXiv 1603.09382.

    p  probability of 0 in training; in evaluation nothing changes
    """

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        """[N, 1, ..., 1]."""
        return (x.shape[0], *(1,) * (x.ndim - 1))

"""Normalisation layers on channels-last tensors; scale and shift are called `weight` and `bias`, as in PyTorch, and
start as 1 and 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.module import Buffer, Module, Parameter
from pdl.ops.base import assign
from pdl.ops.moments import Across, join_moments, moments
from pdl.tensor import Tensor

Width = Annotated[int, Range(1)]
Eps = Annotated[float, Range(0)]
Activation = Literal["relu", "relu6", "hardswish", "silu"]


class _BatchNorm(Module):
    """Batch norm over all axes but the last. Ioffe & Szegedy, arXiv 1502.03167.

    In training with `across`, over the samples of all these processes, each of which runs this layer at the same time.
    """

    ranks: ClassVar[tuple[int, ...]] = ()
    across: Across | None = None
    shown: ClassVar[tuple[str, ...]] = ("num_features", "eps", "momentum", "affine", "track_running_stats")

    def __init__(
        self,
        num_features: Width,
        *,
        eps: Eps = 1e-5,
        momentum: Annotated[float, Range(0, 1)] | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(ops.ones((num_features,))) if affine else None
        self.bias = Parameter(ops.zeros((num_features,))) if affine else None
        self.running_mean = Buffer(ops.zeros((num_features,)), exact=True) if track_running_stats else None
        self.running_var = Buffer(ops.ones((num_features,)), exact=True) if track_running_stats else None
        self.batches = Buffer(np.array(0)) if track_running_stats and momentum is None else None

    def forward(self, x: Tensor, *, activation: Activation | None = None, residual: Tensor | None = None) -> Tensor:
        """Normalised x, plus `residual`, then the activation; these two cost no pass over memory of their own.

        Training takes the statistics of the batch, and moves the running ones; evaluation takes the running ones, where
        they are kept.
        """
        if x.ndim not in self.ranks:
            raise ShapeError(
                f"{type(self).__name__}: x {x.shape} has {x.ndim} dimensions, expected "
                f"{' or '.join(map(str, self.ranks))}"
            )
        if not self.training and self.running_mean is not None and self.running_var is not None:
            return ops.batch_norm_eval(
                x,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                eps=self.eps,
                activation=activation,
                residual=residual,
            )
        if self.training and self.across is not None:
            x, mean, var = moments(x)
            mean, var = self.track(mean, var, x.size // x.shape[-1])
            return ops.batch_norm_eval(
                x, mean, var, self.weight, self.bias, eps=self.eps, activation=activation, residual=residual
            )
        y, mean, var = ops.batch_norm(x, self.weight, self.bias, eps=self.eps, activation=activation, residual=residual)
        if self.training:
            self.track(mean, var, x.size // x.shape[-1])
        return y

    def track(self, mean: Tensor, var: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The statistics to normalise a batch by in training: mean and var over its n values a channel, which are then
        joined with those of other processes (`across`).

        Moves the running statistics by `momentum` (None: the mean over all batches); their variance is unbiased, over n
        - 1.
        """
        count = None
        if self.across is not None:
            mean, var, count = join_moments(mean, var, n, self.across)
        if self.running_mean is not None and self.running_var is not None:
            share = self.momentum if self.momentum is not None else self._next_share()
            assign(self.running_mean, ops.running_average(self.running_mean, mean, share=share))
            unbiased, factor = var, 1.0
            if count is None:
                factor = n / (n - 1)
            else:
                total = ops.astype(count, var.dtype)
                unbiased = var.detach() * (total / (total - 1))
            assign(self.running_var, ops.running_average(self.running_var, unbiased, share=share, factor=factor))
        return mean, var

    def _next_share(self) -> float:
        """1 / (number of batches, this one included)."""
        assert self.batches is not None
        self.batches.data[...] += 1
        return 1.0 / int(self.batches.data)


class BatchNorm1d(_BatchNorm):
    """Batch norm of x [N, C] or [N, L, C]."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of x [N, H, W, C]."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of x [N, D, H, W, C]."""

    ranks = (5,)


class LayerNorm(Module):
    """Norm over the last axes of x [..., *normalized_shape]. Ba et al., arXiv 1607.06450."""

    shown: ClassVar[tuple[str, ...]] = ("normalized_shape", "eps")

    def __init__(
        self,
        normalized_shape: Width | Sequence[Width],
        *,
        eps: Eps = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(ops.ones(self.normalized_shape)) if elementwise_affine else None
        self.bias = Parameter(ops.zeros(self.normalized_shape)) if elementwise_affine and bias else None

    def check(self, x: Tensor) -> int:
        """How many axes are normalised; raises unless x ends in their sizes."""
        dims = len(self.normalized_shape)
        if x.shape[-dims:] != self.normalized_shape:
            raise ShapeError(f"{type(self).__name__}: x {x.shape} does not end in {self.normalized_shape}")
        return dims

    def forward(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, dims=self.check(x), eps=self.eps)

    def add(self, x: Tensor, residual: Tensor, *, dropout_p: float = 0.0) -> tuple[Tensor, Tensor]:
        """The norm of residual + dropout(x), and that sum, in one pass; over the last axis only."""
        if self.check(x) != 1:
            raise ShapeError(f"{type(self).__name__}: add() normalises one axis, not {self.normalized_shape}")
        centred = not isinstance(self, RMSNorm)
        return ops.add_layer_norm(
            x, residual, self.weight, self.bias, eps=self.eps, dropout_p=dropout_p, centred=centred
        )


class RMSNorm(LayerNorm):
    """x / sqrt(mean x^2 + eps) weight over the last axes. Zhang & Sennrich, arXiv 1910.07467."""

    def __init__(
        self, normalized_shape: Width | Sequence[Width], *, eps: Eps = 1e-6, elementwise_affine: bool = True
    ) -> None:
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.weight, dims=self.check(x), eps=self.eps)


class GroupNorm(Module):
    """Norm over each sample's positions and each of `num_groups` runs of channels, x [N, ..., C]. Wu & He, arXiv
    1803.08494.
    """

    shown: ClassVar[tuple[str, ...]] = ("num_groups", "num_channels", "eps", "affine")

    def __init__(self, num_groups: Width, num_channels: Width, *, eps: Eps = 1e-5, affine: bool = True) -> None:
        if num_channels % num_groups:
            raise ShapeError(f"{type(self).__name__}: num_groups={num_groups} must divide num_channels={num_channels}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter(ops.ones((num_channels,))) if affine else None
        self.bias = Parameter(ops.zeros((num_channels,))) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return ops.group_norm(x, self.weight, self.bias, groups=self.num_groups, eps=self.eps)


class InstanceNorm(GroupNorm):
    """Norm of each channel of each sample over its positions, x [N, ..., C]. Ulyanov et al., arXiv 1607.08022 (PyTorch:
    InstanceNorm1d to 3d).
    """

    shown: ClassVar[tuple[str, ...]] = ("num_channels", "eps", "affine")

    def __init__(self, num_features: Width, *, eps: Eps = 1e-5, affine: bool = False) -> None:
        super().__init__(num_features, num_features, eps=eps, affine=affine)


class LocalResponseNorm(Module):
    """x / (k + alpha / size sum x^2)^beta over `size` neighbouring channels. Krizhevsky et al., NIPS 2012.

    alpha  factor of the sum of squares
    beta   power of the denominator
    k      what is added to the sum
    """

    shown: ClassVar[tuple[str, ...]] = ("size", "alpha", "beta", "k")

    def __init__(self, size: Width = 5, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Tensor) -> Tensor:
        return ops.local_response_norm(x, size=self.size, alpha=self.alpha, beta=self.beta, k=self.k)

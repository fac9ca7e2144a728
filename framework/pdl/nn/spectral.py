"""Spectral norm: Miyato et al., Spectral normalization for generative adversarial networks, ICLR 2018 (arXiv
1802.05957)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pdl import ops, random
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.nn.conv import Conv2d
from pdl.nn.linear import Linear
from pdl.nn.module import Buffer, Module
from pdl.ops.base import assign
from pdl.tensor import Tensor


class SpectralNorm(Module):
    """A linear or convolutional layer with weight W / sigma, sigma the largest singular value of W as a matrix [inputs,
    outputs], so that it stretches no input (of a convolution: no patch) more than 1.

    layer   `Linear`, `Conv1d`, `Conv2d` or `Conv3d`
    eps     what is added to norms

    sigma is v^T W u for v = W u / |W u|, u [outputs] a buffer, which a step of the power method brings nearer to the
    singular vector at every call in training. Gradients flow through sigma, u and v held still.
    """

    def __init__(self, layer: Module, *, eps: Annotated[float, Range(above=0)] = 1e-12) -> None:
        if not isinstance(layer, Conv2d | Linear):
            raise UsageError(f"SpectralNorm: {type(layer).__name__} is neither a linear layer nor a convolution")
        self.layer: Conv2d | Linear = layer
        self.eps = eps
        u = random.generator().standard_normal(layer.weight.shape[-1]).astype(np.float32)
        self.u = Buffer(u / np.linalg.norm(u), exact=True)

    def weight(self) -> Tensor:
        """W / sigma."""
        w = self.layer.weight
        matrix, u = ops.reshape(w, (-1, w.shape[-1])), self.u.detach()
        if self.training:
            still = matrix.detach()
            u = self._unit(ops.matmul(self._unit(ops.matmul(still, u)), still))
            assign(self.u, u)
        v = self._unit(ops.matmul(matrix.detach(), u))
        return (w / ops.sum(v * ops.matmul(matrix, u))).astype(w.dtype)

    def _unit(self, x: Tensor) -> Tensor:
        return x / (ops.sqrt(ops.sum(ops.square(x))) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        """As the layer's."""
        layer = self.layer
        if isinstance(layer, Linear):
            return ops.linear(x, self.weight(), layer.bias)
        convolve = (ops.conv1d, ops.conv2d, ops.conv3d)[layer.rank - 1]
        return convolve(x, self.weight(), layer.bias, **layer._arguments())

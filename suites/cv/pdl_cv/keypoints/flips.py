"""Heatmaps of an image and of its mirror image, averaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import pdl
from pdl import Tensor
from pdl.nn import Module


class Flipped(Module):
    """The mean of a net's heatmaps of images [N, H, W, C] and, mirrored back, of their mirror images: [N, h, w, P].

    pairs  points that change places
    count  P
    """

    def __init__(self, net: Module, pairs: Sequence[Sequence[int]], count: int) -> None:
        self.net, order = net, np.arange(count)
        for a, b in pairs:
            order[[a, b]] = b, a
        self.order = order
        self.train(net.training)

    def forward(self, images: Tensor) -> Tensor:
        both = self.net(pdl.concat([images, pdl.flip(images, axis=2)], axis=0))
        plain, mirrored = pdl.split(both, (images.shape[0], images.shape[0]), axis=0)
        return (plain + pdl.take(pdl.flip(mirrored, axis=2), self.order, axis=3)) * 0.5

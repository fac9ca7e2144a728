"""Slopes of features over time: Furui, IEEE ASSP 34(1), 1986."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.hints import Range
from pdl_speech.features.base import FrameLayer


class Deltas(FrameLayer):
    """Behind the channels of each frame their slopes, d_t = sum_n n (x_(t+n) - x_(t-n)) / (2 sum_n n^2), n from 1 to
    `reach`, the first and last frame repeated beyond the ends; and slopes of these.

    order  1: slopes, 2: and their slopes, ...
    reach  frames to each side
    """

    shown = ("order", "reach")

    def __init__(self, *, order: Annotated[int, Range(1, 4)] = 2, reach: Annotated[int, Range(1, 32)] = 2) -> None:
        self.order, self.reach = order, reach

    def out_channels(self, channels: int) -> int:
        """`order` + 1 times as many."""
        return channels * (self.order + 1)

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels] -> [N, frames, channels (order + 1)]."""
        made = [x]
        for _ in range(self.order):
            made.append(self.slopes(made[-1]))
        return pdl.concat(made, axis=2)

    def slopes(self, x: pdl.Tensor) -> pdl.Tensor:
        """d of x [N, frames, channels]."""
        count, edge = x.shape[1], (x.shape[0], self.reach, x.shape[2])
        wide = pdl.concat([pdl.broadcast_to(x[:, :1], edge), x, pdl.broadcast_to(x[:, -1:], edge)], axis=1)
        norm = 2 * sum(n * n for n in range(1, self.reach + 1))
        parts = [
            (wide[:, self.reach + n : self.reach + n + count] - wide[:, self.reach - n : self.reach - n + count])
            * (n / norm)
            for n in range(1, self.reach + 1)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

"""Batches of a graph without labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl_graph.node.loader import WholeSplit


class Shuffles:
    """The batch of a `WholeSplit`, with an order of the graph's nodes, "order" int64 [N], drawn by (seed, epoch)."""

    def __init__(self, whole: Any, nodes: int, seed: int) -> None:
        assert isinstance(whole, WholeSplit)
        self.whole, self.nodes, self.seed, self.epoch = whole, nodes, seed, 0
        self.dataset = whole.dataset

    def __len__(self) -> int:
        return 1

    def set_epoch(self, epoch: int) -> None:
        """Another order for every epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.nodes)
        yield {**self.whole.batch, "order": order}

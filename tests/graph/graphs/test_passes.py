"""Epochs of a given number of steps."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_graph.graphs.loader import Passes


@pytest.mark.parametrize("size", [4, 7, 23])
def test_epochs_are_cut_out_of_whole_passes(size: int) -> None:
    passes = Passes(7, size, seed=3)
    order = np.concatenate([passes.order(epoch) for epoch in range(14)])
    assert len(order) == 14 * size == 14 * len(passes)
    assert (np.sort(order.reshape(-1, 7), axis=1) == np.arange(7)).all()
    assert (order[:7] != order[7:14]).any()

"""Weights rounded by what layers make of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.export.quantise import calibrate
from pdl.export.quantise.adaptive import DAMPING, _rows, descend
from pdl.export.quantise.calibrate import tapped
from pdl.ops.base import Spec
from pdl.program import Program, trace


def layer(inputs: int, outputs: int) -> tuple[Any, ...]:
    """Inputs that hang together, as those of nets do, weights, their nearest bytes, and a coarse scale."""
    draws = np.random.default_rng(inputs)
    x = draws.standard_normal((2, 400, inputs // 3 + 1)) @ draws.standard_normal((2, inputs // 3 + 1, inputs))
    x = np.maximum(x + 0.3 * draws.standard_normal(x.shape), 0).astype(np.float32)
    w = draws.standard_normal((2, inputs, outputs)).astype(np.float32)
    scale = (np.abs(w).max(axis=1, keepdims=True) / 9).astype(np.float32)
    return x, w, np.rint(w / scale), scale


def test_no_layer_is_further_off_than_with_nearest_bytes() -> None:
    for inputs, outputs in ((9, 1), (27, 16), (150, 20)):
        x, w, near, scale = layer(inputs, outputs)
        y = x + 0.05 * np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
        q = descend(x, y, w, near, scale)
        assert ((q == np.floor(w / scale)) | (q == np.ceil(w / scale))).all()
        error, before = (np.square(x @ w - y @ (each * scale)).sum(axis=1) for each in (q, near))
        assert (error <= before * 1.0001).all()  # of every output
        assert error.sum() < 0.8 * before.sum()


def test_descent_comes_near_to_the_best_of_all_roundings() -> None:
    x, w, near, scale = layer(9, 4)
    q = descend(x, x, w, near, scale)
    gram = np.matmul(np.swapaxes(x, 1, 2), x) / x.shape[1]
    gram += DAMPING * np.einsum("gkk->g", gram)[:, None, None] / 9 * np.eye(9)

    def sums(bytes_: Any) -> Any:
        off = w - bytes_ * scale
        return np.einsum("gko,gkl,glo->go", off, gram, off)

    best = np.min([sums(np.floor(w / scale) + np.array(up)[:, None]) for up in product((0, 1), repeat=9)], axis=0)
    assert (sums(q) >= best * 0.999).all()
    assert sums(q).sum() < 1.25 * best.sum() < 0.7 * sums(near).sum()


def test_rows_are_what_outputs_are_made_of() -> None:
    pdl.seed(0)
    x = np.random.default_rng(0).standard_normal((3, 9, 8, 4)).astype(np.float32)
    for net in (
        nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1, groups=2, bias=False),
        nn.Conv2d(4, 6, 3, dilation=2, bias=False),
        nn.Linear(4, 6, bias=False),
    ):
        node = trace(net, Spec(x.shape, x.dtype), modules=[net]).nodes[-1]
        w, groups = net.weight.data, getattr(node.op, "groups", 1)
        rows, _ = _rows(node, x, x, 10**6, w.shape)
        split = np.moveaxis(w.reshape(-1, groups, 6 // groups), 1, 0)
        with pdl.no_grad():
            wanted = net(pdl.tensor(x)).data.reshape(-1, 6)
        np.testing.assert_allclose(np.moveaxis(rows @ split, 0, 1).reshape(-1, 6), wanted, atol=1e-4)


class Net(nn.Module):
    """Positive inputs, and weights that are 0.4 of a byte's step but for one: the nearest bytes lose all of them."""

    def __init__(self) -> None:
        self.first, self.second = nn.Conv2d(8, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.last = nn.Linear(32, 4)
        w = self.last.weight.data
        w[...] = 0.4 / 127
        w[0] = 1

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.last(pdl.global_avg_pool(pdl.relu(self.second(pdl.relu(self.first(x))))))


def test_a_net_on_bytes_with_adaptive_rounding() -> None:
    pdl.seed(0)
    net, draws = Net().eval(), np.random.default_rng(0)
    batches = [[draws.standard_normal((16, 6, 6, 8)).astype(np.float32)] for _ in range(4)]
    program = trace(net, Spec(batches[0][0].shape, np.dtype(np.float32)), modules=[net])
    new = [draws.standard_normal((16, 6, 6, 8)).astype(np.float32)]

    def answers(program: Program) -> Any:
        return np.array(next(tapped(program, [v for v in program.outputs if v is not None], [new]))[0])

    wanted = answers(program)
    off = {}
    for rounding in ("nearest", "adaptive"):
        made = calibrate(program, batches, rounding=rounding)
        off[rounding] = float(np.square(answers(made.program) - wanted).mean())
        again = calibrate(program, batches, rounding=rounding)
        for a, b in zip(made.pairs.captures, again.pairs.captures, strict=True):
            np.testing.assert_array_equal(a.tensor._data, b.tensor._data)  # type: ignore[union-attr]
    assert [gain.name for gain in made.gains] == ["first", "second", "last"]
    assert all(gain.adapted <= gain.nearest for gain in made.gains)
    assert off["adaptive"] < 0.3 * off["nearest"]
    np.testing.assert_array_equal(answers(program), wanted)  # the net is as it was
    with pytest.raises(UsageError, match="nearest, adaptive"):
        calibrate(program, batches, rounding="up")

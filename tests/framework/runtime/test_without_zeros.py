"""Weights that lie in a bundle without their zeros."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import DataError
from pdl.hub.states import read_state
from pdl.runtime import load
from pdl.runtime.bundle import read
from pdl.runtime.info import info
from pdl.runtime.weights import SPARSE, widened, without_zeros

F32, INT8 = np.dtype(np.float32), np.dtype(np.int8)


@pytest.mark.parametrize("dtype", SPARSE.values(), ids=str)
@pytest.mark.parametrize("shape", [(40, 61), (3, 3, 5, 7), (1000,)])
def test_elements_are_the_same(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    draws = np.random.default_rng(0)
    w = np.where(draws.random(shape) < 0.2, draws.integers(-90, 90, shape), 0).astype(dtype)
    if dtype == F32:
        w.flat[:3] = [-0.0, np.nan, np.inf]
    made = without_zeros(w)
    kept = np.count_nonzero(w)
    assert made.nbytes == 1 + -(-w.size // 8) + kept * dtype.itemsize < w.nbytes
    got = widened(made, INT8 if dtype == INT8 else F32, list(shape))
    assert got.dtype == (INT8 if dtype == INT8 else F32)
    np.testing.assert_array_equal(got, w.astype(got.dtype))
    assert not got.flags.writeable


def test_what_saves_little_stays() -> None:
    for w in (np.ones((30, 30), np.float32), np.eye(30) + np.eye(30)[::-1] * 0, np.arange(9), np.empty((0, 3), F32)):
        assert without_zeros(w) is w
    most = (np.arange(900) % 4 > 0).astype(np.float32).reshape(30, 30)
    assert without_zeros(most) is most


def test_damaged_ones_are_refused() -> None:
    made = without_zeros(np.eye(16, dtype=np.float32))
    flipped = made.copy()
    flipped[1] ^= 64
    for wrong, shape in ((made[:-1], [16, 16]), (flipped, [16, 16]), (made, [16, 17]), (made, ["n", 16]),
                         (made, [16, 2**40]), (np.array([1], np.uint8), [16, 16])):  # fmt: skip
        with pytest.raises(DataError, match="without its zeros"):
            widened(wrong, F32, shape)
    with pytest.raises(DataError, match="no shared values"):
        widened(np.concatenate([[0], made[1:]]).astype(np.uint8), F32, [16, 16])  # of int8
    assert widened(made, INT8, [16, 16]) is made  # which the program then refuses: it is not int8


@pytest.mark.parametrize("store", ["fp32", "bf16"])
def test_a_bundle_of_a_sparse_net(tmp_path: Path, store: str) -> None:
    net = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 30))
    draws = np.random.default_rng(0)
    for layer in (net[0], net[2]):
        layer.weight.data[...] *= draws.random(layer.weight.shape) < 0.1
    x = draws.standard_normal((5, 64)).astype(np.float32)
    pdl.Model(net).prepare().export(str(tmp_path / "net.pdl"), x, store=store)
    session = load(tmp_path / "net.pdl")
    (got,) = session.run({session.inputs[0].name: x}).values()
    with pdl.no_grad():
        wanted = net(pdl.tensor(x)).data
    np.testing.assert_allclose(got, wanted, atol=1e-5 if store == "fp32" else 0.02)
    held = read(tmp_path / "net.pdl")
    whole = sum(p.size for p in net.parameters()) * 4
    assert sum(array.nbytes for array in held.weights.values()) < (0.16 if store == "fp32" else 0.12) * whole
    assert held.meta["about"]["zeros"] == "left out of 2 tensors"
    assert "bytes of weights without their zeros" in info(tmp_path / "net.pdl")["weights"]
    state = read_state(tmp_path / "net.pdl").arrays
    for name, p in net.named_parameters():
        np.testing.assert_allclose(state[name], p.data, rtol=0 if store == "fp32" else 2**-8)

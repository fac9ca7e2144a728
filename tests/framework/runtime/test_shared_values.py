"""Weights whose elements share values, as they lie in a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import CheckError, DataError, UsageError
from pdl.export.bundle import as_stored
from pdl.hub.states import read_state
from pdl.runtime import load, weights
from pdl.runtime.bundle import read
from pdl.runtime.info import info

F32 = np.dtype(np.float32)


@pytest.mark.parametrize("bits", weights.BITS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (40, 61), (2, 3, 5, 7)])
def test_elements_are_the_nearest_of_few_values(bits: int, shape: tuple[int, ...], monkeypatch: Any) -> None:
    monkeypatch.setattr(weights, "CHUNK", 64)
    w = np.random.default_rng(bits).standard_normal(shape).astype(np.float32)
    made = weights.coded(w, bits)
    assert made.nbytes == 1 + 4 * 2**bits + -(-w.size * bits // 8)
    got = weights.widened(made, F32, list(shape))
    assert got.shape == shape
    assert not got.flags.writeable
    book = made[1 : 1 + (4 << bits)].view("<f4")
    assert np.unique(got).size <= 2**bits
    nearest = np.abs(w.reshape(-1, 1) - book).min(axis=1)
    np.testing.assert_allclose(np.abs(w - got).ravel(), nearest, atol=1e-6)
    if w.size > 2000:  # means of what is nearest: better than equal steps of the range
        step = (w.max() - w.min()) / (2**bits - 1)
        assert np.square(w - got).mean() < step**2 / 12


def test_damaged_ones_are_refused() -> None:
    made = weights.coded(np.ones((4, 6), np.float32), 4)
    for wrong, shape in (
        (made[:-1], [4, 6]), (made, [4, 7]), (np.zeros(0, np.uint8), [4, 6]), (made.reshape(1, -1), [4, 6]),
        (np.concatenate([[9], made[1:]]).astype(np.uint8), [4, 6]), (made, ["n", 6]),
    ):  # fmt: skip
        with pytest.raises(DataError, match="no shared values"):
            weights.widened(wrong, F32, shape)
    with pytest.raises(CheckError, match="not finite"):
        as_stored({"w": np.full((2, 99), np.inf, np.float32)}, "k4")
    with pytest.raises(UsageError, match="choose one of"):
        as_stored({}, "k9")  # type: ignore[arg-type]


def test_a_bundle_of_shared_values_answers(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 30))
    x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    model = pdl.Model(net).prepare()
    sizes = {}
    for store in ("fp32", "k8", "k4"):
        path = tmp_path / f"{store}.pdl"
        model.export(str(path), x, store=store)
        session = load(path)
        (got,) = session.run({session.inputs[0].name: x}).values()
        with pdl.no_grad():
            wanted = net(pdl.tensor(x)).data
        off = {"fp32": 1e-6, "k8": 0.01, "k4": 0.15}[store]
        assert np.abs(got - wanted).max() <= off * np.abs(wanted).max()
        sizes[store] = sum(array.nbytes for array in read(path).weights.values())
    assert sizes["k8"] < 0.4 * sizes["fp32"]
    assert sizes["k4"] < 0.16 * sizes["fp32"]
    assert read(tmp_path / "k4.pdl").meta["about"]["stored"] == "matrices and kernels of 16 shared values"
    assert "bytes of shared values" in info(tmp_path / "k4.pdl")["weights"]
    with pytest.raises(UsageError, match="for deployment only"):
        read_state(tmp_path / "k4.pdl")

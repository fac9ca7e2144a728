"""Products whose weights are mostly zeros, of which blocks are kept, against the product of the whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.kernels import packed
from pdl.ops.packed import kept_blocks, pack
from pdl.threads import num_threads

ONE, NONE = (1, 1, 1), (0, 0, 0)


def sparse(shape: tuple[int, ...], share: float, seed: int = 0) -> np.ndarray:
    """Weights of which about this share of blocks is kept; always one."""
    draws = np.random.default_rng(seed)
    w = draws.standard_normal(shape).astype(np.float32)
    rows = w.reshape(-1, shape[-1])
    for p in range(0, shape[-1], packed.WIDE):
        rows[draws.random(len(rows)) >= share, p : p + packed.WIDE] = 0
    w.flat[-1] = 1
    return w


def product(x: np.ndarray, w: np.ndarray, **how: Any) -> np.ndarray:
    y = np.full((len(x), 1, 1, 1, w.shape[-1]), np.nan, np.float32)
    shape, blocks = (*ONE, *w.shape), pack("blocks", w)
    kept = int(packed.blocks(w).sum())
    rows = x.reshape(len(x), 1, 1, 1, -1)
    bias = how.pop("bias", None)
    packed.forward("blocks", y, rows, blocks, shape, bias, ONE, NONE, ONE, kept=kept, **how)
    return y.reshape(len(x), -1)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("columns", [1, 15, 16, 17, 31, 64, 83])
def test_every_number_of_rows_and_every_tail(columns: int, share: float) -> None:
    draws, w = np.random.default_rng(columns), sparse((70, columns), share)
    bias, residual = draws.standard_normal(columns), draws.standard_normal((45, columns))
    bias, residual = bias.astype(np.float32), residual.astype(np.float32)
    for rows in (*range(1, 31), 45):
        x = draws.standard_normal((rows, 70)).astype(np.float32)
        wanted = x.astype(np.float64) @ w
        np.testing.assert_allclose(product(x, w), wanted, atol=1e-4)
        for threads in (1, 3):
            with num_threads(threads):
                got = product(x, w, bias=bias, activation="relu")
            np.testing.assert_allclose(got, np.maximum(wanted + bias, 0), atol=1e-4)
        with_all = {"bias": bias, "residual": residual[:rows], "activation": "silu"}
        v = wanted + bias + residual[:rows]
        np.testing.assert_allclose(product(x, w, **with_all), v / (1 + np.exp(-v)), atol=1e-4)


@pytest.mark.parametrize("threads", [1, 4])
def test_windows_of_images_and_threads(threads: int) -> None:
    """The same numbers as from the form of whole panels, however rows and blocks are shared out."""
    draws = np.random.default_rng(3)
    for size, kernel, stride, pad in (((4, 6), (3, 3), 1, 1), ((19, 7), (3, 5), 2, 2), ((40, 40), (1, 1), 1, 0)):
        shape = (1, *kernel, 24, 600)
        w, x = sparse(shape, 0.2), draws.standard_normal((2, 1, *size, 24)).astype(np.float32)
        out = tuple((n + 2 * pad - k) // stride + 1 for n, k in zip(size, kernel, strict=True))
        found = []
        for form in ("rows", "blocks"):
            y, kept = np.full((2, 1, *out, 600), np.nan, np.float32), kept_blocks(w) if form == "blocks" else 0
            with num_threads(threads):
                window = (1, stride, stride), (0, pad, pad), ONE
                packed.forward(form, y, x, pack(form, w), shape, None, *window, kept=kept)
            found.append(y)
        np.testing.assert_allclose(*found, atol=2e-4)


def test_what_counts_as_sparse() -> None:
    w = sparse((300, 100), 0.3)
    assert kept_blocks(w) == packed.blocks(w).sum() == np.count_nonzero(np.add.reduceat(w != 0, range(0, 100, 16), 1))
    assert kept_blocks(sparse((300, 100), 0.9)) == 0  # dense but for a few
    apart = np.where(np.random.default_rng(0).random((300, 96)) < 0.3, np.float32(1), np.float32(0))
    assert kept_blocks(apart) > 0.99 * 300 * 6  # zeros that lie apart leave every block


def test_refusals() -> None:
    w = sparse((20, 40), 0.5)
    kept, x, y = kept_blocks(w), np.ones((3, 1, 1, 1, 20), np.float32), np.empty((3, 1, 1, 1, 40), np.float32)
    good = pack("blocks", w)
    call: Any = (y, x, good, (*ONE, 20, 40), None, ONE, NONE, ONE)
    packed.forward("blocks", *call, kept=kept)
    for wrong in (0, kept + 1, 10**6):
        with pytest.raises(ValueError, match="packed"):
            packed.forward("blocks", *call, kept=wrong)
    with pytest.raises(ValueError, match="blocks alone"):
        packed.forward("rows", *call, kept=kept)
    for at, number in ((0, 1), (1, -1), (3, 0), (4, 20), (4 + kept - 1, -1)):
        damaged = good.copy()
        damaged.view(np.int32)[at] = number
        with pytest.raises(ValueError, match="not what `pack` makes"):
            packed.forward("blocks", y, x, damaged, *call[3:], kept=kept)
    with pytest.raises(ValueError, match="do not fit"):
        packed.pack("blocks", good[:-1].copy(), w.reshape(*ONE, 20, 40))
    with pytest.raises(ValueError, match="float32"):
        packed.size("blocks", (*ONE, 20, 40), np.float64, kept)

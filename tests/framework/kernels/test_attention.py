"""The attention kernels against NumPy in float64: tiles, tails, strides, masks, threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from pdl import threads
from pdl.kernels import attention as kernels

from ..ops.cases_dropout import factors

RNG = np.random.default_rng(4)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: n, heads, l, s, e, d
SIZES = [
    (1, 1, 1, 1, 1, 1),
    (2, 3, 5, 7, 3, 4),
    (1, 2, 64, 128, 26, 26),
    (2, 2, 65, 129, 32, 40),
    (1, 1, 130, 300, 7, 33),
    (1, 1, 9, 520, 64, 64),
    (3, 2, 128, 128, 80, 16),
]


def reference(q, k, v, g, mask, causal, scale, p, seed):
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    scores = np.einsum("nhle,nhse->nhls", q, k) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    prob, z = special.softmax(scores, axis=-1), factors(scores.shape, p, seed) if p else 1
    y = (prob * z) @ v
    dp = (g @ v.swapaxes(-1, -2)) * z
    ds = prob * (dp - (g * y).sum(-1, keepdims=True)) * scale
    grads = ds @ k, ds.swapaxes(-1, -2) @ q, (prob * z).swapaxes(-1, -2) @ g
    return y, special.logsumexp(scores, axis=-1), *grads


def rows(n: int, heads: int, length: int, width: int, dtype: np.dtype, beside: bool) -> np.ndarray:
    """[n, heads, length, width]; `beside`: with the heads side by side in memory."""
    if not beside:
        return RNG.standard_normal((n, heads, length, width)).astype(dtype)
    return RNG.standard_normal((n, length, heads, width)).astype(dtype).transpose(0, 2, 1, 3)


def masks(kind: str, size: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    n, heads, length, keys = size
    if kind == "add":
        return np.broadcast_to(RNG.standard_normal((heads, length, keys)).astype(dtype), size)
    if kind == "column":
        return np.broadcast_to(RNG.standard_normal((n, 1, length, 1)).astype(dtype), size)
    if kind == "padding":
        return np.broadcast_to(np.arange(keys) < RNG.integers(1, keys + 1, (n, 1, 1, 1)), size)
    if kind == "holes":
        kept = RNG.random((n, heads, 1, keys)) < 0.6
        kept[..., RNG.integers(keys)] = True
        return np.broadcast_to(kept, size)
    return None


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["none", "causal", "add", "column", "padding", "holes", "dropout"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), BFLOAT16], ids=str)
def test_attention(size: tuple[int, ...], kind: str, dtype: np.dtype) -> None:
    n, heads, length, keys, e, d = size
    beside = kind in ("causal", "padding")
    q, k = rows(n, heads, length, e, dtype, beside), rows(n, heads, keys, e, dtype, beside)
    v, g = rows(n, heads, keys, d, dtype, beside), rows(n, heads, length, d, dtype, beside)
    mask = masks(kind, (n, heads, length, keys), dtype)
    p, seed, scale = (0.3 if kind == "dropout" else 0.0), 77, 0.4
    options = {"scale": scale, "causal": kind == "causal", "dropout": p, "seed": seed}
    wide = np.float64 if dtype == np.float64 else np.float32
    y, lse = np.full_like(g, np.nan), np.full((n, heads, length), np.nan, wide)
    kernels.attention(y, lse, q, k, v, mask, **options)
    grads = [np.full_like(x, np.nan) for x in (q, k, v)]
    kernels.attention_grad(*grads, g, y, lse, q, k, v, mask, **options)
    expected = reference(q, k, v, g, mask, kind == "causal", scale, p, seed)
    tolerance = {"float64": 1e-12, "float32": 3e-5, "bfloat16": 3e-2}[dtype.name]
    for found, want in zip((y, lse, *grads), expected, strict=True):
        size_of = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(found.astype(np.float64), want, atol=tolerance * size_of, rtol=0)


@pytest.mark.parametrize("size", [(1, 1, 70, 700, 8, 8), (1, 3, 128, 256, 16, 16)], ids=str)
def test_any_number_of_threads(size: tuple[int, ...]) -> None:
    n, heads, length, keys, e, d = size
    float32 = np.dtype(np.float32)
    q, k = rows(n, heads, length, e, float32, False), rows(n, heads, keys, e, float32, True)
    v, g = rows(n, heads, keys, d, float32, True), rows(n, heads, length, d, float32, False)
    found: dict[int, tuple[np.ndarray, ...]] = {}
    for count in (1, 2, 4, 4):
        with threads.num_threads(count):
            y, lse = np.empty_like(g), np.empty((n, heads, length), np.float32)
            kernels.attention(y, lse, q, k, v, scale=0.3)
            grads = [np.empty_like(x) for x in (q, k, v)]
            kernels.attention_grad(*grads, g, y, lse, q, k, v, scale=0.3)
        made = (y, lse, *grads)
        for other in found.values():
            for a, b in zip(made, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(made, found.get(count, made), strict=True):
            np.testing.assert_array_equal(a, b)
        found[count] = made


def test_a_query_without_keys_is_nan_and_harms_no_other() -> None:
    q, k, v = (RNG.standard_normal((1, 1, 3, 4)).astype(np.float32) for _ in range(3))
    mask = np.array([[True, True, True], [False, False, False], [True, False, True]])[None, None]
    y, lse = np.empty_like(q), np.empty((1, 1, 3), np.float32)
    kernels.attention(y, lse, q, k, v, mask, scale=1.0)
    assert np.isnan(y[0, 0, 1]).all()
    assert np.isfinite(y[0, 0, [0, 2]]).all()
    kernels.attention(y, lse, q, k, v, np.broadcast_to(np.zeros((1, 1, 1, 3), bool), (1, 1, 3, 3)), scale=1.0)
    assert np.isnan(y).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": np.zeros((1, 1, 4, 3), np.float64)}, "k is float64, the others are float32"),
        ({"v": np.zeros((1, 1, 5, 2), np.float32)}, r"v \(1, 1, 5, 2\) is not"),
        ({"mask": np.zeros((1, 1, 2, 5), bool)}, r"mask \(1, 1, 2, 5\) is not \(1, 1, 2, 4\)"),
        ({"q": np.zeros((1, 1, 2, 6), np.float32)[..., ::2]}, "side by side"),
        ({"lse": np.zeros((1, 1, 3), np.float32)}, "one number a query"),
    ],
)
def test_refused(change: dict[str, np.ndarray], words: str) -> None:
    zeros = np.zeros
    arrays = {
        "y": zeros((1, 1, 2, 2), np.float32),
        "lse": zeros((1, 1, 2), np.float32),
        "q": zeros((1, 1, 2, 3), np.float32),
        "k": zeros((1, 1, 4, 3), np.float32),
        "v": zeros((1, 1, 4, 2), np.float32),
    }
    with pytest.raises((TypeError, ValueError), match=words):
        kernels.attention(**{**arrays, **change}, scale=1.0)

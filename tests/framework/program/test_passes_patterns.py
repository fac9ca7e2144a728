"""Activations, norms and attention written in arithmetic, as exporters write them: which op they become."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.program.passes import INFERENCE_ONCE, run_passes
from pdl.program.passes.recognise import name_activations
from pdl.runtime.session import Session

from .rewriting import N, Pattern, check, counts, inputs, r, run, size, traced

L = size("l", 5)
ROWS = [(N, L, 24)]
OTHER = ({"n": 1, "l": 1}, {"n": 2, "l": 9})
W, ROW, SHIFT = r(24, 24), r(24), r(24)
C = math.sqrt(2 / math.pi)

ACTIVATIONS = {
    "gelu": ("Gelu", lambda x: x * 0.5 * (1.0 + pdl.erf(x / math.sqrt(2)))),
    "gelu, halved last": ("Gelu", lambda x: 0.5 * (x * (pdl.erf(x * math.sqrt(0.5)) + 1.0))),
    "gelu, tanh": ("GeluTanh", lambda x: 0.5 * x * (1.0 + pdl.tanh(C * (x + 0.044715 * pdl.pow(x, 3.0))))),
    "gelu, tanh, products": ("GeluTanh", lambda x: x * (pdl.tanh(x * C * (x * x * 0.044715 + 1.0)) * 0.5 + 0.5)),
    "silu": ("Silu", lambda x: x * pdl.sigmoid(x)),
    "silu by exp": ("Silu", lambda x: x / (pdl.exp(-x) + 1.0)),
    "swish with beta 1": ("Silu", lambda x: x * pdl.sigmoid(x * 1.0)),
    "hardswish": ("Hardswish", lambda x: x * pdl.clip(x + 3.0, 0.0, 6.0) / 6.0),
    "hardswish by relu6": ("Hardswish", lambda x: x * (pdl.relu6(x + 3.0) * (1 / 6))),
    "hardswish by hardsigmoid": ("Hardswish", lambda x: x * pdl.hardsigmoid(x)),
    "hardsigmoid": ("Hardsigmoid", lambda x: pdl.clip(x + 3.0, 0.0, 6.0) / 6.0),
    "mish": ("Mish", lambda x: x * pdl.tanh(pdl.softplus(x))),
    "mish, logarithm": ("Mish", lambda x: x * pdl.tanh(pdl.log(1.0 + pdl.exp(x)))),
    "softplus": ("Softplus", lambda x: pdl.log1p(pdl.exp(x))),
    "sigmoid": ("Sigmoid", lambda x: 1.0 / (1.0 + pdl.exp(-x))),
    "softsign": ("Softsign", lambda x: x / (1.0 + pdl.abs(x))),
    "relu": ("Relu", lambda x: pdl.maximum(x, pdl.zeros(()))),
    "relu6": ("Hardtanh", lambda x: pdl.minimum(pdl.maximum(x, pdl.zeros((1,))), 6.0 * pdl.ones(()))),
    "leaky relu": ("LeakyRelu", lambda x: pdl.maximum(x, x * 0.1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    op, function = ACTIVATIONS[name]
    check(Pattern(function, ROWS, {op: 1}, OTHER))
    check(Pattern(lambda x: function(x @ W + ROW), ROWS, {"LinearThen": 1}, OTHER))


OTHERWISE = {
    "gelu by sigmoid": lambda x: x * pdl.sigmoid(x * 1.702),
    "clip of 5": lambda x: x * pdl.clip(x + 3.0, 0.0, 5.0) / 6.0,
    "a cubed term that is off": lambda x: 0.5 * x * (1.0 + pdl.tanh(C * (x + 0.045 * x * x * x))),
    "two arrays": lambda x: x * pdl.sigmoid(pdl.flip(x, axis=0)),
    "a row": lambda x: x * pdl.sigmoid(x * ROW),
    "a summand that keeps a root finite": lambda x: pdl.rsqrt(pdl.relu(x) + 1e-12),
    "a summand that keeps a logarithm finite": lambda x: pdl.log(pdl.sigmoid(x) + 1e-12),
    "a summand alone": lambda x: x + 1e-12,
    "integers": lambda x: pdl.maximum(x.astype("int32"), 0 * pdl.ones((), dtype="int32")),
    "arrays that broadcast": lambda x: x * pdl.sigmoid(x.mean(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_arithmetic_stays(name: str) -> None:
    program = traced(OTHERWISE[name], ROWS)
    before = counts(program)
    assert counts(run_passes(program, (name_activations,))) == before


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x: pdl.maximum(pdl.minimum(x, 320.0), 0.0), {"Hardtanh": 1}),
        (lambda x: pdl.minimum(pdl.maximum(x, 0.0), 1333.0), {"Hardtanh": 1}),
        (lambda x: pdl.minimum(x * pdl.sigmoid(x), 500.0), {"Silu": 1, "Minimum": 1}),
        (lambda x: pdl.maximum(x, x * 0.01), {"LeakyRelu": 1}),
    ],
)
def test_a_clip_at_the_size_of_an_image_is_no_relu(function: Any, named: dict[str, int]) -> None:
    program = traced(function, ROWS)
    x = np.linspace(-2000, 2000, 2 * 3 * 24, dtype=np.float32).reshape(2, 3, 24)
    (want,) = Session.of(traced(function, ROWS)).run({"x0": x}).values()
    np.testing.assert_allclose(want, function(pdl.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    assert counts(run_passes(program, (name_activations,))) == named


def test_a_floor_keeps_a_division_finite() -> None:
    program = traced(lambda x: x / pdl.sqrt(pdl.maximum(x, 1e-24)), ROWS)
    assert "Relu" not in counts(run_passes(program, (name_activations,)))
    session = Session.of(traced(pdl.normalize, ROWS))
    (found,) = session.run({session.inputs[0].name: np.zeros((2, 3, 24), np.float32)}).values()
    assert not found.any()


def test_what_others_read_is_computed_apart() -> None:
    program = traced(lambda x: (y := pdl.sigmoid(x), x * y), ROWS)
    assert counts(run_passes(program, (name_activations,))) == {"Sigmoid": 1, "Multiply": 1}


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def layer_norm(x, eps=1e-5):
    d = x - mean(x)
    return d / pdl.sqrt(mean(pdl.pow(d, 2.0)) + eps)


NORMS = {
    "layer norm": Pattern(lambda x: layer_norm(x) * ROW + SHIFT, ROWS, {"LayerNorm": 1}, OTHER),
    "mean taken twice": Pattern(
        lambda x: (x - mean(x)) / pdl.sqrt(mean(pdl.square(x - mean(x))) + 1e-6), ROWS, {"LayerNorm": 1}, OTHER),
    "by a product": Pattern(
        lambda x: ROW * ((d := x - mean(x)) * pdl.rsqrt(1e-6 + mean(d * d))), ROWS, {"LayerNorm": 1}, OTHER),
    "by a reciprocal": Pattern(
        lambda x: (d := x - mean(x)) * (1.0 / pdl.sqrt(mean(d * d) + 1e-6)) + SHIFT, ROWS, {"LayerNorm": 1}, OTHER),
    "with a sum in front": Pattern(
        lambda x: layer_norm(x + pdl.tanh(x)) * ROW + SHIFT, ROWS, {"Tanh": 1, "AddLayerNorm": 1}, OTHER),
    "behind a product with residual": Pattern(
        lambda x: layer_norm(x + (x @ W + ROW)) * ROW, ROWS, {"LinearThen": 1, "LayerNorm": 1}, OTHER),
    "rms norm": Pattern(
        lambda x: x * pdl.rsqrt(mean(pdl.square(x)) + 1e-6) * ROW, ROWS, {"LayerNorm": 1}, OTHER),
    "two scales": Pattern(lambda x: layer_norm(x) * ROW * ROW, ROWS, {"LayerNorm": 1, "Multiply": 1}, OTHER),
    "variance about another mean": Pattern(
        lambda x: (x - mean(x)) / pdl.sqrt(mean(x * x) + 1e-5), ROWS,
        {"Mean": 2, "Subtract": 1, "Multiply": 1, "Add": 1, "Sqrt": 1, "Divide": 1}, OTHER),
    "over the first axis": Pattern(
        lambda x: (d := x - x.mean(axis=1, keepdims=True)) / pdl.sqrt(pdl.square(d).mean(axis=1, keepdims=True) + 1e-5),
        ROWS, {"Mean": 2, "Subtract": 1, "Square": 1, "Add": 1, "Sqrt": 1, "Divide": 1}, OTHER),
}  # fmt: skip


def whole_samples(x):
    """Group norm of one group, as exporters write it: an instance norm of samples in a row, channels first."""
    y = pdl.group_norm(x.reshape((x.shape[0], -1, 1)), pdl.ones(1), pdl.zeros(1), groups=1)
    return y.reshape(x.shape) * FACTORS + FACTORS


FACTORS = r(8, 1, 1)
IMAGES = [(N, 3, 5, 8)]


@pytest.mark.parametrize("then", [False, True])
def test_a_norm_of_whole_samples_joins_convolutions(then: bool) -> None:
    """No permutation is left between it and a convolution of channels."""
    w = r(1, 1, 8, 8)

    def net(x):
        y = pdl.permute_dims(pdl.conv2d(x, w), (0, 3, 1, 2))
        y = pdl.permute_dims(whole_samples(y), (0, 2, 3, 1))
        return pdl.conv2d(y, w) if then else y

    check(Pattern(net, IMAGES, {"Conv": 1 + then, "GroupNorm": 1}, ({"n": 1},)))


@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str) -> None:
    check(NORMS[name])


# -- attention ---------------------------------------------------------------------------------------------------------
HEADS, E = 4, 6
SCALE = 1 / math.sqrt(E)
QKV, PACKED, PACKED_ROW = [r(24, 24) for _ in range(3)], r(24, 72), r(72)


def heads(x):
    return x.reshape((x.shape[0], x.shape[1], HEADS, E)).permute_dims((0, 2, 1, 3))


def together(y):
    return y.permute_dims((0, 2, 1, 3)).reshape((y.shape[0], y.shape[2], HEADS * E))


def attend(q, k, v, scale=SCALE, mask=None):
    scores = (q @ pdl.matrix_transpose(k)) * scale
    return pdl.softmax(scores if mask is None else mask(scores), axis=-1) @ v


def projected(x):
    return [heads(x @ w) for w in QKV]


def three(x):
    qkv = (x @ PACKED + PACKED_ROW).reshape((x.shape[0], x.shape[1], 3, HEADS, E)).permute_dims((2, 0, 3, 1, 4))
    return qkv[0], qkv[1], qkv[2]


def three_by_slices(x):
    qkv = (x @ PACKED + PACKED_ROW).reshape((x.shape[0], x.shape[1], 3, HEADS, E)).permute_dims((2, 0, 3, 1, 4))
    return [pdl.squeeze(qkv[i : i + 1], axis=0) for i in range(3)]


def key_transposed_at_once(x):
    q, _, v = projected(x)
    k = (x @ QKV[1]).reshape((x.shape[0], x.shape[1], HEADS, E)).permute_dims((0, 2, 3, 1))
    return together(pdl.softmax(q @ k / math.sqrt(E), axis=3) @ v)


def scaled_on_both_sides(x):
    q, k, v = projected(x)
    s = E**-0.25
    return together(pdl.softmax((q * s) @ (pdl.matrix_transpose(k) * s), axis=-1) @ v)


def windows(scores):
    """A bias of positions, then a mask of each window, as shifted windows have them."""
    apart = (scores + BIAS).reshape((1, *scores.shape)) + WINDOWS
    return apart.reshape(scores.shape)


CAUSAL = pdl.Tensor(np.tril(np.ones((9, 9), bool)))
BIAS, WINDOWS, FACTOR_OF_HEAD = r(1, HEADS, 5, 5), r(1, 6, 1, 5, 5), r(HEADS, 1, 1)
ATTENTION = {
    "with heads": Pattern(
        lambda x: together(attend(*projected(x))), ROWS, {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "keys transposed at once": Pattern(
        key_transposed_at_once, ROWS, {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "scaled on both sides": Pattern(
        scaled_on_both_sides, ROWS, {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "one product for all": Pattern(
        lambda x: together(attend(*three(x))), ROWS, {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "cut by slices, q scaled": Pattern(
        lambda x: together(attend((t := three_by_slices(x))[0] * 0.4, t[1], t[2], 1.0)), ROWS,
        {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "projections with rows": Pattern(
        lambda x: together(attend(*[heads(x @ w + ROW) for w in QKV])), ROWS,
        {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "projections of two arrays": Pattern(
        lambda x, y: together(attend(heads(x @ W), *projected(y)[1:])), [*ROWS, *ROWS],
        {"Linear": 3, "ScaledDotProductAttention": 1}, OTHER),
    "one with a row": Pattern(
        lambda x: together(attend(heads(x @ W + ROW), *projected(x)[1:])), ROWS,
        {"Linear": 3, "ScaledDotProductAttention": 1}, OTHER),
    "cut apart, then permuted": Pattern(
        lambda x: together(attend(*[
            (x @ PACKED).reshape((x.shape[0], x.shape[1], 3, HEADS, E))[:, :, i].permute_dims((0, 2, 1, 3))
            for i in range(3)])),
        ROWS, {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "without heads": Pattern(
        lambda x: attend(x @ QKV[0], x, x), ROWS, {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "a mask that is added": Pattern(
        lambda x, m: together(attend(*projected(x), mask=lambda s: s + m)), [*ROWS, (N, 1, L, L)],
        {"Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "a bias and a mask": Pattern(
        lambda x, m: together(attend(*projected(x), mask=lambda s: (s + BIAS) + m)), [(N, 5, 24), (N, 1, 5, 5)],
        {"Linear": 1, "Add": 1, "ScaledDotProductAttention": 1}, ({"n": 2},)),
    "a bias and a mask of windows": Pattern(
        lambda x: together(attend(*projected(x), mask=windows)), [(6, 5, 24)],
        {"Linear": 1, "ScaledDotProductAttention": 1}),
    "a factor for each head": Pattern(
        lambda x, m: together(attend(*projected(x), mask=lambda s: s * FACTOR_OF_HEAD + m)), [*ROWS, (N, 1, L, L)],
        {"Linear": 3, "Reshape": 4, "Multiply": 1, "PermuteDims": 4, "ScaledDotProductAttention": 1}, OTHER),
    "a bool mask": Pattern(
        lambda x: together(attend(*projected(x), mask=lambda s: pdl.where(
            CAUSAL[: x.shape[1], : x.shape[1]], s, -math.inf))),
        ROWS, {"GetItem": 1, "Linear": 1, "ScaledDotProductAttention": 1}, OTHER),
    "a mask of another size in another run": Pattern(
        lambda x: together(attend(*projected(x), mask=lambda s: s + r_mask())), [(N, 5, 24)],
        {"Linear": 1, "ScaledDotProductAttention": 1}, ({"n": 2},)),
    "probabilities are read": Pattern(
        lambda x: ((p := pdl.softmax(x @ pdl.matrix_transpose(x), axis=-1)) @ x, p.sum(axis=-1)), ROWS,
        {"PermuteDims": 1, "MatMul": 2, "Softmax": 1, "Sum": 1}, OTHER),
    "softmax over the queries": Pattern(
        lambda x: pdl.softmax(x @ pdl.matrix_transpose(x), axis=1) @ x, ROWS,
        {"PermuteDims": 1, "MatMul": 2, "Softmax": 1}, OTHER),
    "joined in another order": Pattern(
        lambda x: attend(*projected(x)).permute_dims((0, 2, 3, 1)).reshape((x.shape[0], x.shape[1], 24)), ROWS,
        {"Linear": 3, "Reshape": 4, "PermuteDims": 4, "ScaledDotProductAttention": 1}, OTHER),
}  # fmt: skip
MASK = r(5, 5)


def r_mask() -> pdl.Tensor:
    return MASK


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    check(ATTENTION[name])


@pytest.mark.parametrize(("shape", "cut"), [
    ((3, 4), lambda x: pdl.reshape(x[:, 0], (1, -1, 1))),
    ((3, 4), lambda x: pdl.expand_dims(x[:, 0], axis=1)),
    ((5, 4), lambda x: pdl.squeeze(x[:-2:-1, 1], axis=0)),
    ((5, 4), lambda x: pdl.squeeze(x[-9:1], axis=0)),
    ((5, 4), lambda x: pdl.squeeze(x[9:3:-1, 1:2], axis=0)),
    ((5, 4, 3), lambda x: pdl.squeeze(x[0, 1:2, -1:], axis=1)),
    ((N, 4), lambda x: pdl.squeeze(x[-1:], axis=0)),
    ((N, 4), lambda x: pdl.squeeze(x[:1, 1:], axis=0)),
])  # fmt: skip
def test_slices_of_one(shape: tuple[int, ...], cut: Any) -> None:
    """Which place a slice takes, whatever its ends and its step are."""
    program = run_passes(traced(cut, [shape]), INFERENCE_ONCE)
    for number in range(1, 3):
        (x,) = arrays = inputs(program, {"n": number}, number)
        np.testing.assert_array_equal(run(program, arrays)[0], cut(pdl.Tensor(x)).numpy())

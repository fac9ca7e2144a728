"""Every layer of `pdl.nn`, from one table: forward, backward, state round trip, bfloat16 and back, printing. Then what
only some layers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import PdlError, ShapeError, UsageError

Shape = tuple[int, ...]


class Row(NamedTuple):
    """A layer, its inputs (a shape of floats, or a tensor) and the shape of its (first) output."""

    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    output: Shape


def index(*values: int) -> pdl.Tensor:
    return pdl.tensor(np.array(values))


IMAGE, SEQUENCE, VOLUME = (2, 6, 6, 4), (2, 6, 4), (2, 4, 4, 4, 4)
POOLED_INDEX = pdl.tensor(np.array([0, 3, 8, 11], np.int32).reshape(1, 2, 2, 1))
SIGN = index(1, -1, 1)

LAYERS: list[Row] = [
    Row(nn.Identity, (IMAGE,), IMAGE),
    Row(lambda: nn.Linear(4, 3), (SEQUENCE,), (2, 6, 3)),
    Row(lambda: nn.Linear(4, 3, bias=False), ((2, 4),), (2, 3)),
    Row(lambda: nn.Bilinear(4, 5, 3), ((2, 4), (2, 5)), (2, 3)),
    Row(nn.Flatten, (IMAGE,), (2, 144)),
    Row(lambda: nn.Unflatten(1, (2, 3)), (SEQUENCE,), (2, 2, 3, 4)),
    Row(lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (SEQUENCE,), (2, 6, 3)),
    Row(lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (SEQUENCE,), (2, 3, 6)),
    Row(lambda: nn.Conv2d(4, 6, (3, 1), padding=[1, 0], dilation=(1, 2)), (IMAGE,), (2, 6, 6, 6)),
    Row(lambda: nn.Conv2d(4, 6, 4, padding="same", bias=False), (IMAGE,), (2, 6, 6, 6)),
    Row(lambda: nn.Conv2d(4, 6, 3, padding=((0, 1), (1, 0)), stride=2), (IMAGE,), (2, 3, 3, 6)),
    Row(lambda: nn.Conv3d(4, 2, 3, padding=1), (VOLUME,), (2, 4, 4, 4, 2)),
    Row(lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2), (SEQUENCE,), (2, 13, 6)),
    Row(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (IMAGE,), (2, 12, 12, 6)),
    Row(lambda: nn.ConvTranspose3d(4, 2, 2, stride=2, bias=False), (VOLUME,), (2, 8, 8, 8, 2)),
    Row(lambda: nn.BatchNorm1d(4), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.BatchNorm1d(4, affine=False), ((5, 4),), (5, 4)),
    Row(lambda: nn.BatchNorm2d(4, momentum=None), (IMAGE,), IMAGE),
    Row(lambda: nn.BatchNorm3d(4, track_running_stats=False), (VOLUME,), VOLUME),
    Row(lambda: nn.LayerNorm(4), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.LayerNorm((6, 4), bias=False), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.RMSNorm(4), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.GroupNorm(2, 4), (IMAGE,), IMAGE),
    Row(lambda: nn.InstanceNorm(4, affine=True), (IMAGE,), IMAGE),
    Row(lambda: nn.LocalResponseNorm(3), (IMAGE,), IMAGE),
    Row(lambda: nn.SpectralNorm(nn.Linear(4, 4)), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.SpectralNorm(nn.Conv2d(4, 4, 3, padding=1)), (IMAGE,), IMAGE),
    *[
        Row(make, (SEQUENCE,), SEQUENCE)
        for make in (
            nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU,
            nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Softplus, nn.Softsign,
            nn.Softmax, nn.LogSoftmax,
        )
    ],
    Row(lambda: nn.PReLU(4), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.GELU("tanh"), (SEQUENCE,), SEQUENCE),
    Row(nn.GLU, (SEQUENCE,), (2, 6, 2)),
    Row(lambda: nn.MaxPool1d(2), (SEQUENCE,), (2, 3, 4)),
    Row(lambda: nn.MaxPool2d(3, stride=2, padding=1), (IMAGE,), (2, 3, 3, 4)),
    Row(lambda: nn.MaxPool3d((1, 2, 2)), (VOLUME,), (2, 4, 2, 2, 4)),
    Row(lambda: nn.AvgPool1d(2), (SEQUENCE,), (2, 3, 4)),
    Row(lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (IMAGE,), (2, 3, 3, 4)),
    Row(lambda: nn.AvgPool3d(2), (VOLUME,), (2, 2, 2, 2, 4)),
    Row(lambda: nn.LPPool1d(2, 3), (SEQUENCE,), (2, 2, 4)),
    Row(lambda: nn.LPPool2d(3, 2), (IMAGE,), (2, 3, 3, 4)),
    Row(lambda: nn.AdaptiveAvgPool1d(4), (SEQUENCE,), (2, 4, 4)),
    Row(lambda: nn.AdaptiveAvgPool2d((4, 2)), (IMAGE,), (2, 4, 2, 4)),
    Row(lambda: nn.AdaptiveAvgPool3d(2), (VOLUME,), (2, 2, 2, 2, 4)),
    Row(lambda: nn.AdaptiveMaxPool1d(4), (SEQUENCE,), (2, 4, 4)),
    Row(lambda: nn.AdaptiveMaxPool2d(4), (IMAGE,), (2, 4, 4, 4)),
    Row(lambda: nn.AdaptiveMaxPool3d(2), (VOLUME,), (2, 2, 2, 2, 4)),
    Row(nn.GlobalAvgPool, (IMAGE,), (2, 4)),
    Row(lambda: nn.GlobalMaxPool(keepdims=True), (IMAGE,), (2, 1, 1, 4)),
    Row(lambda: nn.MaxUnpool(4), ((1, 2, 2, 1), POOLED_INDEX), (1, 4, 4, 1)),
    Row(nn.Dropout, (SEQUENCE,), SEQUENCE),
    Row(nn.ChannelDropout, (IMAGE,), IMAGE),
    Row(nn.DropPath, (IMAGE,), IMAGE),
    Row(lambda: nn.Embedding(5, 3, padding_idx=0), (index(0, 4, 4),), (3, 3)),
    Row(lambda: nn.EmbeddingBag(5, 3), (pdl.tensor(np.array([[0, 1], [4, 4]])),), (2, 3)),
    Row(lambda: nn.Ensemble([nn.Linear(4, 3), nn.Linear(4, 3)]), ((2, 4),), (2, 3)),
    Row(lambda: nn.RNN(4, 3), (SEQUENCE,), (2, 6, 3)),
    Row(lambda: nn.GRU(4, 3, num_layers=2, dropout=0.5), (SEQUENCE,), (2, 6, 3)),
    Row(lambda: nn.LSTM(4, 3, bidirectional=True, bias=False), (SEQUENCE,), (2, 6, 6)),
    Row(lambda: nn.MultiHeadAttention(4, 2, dropout=0.1), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.MultiHeadAttention(4, 2, rotary=10000.0), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.MultiHeadAttention(4, 2, kdim=3, vdim=5, bias=False), (SEQUENCE, (2, 7, 3), (2, 7, 5)), SEQUENCE),
    Row(lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=8), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.TransformerEncoder(4, 2, 2, dim_feedforward=8, norm_first=True), (SEQUENCE,), SEQUENCE),
    Row(lambda: nn.Upsample(scale=2), (IMAGE,), (2, 12, 12, 4)),
    Row(lambda: nn.Upsample((3, 5), mode="bilinear"), (IMAGE,), (2, 3, 5, 4)),
    Row(lambda: nn.PixelShuffle(2), (IMAGE,), (2, 12, 12, 1)),
    Row(lambda: nn.PixelUnshuffle(2), (IMAGE,), (2, 3, 3, 16)),
    Row(nn.CrossEntropyLoss, ((3, 4), index(0, 3, 1)), ()),
    Row(lambda: nn.CrossEntropyLoss(weight=pdl.ones((4,)), label_smoothing=0.1), ((3, 4), index(0, 3, 1)), ()),
    Row(lambda: nn.NLLLoss(reduction="sum"), ((3, 4), index(0, 3, 1)), ()),
    Row(nn.BCELoss, ((3, 4), pdl.ones((3, 4)) * 0.3), ()),
    Row(lambda: nn.BCEWithLogitsLoss(pos_weight=pdl.ones((4,))), ((3, 4), pdl.ones((3, 4)) * 0.3), ()),
    Row(lambda: nn.MSELoss(reduction="none"), ((3, 4), (3, 4)), (3, 4)),
    Row(nn.L1Loss, ((3, 4), (3, 4)), ()),
    Row(nn.SmoothL1Loss, ((3, 4), (3, 4)), ()),
    Row(nn.HuberLoss, ((3, 4), (3, 4)), ()),
    Row(lambda: nn.KLDivLoss(reduction="batchmean"), ((3, 4), pdl.ones((3, 4)) * 0.25), ()),
    Row(nn.FocalLoss, ((3, 4), pdl.ones((3, 4))), ()),
    Row(nn.CosineEmbeddingLoss, ((3, 4), (3, 4), SIGN), ()),
    Row(nn.MarginRankingLoss, ((3,), (3,), SIGN), ()),
    Row(nn.HingeEmbeddingLoss, ((3,), SIGN), ()),
    Row(nn.TripletMarginLoss, ((3, 4), (3, 4), (3, 4)), ()),
    Row(nn.MultiMarginLoss, ((3, 4), index(0, 3, 1)), ()),
    Row(lambda: nn.ArcFaceLoss(5, 4), ((3, 4), index(0, 3, 1)), ()),
    Row(lambda: nn.CosFaceLoss(5, 4), ((3, 4), index(0, 3, 1)), ()),
    Row(lambda: nn.SoftmaxLoss(5, 4), ((3, 4), index(0, 3, 1)), ()),
    Row(nn.TripletLoss, ((4, 4), index(0, 1, 0, 1)), ()),
    Row(nn.QuadrupletLoss, ((6, 4), index(0, 1, 2, 0, 1, 2)), ()),
    Row(nn.NPairLoss, ((4, 4), index(0, 1, 0, 1)), ()),
    Row(nn.SupConLoss, ((4, 4), index(0, 1, 0, 1)), ()),
    Row(lambda: nn.GE2ELoss(reduction="none"), ((2, 3, 4),), (2, 3)),
    Row(nn.CTCLoss, ((2, 6, 4), pdl.tensor(np.array([[1, 2], [3, 3]])), index(6, 5), index(2, 1)), ()),
]  # fmt: skip
NOT_CALLED = {"Module", "ModuleList", "ModuleDict", "Decoder"}


def inputs_of(row: Row, dtype: str = "float32") -> list[pdl.Tensor]:
    rng = np.random.default_rng(1)
    made = []
    for value in row.inputs:
        if isinstance(value, tuple):
            made.append(pdl.Tensor(rng.uniform(0.1, 0.9, value), dtype=dtype, requires_grad=True))
        else:
            made.append(value if value.dtype.kind in "iu" else value.astype(dtype))
    return made


def first(y: Any) -> pdl.Tensor:
    while isinstance(y, tuple):
        y = y[0]
    return y  # type: ignore[no-any-return]


def name_of(row: Row) -> str:
    return type(row.make()).__name__


def test_every_layer_is_in_the_table() -> None:
    layers = {n for n in nn.__all__ if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)}
    assert layers - NOT_CALLED == {name_of(row) for row in LAYERS}


@pytest.mark.parametrize("row", LAYERS, ids=name_of)
def test_layer(row: Row) -> None:
    pdl.seed(0)
    layer, other = row.make(), row.make()
    inputs = inputs_of(row)
    y = first(layer(*inputs))
    assert y.shape == row.output
    y.sum().backward()
    assert [n for n, p in layer.named_parameters() if p.grad is None] == []
    assert all(x.grad is not None and x.grad.shape == x.shape for x in inputs if x.requires_grad)
    other.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(first(other.eval()(*inputs)).data, first(layer.eval()(*inputs)).data)
    assert repr(layer).startswith(type(layer).__name__)


@pytest.mark.parametrize("row", LAYERS, ids=name_of)
def test_layer_in_bfloat16_and_back(row: Row) -> None:
    pdl.seed(0)
    layer = row.make()
    exact = first(layer.eval()(*inputs_of(row))).data
    inputs = inputs_of(row, "bfloat16")
    y = first(layer.to("bfloat16")(*inputs))
    wide = (
        nn.CrossEntropyLoss, nn.SoftmaxLoss, nn.ArcFaceLoss, nn.CosFaceLoss, nn.GE2ELoss, nn.TripletLoss,
        nn.QuadrupletLoss, nn.NPairLoss, nn.SupConLoss,
    )  # fmt: skip
    assert y.dtype == (pdl.float32 if isinstance(layer, wide) else pdl.bfloat16)
    np.testing.assert_allclose(y.data.astype(np.float32), exact, atol=0.05 * np.abs(exact).max() + 0.02)
    y.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == pdl.bfloat16 for p in layer.parameters())
    assert first(layer.to("float64")(*inputs_of(row, "float64"))).dtype == pdl.float64


# -- against PyTorch: torch 2.13, parameter k filled with sin(0.7 i + k) / 2, input cos(i) [2, 3, 4], float64
# ------------------
TORCH = [
    ("LSTM", [0.1005047918, 0.0101366743, -0.0495151716, -0.1278330598, 0.0668686356, 0.3245366758], 2.2186438414),
    ("GRU", [0.2971123875, 0.1195165651, -0.1305883461, -0.2823860667, -0.2291129571, 0.7249305759], 2.01585686),
    ("RNN", [-0.8242207179, -0.7850697681, 0.0505857233, 0.7238345647, 0.8809737388, -0.8363304025], -5.3784797717),
    ("post", [-0.9688019665, -0.1606574999, 0.2532894979, 0.373864071, -0.8903886902, -0.0285078058], -3.4615796283),
    ("pre", [1.7677205838, 0.2857424171, 0.076551053, -1.8286010228, 0.1637626848, 0.0123356295], 0.6672476024),
]  # fmt: skip
ENCODER = {"self_attn.in_proj_weight": (12, 4), "self_attn.in_proj_bias": (12,), "self_attn.out_proj.weight": (4, 4),
           "self_attn.out_proj.bias": (4,), "linear1.weight": (5, 4), "linear1.bias": (5,), "linear2.weight": (4, 5),
           "linear2.bias": (4,), "norm1.weight": (4,), "norm1.bias": (4,), "norm2.weight": (4,),
           "norm2.bias": (4,)}  # fmt: skip


@pytest.mark.parametrize(("name", "start", "total"), TORCH, ids=lambda v: v if isinstance(v, str) else "")
def test_against_torch(name: str, start: list[float], total: float) -> None:
    if name in ("LSTM", "GRU", "RNN"):
        layer = getattr(nn, name)(4, 3, num_layers=2, bidirectional=True)
        shapes = {n: v.shape[::-1] for n, v in layer.named_parameters()}
    else:
        options = {"norm_first": True, "activation": "gelu"} if name == "pre" else {}
        layer, shapes = nn.TransformerEncoderLayer(4, 2, dim_feedforward=5, dropout=0.0, **options), ENCODER
    state = {n: np.sin(np.arange(np.prod(s)) * 0.7 + k).reshape(s) * 0.5 for k, (n, s) in enumerate(shapes.items())}
    layer.to("float64").load_state_dict(nn.from_torch(layer, state))
    y = first(layer(pdl.tensor(np.cos(np.arange(24.0)).reshape(2, 3, 4)))).data
    np.testing.assert_allclose(y.reshape(-1)[:6], start, atol=1e-9)
    assert y.sum() == pytest.approx(total, abs=1e-8)


# -- what only some layers do ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_tracks_unbiased_statistics(momentum: float | None) -> None:
    layer = nn.BatchNorm1d(3, momentum=momentum)
    batches = np.random.default_rng(0).normal(2, 3, (4, 5, 3))
    mean, var = np.zeros(3), np.ones(3)
    for number, batch in enumerate(batches, start=1):
        share = 1 / number if momentum is None else momentum
        mean, var = mean + share * (batch.mean(0) - mean), var + share * (batch.var(0, ddof=1) - var)
        layer(pdl.tensor(batch.astype(np.float32)))
    np.testing.assert_allclose(layer.running_mean.data, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.data, var, rtol=1e-5)
    x = batches[0].astype(np.float32)
    y = layer.eval()(pdl.tensor(x)).data
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.data, mean, rtol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_fuses_residual_and_activation(training: bool) -> None:
    layer = nn.BatchNorm2d(4).train(training)
    x, r = pdl.randn(IMAGE), pdl.randn(IMAGE)
    expected = pdl.relu(layer(x) + r)
    np.testing.assert_allclose(layer(x, activation="relu", residual=r).data, expected.data, rtol=1e-5, atol=1e-6)


def test_statistics_stay_float32_beside_bfloat16() -> None:
    layer = nn.BatchNorm2d(4).to("bfloat16")
    assert layer.running_mean.dtype == pdl.float32
    assert layer.weight.dtype == pdl.bfloat16


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Dropout(0.25), (400, 50)), (nn.ChannelDropout(0.25), (400, 3, 50)), (nn.DropPath(0.25), (4000, 3))],
)  # fmt: skip
def test_dropout_keeps_the_mean(layer: nn.Module, shape: Shape) -> None:
    pdl.seed(1)
    y = layer(pdl.ones(shape)).data
    assert set(np.unique(y)) == {0.0, np.float32(4 / 3)}
    assert y.mean() == pytest.approx(1.0, abs=0.05)
    if not isinstance(layer, nn.Dropout):
        assert (y == y[:, :1]).all()


def test_embedding_padding_row_is_zero_and_not_learned() -> None:
    layer = nn.Embedding(4, 3, padding_idx=2)
    assert layer.weight.data[2].tolist() == [0.0] * 3
    layer(index(2, 1, 2)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.data.sum(1).tolist() == [0.0, 3.0, 0.0, 0.0]


def test_attention_mask_and_causality() -> None:
    pdl.seed(0)
    layer = nn.MultiHeadAttention(4, 2).eval()
    x, other = pdl.randn((1, 5, 4)), pdl.randn((1, 5, 4))
    changed = pdl.concat([x[:, :3], other[:, 3:]], axis=1)
    causal = layer(x, is_causal=True).data[:, :3], layer(changed, is_causal=True).data[:, :3]
    np.testing.assert_allclose(*causal, rtol=1e-6)
    mask = pdl.tensor(np.array([True] * 3 + [False] * 2))
    np.testing.assert_allclose(layer(x, mask=mask).data[:, :3], layer(x[:, :3]).data, rtol=1e-5)


@pytest.mark.parametrize("layer", [nn.LayerNorm(6), nn.RMSNorm(6)], ids=lambda v: type(v).__name__)
def test_norm_of_a_sum(layer: nn.LayerNorm) -> None:
    x, residual = pdl.randn((2, 3, 6)), pdl.randn((2, 3, 6))
    y, total = layer.add(x, residual)
    np.testing.assert_allclose(total.data, x.data + residual.data, rtol=1e-6)
    np.testing.assert_allclose(y.data, layer(x + residual).data, rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match="normalises one axis"):
        type(layer)((3, 6)).add(x, residual)


def test_attention_projects_with_one_matrix_or_three() -> None:
    pdl.seed(0)
    layer = nn.MultiHeadAttention(4, 2).eval()
    apart = nn.MultiHeadAttention(4, 2, kdim=3, vdim=5)
    assert [n for n, _ in layer.named_parameters() if "proj_w" in n] == ["in_proj_weight"]
    assert apart.in_proj_weight is None
    assert apart.k_proj_weight.shape == (3, 4)
    x, other = pdl.randn((1, 5, 4)), pdl.randn((1, 3, 4))
    np.testing.assert_allclose(layer(x, x + 0).data, layer(x).data, rtol=1e-5, atol=1e-6)
    assert layer(x, other).shape == (1, 5, 4)


def test_rotary_attention_knows_distances_and_no_places() -> None:
    """With the same neighbours, a token has the same state wherever it stands; with another order of them, another."""
    pdl.seed(0)
    layer, plain = nn.MultiHeadAttention(8, 2, rotary=100.0).eval(), nn.MultiHeadAttention(8, 2).eval()
    plain.load_state_dict(layer.state_dict())
    x = pdl.randn((1, 6, 8))
    banded = pdl.tensor(np.abs(np.subtract.outer(np.arange(6), np.arange(6))) < 3)
    late = pdl.tensor(np.arange(6) > 1)
    np.testing.assert_allclose(layer(x, mask=late).data[:, 2:], layer(x[:, 2:]).data, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer(x, x + 0, mask=banded).data, layer(x, mask=banded).data, rtol=1e-4, atol=1e-6)
    turned, last = pdl.concat([x[:, 3:5], x[:, :3], x[:, 5:]], axis=1), (slice(None), -1)
    np.testing.assert_allclose(plain(turned).data[last], plain(x).data[last], rtol=1e-4, atol=1e-6)
    assert np.abs(layer(turned).data[last] - layer(x).data[last]).max() > 1e-3


def test_encoder_layers_drop_in_training_only() -> None:
    pdl.seed(0)
    layer, x = nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, dropout=0.5), pdl.randn((1, 3, 4))
    assert (layer(x).data != layer(x).data).any()
    layer.eval()
    np.testing.assert_array_equal(layer(x).data, layer(x).data)


def test_recurrent_state_continues() -> None:
    layer = nn.LSTM(4, 3, num_layers=2).eval()
    x = pdl.randn((2, 6, 4))
    whole, _ = layer(x)
    head, state = layer(x[:, :2])
    tail, _ = layer(x[:, 2:], state)
    np.testing.assert_allclose(pdl.concat([head, tail], axis=1).data, whole.data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups=2 must divide in_channels=3"),
        (lambda: nn.GroupNorm(3, 4), "num_groups=3 must divide num_channels=4"),
        (lambda: nn.MultiHeadAttention(5, 2), "num_heads=2 must divide embed_dim=5"),
        (lambda: nn.MultiHeadAttention(6, 2, rotary=100.0), "heads of 3 numbers; rotary positions need an even number"),
        (lambda: nn.Upsample(), "either size or scale"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx 3 is not a row"),
        (lambda: nn.MaxPool2d(2)(pdl.zeros((2, 4, 4))), r"MaxPool2d: x \(2, 4, 4\) has 3 dimensions, expected 4"),
        (lambda: nn.BatchNorm2d(4)(pdl.zeros((2, 4))), "BatchNorm2d: x .* expected 4"),
        (lambda: nn.LayerNorm(5)(pdl.zeros((2, 4))), r"does not end in \(5,\)"),
        (lambda: nn.Linear(5, 2)(pdl.zeros((2, 4))), "linear: x"),
    ],
)
def test_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises((ShapeError, UsageError), match=words) as error:
        call()
    assert isinstance(error.value, PdlError)

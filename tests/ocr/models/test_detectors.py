"""The nets that find lines: shapes, gradients, sizes, errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.config.building import build
from pdl.errors import ShapeError
from pdl_ocr.models import DB, EAST, PPOCRDetector, PPOCRv6Detector, TextDetector, db, east
from pdl_ocr.models.detector import Doubled, Pyramid
from pdl_ocr.models.east import Boxes


def image(height: int = 64, width: int = 96) -> pdl.Tensor:
    return pdl.as_tensor(np.random.default_rng(0).normal(size=(1, height, width, 3)).astype(np.float32))


@pytest.mark.parametrize("name", db.VARIANTS)
def test_each_pixel_has_a_probability(name: str) -> None:
    net: TextDetector = build({**db.VARIANTS[name], "width": 0.25, "channels": 32}).eval()
    y = net(image()).detach().numpy()
    assert y.shape == (1, 64, 96, 1)
    assert ((y >= 0) & (y <= 1)).all()
    inside, threshold = net.maps(image())
    assert inside.shape == threshold.shape == (1, 64, 96, 1)
    assert np.allclose(pdl.sigmoid(inside).detach().numpy(), y, atol=1e-6)


@pytest.mark.parametrize(
    "made",
    [
        partial(DB, width=0.25, channels=32),
        partial(DB, "resnet18_vd", width=0.125, channels=32, adaptive=True),
        partial(DB, "pplcnet_v3", width=0.25, channels=32),
        partial(EAST, width=0.25, channels=32),
        PPOCRDetector,
        partial(PPOCRv6Detector, "tiny"),
    ],
)
def test_every_parameter_learns(made: Callable[[], TextDetector]) -> None:
    """From one of a few beginnings: a ReLU behind squeezed channels may be shut for all of them in another."""
    still: set[str] = set()
    for seed in range(4):
        pdl.seed(seed)
        net = made()
        total: Any = sum((each * each).mean() for each in net.maps(image()))
        total.backward()
        shut = {name for name, p in net.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).max() > 0}
        still = shut if seed == 0 else still & shut
    # behind a norm the mean of what a bias adds is taken off again
    assert [name for name in sorted(still) if not name.endswith("first.conv.bias")] == []


@pytest.mark.parametrize(("name", "millions"), [("db_resnet18_vd", 12.3), ("dbpp_resnet18_vd", 12.5)])
def test_sizes(name: str, millions: float) -> None:
    """ResNet-18's 11.2 million without its last layer, the pyramid's and both heads'; DB++ has 0.15 more."""
    net: Any = build(db.VARIANTS[name])
    assert sum(p.size for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)


def separable(before: int, out: int, kernel: int, squeeze: bool) -> int:
    """Parameters of a convolution of each channel, of 1 x 1, both with norms, and of squeeze and excite."""
    narrow = max(8, int(before / 4 + 4) // 8 * 8)
    return (kernel**2 + 2 + out) * before + 2 * out + squeeze * (2 * before * narrow + narrow + before)


def test_size_of_pplcnet() -> None:
    """Layer by layer, at the width of PP-OCRv4, with the pyramid and both heads of DB behind it."""
    rows = [(16, 32, 3), (32, 48, 3), (48, 48, 3), (48, 96, 3), (96, 96, 3), (96, 192, 3), *[(192, 192, 5)] * 4,
            (192, 384, 5), *[(384, 384, 5)] * 3]  # fmt: skip
    backbone = 3 * 3 * 3 * 16 + 2 * 16 + sum(separable(*row, i in (10, 11)) for i, row in enumerate(rows))
    ends, channels, quarter = (48, 96, 192, 384), 96, 24
    pyramid = sum((each + 2) * channels + (9 * channels + 2) * quarter for each in ends)
    head = 9 * channels * quarter + 2 * quarter + (4 * quarter * (quarter + 1) + 2 * quarter) + 4 * (quarter + 1)
    net: Any = build(db.VARIANTS["db_pplcnet_v3"])
    assert sum(p.size for p in net.stages.parameters()) == backbone
    assert sum(p.size for p in net.parameters()) == backbone + pyramid + 2 * head


@pytest.mark.parametrize("name", east.VARIANTS)
def test_each_cell_tells_a_box(name: str) -> None:
    net: EAST = build({**east.VARIANTS[name], "width": 0.25, "channels": 32}).eval()
    y = net(image()).detach().numpy()
    assert y.shape == (1, 16, 24, 6)
    assert ((y[..., 0] >= 0) & (y[..., 0] <= 1)).all()
    assert (y[..., 1:5] > 0).all()
    assert (np.abs(y[..., 5]) <= np.pi / 4).all()


def test_size_of_east() -> None:
    """The merging branch's and the heads', beside the backbone's, of which the sizes are DB's."""
    net, other = EAST(channels=128), DB()
    ends, outs, before, merging = (16, 24, 56, 480), (64, 32), 0, 0
    stages = [sum(p.size for p in each.stages.parameters()) for each in (net, other)]
    assert stages[0] == stages[1]
    before = ends[-1]
    for end, out in zip(reversed(ends[:-1]), (128, *outs), strict=True):
        merging += (before + end + 2) * out + (9 * out + 2) * out
        before = out
    merging += (9 * before + 2) * before + 6 * (before + 1)
    assert sum(p.size for p in net.parameters()) == stages[0] + merging


def test_loss_of_east_is_that_of_the_formulas() -> None:
    sides, wrong = np.array([4.0, 60, 8, 20], np.float32), np.array([8.0, 30, 4, 40], np.float32)
    wanted = np.zeros((1, 2, 2, 8), np.float32)
    wanted[..., 1] = 1
    wanted[0, 0, 0] = [1, 1, *sides, 0.2, 1]
    told = np.tile(wrong, (1, 2, 2, 1))
    maps = Boxes(pdl.zeros((1, 2, 2, 1)), pdl.as_tensor(told), pdl.full((1, 2, 2, 1), -0.1))
    found = {name: float(value) for name, value in EAST.coding.losses(maps, pdl.as_tensor(wanted)).items()}
    both, union = (4 + 4) * (30 + 20), 12 * 80 + 12 * 70 - 8 * 50
    assert found["box"] == pytest.approx(-np.log((both + 1) / (union + 1)) / 2, rel=1e-5)
    assert found["angle"] == pytest.approx(20 * (1 - np.cos(0.3)) / 2, rel=1e-5)
    entropy, dice = np.log(2) * (0.25 * 1 / 2 + 0.75 * 3 / 4), 1 - 2 * 0.5 / (4 * 0.5 + 1)
    assert found["inside"] == pytest.approx(entropy + dice, rel=1e-5)
    right = Boxes(pdl.full((1, 2, 2, 1), -9.0), pdl.as_tensor(wanted[..., 2:6]), pdl.as_tensor(wanted[..., 6:7]))
    ours = EAST.coding.losses(right, pdl.as_tensor(wanted))
    assert [float(ours[name]) for name in ("box", "angle")] == pytest.approx([0, 0], abs=1e-6)


def test_doubling_is_a_transposed_convolution() -> None:
    layer = Doubled(3, 2)
    x = np.random.default_rng(1).normal(size=(1, 4, 5, 3)).astype(np.float32)
    weight = layer.conv.weight.data.reshape(3, 2, 2, 2)  # [in, row, column, out]
    bias = layer.conv.bias.data.reshape(2, 2, 2)
    expected = np.einsum("nhwc,cijo->nhiwjo", x, weight).reshape(1, 8, 10, 2)
    expected += np.tile(bias, (4, 5, 1))
    assert np.allclose(layer(pdl.as_tensor(x)).detach().numpy(), expected, atol=1e-5)


def test_adaptive_fusion_weighs_whole_scales() -> None:
    plain = Pyramid((8, 8, 8, 8), 16).eval()
    weighing = Pyramid((8, 8, 8, 8), 16, adaptive=True).eval()
    weighing.lateral, weighing.smooth = plain.lateral, plain.smooth
    rng = np.random.default_rng(2)
    scales = tuple(pdl.as_tensor(rng.normal(size=(1, 16 // s, 24 // s, 8)).astype(np.float32)) for s in (1, 2, 4, 8))
    before, after = (net(scales).detach().numpy().reshape(1, 16, 24, 4, 4) for net in (plain, weighing))
    ratio = np.where(before > 0.01, after / np.maximum(before, 1e-9), np.nan)  # smoothing ends in a ReLU
    known = ratio[(before > 0.01).all(axis=4)]
    assert len(known) > 10
    assert known.std(axis=1).max() < 1e-3, "the channels of a scale share a weight"
    assert 0 < known.min() <= known.max() < 1


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="images are 60 x 96, expected multiples of 32"):
        DB(width=0.25, channels=32)(image(60))
    with pytest.raises(ShapeError, match="has 3 dimensions, expected 4"):
        DB(width=0.25, channels=32)(image()[0])

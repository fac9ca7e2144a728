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
from pdl_ocr.models import DB, PPOCRDetector, TextDetector, db
from pdl_ocr.models.detector import Doubled, Pyramid


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
        PPOCRDetector,
    ],
)
def test_every_parameter_learns(made: Callable[[], TextDetector]) -> None:
    """From one of a few beginnings: a ReLU behind squeezed channels may be shut for all of them in another."""
    still: set[str] = set()
    for seed in range(4):
        pdl.seed(seed)
        net = made()
        inside, threshold = net.maps(image())
        ((inside * inside).mean() + (threshold * threshold).mean()).backward()
        shut = {name for name, p in net.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).max() > 0}
        still = shut if seed == 0 else still & shut
    # behind a norm the mean of what a bias adds is taken off again
    assert [name for name in sorted(still) if not name.endswith("first.conv.bias")] == []


@pytest.mark.parametrize(("name", "millions"), [("db_resnet18_vd", 12.3), ("dbpp_resnet18_vd", 12.5)])
def test_sizes(name: str, millions: float) -> None:
    """ResNet-18's 11.2 million without its last layer, the pyramid's and both heads'; DB++ has 0.15 more."""
    net: Any = build(db.VARIANTS[name])
    assert sum(p.size for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)


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

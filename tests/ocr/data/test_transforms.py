"""Distortions of lines."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError
from pdl_ocr.data import transforms as T
from pdl_ocr.data.standin import drawn

ALL = [
    T.LinePerspective,
    T.Curvature,
    T.Stretch,
    T.MotionBlur,
    T.GaussianNoise,
    T.Shadow,
    T.LowResolution,
    T.JPEGCompression,
    T.Inverted,
    T.Bolder,
    T.Contrast,
]
GROW = [T.Tilted, T.Neighbours]  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_distorted_in_its_size_and_can_be_told_still(kind: type[T._Sometimes], channels: int) -> None:
    image = drawn("duke", SampleRandom(0, 0, 0))[..., :channels]
    before = image.copy()
    made = [kind(p=1.0).image(image, SampleRandom(0, 0, i)) for i in range(8)]
    assert all(each.shape == image.shape and each.dtype == np.uint8 for each in made)
    assert np.array_equal(image, before)
    assert any(not np.array_equal(each, image) for each in made)
    again = kind(p=1.0).image(image, SampleRandom(0, 0, 3))
    assert np.array_equal(again, made[3])
    assert kind(p=0.0).image(image, SampleRandom(0, 0, 0)) is image
    if kind is not T.Inverted:  # dark stays dark, on the whole
        alike = [np.corrcoef(each.ravel(), image.ravel())[0, 1] for each in made]
        assert np.median(alike) > 0.4


@pytest.mark.parametrize("shape", [(9, 7, 3), (32, 8, 3), (200, 30, 3)])
@pytest.mark.parametrize("kind", [*ALL, *GROW])
def test_odd_shapes(kind: type[T._Sometimes], shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    made = kind(p=1.0).image(image, SampleRandom(1, 0, 0))
    assert made.shape == shape if kind not in GROW else made.ndim == 3 and made.shape[2] == 3


@pytest.mark.parametrize("channels", [1, 3])
def test_a_line_that_climbs_is_whole_in_a_higher_image(channels: int) -> None:
    image = np.full((20, 120, channels), 200, np.uint8)
    image[5:15, 10:110] = 30
    for i in range(6):
        made = T.Tilted(p=1.0, degrees=30).image(image, SampleRandom(0, 0, i))
        assert made.shape[0] > 20
        assert made.shape[2] == channels
        assert (made < 115).sum() == pytest.approx(1000 * channels, rel=0.06), "all of the ink is there, and no more"


def test_neighbours_leave_the_line_as_it_is() -> None:
    image = np.arange(40 * 9, dtype=np.uint32).reshape(40, 9, 1).astype(np.uint8)
    heights = set()
    for i in range(20):
        made = T.Neighbours(p=1.0).image(image, SampleRandom(0, 0, i))
        heights.add(made.shape[0])
        assert any(np.array_equal(made[top : top + 40], image) for top in range(made.shape[0] - 39))
    assert len(heights) > 5
    assert 40 <= min(heights) <= max(heights) <= 40 + 2 * 14


def test_probabilities_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"Shadow: p=1\.5 must be from 0 to 1"):
        T.Shadow(p=1.5)

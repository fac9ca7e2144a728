"""Distortions of lines."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, UsageError
from pdl_ocr.data import transforms as T
from pdl_ocr.data.standin import drawn

ALL = [
    T.Stretch,
    T.MotionBlur,
    T.GaussianNoise,
    T.Shadow,
    T.LowResolution,
    T.JPEGCompression,
    T.Inverted,
    T.Bolder,
    T.Contrast,
    T.Texture,
    T.Stains,
    T.Faded,
    T.Specks,
    T.ShowThrough,
]
MOVE = [T.LinePerspective, T.Curvature, T.Tilted, T.Stretch]
GROW = [T.LinePerspective, T.Curvature, T.Tilted, T.Neighbours]  # fmt: skip


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


@pytest.mark.parametrize("fill", [None, 0])
@pytest.mark.parametrize("kind", MOVE)
def test_ink_stays_in_the_image_and_points_stay_on_it(kind: type[T._Moving], fill: float | None) -> None:
    """Dots at the edges of images of several shapes, with points on their centres and one behind those of polygons."""
    for height, width in ((24, 160), (40, 30), (120, 200)):
        image = np.full((height, width, 3), 220, np.uint8)
        dots = np.array([[x, y] for y in (2, height // 2, height - 3) for x in (2, width // 2, width - 3)])
        for x, y in dots:
            image[y - 2 : y + 3, x - 2 : x + 3] = 20
        sample = {"image": image, "points": (dots + 0.5).astype(np.float32), "corners": np.array([4, 4]), "label": 7}
        for draw in range(25):
            made = kind(p=1.0, fill=fill)(sample, SampleRandom(0, 0, draw))
            assert made["label"] == 7
            points, corners = made["points"], made["corners"]
            firsts = np.concatenate([[0], np.cumsum(corners)])
            assert firsts[-1] == len(points) - 1
            old = np.concatenate([points[firsts[:2]], points[-1:]])  # corners that were there, and what stands behind
            x, y = np.floor(old).astype(int).T
            assert (made["image"][y, x] < 110).all(), f"{kind.__name__} {draw}"
            size = made["image"].shape[1::-1]
            assert (points >= 0).all(), f"{kind.__name__} {draw}"
            assert (points <= size).all(), f"{kind.__name__} {draw}"


def test_polygons_bend_with_their_line() -> None:
    image = np.full((80, 400, 3), 220, np.uint8)
    image[25:55, 20:380] = 20
    box = np.array([[20, 25], [380, 25], [380, 55], [20, 55]], np.float32)
    sample = {"image": image, "points": box, "corners": np.array([4])}
    for draw in range(10):
        made = T.Curvature(p=1.0)(sample, SampleRandom(0, 0, draw))
        inside = np.zeros(made["image"].shape[:2], np.uint8)
        cv2.fillPoly(inside, [np.rint(made["points"]).astype(np.int32)], 1)
        ink = made["image"][..., 0] < 120
        assert (inside.astype(bool) & ink).sum() > 0.9 * (inside.astype(bool) | ink).sum()
    assert np.array_equal(T.Tilted(p=1.0)(sample, SampleRandom(0, 0, 0))["corners"], [4]), (
        "straight edges stay straight"
    )


def test_what_cannot_follow_is_refused() -> None:
    image = np.full((20, 40, 3), 220, np.uint8)
    with pytest.raises(UsageError, match="Neighbours adds text that no label has"):
        T.Neighbours()({"image": image, "points": np.zeros((4, 2), np.float32)}, SampleRandom(0, 0, 0))
    with pytest.raises(UsageError, match="Curvature bends images, and boxes cannot follow"):
        T.Curvature(p=1.0)({"image": image, "boxes": np.zeros((1, 4), np.float32)}, SampleRandom(0, 0, 0))


def test_paper_takes_light_from_ink_and_paper_alike() -> None:
    for kind in (T.Texture, T.Stains):
        for draw in range(6):
            ink, page = (
                kind(p=1.0).image(np.full((64, 90, 3), level, np.uint8), SampleRandom(0, 0, draw)).astype(float)
                for level in (100, 200)
            )
            assert page.max() <= 200
            assert page.min() > 80
            assert page.max() - page.min() > 3
            assert np.abs(2 * ink - page).max() <= 2


def test_probabilities_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"Shadow: p=1\.5 must be from 0 to 1"):
        T.Shadow(p=1.5)

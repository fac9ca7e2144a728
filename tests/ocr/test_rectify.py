"""Pages in photographs and on their side: sheets at known places, lines at known angles, and the way back."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from pdl_ocr.rectify import Rectified, begun, direction, laid, project, rectangle, sheet

Array = np.ndarray


def written(height: int = 560, width: int = 400, paper: int = 235) -> Array:
    """A page uint8 [H, W, 3] with rows of dark strokes."""
    x = np.full((height, width, 3), paper, np.uint8)
    for top in range(30, height - 40, 28):
        cv2.putText(x, "the quick brown fox", (20, top + 16), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (30, 30, 30), 2)
    return x


def table_top(height: int, width: int, rng: np.random.Generator) -> Array:
    """A surface of a dark colour, with grain and stripes."""
    coarse = rng.normal(0, 14, (height // 24 + 1, width // 24 + 1, 1)).astype(np.float32)
    grain = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)[:, :, None]
    stripes = 12 * np.sin(np.arange(width) / rng.uniform(5, 20))[None, :, None]
    return np.clip(rng.uniform(50, 110, 3) + grain + stripes + rng.normal(0, 3, (height, width, 3)), 0, 255)


def photographed(page: Array, corners: Array, size: tuple[int, int], seed: int) -> Array:
    """A page that lies with its corners at these places on a table, light from one side."""
    width, height = page.shape[1], page.shape[0]
    move = cv2.getPerspectiveTransform(rectangle(width, height).astype(np.float32), corners.astype(np.float32))
    there = cv2.warpPerspective(np.ones(page.shape[:2], np.float32), move, size[::-1])[:, :, None]
    light = np.linspace(1.0, 0.75, size[1])[None, :, None]
    laid_on = cv2.warpPerspective(page, move, size[::-1]) * there
    return (light * (laid_on + table_top(*size, np.random.default_rng(seed)) * (1 - there))).astype(np.uint8)


CORNERS = {
    "straight": [[150, 80], [560, 80], [560, 650], [150, 650]],
    "leaning": [[230, 60], [620, 150], [500, 690], [90, 580]],
    "from below": [[220, 90], [500, 90], [630, 660], [90, 660]],
    "from the side": [[110, 190], [540, 70], [600, 700], [130, 560]],
}


@pytest.mark.parametrize("name", CORNERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sheet_is_found_and_made_flat(name: str, seed: int) -> None:
    page, corners = written(), np.array(CORNERS[name], np.float64)
    photo = photographed(page, corners, (760, 720), seed)
    found = sheet(photo)
    assert found is not None
    assert np.abs(found - corners).max() < 0.006 * np.hypot(760, 720)
    made = Rectified.of(photo.shape[:2], found, 0.0)
    assert made is not None
    height, width = page.shape[:2]
    flat = cv2.resize(made.image(photo), (width, height)).astype(float).mean(axis=2)
    inner = np.s_[10:-10, 10:-10]
    assert np.corrcoef(flat[inner].ravel(), page.mean(axis=2)[inner].ravel())[0, 1] > 0.6
    assert project(made.homography, corners) == pytest.approx(rectangle(made.width, made.height), abs=8)
    assert made.back(made.forth(corners)) == pytest.approx(corners, abs=1e-6)


def noise() -> Array:
    return np.random.default_rng(0).integers(0, 256, (400, 300, 3), dtype=np.uint8)


def framed() -> Array:
    """A scanned page with a ruled frame, and a dark picture in it."""
    x = written(800, 600)
    cv2.rectangle(x, (40, 40), (560, 700), (0, 0, 0), 4)
    x[500:690, 60:540] = 70
    return x


def half_seen() -> Array:
    """A sheet whose lower end is outside of the photograph."""
    corners = np.array([[100, 100], [600, 120], [650, 900], [80, 900]], np.float64)
    return photographed(written(), corners, (700, 720), 0)


NO_SHEET: dict[str, Any] = {
    "white": lambda: np.full((300, 400, 3), 255, np.uint8),
    "dark": lambda: np.full((300, 400), 9, np.uint8),
    "a table": lambda: table_top(500, 400, np.random.default_rng(0)).astype(np.uint8),
    "noise": noise,
    "a scan": written,
    "a scan in gray": lambda: written()[:, :, 0],
    "a frame": framed,
    "cut off": half_seen,
    "a line": lambda: written(40, 900),
    "a pixel": lambda: np.zeros((1, 1, 3), np.uint8),
}


@pytest.mark.parametrize("name", NO_SHEET)
def test_no_sheet_is_found_where_none_is_sure(name: str) -> None:
    assert sheet(NO_SHEET[name]()) is None


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_quarter_turns_move_pixels_and_change_none(turns: int) -> None:
    x = noise()[:41, :30]
    page = Rectified.of(x.shape[:2], None, turns * np.pi / 2)
    assert page is not None
    assert (page.image(x) == np.rot90(x, turns)).all()
    assert (page.width, page.height) == np.rot90(x, turns).shape[1::-1]
    assert Rectified.read(page.facts).back(rectangle(page.width, page.height))[0] == pytest.approx(
        [(30, 0), (30, 41), (0, 41)][turns - 1]
    )


def test_a_page_that_lies_as_it_should_stays_as_it_is() -> None:
    assert Rectified.of((500, 400), None, 0.0) is None
    assert Rectified.of((32_000, 32_000), None, 0.5) is None  # more than can be warped


def test_a_leaning_page_is_made_straight() -> None:
    x = written()
    page = Rectified.of(x.shape[:2], None, np.radians(-7))
    assert page is not None
    leaning = page.image(x)
    back = Rectified.of(leaning.shape[:2], None, np.radians(7))
    assert back is not None
    top, left = (back.height - x.shape[0]) // 2, (back.width - x.shape[1]) // 2
    straight = back.image(leaning)[top : top + x.shape[0], left : left + x.shape[1]]
    assert np.abs(straight[20:-20, 20:-20].astype(int) - x[20:-20, 20:-20]).mean() < 12
    assert back.forth(page.forth([[10, 20]])) == pytest.approx(np.array([[10 + left, 20 + top]]), abs=1)


def at(left: float, top: float, width: float, height: float) -> Array:
    return rectangle(width, height) + np.array([left, top])


def lines(degrees: float, count: int = 6) -> Array:
    """Lines [N, 4, 2] at an angle, each clockwise from the corner where its text begins."""
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    widths = np.linspace(120, 300, count)
    return np.stack([at(50, 40 * i, w, 20) @ turn + 500 for i, w in enumerate(widths)])


@pytest.mark.parametrize("degrees", [0, 3.5, -12, 44, 60, 90, 120])
def test_the_direction_of_lines(degrees: float) -> None:
    square = lines(20)[:, [0]] + rectangle(30, 25) @ [[0.8, 0.6], [-0.6, 0.8]]
    found = direction(np.concatenate([lines(degrees), square]))
    assert np.degrees(found) == pytest.approx(degrees, abs=0.01)
    assert direction(lines(degrees + 180)) == pytest.approx(found, abs=1e-9)
    assert direction(np.roll(lines(degrees), 1, axis=1)) == pytest.approx(found, abs=1e-9)
    mixed = np.roll(lines(degrees), 3, axis=1)
    assert begun(mixed, mixed, np.radians(degrees)) == pytest.approx(lines(degrees))


def test_lines_in_all_directions_have_none() -> None:
    assert direction(np.concatenate([lines(0), lines(45), lines(90), lines(-45)])) == 0
    assert direction(lines(0)[:0]) == 0
    assert direction(np.zeros((3, 4, 2))) == 0


def test_how_a_page_lies() -> None:
    corners = np.array(CORNERS["from below"], np.float64)
    photo = photographed(written(), corners, (760, 720), 0)
    move = cv2.getPerspectiveTransform(rectangle(400, 560).astype(np.float32), corners.astype(np.float32))
    rows = project(move, np.stack([at(20, 30 + 28 * i, 320, 20) for i in range(15)]))
    paper, angle = laid(photo, rows)
    assert paper is not None
    assert angle == 0
    beside = np.stack([at(10, 20 * i, 90, 15) for i in range(20)])
    assert laid(photo, np.concatenate([rows, beside]))[0] is None  # the sheet does not hold all text
    paper, angle = laid(written(), lines(0.4))
    assert paper is None
    assert angle == 0
    assert np.degrees(laid(written(), lines(91.5))[1]) == pytest.approx(91.5)

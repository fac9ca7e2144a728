"""Images without OpenCV give OpenCV's bytes."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.data import transforms
from pdl.data.image import change_mode, read_image
from pdl.data.randomness import SampleRandom
from pdl.data.transforms.pixels import resize
from pdl.errors import DataError, ShapeError, UsageError
from pdl.kernels import image as kernels
from pdl.runtime import images
from pdl.runtime.steps.images import AutoContrast, ToFloat

SIDE = st.integers(1, 96)


def photo(h: int, w: int, c: int, seed: int = 0, smooth: bool = True) -> np.ndarray:
    """Noise, or noise blown up, which has the slopes of a photograph."""
    rng = np.random.default_rng(seed)
    shape = (max(2, h // 7), max(2, w // 5), c) if smooth else (h, w, c)
    small = rng.integers(0, 256, shape, dtype=np.uint8)
    return resize(small, (h, w), "cubic") if smooth else small


@settings(max_examples=150)
@given(SIDE, SIDE, SIDE, SIDE, st.sampled_from([1, 3]), st.sampled_from(images.METHODS), st.integers(0, 999))
def test_resize_is_opencvs(h: int, w: int, out_h: int, out_w: int, c: int, method: str, seed: int) -> None:
    """Equal bytes, but for areas, whose sums OpenCV takes in another order: there one level, and rarely."""
    x = photo(h, w, c, seed, smooth=seed % 2 == 0)
    theirs, ours = resize(x, (out_h, out_w), method), images.resize(x, (out_h, out_w), method)
    off = np.abs(theirs.astype(int) - ours)
    assert off.max() <= (1 if method in ("auto", "area") else 0)
    assert (off > 0).mean() <= 0.1  # where areas are multiples of 1/2, one sum in ten is a tie


@pytest.mark.parametrize("factor", [(1, 2), (2, 1), (2, 2), (2, 4), (3, 3), (4, 4), (6, 6), (5, 2)])
@pytest.mark.parametrize("method", ["area", "linear"])
@pytest.mark.parametrize("channels", [1, 3])
def test_whole_factors(factor: tuple[int, int], method: str, channels: int) -> None:
    """Halves are rounded up at 2 x 2 and to even elsewhere, as OpenCV does."""
    x = photo(24 * factor[0], 31 * factor[1], channels, 3, smooth=False)
    assert np.array_equal(resize(x, (24, 31), method), images.resize(x, (24, 31), method))


def test_one_axis_grows_and_the_other_shrinks() -> None:
    for shape, size in [((40, 10), (13, 17)), ((10, 40), (17, 13)), ((33, 64), (32, 65))]:
        x = photo(*shape, 3)
        for method in ("area", "auto", "linear"):
            assert np.array_equal(resize(x, size, method), images.resize(x, size, method))


@given(SIDE, SIDE, st.sampled_from([1, 3]), st.integers(0, 99))
@settings(max_examples=40)
def test_the_rest_is_the_transforms(h: int, w: int, c: int, seed: int) -> None:
    x, rng = photo(h, w, c, seed, smooth=False), SampleRandom(0, 0, 0)
    pairs: list[tuple[Any, Any]] = [
        (change_mode(x, "gray"), images.change_mode(x, "gray")),
        (change_mode(x, "rgb"), images.change_mode(x, "rgb")),
        (transforms.CenterCrop((20, 33), 7).image(x, rng), images.crop(x, (20, 33), (7,))),
        (transforms.Pad((1, 2, 3, 4), 9).image(x, rng), images.pad(x, (1, 2, 3, 4), (9,))),
        (transforms.Pad(2, mode="edge").image(x, rng), images.pad(x, (2, 2, 2, 2), mode="edge")),
        (transforms.Letterbox((20, 33), 7, interpolation="linear").image(x, rng),
         images.letterbox(x, (20, 33), (7,), "linear", centre=True, enlarge=True)),
        (transforms.Letterbox((40, 27), 9, centre=False, enlarge=False, interpolation="linear").image(x, rng),
         images.letterbox(x, (40, 27), (9,), "linear", centre=False, enlarge=False)),
        (transforms.ResizeShort(24).image(x, rng).shape, images.resize_short(x, 24).shape),
        (transforms.Normalize(0.3, 0.2).image(x, rng), images.normalized(x, (0.3,), (0.2,))),
    ]
    if c == 3:
        mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
        pairs.append((transforms.Normalize(mean, std).image(x, rng), images.normalized(x, mean, std)))
    for theirs, ours in pairs:
        assert np.array_equal(theirs, ours)


@pytest.mark.parametrize("size", [(24, 40), (40, 24), (90, 70)])
@pytest.mark.parametrize("method", images.METHODS)
@pytest.mark.parametrize("channels", [1, 3])
def test_letterbox_is_resize_then_pad(size: tuple[int, int], method: str, channels: int) -> None:
    """Though the resized image is written between its edges at once."""
    x = photo(57, 68, channels)
    inner, padding = images.letterbox_places(x.shape, size, centre=True, enlarge=True)
    made = images.letterbox(x, size, (9,), method, centre=True, enlarge=True)
    assert np.array_equal(made, images.pad(images.resize(x, inner, method), padding, (9,)))
    assert images.letterbox(x, x.shape[:2], method=method, centre=True, enlarge=True) is x


def test_rows_of_a_result_may_lie_apart_but_not_its_pixels() -> None:
    x, term = np.zeros((4, 4, 3), np.uint8), (np.arange(5, dtype=np.int32), np.arange(4, dtype=np.int32))
    y = np.zeros((4, 8, 3), np.uint8)
    weight = np.ones(4, np.float32)
    kernels.area(y[:, 2:6], x, *term, weight, *term, weight)
    with pytest.raises(ShapeError, match="the pixels of a row of y"):
        kernels.area(y[:, ::2], x, *term, weight, *term, weight)
    with pytest.raises(ShapeError, match="the pixels of a row of y"):
        kernels.linear(y[:, ::2], x, np.zeros((4, 4), np.int32), np.zeros((4, 4), np.int32))


def test_files(tmp_path: Path) -> None:
    x = photo(20, 30, 3)
    cv2.imwrite(str(tmp_path / "a.png"), x[..., ::-1])
    cv2.imwrite(str(tmp_path / "a.jpg"), x[..., ::-1])
    for name in ("a.png", "a.jpg"):
        for mode in ("rgb", "gray"):
            theirs = read_image(tmp_path / name, mode=mode)  # type: ignore[arg-type]
            assert np.array_equal(theirs, images.read(tmp_path / name, mode))
            assert np.array_equal(theirs, images.read((tmp_path / name).read_bytes(), mode))
    assert np.array_equal(images.read(x, "rgb"), x)
    assert np.array_equal(images.read(x[:, :, 0], "rgb"), np.repeat(x[:, :, :1], 3, axis=2))


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "absent": ("absent.png", DataError, r"absent.png: cannot be read"),
    "text": (b"hello", DataError, r"bytes: not an image that can be decoded \(text, 5 bytes\)"),
    "empty": (b"", DataError, r"the file is empty"),
    "cut off": (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xda", DataError, r"cut off"),
    "floats": (np.zeros((4, 4, 3)), UsageError, r"got float64 \(4, 4, 3\)"),
    "channels": (np.zeros((4, 4, 2), np.uint8), UsageError, r"\(4, 4, 2\)"),
    "nothing": (np.zeros((0, 4, 3), np.uint8), UsageError, r"\(0, 4, 3\)"),
    "slim": (np.zeros((1, 40000, 1), np.uint8), UsageError, r"at most 32768 pixels a side"),
    "number": (3, UsageError, r"not int"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_image(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    item, error, message = BAD[name]
    with pytest.raises(error, match=message):
        images.read(item, "rgb")


def test_without_opencv_files_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    known = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "cv2":
            raise ImportError(name)
        return known(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UsageError, match=r"pip install opencv-python-headless, or give an array"):
        images.read(b"\x89PNG", "rgb")
    assert images.read(np.zeros((3, 3), np.uint8), "rgb").shape == (3, 3, 3)


def test_kernels_check_their_tables() -> None:
    x, y = np.zeros((4, 4, 1), np.uint8), np.zeros((2, 2, 1), np.uint8)
    start, weight = np.array([0, 2, 4], np.int32), np.ones(4, np.float32)
    good, beyond = np.arange(4, dtype=np.int32), np.arange(1, 5, dtype=np.int32)
    kernels.area(y, x, start, good, weight, start, good, weight)
    for changed in ({1: beyond}, {4: beyond}, {0: start[::-1].copy()}, {3: start[:2].copy()}, {2: weight[:3].copy()}):
        arguments = [start, good, weight, start, good, weight]
        for place, value in changed.items():
            arguments[place] = value
        with pytest.raises(ShapeError, match="area"):
            kernels.area(y, x, *arguments)
    cells = np.array([[0, 1], [1, 2], [2048, 0], [0, 2048]], np.int32)
    kernels.linear(y, x, cells, cells)
    for place, value in (((1, 1), 4), ((0, 0), -1), ((2, 0), 4096)):
        wrong = cells.copy()
        wrong[place] = value
        with pytest.raises(ShapeError, match="linear"):
            kernels.linear(y, x, wrong, cells)
        with pytest.raises(ShapeError, match="linear"):
            kernels.linear(y, x, cells, wrong)
    with pytest.raises(ShapeError, match="lookup"):
        kernels.lookup(np.zeros((4, 1), np.float32), np.zeros((4, 1), np.uint8), np.zeros((255, 1), np.float32))


GROWING = [
    lambda x: images.pad(x, (2**15,) * 4),
    lambda x: images.resize(x, (2**15, 2**15)),
    lambda x: images.crop(x, (2**15, 2**15)),
    lambda x: images.normalized(np.broadcast_to(x[:1, :1], (2**14, 2**14, 3)), (0.5,), (0.5,)),
    lambda x: ToFloat()(np.broadcast_to(x[:1, :1], (2**14, 2**14, 3))),
    lambda x: images.repeated(np.broadcast_to(x[:1, :1, :1], (2**15, 2**14, 1))),
]


@pytest.mark.parametrize("grow", GROWING)
def test_no_step_makes_an_image_without_bounds(grow: Any) -> None:
    with pytest.raises(DataError, match=r"an image would take .* more than the limit of 1073741824 bytes"):
        grow(np.zeros((4, 4, 3), np.uint8))


def test_large_images_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (37, 11, 3), np.uint8)
    whole, wide = images.gray(x), images.stretched(x, 0.1, 0.2)
    monkeypatch.setattr(images, "_BLOCK", 50)
    np.testing.assert_array_equal(images.gray(x), whole)
    np.testing.assert_array_equal(images.stretched(x, 0.1, 0.2), wide)


def test_stretched_images_reach_from_black_to_white() -> None:
    x = np.random.default_rng(0).integers(40, 101, (20, 30, 3), np.uint8)
    x[..., 2] = 7
    found = images.stretched(x[..., :2], 0, 0)
    np.testing.assert_array_equal(found, np.rint((x[..., :2] - 40.0) * 255 / 60))
    each = images.stretched(x, 0.1, 0.2, each=True)
    for channel in (0, 1):
        values = x[..., channel]
        a, b = (np.quantile(values, q, method=m) for q, m in ((0.1, "inverted_cdf"), (0.8, "inverted_cdf")))
        assert 0.09 <= (values <= a).mean() <= 0.2
        assert ((each[..., channel] == 0) == (values <= a)).all()
        assert ((each[..., channel] == 255) == (values >= b)).all()
    assert (each[..., 2] == 7).all(), "of one value there is nothing to stretch"
    with pytest.raises(UsageError, match="is for bytes, not float32"):
        AutoContrast()(x.astype(np.float32))

"""Reading pictures: channels, damage, limits; and the store of data sets on disk."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from pdl.data import DataFault, cached_arrays, data_root, find
from pdl.data.image import Mode, change_mode, decode_image, read_image

RGB = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
SMOOTH = np.add.outer(np.arange(32), np.arange(40))[..., None].astype(np.uint8) * np.array([1, 2, 3], np.uint8)


def encode(suffix: str, image: np.ndarray = RGB) -> bytes:
    return bytes(cv2.imencode(suffix, image[..., ::-1] if image.ndim == 3 else image)[1])


def test_channels_and_order() -> None:
    for suffix in (".png", ".bmp", ".tiff", ".ppm"):
        np.testing.assert_array_equal(decode_image(encode(suffix)), RGB)
    for suffix in (".jpg", ".webp"):
        assert np.abs(decode_image(encode(suffix, SMOOTH)).astype(int) - SMOOTH).mean() < 4
    gray = decode_image(encode(".png"), mode="gray")
    assert gray.shape == (9, 7, 1)
    np.testing.assert_allclose(change_mode(RGB, "gray").astype(int), gray, atol=1)
    np.testing.assert_array_equal(decode_image(encode(".png", RGB[..., 0]))[..., 2], RGB[..., 0])
    assert change_mode(gray[None], "rgb").shape == (1, 9, 7, 3)
    deep = encode(".png", RGB.astype(np.uint16) * 257)
    np.testing.assert_array_equal(decode_image(deep), RGB)


def jpeg_of_size(height: int, width: int) -> bytes:
    data = bytearray(encode(".jpg", SMOOTH))
    at = data.index(b"\xff\xc0")
    data[at + 5:at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def png_of_size(height: int, width: int) -> bytes:
    data = bytearray(encode(".png"))
    data[16:24] = struct.pack(">II", width, height)
    return bytes(data)


def tiff_of_size(order: str, width: int, height: int) -> bytes:
    entries = [struct.pack(f"{order}HHII", tag, 4, 1, size) for tag, size in ((256, width), (257, height))]
    sign = b"II*\0" if order == "<" else b"MM\0*"
    return sign + struct.pack(f"{order}IH", 8, len(entries)) + b"".join(entries) + struct.pack(f"{order}I", 0)


@pytest.mark.parametrize(("data", "words"), [
    (b"", r"empty \(0 bytes\)"),
    (b"just words", r"not an image .*\(text, 10 bytes\)"),
    (b"\x08" + b"\0\1\2\3" * 20, "not an image"),
    (encode(".jpg", SMOOTH)[:-2], "JPEG is cut off: no end marker"),
    (encode(".jpg", SMOOTH)[:100], "JPEG is cut off inside its header"),
    (b"\xff\xd8\xff\xe0\x00\x04ab\x00\x00\x00\x00", "no marker at byte 8"),
    (encode(".png")[:-12], "PNG is cut off: no IEND"),
    (jpeg_of_size(60000, 60000), "60000 x 60000 pixels, more than the limit"),
    (png_of_size(2**30, 2**30), "more than the limit"),
    (png_of_size(0, 5), "no pixels"),
    (b"P6\n# big\n65536 65536\n255\n", "65536 x 65536 pixels, more than the limit"),
    (b"P6\nwide", "damaged PNM"),
    (tiff_of_size("<", 2**16, 2**16), "more than the limit"),
    (tiff_of_size(">", 2**16, 2**16), "more than the limit"),
    (tiff_of_size("<", 4, 4)[:12], "cut off inside its header"),
    (b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0\xff\xff\0\xff\xff\0" + bytes(8), "65536 x 65536 pixels, more than"),
    (b"RIFF\0\0\0\0WAVEfmt ", "RIFF, but not WebP"),
    (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(50), "not an image"),  # JPEG 2000
    (encode(".bmp")[:18] + struct.pack("<ii", 2**20, 2**20) + encode(".bmp")[26:], "more than the limit"),
])
def test_damage_is_named(data: bytes, words: str) -> None:
    with pytest.raises(DataFault, match=words) as info:
        decode_image(data, path="x.img", index=3)
    assert info.value.fault.path == "x.img"
    assert info.value.fault.index == 3
    assert info.value.fault.advice


def test_garbage_behind_a_jpeg_is_no_damage() -> None:
    assert decode_image(encode(".jpg", SMOOTH) + b"camera notes").shape == SMOOTH.shape


def test_every_cut_of_a_jpeg_or_png_is_noticed() -> None:
    for whole in (encode(".jpg", SMOOTH), encode(".png")):
        for end in range(0, len(whole) - 1, 7):
            with pytest.raises(DataFault):
                decode_image(whole[:end])


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "no.png", "no such file"), (tmp_path, "folder stands where a file")):
        with pytest.raises(DataFault, match=words):
            read_image(path)


def test_find_names_places_and_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_DATA", str(tmp_path))
    assert data_root() == tmp_path
    with pytest.raises(DataFault, match=r"one/a, .*two/b.*get it from https://example.org"):
        find("Set", ["one/a", "two/b"], address="https://example.org")
    (tmp_path / "two" / "b").mkdir(parents=True)
    assert find("Set", ["one/a", "two/b"], address="") == tmp_path / "two" / "b"


def never() -> dict[str, np.ndarray]:
    raise RuntimeError("the cache was not used")


def test_cache_is_used_and_rebuilt_when_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    build: Callable[[], dict[str, np.ndarray]] = lambda: {"a": np.arange(5), "b": np.ones(2)}  # noqa: E731
    assert (cached_arrays("key", ["a"], build)["a"] == np.arange(5)).all()
    assert cached_arrays("key", ["a", "b"], never)["b"].sum() == 2
    file = tmp_path / "decoded" / "key.a.npy"
    file.write_bytes(file.read_bytes()[:-3])
    assert (cached_arrays("key", ["a"], build)["a"] == np.arange(5)).all()
    assert (cached_arrays("key", ["a"], never)["a"] == np.arange(5)).all()
    assert sorted(p.name for p in (tmp_path / "decoded").iterdir()) == ["key.a.npy", "key.b.npy"]


def test_data_folders_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("PDL_DATA", str(tmp_path / "data"))
    for place in ("cache", "file"):  # one that can be written to, and one that cannot
        monkeypatch.setenv("PDL_CACHE", str(tmp_path / place))
        assert (cached_arrays("key", ["a"], lambda: {"a": np.arange(5)})["a"] == np.arange(5)).all()
    assert not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize("ending", [".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"])
def test_formats(ending: str) -> None:
    image = SMOOTH if ending != ".pgm" else SMOOTH[:, :, 0]
    assert decode_image(encode(ending, image)).shape == (*SMOOTH.shape[:2], 3)


@pytest.mark.parametrize("ending", ["jpg", "png"])
@pytest.mark.parametrize("mode", ["rgb", "gray"])
def test_smaller_versions(ending: str, mode: Mode, tmp_path: Path) -> None:
    """A gradient in each direction, so that a shift or another scale would show."""
    y, x = np.mgrid[:64, :96]
    image = np.stack([x * 2, y * 3, x + y], 2).astype(np.uint8)
    path = tmp_path / f"a.{ending}"
    cv2.imwrite(str(path), image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 98])
    whole = read_image(path, mode=mode)
    for factor in (2, 4, 8):
        small = read_image(path, mode=mode, reduce=factor)
        assert small.shape == (64 // factor, 96 // factor, whole.shape[2])
        means = whole.reshape(64 // factor, factor, 96 // factor, factor, -1).mean((1, 3))
        assert np.abs(small - means).max() < 3

"""Folders of images and masks: layouts, what numbers mean, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from pdl.data import DataLoader, Subset
from pdl.data.transforms import Letterbox, RandomHorizontalFlip
from pdl.errors import ConfigError, DataError
from pdl_cv.data import SegmentationFolder
from pdl_cv.data.index_maps import IGNORED, index_map
from pdl_cv.data.segmentation import pixels_of
from pdl_cv.data.standin import write_objects
from pdl_cv.palette import encoded_map

MASK = np.array([[0, 1, 1], [2, 2, 255]], np.uint8)
IMAGE = np.zeros((2, 3, 3), np.uint8)


def put(folder: Path, *names: str, mask: np.ndarray = MASK) -> Path:
    """Files of these names: masks where they speak of one."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        mark = any(word in name for word in ("mask", "annot", "labelIds", "labelTrainIds", "_L"))
        cv2.imwrite(str(path), mask if mark else IMAGE)
    return folder


CITY = ("leftImg8bit/{0}/x/a_leftImg8bit.png", "gtFine/{0}/x/a_gtFine_labelTrainIds.png")
LAYOUTS = {
    "cityscapes": [name.format(split) for split in ("train", "val") for name in CITY],
    "camvid": ["train/a.png", "trainannot/a.png", "val/b.png", "valannot/b.png"],
    "folders": ["images/train/a.jpg", "masks/train/a.png", "images/val/b.jpg", "masks/val/b_mask.png"],
    "beside": ["train/a.jpg", "train/a_mask.png", "val/b.png", "val/b_L.png"],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_with_splits(tmp_path: Path, layout: str) -> None:
    put(tmp_path, *LAYOUTS[layout])
    for split in ("train", "val"):
        data = SegmentationFolder(tmp_path, split=split)
        assert (data.layout, len(data)) == (layout, 1)
        np.testing.assert_array_equal(data[0]["mask"], MASK)
        np.testing.assert_array_equal(data.annotation(0)["mask"], MASK)
    with pytest.raises(DataError, match="it has the splits train, val; add split=train"):
        SegmentationFolder(tmp_path)


def test_ids_of_cityscapes(tmp_path: Path) -> None:
    put(tmp_path, CITY[0].format("train"), mask=MASK)
    put(tmp_path, "gtFine/train/x/a_gtFine_labelIds.png", mask=np.array([[7, 8, 0], [33, 26, 4]], np.uint8))
    data = SegmentationFolder(tmp_path, split="train")
    assert len(data.classes) == 19
    assert [[data.classes[k] if k != IGNORED else "" for k in row] for row in data[0]["mask"].tolist()] == [
        ["road", "sidewalk", ""],
        ["bicycle", "car", ""],
    ]


def test_ratios_cut_once(tmp_path: Path) -> None:
    put(tmp_path, *(f"{kind}/{i}.png" for i in range(20) for kind in ("images", "masks")))
    ratios = {"train": 0.8, "val": 0.2}
    parts = [SegmentationFolder(tmp_path, split=split, ratios=ratios) for split in ratios]
    assert [len(part) for part in parts] == [16, 4]
    assert not set(parts[0].paths) & set(parts[1].paths)


# -- what numbers mean -------------------------------------------------------------------------------------------------
def test_indices_of_palettes_and_colours(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(encoded_map(MASK, border=True))
    np.testing.assert_array_equal(index_map(tmp_path / "p.png"), MASK)
    colours = np.zeros((1, 2, 3), np.uint8)
    colours[0, 0] = (0x40, 0x20, 0x10)  # blue, green, red
    cv2.imwrite(str(tmp_path / "c.png"), colours)
    np.testing.assert_array_equal(index_map(tmp_path / "c.png"), [[0x102040, 0]])
    cv2.imwrite(str(tmp_path / "w.png"), np.array([[0, 700]], np.uint16))
    np.testing.assert_array_equal(index_map(tmp_path / "w.png"), [[0, 700]])


def test_palettes_of_few_bits(tmp_path: Path) -> None:
    """Two pixels of four bits, 3 and 12: a PNG that no decoder of colours tells apart."""
    import zlib

    chunks = {
        b"IHDR": (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([4, 3, 0, 0, 0]),
        b"PLTE": bytes(48),
        b"IDAT": zlib.compress(bytes([0, 3 << 4 | 12])),
        b"IEND": b"",
    }
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        for kind, body in chunks.items()
    )
    (tmp_path / "four.png").write_bytes(data)
    assert index_map(tmp_path / "four.png").tolist() == [[3, 12]]


def test_values_of_classes(tmp_path: Path) -> None:
    put(tmp_path, "images/a.png", "masks/a.png", mask=np.array([[0, 9, 300], [4, 5, 255]], np.uint16))
    data = SegmentationFolder(tmp_path, values={"ground": [0, 9], "cell": "rest"}, ignore=[4])
    assert data[0]["mask"].tolist() == [[0, 0, 1], [IGNORED, 1, IGNORED]]
    assert data.pixels.tolist() == pixels_of(data).tolist() == pixels_of(Subset(data, [0])).tolist() == [2, 2]
    with pytest.raises(DataError, match=r"the value 300 at \(2, 0\), of 1 pixels, is no class; .*ignore=\[300\]"):
        SegmentationFolder(tmp_path, classes=[str(i) for i in range(10)])[0]


def test_black_and_white(tmp_path: Path) -> None:
    data = SegmentationFolder(put(tmp_path, "images/a.png", "masks/a.png", mask=np.array([[0, 255]] * 2, np.uint8)))
    assert (data.classes, data.seen) == (["background", "object"], {"background": 0, "object": 255})
    assert "0 and 255 alone" in data.faults[0].what
    assert data.annotation(0)["mask"].tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": ["a"], "values": {"a": 0}}, "give classes .* or values"),
        ({"values": {"a": 0, "b": 0}}, "values: 0 is 'a' and 'b'"),
        ({"values": {"a": 0, "b": "red"}}, "'red' is no number from 0, no colour"),
        ({"values": {"a": 0}}, "masks have 1 classes"),
    ],
)
def test_wrong_values(tmp_path: Path, options: dict[str, object], message: str) -> None:
    put(tmp_path, "images/a.png", "masks/a.png")
    with pytest.raises(ConfigError, match=message):
        SegmentationFolder(tmp_path, **options)  # type: ignore[arg-type]


def test_what_is_missing(tmp_path: Path) -> None:
    put(tmp_path, "images/a.png", "images/b.png", "masks/a.png")
    with pytest.raises(DataError, match=r"images/b.png: it has no mask of its name"):
        SegmentationFolder(tmp_path)
    data = SegmentationFolder(tmp_path, on_error="skip")
    assert (len(data), len(data.faults)) == (1, 1)
    with pytest.raises(DataError, match="no masks found among 1 files"):
        SegmentationFolder(put(tmp_path / "none", "a.png"))


def test_outlined_objects_are_painted(tmp_path: Path) -> None:
    write_objects(tmp_path, ["zero", "one", "two"], splits=True)
    data = SegmentationFolder(tmp_path, split="train")
    assert data.classes == ["background", "zero", "one", "two"]
    sample = data[0]
    assert sample["mask"].shape == sample["image"].shape[:2]
    ink = sample["mask"] > 0
    assert ink.any()
    assert sample["image"][ink].mean() > sample["image"][~ink].mean()  # light digits on a dark ground


# -- transforms --------------------------------------------------------------------------------------------------------
def test_masks_follow_their_images(tmp_path: Path) -> None:
    """Mirrored, and with what counts nothing where the letterbox adds something."""
    put(tmp_path, "images/a.png", "masks/a.png")
    steps = [RandomHorizontalFlip(p=1.0), Letterbox(3, enlarge=False)]
    (batch,) = DataLoader(SegmentationFolder(tmp_path, classes=["a", "b", "c"]), batch_size=1, transforms=steps)
    assert batch["mask"][0].tolist() == [[1, 1, 0], [255, 2, 2], [255] * 3]

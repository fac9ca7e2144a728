"""Pages with polygons, of every format, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from pdl.data import Fold
from pdl.errors import DataError
from pdl_ocr.data import TextLines, TextPages
from pdl_ocr.data.polygons import split_points

SQUARE = [[1, 2], [21, 2], [21, 12], [1, 12]]
HEXAGON = [[1, 20], [15, 16], [30, 20], [30, 30], [15, 26], [1, 30]]


def images(folder: Path, count: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        cv2.imwrite(str(folder / f"{i}.png"), np.full((40, 60, 3), 200, np.uint8))


def test_labels_of_paddleocr(tmp_path: Path) -> None:
    images(tmp_path)
    lines = [{"transcription": "one", "points": SQUARE}, {"transcription": "###", "points": HEXAGON}]
    (tmp_path / "Label.txt").write_text(f"0.png\t{json.dumps(lines)}\n1.png\t[]\n")
    data = TextPages(tmp_path / "Label.txt")
    assert len(data) == 2
    sample = data[0]
    polygons = split_points(sample["points"], sample["corners"])
    assert [each.tolist() for each in polygons] == [SQUARE, HEXAGON]
    assert sample["ignored"].tolist() == [False, True]
    assert sample["image"].shape == (40, 60, 3)
    assert data.texts(0) == ["one", "###"]
    assert data[1]["points"].shape == (0, 2)
    assert data.size_of(1) == (40, 60)
    assert TextLines(tmp_path / "Label.txt").texts == ["one"], "what is unreadable is no line to be read"


@pytest.mark.parametrize(
    ("name", "row", "corners"),
    [
        ("gt_0.txt", "1,2,21,2,21,12,1,12,a, b", SQUARE),
        ("0.txt", '1, 2, 21, 12, "a, b"', SQUARE),
        ("0.txt", '1 2 21 12 "a, b"', SQUARE),
    ],
)
def test_boxes_of_icdar(tmp_path: Path, name: str, row: str, corners: list[list[int]]) -> None:
    images(tmp_path / "img", 2)
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / name).write_text(f"{row}\n30,2,50,2,50,12,30,12,###\n")
    (tmp_path / "box" / "1.txt").write_text("")
    data = TextPages(tmp_path)
    assert [data.texts(i) for i in range(2)] == [["a, b", "###"], []]
    assert data[0]["points"][:4].tolist() == corners


def test_lists_of_lines_are_no_pages(tmp_path: Path) -> None:
    images(tmp_path)
    (tmp_path / "gt.txt").write_text("0.png\tone\n")
    with pytest.raises(DataError, match=r"its images are lines \(0.png: 'one'\), not pages with polygons"):
        TextPages(tmp_path)


def test_wrong_rows_are_named(tmp_path: Path) -> None:
    images(tmp_path, 1)
    (tmp_path / "0.txt").write_text("1,2,21,2,21,12,1,12,fine\n1,2,3,text\n")
    with pytest.raises(DataError, match=r"0.txt:2: '1,2,3,text' is neither x1,y1,\.\.\.,x4,y4,text nor"):
        TextPages(tmp_path)


def test_splits_and_folds_have_each_page_once(tmp_path: Path) -> None:
    images(tmp_path, 40)
    rows = [f"{i}.png\t{json.dumps([{'transcription': str(i), 'points': SQUARE}])}" for i in range(40)]
    (tmp_path / "Label.txt").write_text("\n".join(rows))
    ratios = {"train": 0.6, "val": 0.2, "test": 0.2}
    splits = [TextPages(tmp_path / "Label.txt", split=split, ratios=ratios) for split in ("train", "val", "test")]  # type: ignore[arg-type]
    names = [path.name for data in splits for path in data.images]
    assert sorted(names) == sorted(f"{i}.png" for i in range(40))
    folds = [Fold(list(splits), split="test", fold=k, folds=4) for k in range(4)]
    assert sorted(path.name for fold in folds for path in fold.dataset.images) == sorted(names)  # type: ignore[attr-defined]
    assert len({fold.fingerprint for fold in folds}) == 4

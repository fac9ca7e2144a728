"""Conversions between all formats of objects: what a format can hold comes back to a fraction of a pixel."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl.errors import DataError, UsageError
from pdl.workflow.converting import convert
from pdl_cv import rle
from pdl_cv.data import DetectionFolder
from pdl_cv.data.boxes.formats import FORMATS
from tests.cv.data import objects
from tests.cv.data.objects import CLASSES, FORMS, OBJECTS, SPLITS
from tests.cv.data.test_detection import boxes_of


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("store")))


@pytest.mark.parametrize("to", [name for name in FORMATS if name != "masks"])
@pytest.mark.parametrize("build", FORMS, ids=lambda build: build.__name__)
def test_boxes_come_back(build: Callable[[Path], None], to: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    build(tmp_path / "old")
    facts = convert(tmp_path / "old", tmp_path / "new", to=to)
    assert facts["splits"] == {"train": {"images": 3, "objects": 3}, "val": {"images": 1, "objects": 1}}
    for split, names in SPLITS.items():
        data = DetectionFolder(tmp_path / "new", split=split)
        assert (data.format, data.classes) == (to, CLASSES)
        assert boxes_of(data) == {name: OBJECTS[name] for name in names}
        old = DetectionFolder(tmp_path / "old", split=split)
        assert [os.path.samefile(data.path_of(i), old.path_of(i)) for i in range(len(data))] == [True] * len(names)
        assert data[0]["image"].shape == old[0]["image"].shape


def drawn(root: Path) -> dict[str, Any]:
    """Boxes of fractions, polygons of two rings, runs with holes, keypoints, difficult objects; no splits."""
    objects.pictures(root, "pics")
    rng = np.random.default_rng(3)
    page = objects.coco_page("train")
    page["categories"] = [{"id": 1, "name": "cat & dog", "keypoints": ["a_l", "a_r"], "skeleton": [[1, 2]]},
                          {"id": 2, "name": "rien", "keypoints": ["a_l", "a_r"], "skeleton": [[1, 2]]}]  # fmt: skip
    page["annotations"] = []
    for number in range(12):
        x, y = rng.uniform(0, 20, 2)
        mask = rng.random((objects.HEIGHT, objects.WIDTH)) < 0.2
        rings = [[x, y, x + 6, y, x + 6, y + 7.25, x, y + 7.25], [x + 8, y, x + 15, y, x + 8, y + 9]]
        shape = {"size": list(mask.shape), "counts": rle.to_text(rle.encode(mask))} if number % 2 else rings
        page["annotations"].append({
            "id": number + 1, "image_id": 7 + number % 3, "category_id": 1 + number % 2, "ignore": number % 3 // 2,
            "bbox": [x, y, *rng.uniform(1, 9, 2)], "segmentation": shape, "iscrowd": 0,
            "keypoints": [x, y, 2, *([y, x, 1] if number % 4 else [0, 0, 0])],
        })  # fmt: skip
    (root / "page.json").write_text(json.dumps(page))
    return page


def opened(root: Path, **options: Any) -> list[dict[str, Any]]:
    data = DetectionFolder(root, **options)
    order = np.argsort([Path(data.path_of(i)).stem for i in range(len(data))])
    return [data[int(i)] for i in order]


def outlined(root: Path) -> dict[str, Any]:
    """The data set without keypoints, as YOLO's files hold these or outlines; its page of annotations."""
    root.mkdir()
    page = drawn(root)
    for each in (*page["annotations"], *page["categories"]):
        each.pop("keypoints")
    (root / "page.json").write_text(json.dumps(page))
    return page


@pytest.mark.parametrize("to", ["coco", "labelme", "yolo", "voc", "masks"])
def test_masks_come_back(to: str, tmp_path: Path) -> None:
    outlined(tmp_path / "old")
    lost = convert(tmp_path / "old", tmp_path / "new", to=to)["lost"]
    split = "train" if to == "yolo" else None
    old, new = opened(tmp_path / "old", masks=True), opened(tmp_path / "new", masks=True, split=split)
    for a, b in zip(old, new, strict=True):
        if to in ("voc", "masks"):
            assert (a["masks"].max(axis=0) == b["masks"].max(axis=0)).all()
            assert "what is below where masks overlap" in lost
        else:
            np.testing.assert_array_equal(a["masks"], b["masks"])
            if to != "yolo":
                assert lost == []
                np.testing.assert_array_equal(a["difficult"], b["difficult"])
        if to == "coco":
            np.testing.assert_allclose(a["boxes"], b["boxes"], atol=2e-3)
    convert(tmp_path / "new", tmp_path / "again", to="coco")
    for a, b in zip(new, opened(tmp_path / "again", masks=True, split=split), strict=True):
        np.testing.assert_array_equal(a["masks"], b["masks"])


def test_yolo_s_files_have_outlines_or_boxes(tmp_path: Path) -> None:
    page = outlined(tmp_path / "old")
    bare = page["annotations"][0]
    bare.pop("segmentation")
    (tmp_path / "old/page.json").write_text(json.dumps(page))
    lost = convert(tmp_path / "old", tmp_path / "new", to="yolo")["lost"]
    assert "masks of images where some objects have none" in lost
    (own,) = [Path(each["file_name"]).stem for each in page["images"] if each["id"] == bare["image_id"]]
    for file in (tmp_path / "new/labels").iterdir():
        assert {len(line.split()) == 5 for line in file.read_text().splitlines()} <= {file.stem == own}


@pytest.mark.parametrize("to", ["coco", "yolo", "labelme", "csv"])
def test_keypoints_come_back(to: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    drawn(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new", to=to)
    split = "train" if to == "yolo" else None
    old, new = opened(tmp_path / "old", keypoints=True), opened(tmp_path / "new", keypoints=True, split=split)
    for a, b in zip(old, new, strict=True):
        np.testing.assert_allclose(a["keypoints"], b["keypoints"], atol=2e-3)
        if to != "labelme":  # whose boxes are those of its outlines
            np.testing.assert_allclose(a["boxes"], b["boxes"], atol=2e-3)
        np.testing.assert_array_equal(a["labels"], b["labels"])
    assert DetectionFolder(tmp_path / "new", split=split).keypoint_names == ("a_l", "a_r")
    assert DetectionFolder(tmp_path / "new", split=split).flip_pairs == ((0, 1),)


def test_outlines_follow_the_edges_of_pixels() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        height, width = rng.integers(1, 20, 2)
        mask = (rng.random((height, width)) < rng.random()).astype(np.uint8)
        found = np.zeros_like(mask)
        for ring in rle.outline(mask):
            found ^= rle.polygon_mask([ring], int(height), int(width))
        np.testing.assert_array_equal(found, mask)
    square = np.zeros((6, 6), np.uint8)
    square[1:4, 2:5] = 1
    assert sorted(rle.outline(square)[0].tolist()) == [[2, 1], [2, 4], [5, 1], [5, 4]]


def test_pictures_of_one_name_keep_apart(tmp_path: Path) -> None:
    old = tmp_path / "old"
    for folder in ("a", "b"):
        objects.pictures(old, folder)
    (old / "all.csv").write_text("".join(f"{f}/{n}.png,1,1,{n + 5},9,x\n" for f in "ab" for n in range(4)))
    convert(old, tmp_path / "new", to="voc", copy=True)
    data = DetectionFolder(tmp_path / "new")
    assert len(data) == 8
    assert sorted(data.annotation(i)["boxes"][0, 2] for i in range(8)) == [5, 5, 6, 6, 7, 7, 8, 8]
    assert not any(os.path.samefile(data.path_of(i), old / "a/0.png") for i in range(8))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets").mkdir()
    objects.voc(tmp_path / "pets")
    assert main(["convert", "pets", "pets_yolo", "--to", "yolo"]) == 0
    said = capsys.readouterr().out
    assert "Pascal VOC XML -> YOLO text files" in said
    assert "3 images, 3 objects" in said
    assert "the mark of difficult objects" in said
    assert main(["convert", "pets", "pets_yolo", "--to", "yolo"]) == 2
    assert "pets_yolo exists" in capsys.readouterr().err
    assert main(["convert", "pets", "pets_coco", "--to", "coco", "--from", "voc", "--copy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost"] == []
    for words, says in ((["--to", "coc"], "did you mean 'coco'"), (["--to", "coco", "--from", "x"], "is none of")):
        assert main(["convert", "pets", "other", *words]) == 2
        assert says in capsys.readouterr().err
    assert main(["convert", "nowhere", "other", "--to", "coco"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pets", "pets_coco", "pets_yolo"]


def test_nothing_is_left_where_it_fails(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    objects.yolo(tmp_path / "old")
    (tmp_path / "old/labels/val/3.txt").write_text("0 .5 .5 nan .1")
    with pytest.raises(DataError, match=r"3\.txt:1"):
        convert(tmp_path / "old", tmp_path / "new", to="coco")
    with pytest.raises(UsageError, match="no such file"):
        convert(tmp_path / "gone", tmp_path / "new", to="coco")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_broken_image_or_annotation_of_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects.yolo(tmp_path / "old")
    image, label = (next((tmp_path / "old").rglob(name)) for name in ("0.png", "1.txt"))
    arguments = ["convert", str(tmp_path / "old"), str(tmp_path / "new"), "--to", "csv"]
    image.write_bytes(image.read_bytes()[:-30])
    assert main(arguments) == 3
    assert "0.png (index 0): the PNG is cut off" in capsys.readouterr().err
    label.write_text("1 .5 .5 x .1\n")
    assert main(arguments) == 3
    assert "is not a class number and coordinates; write: class cx cy w h, or leave such images out:" in (
        capsys.readouterr().err
    )
    assert main([*arguments, "--on-error", "skip"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.startswith("left out: ") for line in said] == [True, True]
    assert "0.png" in said[0]
    assert "1.txt:1" in said[1]
    new = {split: DetectionFolder(tmp_path / "new", split=split) for split in ("train", "val")}
    assert [[Path(data.path_of(i)).stem for i in range(len(data))] for data in new.values()] == [["2"], ["3"]]

"""Data sets of objects: the same content in every format, masks, keypoints, splits; and broken ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.data import DataFault, DataLoader, Fold, transforms
from pdl.data.checks import check_files
from pdl.errors import ConfigError, DataError
from pdl_cv import rle
from pdl_cv.data import DetectionFolder
from pdl_cv.data.boxes.sizes import image_size
from pdl_cv.detection.check import check_boxes
from pdl_cv.palette import encoded_map
from tests.cv.data import objects
from tests.cv.data.objects import CLASSES, FORMS, HEIGHT, OBJECTS, SPLITS, WIDTH


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("store")))


def boxes_of(data: DetectionFolder) -> dict[str, list[tuple[Any, ...]]]:
    """By the image's name: (class, x1, y1, x2, y2) of each object."""
    found = {}
    for i in range(len(data)):
        sample = data.annotation(i)
        rows = zip(sample["labels"].tolist(), sample["boxes"].round(3).tolist(), strict=True)
        found[Path(data.path_of(i)).stem] = [(data.classes[label], *map(float, box)) for label, box in rows]
    return found


@pytest.mark.parametrize("build", FORMS, ids=lambda build: build.__name__)
def test_every_format_gives_the_same(build: Callable[[Path], None], tmp_path: Path) -> None:
    build(tmp_path)
    for split, names in SPLITS.items():
        data = DetectionFolder(tmp_path, split=split)
        assert data.format == FORMS[build]
        assert data.classes == CLASSES
        assert boxes_of(data) == {name: OBJECTS[name] for name in names}
        assert [data.size_of(i) for i in range(len(data))] == [(HEIGHT, WIDTH)] * len(names)
        for i in range(len(data)):
            sample = data[i]
            image = cv2.imread(data.path_of(i))[..., ::-1]
            np.testing.assert_array_equal(sample.pop("image"), image)
            said = data.annotation(i)
            assert {name: (each.shape, each.dtype) for name, each in said.items()} == {
                name: (each.shape, each.dtype) for name, each in sample.items()}  # fmt: skip
            assert sample["boxes"].dtype == np.float32
            assert sample["labels"].dtype == np.int64
            assert Path(data.source_of(i)).is_file() or names[i] == "2"
    with pytest.raises(DataError, match=r"no split 'test'.*train"):
        DetectionFolder(tmp_path, split="test")
    with pytest.raises(DataError, match="add split=train"):
        DetectionFolder(tmp_path)
    assert DetectionFolder(tmp_path, split="val", format=FORMS[build]).fingerprint == data.fingerprint


def test_a_file_of_annotations_is_a_root(tmp_path: Path) -> None:
    objects.coco_official_order(tmp_path)
    assert len(DetectionFolder(tmp_path / "val.json")) == 1
    objects.csv_column(tmp_path)
    assert DetectionFolder(tmp_path / "objects.csv", split="train").format == "csv"


def test_cut_by_ratio(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / f"a/{number}.png").write_bytes(cv2.imencode(".png", np.zeros((9, 9, 3), np.uint8))[1].tobytes())
    lines = [f"{n}.png,1,1,5,5,{'rare' if n % 10 == 0 else 'common'}" for n in range(60)]
    (tmp_path / "a/all.csv").write_text("\n".join([*lines, "0.png,2,2,4,4,common"]))
    ratios = {"train": 0.5, "val": 0.5}
    parts = [DetectionFolder(tmp_path, split=split, ratios=ratios) for split in ratios]
    assert sorted(parts[0].table.paths + parts[1].table.paths) == sorted(DetectionFolder(tmp_path).table.paths)
    assert [part.counts[1] for part in parts] == [3, 3]
    assert DetectionFolder(tmp_path, split="val", ratios=ratios, seed=1).fingerprint != parts[1].fingerprint
    some = DetectionFolder(tmp_path, classes=["rare"], empty=False)
    assert (len(some), some.classes, some.counts.tolist()) == (6, ["rare"], [6])
    assert len(DetectionFolder(tmp_path, classes=["rare"])) == 60
    with pytest.raises(ConfigError, match="'gone' is none of"):
        DetectionFolder(tmp_path, classes=["gone", "rare"])
    assert DetectionFolder(tmp_path, classes=["gone", "rare"], allow_empty=True).counts.tolist()[0] == 0
    with pytest.raises(ConfigError, match="'gone' is none of"):
        DetectionFolder(tmp_path, classes=["gone"], allow_empty=True)
    assert parts[0].only(np.array([2, 0])).table.paths == [parts[0].table.paths[i] for i in (2, 0)]
    assert len(set(parts[0].dealing().strata)) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": ["cat", "dgo"]}, "'dgo' is none of cat, dog; did you mean 'dog'"),
        ({"classes": []}, "one name or more"),
        ({"mode": "bgr"}, "mode='bgr'"),
        ({"split": None, "ratios": {"train": 0.5}}, "no split"),
        ({"ratios": {"train": 1.5}}, r"must lie in \(0, 1\]"),
    ],
)
def test_settings_that_make_no_sense(arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    with pytest.raises(ConfigError, match=words):
        DetectionFolder(tmp_path, **{"split": "train", **arguments})


# -- masks -------------------------------------------------------------------------------------------------------------
def test_yaml_without_splits_names_the_classes(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    (tmp_path / "data.yaml").write_text("names: [cat, dog]\n")
    found = DetectionFolder(tmp_path, split="train")
    assert tuple(found.classes) == ("cat", "dog")
    assert len(found) == 3


@pytest.mark.parametrize("build", [objects.coco, objects.roboflow_yolo, objects.labelme], ids=lambda b: b.__name__)
def test_outlines_become_masks(build: Callable[[Path], None], tmp_path: Path) -> None:
    build(tmp_path)
    data = DetectionFolder(tmp_path, split="train", masks=True)
    for i in range(len(data)):
        sample = data[i]
        for box, mask in zip(sample["boxes"].round().astype(int), sample["masks"], strict=True):
            expected = np.zeros((HEIGHT, WIDTH), np.uint8)
            expected[box[1] : box[3], box[0] : box[2]] = 1
            np.testing.assert_array_equal(mask, expected)
        assert sample["masks"].shape == (len(sample["boxes"]), HEIGHT, WIDTH)


def test_maps_of_numbers(tmp_path: Path) -> None:
    numbers = objects.maps(tmp_path)
    data = DetectionFolder(tmp_path, split="train", masks=True, classes=["cell"])
    assert (data.format, data.classes, len(data)) == ("masks", ["cell"], 3)
    sample = data[0]
    assert sample["boxes"].tolist() == [[3, 2, 9, 10], [20, 15, 36, 28], [30, 5, 33, 7]]
    for mask, number in zip(sample["masks"], (1, 2, 4000), strict=True):
        np.testing.assert_array_equal(mask, numbers == number)
    assert sample["area"].tolist() == [48, (numbers == 2).sum(), 6]
    assert data[1]["masks"].shape == (0, HEIGHT, WIDTH)


def test_a_file_for_each_object(tmp_path: Path) -> None:
    for image in "ab":
        for folder, names in (("images", [image]), ("masks", ["x", "y"])):
            for number, name in enumerate(names):
                path = tmp_path / image / folder / f"{name}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                pixels = np.zeros((20, 20), np.uint8)
                pixels[4 : 8 + number, 5 * number : 5 * number + 3] = 255
                path.write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    data = DetectionFolder(tmp_path, masks=True)
    assert data[0]["boxes"].tolist() == [[0, 4, 3, 8], [5, 4, 8, 9]]
    assert data[1]["masks"].sum(axis=(1, 2)).tolist() == [12, 15]


def test_objects_of_voc_have_pngs(tmp_path: Path) -> None:
    objects.voc(tmp_path)
    top = tmp_path / "VOCdevkit/VOC2012/SegmentationObject"
    top.mkdir()
    for name, found in OBJECTS.items():
        numbers = np.zeros((HEIGHT, WIDTH), np.uint8)
        for number, (_, x1, y1, x2, y2) in enumerate(found, 1):
            numbers[y1:y2, x1:x2] = number
        numbers[0, :3] = 255  # the border that belongs to nothing
        (top / f"{name}.png").write_bytes(encoded_map(numbers, border=True))
    sample = DetectionFolder(tmp_path, split="train", masks=True)[0]
    assert sample["masks"].sum(axis=(1, 2)).tolist() == [16 * 18, 16 * 24]
    assert DetectionFolder(tmp_path, split="train").annotation(1)["difficult"].tolist() == [True]
    assert DetectionFolder(tmp_path, split="train", difficult=False).counts.tolist() == [1, 1]


@pytest.mark.parametrize("lines", ["my own 0\n1\n", "my own 0.png\n./1.png a/1.xml\n", "my own 0  1\n1 1\n2  -1\n"])
def test_lists_name_images_with_spaces(lines: str, tmp_path: Path) -> None:
    objects.voc(tmp_path)
    top = tmp_path / "VOCdevkit/VOC2012"
    for old in (top / "Annotations/0.xml", next(top.glob("JPEGImages/**/0.png"))):
        old.rename(old.with_stem("my own 0"))
    (top / "ImageSets/Main/train.txt").write_text(lines)
    data = DetectionFolder(tmp_path, split="train")
    assert [Path(data.path_of(i)).name for i in range(len(data))] == ["my own 0.png", "1.png"]


def test_runs_and_crowds_of_coco(tmp_path: Path) -> None:
    objects.pictures(tmp_path, "{split}")
    page = objects.coco_page("train")
    mask = np.random.default_rng(0).random((HEIGHT, WIDTH)) < 0.3
    counts = rle.encode(mask)
    page["annotations"][0]["segmentation"] = {"size": [HEIGHT, WIDTH], "counts": rle.to_text(counts)}
    page["annotations"][1] |= {"segmentation": {"size": [HEIGHT, WIDTH], "counts": counts.tolist()}, "iscrowd": 1}
    (tmp_path / "train.json").write_text(json.dumps(page))
    sample = DetectionFolder(tmp_path / "train.json", masks=True)[0]
    np.testing.assert_array_equal(sample["masks"], [mask, mask])
    assert sample["crowd"].tolist() == [False, True]
    assert sample["area"].tolist() == [288, 384]


def test_runs_and_text_go_there_and_back() -> None:
    rng = np.random.default_rng(1)
    assert rle.to_text([]) == ""
    for number in range(300):
        height, width = rng.integers(1, 40, 2)
        mask = rng.random((height, width)) < rng.random()
        counts = rle.encode(mask)
        np.testing.assert_array_equal(rle.decode(counts, height, width), mask)
        np.testing.assert_array_equal(rle.from_text(rle.to_text(counts)), counts)
        drawn = rng.integers(0, 1 << 30, number % 9)
        np.testing.assert_array_equal(rle.from_text(rle.to_text(drawn)), drawn)
    for text in ("~", "o", "zzzzzzzzzzzzz0"):
        with pytest.raises(ValueError, match=r"characters|bits"):
            rle.from_text(text)
    for wrong in ([3, 4], [-1, 31]):
        with pytest.raises(ValueError, match="runs"):
            rle.decode(np.array(wrong), 5, 6)


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # pycocotools' own
def test_masks_equal_those_of_pycocotools() -> None:
    mask = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(0)
    for number in range(1000):
        height, width = (int(n) for n in rng.integers(1, 60, 2))
        drawn = (rng.random((height, width)) < rng.random()).astype(np.uint8)
        assert rle.to_text(rle.encode(drawn)) == mask.encode(np.asfortranarray(drawn))["counts"].decode()
        points = rng.uniform(-0.2, 1.2, (rng.integers(3, 12), 2)) * (width, height)
        points = np.round(points, number % 3)
        runs = mask.merge(mask.frPyObjects([points.reshape(-1).tolist()], height, width))
        np.testing.assert_array_equal(rle.polygon_mask([points], height, width), mask.decode(runs))


# -- keypoints ---------------------------------------------------------------------------------------------------------
NAMES = ["nose", "left_hand", "right_hand"]
POINTS = [[[5, 7, 2], [6.5, 8, 1], [0, 0, 0]]]


def keypoints_coco(root: Path) -> None:
    objects.pictures(root, "images")
    page = objects.coco_page("train")
    page["categories"] = [{"id": 3, "name": "cat", "keypoints": NAMES, "skeleton": [[1, 2], [1, 3]]}]
    page["annotations"] = [{**page["annotations"][0], "keypoints": np.ravel(POINTS).tolist(), "num_keypoints": 2}]
    (root / "person_keypoints_train.json").write_text(json.dumps(page))


def keypoints_yolo(root: Path) -> None:
    objects.pictures(root, "images")
    (root / "labels").mkdir()
    flat = [v for x, y, seen in POINTS[0] for v in (x / WIDTH, y / HEIGHT, seen)]
    (root / "labels/0.txt").write_text("0 0.3 0.5 0.4 0.6 " + " ".join(f"{v:.6f}" for v in flat))
    (root / "data.yaml").write_text(
        "train: images\nnames: [cat]\nkpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\nskeleton: [[0, 1], [0, 2]]\n"
        "kpt_names: {0: [nose, left_hand, right_hand]}\n"
    )


def keypoints_labelme(root: Path) -> None:
    objects.pictures(root, "images")
    shapes = [{"label": "cat", "shape_type": "rectangle", "points": [[4, 6], [20, 24]], "group_id": 1}]
    shapes += [{"label": name, "shape_type": "point", "points": [[x, y]], "group_id": 1}
               for name, (x, y, seen) in zip(NAMES, POINTS[0], strict=True) if seen]  # fmt: skip
    page = {"version": "5", "flags": {}, "shapes": shapes, "imagePath": "0.png"}
    (root / "images/0.json").write_text(json.dumps(page))
    (root / "labels.txt").write_text("cat\nnose\nleft_hand\nright_hand\n")


def keypoints_csv(root: Path) -> None:
    objects.pictures(root, "images")
    head = ",".join(f"{name}_{axis}" for name in NAMES for axis in "xyv")
    (root / "points.csv").write_text(f"file,class,{head}\n0.png,cat,5,7,2,6.5,8,1,,,\n")


@pytest.mark.parametrize(
    "build", [keypoints_coco, keypoints_yolo, keypoints_labelme, keypoints_csv], ids=lambda build: build.__name__
)
def test_keypoints(build: Callable[[Path], None], tmp_path: Path) -> None:
    build(tmp_path)
    data = DetectionFolder(tmp_path, keypoints=True, empty=False)
    expected = np.array(POINTS, np.float32)
    if build is keypoints_labelme:
        data_names, expected = list(data.keypoint_names), np.array([[[5, 7, 2], [6.5, 8, 2]]], np.float32)
        assert data_names == ["nose", "left_hand"]
    else:
        assert list(data.keypoint_names) == NAMES
        assert data.flip_pairs == ((1, 2),)
    if build in (keypoints_coco, keypoints_yolo):
        assert data.skeleton == ((0, 1), (0, 2))
    np.testing.assert_allclose(data.annotation(0)["keypoints"], expected, atol=1e-4)
    if build is keypoints_csv:
        assert data.annotation(0)["boxes"].tolist() == [[5, 7, 6.5, 8]]


@pytest.mark.parametrize("split", ["train", "val", "test", None])
def test_digits_stand_in_for_data_that_is_not_there(split: str | None, tmp_path: Path) -> None:
    settings = {"root": "gone", "split": split, "masks": True, "keypoints": True, "classes": ["a", "b"]}
    stand = DetectionFolder.stand_in(tmp_path, settings)
    data = DetectionFolder(**{**settings, **stand.settings})  # type: ignore[arg-type]
    assert data.counts.min() > 10
    assert data.flip_pairs == ((0, 1), (2, 3))
    for i in range(len(data)):
        sample = data[i]
        for box, mask in zip(sample["boxes"].astype(int), sample["masks"], strict=True):
            inside = mask[box[1] : box[3], box[0] : box[2]]
            assert inside.sum() == mask.sum() > 50
            assert abs(np.flatnonzero(mask.any(axis=0))[-1] + 1 - box[2]) <= 1


# -- sizes of images -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ending", [".jpg", ".png", ".bmp", ".webp"])
def test_sizes_from_headers(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(cv2.imencode(ending, np.zeros((7, 11, 3), np.uint8))[1].tobytes())
    assert image_size(path) == (7, 11)


def test_a_turned_photograph_has_its_sides_exchanged(tmp_path: Path) -> None:
    data = cv2.imencode(".jpg", np.zeros((7, 11, 3), np.uint8))[1].tobytes()
    tiff = b"MM\0*\0\0\0\x08" + b"\0\x01" + b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0" + b"\0\0\0\0"
    exif = b"Exif\0\0" + tiff
    turned = data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:]
    (tmp_path / "a.jpg").write_bytes(turned)
    from pdl.data.image import read_image

    assert image_size(tmp_path / "a.jpg") == (11, 7) == read_image(tmp_path / "a.jpg").shape[:2]
    (tmp_path / "a.csv").write_text("file,width,height,xmin,ymin,xmax,ymax,class\na.jpg,11,7,1,1,2,2,cat\n")
    with pytest.raises(DataError, match="7 x 11 pixels, its annotation says 11 x 7; was it scaled, or turned"):
        DetectionFolder(tmp_path)[0]


def test_smaller_versions_have_their_annotations(tmp_path: Path) -> None:
    settings = {"root": "gone", "split": "train", "masks": True, "keypoints": True}
    stand = DetectionFolder.stand_in(tmp_path, settings)
    data = DetectionFolder(**{**settings, **stand.settings})  # type: ignore[arg-type]
    for i in range(5):
        whole, half = data[i], data.reduced(i, 2)
        height, width = (-(-n // 2) for n in whole["image"].shape[:2])
        assert half["image"].shape[:2] in [(height, width), tuple(n // 2 for n in whole["image"].shape[:2])]
        assert half["masks"].shape[1:] == half["image"].shape[:2]
        assert half["flip_pairs"].tolist() == whole["flip_pairs"].tolist() == [[0, 1], [2, 3]]
        assert half.keys() == whole.keys()
        for name in ("boxes", "keypoints"):
            np.testing.assert_allclose(half[name][..., :2], whole[name][..., :2] / 2, atol=1)
    mosaics = DataLoader(data, batch_size=4, transforms=transforms.Mosaic(24), collate=list)
    assert all(sample["image"].shape[:2] == (24, 24) for batch in mosaics for sample in batch)


def test_smaller_versions_of_another_size_than_annotated(tmp_path: Path) -> None:
    objects.coco(tmp_path)
    data = DetectionFolder(tmp_path, split="train")
    data.table.sizes[0] *= 2
    with pytest.raises(DataError, match="its annotation says"):
        data.reduced(0, 2)


def test_faults_of_files_are_seen_without_decoding(tmp_path: Path) -> None:
    objects.coco(tmp_path)
    page = json.loads((tmp_path / "annotations/instances_train2017.json").read_text())
    page["images"][1]["width"] = 41
    (tmp_path / "annotations/instances_train2017.json").write_text(json.dumps(page))
    (tmp_path / "train2017/2.png").unlink()
    data = DetectionFolder(tmp_path, split="train")
    found = [data.fault_of(i) for i in range(3)]
    assert found[0] is None
    assert "40 x 30 pixels, its annotation says 41 x 30" in str(found[1])
    assert "no such file" in str(found[2])
    with pytest.raises(DataError, match=r"2 of 3 samples cannot be used:\n  \[train\] .*1\.png .*\n  .*2\.png "):
        check_files({"train": data})
    assert [str(data.fault_of(i)) for i in (1, 2)] == [str(each.fault) for each in map(raised(data), (1, 2))]


def raised(data: DetectionFolder) -> Callable[[int], DataFault]:
    """What reading a sample raises."""

    def read(index: int) -> DataFault:
        with pytest.raises(DataFault) as error:
            data[index]
        return error.value

    return read


def test_it_is_loaded_and_broken_pictures_are_skipped(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    (tmp_path / "images/train/1.png").write_bytes(b"no image")
    data = DetectionFolder(tmp_path, split="train")
    with pytest.raises(DataError, match=r"1\.png"):
        data.annotation(1)
    loader = DataLoader(data, batch_size=1, on_error="skip")
    assert sum(len(batch["boxes"]) for batch in loader) == 2
    assert loader.skipped == 1


# -- broken and hostile ------------------------------------------------------------------------------------------------
def _coco(**changes: Any) -> Callable[[Path], None]:
    """Changes of the first annotation, or, in capitals, of the page."""

    def build(root: Path) -> None:
        objects.pictures(root, "{split}")
        page = objects.coco_page("train")
        page |= {key.lower(): value for key, value in changes.items() if key.isupper()}
        page["annotations"][0] |= {key: value for key, value in changes.items() if not key.isupper()}
        (root / "train.json").write_text(json.dumps(page))

    return build


def _text(name: str, text: str, base: Callable[[Path], None]) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        base(root)
        assert (root / name).is_file()
        (root / name).write_text(text)

    return build


def _labelme(**changes: Any) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        objects.labelme(root)
        page = json.loads((root / "train/0.json").read_text())
        of_page = page.keys() & changes.keys()
        page["shapes"][0] |= {key: value for key, value in changes.items() if key not in of_page}
        page |= {key: changes[key] for key in of_page}
        (root / "train/0.json").write_text(json.dumps(page))

    return build


LAUGHS = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<annotation>&b;</annotation>'
XML = "VOCdevkit/VOC2012/Annotations/0.xml"
ONE = "<annotation><size><width>40</width><height>30</height></size><object><name>cat</name>\n{}</object></annotation>"
BOX = "<bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>5</xmax><ymax>5</ymax></bndbox>"
_PLAIN = objects.coco_official_order
HEAD = "file,x1,y1,x2,y2,class\n"
BROKEN = {
    "coco_nan": (_coco(bbox=[float("nan"), 1, 2, 3]), "train.json: annotation 0: the box .nan"),
    "coco_huge": (_coco(bbox=[1, 1, 1e30, 3]), "annotation 0: the box .*is in no image"),
    "coco_box_of_three": (_coco(bbox=[1, 2, 3]), "annotation 0: bbox has 3 numbers"),
    "coco_box_of_words": (_coco(bbox=["1", 2, 3, 4]), "'1' is no number"),
    "coco_no_box": (_coco(bbox=None, segmentation=[]), "annotation 0: no bbox"),
    "coco_polygon_odd": (_coco(segmentation=[[1, 2, 3, 4, 5, 6, 7]]), "odd number of coordinates"),
    "coco_polygon_nan": (_coco(segmentation=[[1, 2, float("inf"), 4, 5, 6]]), "annotation 0: inf in its outline"),
    "coco_runs_short": (_coco(segmentation={"counts": [3, 4], "size": [30, 40]}), "do not sum to 30 x 40"),
    "coco_runs_gigantic": (_coco(segmentation={"counts": [1 << 60, 4], "size": [30, 40]}), "do not sum"),
    "coco_runs_other_size": (_coco(segmentation={"counts": [1200], "size": [40, 30]}), "mask of 30 x 40 pixels"),
    "coco_runs_text": (_coco(segmentation={"counts": "~~", "size": [30, 40]}), "annotation 0: characters"),
    "coco_category": (_coco(category_id=80), "annotation 0: category_id 80 is no category's id"),
    "coco_image": (_coco(image_id=12345), "annotation 0: image_id 12345 is no image's id"),
    "coco_keypoints": (_coco(keypoints=[1, 2, 2]), "1 keypoints, its category has 0"),
    "coco_climbs": (_coco(IMAGES=[{"id": 7, "file_name": "../../etc/passwd.png"}]), "leads out of"),
    "coco_absolute": (_coco(IMAGES=[{"id": 7, "file_name": "/etc/passwd"}]), "leads out of"),
    "coco_size": (_coco(IMAGES=[{"id": 7, "file_name": "0.png", "width": 1e300, "height": 1}]), "has the size"),
    "coco_twice": (_coco(IMAGES=[{"id": 7, "file_name": "0.png"}] * 2), "two images have the id 7"),
    "coco_no_images": (_coco(IMAGES=[], ANNOTATIONS=[{}]), "annotation None: image_id None|it has no images"),
    "coco_category_twice": (_coco(CATEGORIES=[{"id": 3, "name": "a"}] * 2), "needs an id of its own"),
    "coco_cut_off": (_text("train.json", '{"images": [{"id": 1, "file_na', _PLAIN), "train.json:1: not JSON"),
    "coco_deep": (_text("train.json", '{"images": [' + "[" * 100_000, _PLAIN), "not JSON|no object"),
    "voc_bomb": (_text(XML, LAUGHS, objects.voc), r"0\.xml:2: it declares a document type"),
    "voc_no_xml": (_text(XML, "<annotation><object>", objects.voc), r"0\.xml:1: not XML: no element found"),
    "voc_deep": (_text(XML, "<annotation>" * 40, objects.voc), "nested 17 deep"),
    "voc_nan": (_text(XML, ONE.format(BOX.format("nan")), objects.voc), r"0\.xml:1: the box"),
    "voc_word": (_text(XML, ONE.format(BOX.format("left")), objects.voc), r"0\.xml:1: xmin 'left' is no number"),
    "voc_no_side": (_text(XML, ONE.format("<bndbox></bndbox>"), objects.voc), "an object has no xmin"),
    "voc_no_name": (_text(XML, ONE.replace("cat", "").format(BOX.format(1)), objects.voc), "an object has no name"),
    "voc_unknown": (_text("annotations/0.xml", ONE.replace("cat", "cow").format(BOX.format(1)), objects.voc_pairs),
                    r"0\.xml:1: 'cow' is none of the classes \(cat, dog\)"),
    "voc_list": (_text("train.txt", "0\nnone\n", objects.voc_pairs), "line 2 of its list of train names 'none'"),
    "yolo_class": (_text("labels/train/0.txt", "0 .5 .5 .1 .1\n2 .5 .5 .1 .1\n", objects.yolo),
                   r"0\.txt:2: class 2 is none of the 2 names \(0\.\.1\)"),
    "yolo_gigantic": (_text("labels/train/0.txt", "99999999999 .5 .5 .1 .1", objects.yolo_lists), "class 99999999999"),
    "yolo_pixels": (_text("labels/train/0.txt", "0 15 20 10 10", objects.yolo), r"0\.txt:1: 15 is no share"),
    "yolo_nan": (_text("labels/train/0.txt", "0 nan .5 .1 .1", objects.yolo), r"0\.txt:1: nan is no share"),
    "yolo_words": (_text("labels/train/0.txt", "cat .5 .5 .1 .1", objects.yolo), "is not a class number"),
    "yolo_numbers": (_text("labels/train/0.txt", "0 .5 .5 .1", objects.yolo), "3 numbers after the class"),
    "yolo_yaml": (_text("data.yaml", "names: [cat\ntrain: x", objects.yolo), "data.yaml:2: not valid YAML"),
    "yolo_aliases": (_text("data.yaml", "train: &a [x, x]\nval: &b [*a, *a, *a]\n" + "".join(
        f"k{i}: &k{i} [{', '.join([f'*k{i - 1}' if i else '*b'] * 9)}]\n" for i in range(9)) + "names: [a]",
        objects.yolo), "stands for more than"),
    "yolo_climbs": (_text("data.yaml", "train: /etc\nnames: [cat, dog]\n", objects.yolo), "train: '/etc' is not there"),
    "yolo_list": (_text("train.txt", "../../x.png", objects.yolo_lists), r"train\.txt:1: .*leads out of"),
    "yolo_names": (_text("data.yaml", "train: images/train\nnames: {a: cat}\n", objects.yolo), "names is neither"),
    "yolo_far_names": (_text("data.yaml", "train: images\nnames: {999999999: a}\n", objects.yolo), "outside of 0"),
    "labelme_kind": (_labelme(shape_type="line"), r"0\.json: 'cat' is a line"),
    "labelme_points": (_labelme(points=[[1, 2]]), "has no 3 points"),
    "labelme_nan": (_labelme(points=[[float("nan"), 2], [1, 1], [3, 3]]), "has no 3 points"),
    "labelme_label": (_labelme(label=""), "a shape has no label"),
    "labelme_size": (_labelme(imageHeight="30"), "imageHeight and imageWidth are"),
    "labelme_lost_point": (_labelme(shape_type="point", points=[[1, 2]], group_id=5), "belong to no rectangle"),
    "csv_word": (_text("train.csv", HEAD + "0.png,1,x,3,4,cat\n", objects.csv), r"train\.csv:2: 'x' is no coordinate"),
    "csv_nan": (_text("train.csv", HEAD + "0.png,1,nan,3,4,cat\n", objects.csv), r"train\.csv:2: 'nan'"),
    "csv_image": (_text("train.csv", HEAD + "no.png,1,2,3,4,cat\n", objects.csv), "'no.png' is not there"),
    "csv_climbs": (_text("train.csv", HEAD + "../../0.png,1,2,3,4,cat\n", objects.csv), "leads out of"),
    "csv_class": (_text("train.csv", HEAD + "0.png,1,2,3,4,\n", objects.csv), r"train\.csv:2: it has no class"),
    "nothing": (objects.pictures, "annotations in a form that is known not found among 4 files"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_told_with_its_place(name: str, tmp_path: Path) -> None:
    build, says = BROKEN[name]
    build(tmp_path)
    split = None if name.startswith("coco") and not name.endswith(("cut_off", "deep")) else "train"
    with pytest.raises(DataError, match=says) as info:
        DetectionFolder(tmp_path, split=split)
    assert str(info.value).count("\n") == 0
    assert len(str(info.value)) < 500


WHOLE = {"coco_keypoints", "coco_category_twice", "coco_cut_off", "coco_deep", "yolo_yaml", "yolo_aliases",
         "yolo_climbs", "yolo_list", "yolo_names", "yolo_far_names", "nothing"}  # fmt: skip
"""Of BROKEN, what is wrong with more than single images."""
NONE_LEFT = {"coco_climbs", "coco_absolute", "coco_size", "coco_no_images", *(n for n in BROKEN if n.startswith("csv"))}
KEPT = {"coco_image": ["0", "1", "2"], "coco_twice": ["0"], "voc_list": ["0"]}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_may_cost_its_image_alone(name: str, tmp_path: Path) -> None:
    build, says = BROKEN[name]
    build(tmp_path)
    split = None if name.startswith("coco") and not name.endswith(("cut_off", "deep")) else "train"
    if name in WHOLE | NONE_LEFT:
        with pytest.raises(DataError, match=says):
            DetectionFolder(tmp_path, split=split, on_error="skip")
        return
    data = DetectionFolder(tmp_path, split=split, on_error="skip")
    assert re.search(says, str(data.faults[0]))
    assert data.faults[0].severity == "error"
    assert sorted(Path(data.path_of(i)).stem for i in range(len(data))) == KEPT.get(name, ["1", "2"])
    found = boxes_of(data)
    assert all(found[each] == OBJECTS[each] for each in found if each != "0" and not name.startswith("yolo_gig"))


def test_annotations_and_images_without_each_other_are_told(tmp_path: Path) -> None:
    for build, says in (
        (objects.yolo, r"labels/train/lost.txt: it has labels, and its image is missing"),
        (objects.voc, r"1 of 5 images have no annotation"), (objects.labelme, r"1 of 5 images have no annotation"),
    ):  # fmt: skip
        root = tmp_path / build.__name__
        root.mkdir()
        build(root)
        (root / "classes.txt").write_text("cat\ndog\n")
        assert not DetectionFolder(root, split="train").faults
        if build is objects.yolo:
            (root / "labels/train/lost.txt").write_text("0 .5 .5 .1 .1\n")
        else:
            place = next(root.rglob("0.png"))
            (place.parent / "more.png").write_bytes(place.read_bytes())
        data = DetectionFolder(root, split="train")
        assert [each.severity for each in data.faults] == ["warning"]
        assert re.search(says, str(data.faults[0])), str(data.faults[0])
        found = check_boxes({"train": data, "val": DetectionFolder(root, split="val")})
        assert [str(each) for each in found].count(str(data.faults[0])) == 1


def test_annotations_of_coco_whose_images_are_elsewhere(tmp_path: Path) -> None:
    objects.coco(tmp_path / "data")
    file = tmp_path / "data/annotations/instances_train2017.json"
    for place in ("data/train2017/a.json", "data/a.json"):  # beside the images, and beside their folder
        (tmp_path / place).write_text(file.read_text())
        assert len(DetectionFolder(tmp_path / place)[1]["boxes"]) == 1
        (tmp_path / place).unlink()
    alone = tmp_path / "alone/a.json"
    alone.parent.mkdir()
    alone.write_text(file.read_text())
    with pytest.raises(DataError, match=r"a\.json: none of its 3 images is below .*alone, the first is 0\.png; put"):
        DetectionFolder(alone)
    with pytest.raises(DataError, match=r"none\.json: no such file; name"):
        DetectionFolder(tmp_path / "none.json")


def test_a_map_that_is_missing_or_of_another_size(tmp_path: Path) -> None:
    objects.maps(tmp_path)
    (tmp_path / "masks/train/1.png").write_bytes(cv2.imencode(".png", np.ones((9, 9), np.uint8))[1].tobytes())
    data = DetectionFolder(tmp_path, split="train", masks=True)
    with pytest.raises(DataError, match=r"1\.png.*40 x 30 pixels, its annotation says 9 x 9"):
        data[1]
    (tmp_path / "masks/train/1.png").unlink()
    with pytest.raises(DataError, match=r"images/train/1\.png: it has no mask of its name"):
        DetectionFolder(tmp_path, split="train")


def test_masks_and_keypoints_that_are_not_there(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    with pytest.raises(DataError, match=r"3 of 3 objects have no mask, the first in images/train/0\.png"):
        DetectionFolder(tmp_path, split="train", masks=True)
    with pytest.raises(DataError, match="have no keypoints"):
        DetectionFolder(tmp_path, split="train", keypoints=True)


def test_folds_and_parts_know_annotations(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    whole = [DetectionFolder(tmp_path, split=split) for split in SPLITS]
    folds = [Fold(whole, split=split, fold=0, folds=2, validate=None) for split in ("train", "test")]
    found = [fold.annotation(i)["boxes"].tolist() for fold in folds for i in range(len(fold))]
    expected = [np.array([each[1:] for each in rows], float).reshape(-1, 4).tolist() for rows in OBJECTS.values()]
    assert sorted(np.round(each, 3).tolist() for each in found) == sorted(expected)


def test_links_that_go_round_end(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    (tmp_path / "images/train/again").symlink_to(tmp_path, target_is_directory=True)
    assert len(DetectionFolder(tmp_path, split="train")) == 3

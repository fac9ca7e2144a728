"""Result files as COCO has them: written, read, and read by pycocotools."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pdl.data.faults import DataFault
from pdl.errors import DataError
from pdl_cv.detection.coco_results import CocoIds, coco_results, evaluate_results, read_results, write_results
from pdl_cv.detection.metrics import evaluate_detections
from tests.cv.data.objects import coco
from tests.cv.detection.test_metrics import drawn

IDS = CocoIds({"a.jpg": 7, "b.jpg": 9}, {"cat": 3, "dog": 90})


def test_results_come_back(tmp_path: Path) -> None:
    found, known, classes = drawn(11, "masks")
    names = [str(k) for k in range(classes)]
    ids = CocoIds.numbered((f"{k}.png" for k in range(len(found))), names)
    path = tmp_path / "out.json"
    write_results(path, coco_results(dict(zip(ids.images, found, strict=True)), names, ids))
    back = read_results(path, names, ids)
    assert list(back) == list(ids.images)
    for kind in ("boxes", "masks"):
        one, other = (evaluate_detections(each, known, names, kind=kind) for each in (found, [*back.values()]))
        np.testing.assert_equal(one.numbers(), other.numbers())


def test_a_result() -> None:
    answer = {
        "labels": np.array([1, -1]), "scores": np.array([0.5, 0.0], np.float32),
        "boxes": np.array([[1.5, 2, 4, 8], [0, 0, 0, 0]], np.float32),
        "keypoints": np.array([[[1, 2, 0.5]], [[0, 0, 0]]], np.float32),
    }  # fmt: skip
    assert coco_results({"b.jpg": answer}, ["cat", "dog"], IDS) == [
        {"image_id": 9, "category_id": 90, "bbox": [1.5, 2.0, 2.5, 6.0], "keypoints": [1.0, 2.0, 0.5], "score": 0.5}
    ]


def test_ids_are_those_of_the_annotations(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    images = [{"file_name": name, "id": number} for name, number in IDS.images.items()]
    categories = [{"name": name, "id": number} for name, number in IDS.categories.items()]
    path.write_text(json.dumps({"images": images, "categories": categories, "annotations": []}))
    assert CocoIds.read(path) == IDS
    path.write_text("[]")
    with pytest.raises(DataFault, match="no annotations of COCO"):
        CocoIds.read(path)


def test_results_of_other_data() -> None:
    with pytest.raises(DataError, match=r"no image 'c\.jpg' \(1 of the pictures"):
        coco_results({"c.jpg": {"labels": []}}, ["cat"], IDS)
    with pytest.raises(DataError, match="no category 'bird'"):
        coco_results({}, ["bird"], IDS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "a dict, no list of results"),
        ("[", "no JSON"),
        ('[{"image_id": 7}]', "result 0: no 'category_id'"),
        ('[{"image_id": 8, "category_id": 3, "score": 1}]', "image_id 8 or category_id 3 is not in the annotations"),
        ('[{"image_id": 7, "category_id": 3, "bbox": [1, 2], "score": 1}]', "result 0: not enough values"),
    ],
)
def test_damaged_results(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "out.json"
    path.write_text(text)
    with pytest.raises(DataFault, match=words):
        read_results(path, ["cat", "dog"], IDS)


def test_files_are_compared(tmp_path: Path) -> None:
    """Of two annotations of dogs one is found, the cat is; masks are boxes here."""
    coco(tmp_path)
    known, path = tmp_path / "annotations/instances_train2017.json", tmp_path / "out.json"
    masks = np.zeros((2, 30, 40), np.uint8)
    masks[0, 6:24, 4:20] = masks[1, 3:27, 22:38] = 1
    answer = {"labels": np.array([0, 1]), "scores": np.ones(2), "masks": masks,
              "boxes": np.array([[4, 6, 20, 24], [22, 3, 38, 27]])}  # fmt: skip
    write_results(path, coco_results({"0.png": answer}, ["cat", "dog"], CocoIds.read(known)))
    for kind in ("boxes", "masks"):
        assert [row.ap for row in evaluate_results(known, path, kind=kind).table()] == [1.0, pytest.approx(51 / 101)]

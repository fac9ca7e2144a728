"""Files of results as COCO has them, and those that `pdl predict --coco` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data.faults import DataFault
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.predict import Prediction
from pdl_cv.detection.coco_results import CocoIds, evaluate_results, read_results
from pdl_cv.detection.metrics import Kind, evaluate_detections
from pdl_cv.steps.coco import write_predictions
from pdl_cv.steps.masks import encode
from tests.cv.data.objects import coco
from tests.cv.detection.test_metrics import drawn

IDS = CocoIds({"a.jpg": 7, "b.jpg": 9}, {"cat": 3, "dog": 90})


def predicted(found: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> list[Prediction]:
    """Answers of a detector about images of 40 x 30 pixels, by their names."""
    made = []
    for name, each in found.items():
        rows = zip(each["labels"].tolist(), each["scores"].tolist(), each["boxes"].tolist(), strict=True)
        objects = [{"label": names[k], "class": k, "score": score, "box": box} for k, score, box in rows]
        for one, mask in zip(objects, each.get("masks", ()), strict=False):
            one["mask"] = encode(mask)
        made.append(Prediction(name, None, Answer({"detections": objects, "size": [30, 40]}), Pipeline({}, {})))
    return made


@pytest.mark.parametrize("folder", ["", "street/"])
def test_what_predict_writes_comes_back(folder: str, tmp_path: Path) -> None:
    found, known, classes = drawn(11, "masks")
    names, images = [str(k) for k in range(classes)], [f"{k}.png" for k in range(len(found))]
    ids = CocoIds({name: 70 - k for k, name in enumerate(images)}, {name: 7 + k for k, name in enumerate(names)})
    path, whole = tmp_path / "out.json", {f"{folder}{name}": each for name, each in zip(images, found, strict=True)}
    assert write_predictions(path, predicted(whole, names), names) == (len(found), sum(len(f["labels"]) for f in found))
    for kind in ("boxes", "masks"):
        back = read_results(path, names, ids, kind=kind)
        assert list(back) == images
        one, other = (evaluate_detections(each, known, names, kind=kind) for each in (found, [*back.values()]))
        np.testing.assert_equal(one.numbers(), other.numbers())


def test_images_go_by_whole_names_where_others_are_called_alike(tmp_path: Path) -> None:
    ids, path = CocoIds({"a/1.png": 1, "b/1.png": 2}, {"cat": 1}), tmp_path / "out.json"
    one = {"labels": np.array([0]), "scores": np.array([0.5]), "boxes": np.array([[1.5, 2, 4, 8]])}
    write_predictions(path, predicted({"b/1.png": one}, ["cat"]), ["cat"])
    assert [len(each["scores"]) for each in read_results(path, ["cat"], ids).values()] == [0, 1]
    write_predictions(path, predicted({"1.png": one}, ["cat"]), ["cat"])
    with pytest.raises(DataFault, match="image_id 1 or category_id 1 is not in the annotations"):
        read_results(path, ["cat"], ids)


def test_a_result_with_keypoints(tmp_path: Path) -> None:
    path, result = tmp_path / "out.json", {"image_id": 9, "category_id": 90, "keypoints": [1, 2, 0.5], "score": 0.5}
    path.write_text(json.dumps([result]))
    found = read_results(path, ["cat", "dog"], IDS, kind="keypoints")["b.jpg"]
    assert found["labels"].tolist() == [1]
    assert found["keypoints"].tolist() == [[[1, 2, 0.5]]]


def test_ids_are_those_of_the_annotations(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    images = [{"file_name": name, "id": number} for name, number in IDS.images.items()]
    categories = [{"name": name, "id": number} for name, number in IDS.categories.items()]
    path.write_text(json.dumps({"images": images, "categories": categories, "annotations": []}))
    assert CocoIds.read(path) == IDS
    path.write_text("[]")
    with pytest.raises(DataFault, match="no annotations of COCO"):
        CocoIds.read(path)


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


@pytest.mark.parametrize("kind", ["boxes", "masks", "keypoints"])
def test_every_result_has_what_is_compared(tmp_path: Path, kind: Kind) -> None:
    fields = {"boxes": "bbox", "masks": "segmentation", "keypoints": "keypoints"}
    path, plain = tmp_path / "out.json", {"image_id": 7, "category_id": 3, "score": 1}
    path.write_text(json.dumps([plain]))
    with pytest.raises(DataFault, match=f"result 0: no '{fields[kind]}'"):
        read_results(path, ["cat", "dog"], IDS, kind=kind)
    path.write_text(json.dumps([{**plain, "segmentation": [[1, 2, 3, 4, 5, 6]]}]))
    with pytest.raises(DataFault, match="segmentation is no run-length code"):
        read_results(path, ["cat", "dog"], IDS, kind="masks")


def test_files_are_compared(tmp_path: Path) -> None:
    """Of two annotations of dogs one is found, the cat is; masks are boxes here."""
    coco(tmp_path)
    known, path = tmp_path / "annotations/instances_train2017.json", tmp_path / "out.json"
    masks = np.zeros((2, 30, 40), np.uint8)
    masks[0, 6:24, 4:20] = masks[1, 3:27, 22:38] = 1
    answer = {"labels": np.array([0, 1]), "scores": np.ones(2), "masks": masks,
              "boxes": np.array([[4, 6, 20, 24], [22, 3, 38, 27]])}  # fmt: skip
    write_predictions(path, predicted({"0.png": answer}, ["cat", "dog"]), ["cat", "dog"])
    for kind in ("boxes", "masks"):
        assert [row.ap for row in evaluate_results(known, path, kind=kind).table()] == [1.0, pytest.approx(51 / 101)]

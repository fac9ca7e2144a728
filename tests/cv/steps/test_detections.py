"""The step that answers with objects."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.runtime.frame import Frame
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Prediction, predict
from pdl.runtime.steps import Resources, Sample
from pdl.runtime.steps.images import ImageInput
from pdl_cv.steps.detections import Detections
from pdl_cv.steps.keypoints import peaks
from pdl_cv.steps.masks import decode, encode, pasted

BOXES = np.array([[10, 10, 30, 30], [40, 10, 60, 50], [0, 0, 5, 5]], np.float32)
SCORES, LABELS = np.array([0.9, 0.6, 0.4], np.float32), np.array([1, 0, -1])
HALF = Frame(100, 200, (2.0, 2.0), (0.0, -8.0))


def step(**arguments: Any) -> Detections:
    made = Detections(**arguments)
    made.bind(Resources(labels=["cat", "dog"]))
    return made


def answer(made: Detections, boxes: Any = BOXES, scores: Any = SCORES, labels: Any = LABELS, **more: Any) -> Any:
    outputs = {"boxes": boxes, "scores": scores, "labels": labels, **more}
    return made(boxes, Sample(frame=HALF, outputs=outputs))


def test_objects_are_in_pixels_of_the_original() -> None:
    assert answer(step()) == {
        "detections": [
            {"label": "dog", "class": 1, "score": pytest.approx(0.9), "box": [20, 12, 60, 52]},
            {"label": "cat", "class": 0, "score": pytest.approx(0.6), "box": [80, 12, 120, 92]},
        ],
        "size": [100, 200],
    }
    assert [each["label"] for each in answer(step(score=0.7))["detections"]] == ["dog"]
    assert [each["label"] for each in answer(step(k=1))["detections"]] == ["dog"]
    assert [each["label"] for each in answer(step().above(0.95))["detections"]] == []
    with pytest.raises(UsageError, match="call the session with one"):
        step()(BOXES, Sample(outputs={"boxes": BOXES, "scores": SCORES, "labels": LABELS}))


def test_masks_lie_over_their_boxes_and_are_cut_at_the_edge() -> None:
    grid = np.zeros((4, 4), np.float32)
    grid[:2] = 1  # the upper half
    frame = Frame(20, 30)
    mask = pasted(grid, np.array([4.0, 2.0, 12.0, 18.0]), frame)
    assert mask[2:10, 4:12].all()
    assert mask.sum() == 64
    beyond = pasted(np.ones((4, 4), np.float32), np.array([-8.0, -8.0, 8.0, 8.0]), frame)
    assert beyond.sum() == 64
    assert (decode(encode(beyond)) == beyond).all()
    found = answer(step(masks="masks"), masks=np.stack([np.ones((4, 4), np.float32)] * 3))["detections"]
    assert [int(decode(each["mask"]).sum()) for each in found] == [40 * 40, 40 * 80]


def test_answers_agree_but_for_ties_and_thresholds() -> None:
    made, sample = step(), Sample(frame=HALF)
    ours = answer(made)
    assert made.agrees(ours, answer(made, BOXES + 1e-4), 1e-3, sample)
    assert made.agrees(ours, answer(made, BOXES[[1, 0, 2]], SCORES[[1, 0, 2]], LABELS[[1, 0, 2]]), 1e-3, sample)
    assert not made.agrees(ours, answer(made, BOXES + 3), 1e-3, sample)
    assert not made.agrees(ours, answer(made, labels=np.array([0, 0, -1])), 1e-3, sample)
    assert not made.agrees(ours, answer(made, scores=SCORES - 0.1), 1e-3, sample)
    near = answer(made, scores=np.array([0.9, 0.2995, 0.1], np.float32))
    assert made.agrees(answer(made, scores=np.array([0.9, 0.3005, 0.1], np.float32)), near, 1e-3, sample)
    shifted = BOXES[[0, 0]] + np.array([[0], [2]], np.float32)  # either suppresses the other
    one, other = (answer(made, shifted[[i]], np.array([0.8 - 1e-4 * i]), np.array([1])) for i in (0, 1))
    both = answer(made, shifted, np.array([0.8, 0.8 - 1e-4]), np.array([1, 1]))
    assert made.agrees(one, both, 1e-3, sample)
    assert made.agrees(one, other, 1e-3, sample)


class Bars:
    """A predictor that finds what is bright, as one box."""

    def __init__(self) -> None:
        self.step = step(scores="scores", labels="labels")
        self.pipeline = Pipeline({"image": [ImageInput("rgb")]}, {"boxes": [self.step]})

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        boxes = np.zeros((len(inputs["image"]), 1, 4), np.float32)
        labels = np.full((len(boxes), 1), -1)
        for i, image in enumerate(inputs["image"]):
            y, x = np.nonzero(image[..., 0] > 128)
            if len(x):
                boxes[i, 0], labels[i] = (x.min(), y.min(), x.max() + 1, y.max() + 1), 0
        return {"boxes": boxes, "scores": np.full(labels.shape, 0.9, np.float32), "labels": labels}


def test_objects_of_tiles_are_moved_and_joined() -> None:
    image = np.zeros((120, 300, 3), np.uint8)
    image[30:60, 200:260] = 255
    (found,) = predict(Bars(), [image], tiles=100)
    boxes = [each["box"] for each in found.answer.value["detections"]]
    assert [200, 30, 260, 60] in boxes
    assert all(box[0] >= 200 and box[2] <= 260 for box in boxes)
    assert len(boxes) == 1


def test_predictions_become_a_coco_file(tmp_path: Path) -> None:
    image = np.zeros((40, 50, 3), np.uint8)
    image[10:20, 5:25] = 255
    model = Bars()
    (writer,) = model.pipeline.writers
    found: list[Prediction] = list(predict(model, [image, b"no image", image[:, ::-1]], skip_errors=True))
    assert writer.write(tmp_path / "found.json", found) == (3, 2)
    made = json.loads((tmp_path / "found.json").read_text())
    assert [each["file_name"] for each in made["images"]] == ["array 0", "array 2"]
    assert made["categories"] == [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    assert [each["bbox"] for each in made["annotations"]] == [[5, 10, 20, 10], [25, 10, 20, 10]]
    with pytest.raises(UsageError, match=r"\*\.json"):
        writer.write(tmp_path / "found.txt", found)


def test_marks_have_names_and_the_colours_of_classes() -> None:
    made = step()
    said = answer(made)
    assert made.caption(said) == "1 dog, 1 cat"
    assert made.caption({"detections": []}) == "nothing found"
    assert [(mark.label, mark.colour) for mark in made.marks(said)] == [("dog 0.90", 1), ("cat 0.60", 0)]
    assert made.rows(said)[0] == {"label": "dog", "score": pytest.approx(0.9), "x1": 20, "y1": 12, "x2": 60, "y2": 52}


def test_answers_that_need_opencv_or_an_image_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, box = np.ones((4, 4), np.float32), np.array([10.0, 10, 30, 30])
    assert pasted(grid, box, HALF).sum() == 400
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="masks are resized by OpenCV, which is not installed; pip install opencv-py"):
        pasted(grid, box, HALF)
    with pytest.raises(UsageError, match=r"keypoints: heatmaps are smoothed .* or choose refine: quarter"):
        peaks(np.ones((1, 4, 4, 1), np.float32))
    outputs = {"boxes": BOXES, "scores": SCORES, "labels": LABELS}
    with pytest.raises(UsageError, match="detections: needs to know where the output lies in an image"):
        step()(BOXES, Sample(outputs=outputs))

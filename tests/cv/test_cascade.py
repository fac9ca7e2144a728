"""A detector and a second model that looks at each object found, and the file that tells of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.dims import Dim
from pdl.errors import ConfigError, DataError, UsageError
from pdl.export import Deployment
from pdl.export.bundle import write
from pdl.ops.base import Spec
from pdl.report.answers import save
from pdl.runtime import bundle
from pdl.runtime.bench import bench
from pdl.runtime.predict import predict
from pdl.workflow import systems
from pdl.workflow.prediction import open_model
from pdl_cv import Cascade
from pdl_cv.keypoints.losses import gaussians

F32 = np.dtype(np.float32)
BOXES = np.array([[8, 8, 28, 28], [40, 10, 60, 50], [0, 0, 0, 0]], np.float32)


class Finder(pdl.nn.Module):
    """Two boxes, whatever the image shows."""

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, ...]:
        some = pdl.mean(x, axis=(1, 2, 3))[:, None] * 0
        boxes = pdl.reshape(some, (-1, 1, 1)) + pdl.tensor(BOXES)
        scores = some + pdl.tensor(np.array([0.9, 0.8, 0.0], np.float32))
        labels = pdl.astype(some, pdl.int64) + pdl.tensor(np.array([0, 1, -1]))
        return boxes, scores, labels


class Brightness(pdl.nn.Module):
    """Dark or bright."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        mean = pdl.mean(x, axis=(1, 2, 3))
        return pdl.stack([0.5 - mean, mean - 0.5], axis=1) * 20


class Middle(pdl.nn.Module):
    """One keypoint, in the middle."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        at = gaussians(pdl.tensor(np.array([[[12, 16, 2]]], np.float32)), (8, 6), stride=4, sigma=1.0)
        return at + pdl.mean(x, axis=(1, 2, 3), keepdims=True) * 0


def model(net: pdl.nn.Module, size: tuple[int, int], post: Mapping[str, Any], labels: tuple[str, ...]) -> Deployment:
    fixed = {"step": "letterbox" if "heatmaps" in post else "resize", "size": list(size)}
    return Deployment(
        module=net,
        inputs={"image": Spec((Dim.symbol("n", 3), *size, 3), F32)},
        outputs=("boxes", "scores", "labels") if "boxes" in post else tuple(post),
        pre={"image": [{"step": "image", "mode": "rgb"}, fixed, {"step": "to_float"}]},
        post=dict(post),
        samples=[],
        labels=labels,
    )


def finder() -> Deployment:
    return model(Finder(), (64, 64), {"boxes": [{"step": "detections"}]}, ("face", "hand"))


def classifier() -> Deployment:
    return model(Brightness(), (8, 8), {"logits": [{"step": "softmax"}, {"step": "top", "k": 2}]}, ("dark", "bright"))


def poser(**step: Any) -> Deployment:
    return model(Middle(), (32, 24), {"heatmaps": [{"step": "keypoints", "sigma": 1.0, **step}]}, ("middle",))


def image() -> np.ndarray:
    picture = np.zeros((128, 128, 3), np.uint8)
    picture[16:56, 16:56] = 255
    return picture


def test_a_classifier_says_what_each_object_is() -> None:
    answer = Cascade(finder(), classifier())(image())
    first, second = answer["detections"]
    assert answer["size"] == [128, 128]
    assert (first["label"], first["box"], first["found"]["label"]) == ("bright", [16, 16, 56, 56], "face")
    assert (second["label"], second["found"]["label"]) == ("dark", "hand")
    assert first["score"] > 0.9


def test_only_some_objects_are_asked_about() -> None:
    (one,) = Cascade(finder(), classifier(), only=["hand"])(image())["detections"]
    assert one["found"]["label"] == "hand"


def test_keypoints_are_in_pixels_of_the_image(tmp_path: Path) -> None:
    cascade = Cascade(finder(), poser(margin=1.25))
    (found,) = predict(cascade, [image()])
    for one, middle in zip(found.answer.value["detections"], [(36, 36), (100, 60)], strict=True):
        (point,) = one["keypoints"]
        assert (point["x"], point["y"]) == pytest.approx(middle, abs=1.5)
    assert [row["label"] for row in found.rows()] == ["face", "hand"]
    assert save(found.draw(), tmp_path, "drawn").is_file()


def test_tiles_move_boxes_and_points() -> None:
    (found,) = predict(Cascade(finder(), poser(margin=1.25)), [np.concatenate([image()] * 3, axis=1)], tiles=128)
    for one in found.answer.value["detections"]:
        x1, y1, x2, y2 = one["box"]
        (point,) = one["keypoints"]
        assert (point["x"], point["y"]) == pytest.approx(((x1 + x2) / 2, (y1 + y2) / 2), abs=12)


def test_what_does_not_fit_together() -> None:
    with pytest.raises(UsageError, match="was taught whole images"):
        Cascade(finder(), poser())
    with pytest.raises(UsageError, match="detect is no detector"):
        Cascade(classifier(), classifier())(image())
    with pytest.raises(UsageError, match="neither a classifier nor a net of keypoints"):
        Cascade(finder(), finder())(image())


# -- files of systems --------------------------------------------------------------------------------------------------
def test_a_file_tells_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "faces").mkdir()
    file = tmp_path / "masks.yaml"
    file.write_text("parts: {detect: faces, each: cv/masks}\npredictor: {_target_: pdl_cv.Cascade, margin: 1.5}\n")
    asked: list[str] = []

    def open_part(word: str) -> Deployment:
        asked.append(word)
        return finder() if len(asked) == 1 else classifier()

    made = systems.open_file(file, open_part)
    assert isinstance(made, Cascade)
    assert made.margin == 1.5
    assert asked == [str(tmp_path / "faces"), "cv/masks"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: {detect: a, other: b}\npredictor: {_target_: pdl_cv.Cascade}\n", "pdl_cv.Cascade: .*each"),
        ("parts: {detect: a, each: b}\npredictor: {margin: 2}\n", "predictor: it lacks _target_"),
        ("parts: {detect: a, each: b}\n", "predictor"),
        ("predictor: {_target_: os.system}\nparts: {command: b}\n", "os.system"),
    ],
)
def test_faults_of_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "system.yaml"
    file.write_text(text)
    with pytest.raises((ConfigError, UsageError), match=message):
        open_model(file)


# -- one bundle --------------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a detector, a classifier and a keypoint net."""
    for name, deployment in (("finder", finder()), ("classifier", classifier()), ("poser", poser(margin=1.25))):
        write(tmp_path / f"{name}.pdl", deployment)
    return tmp_path


def told(folder: Path, detect: str, each: str, more: str = "") -> Path:
    file = folder / "both.yaml"
    file.write_text(
        f"parts: {{detect: {detect}.pdl, each: {each}.pdl}}\npredictor: {{_target_: pdl_cv.Cascade{more}}}\n"
    )
    return file


@pytest.mark.parametrize("each", ["classifier", "poser"])
def test_one_bundle_answers_as_the_file(folder: Path, each: str) -> None:
    file = told(folder, "finder", each, ", margin: 1.5, only: [face]")
    systems.export_system(file, folder / "both.pdl")
    session = pdl.runtime.load(folder / "both.pdl")
    (found,) = predict(session, [image()])
    (asked,) = predict(open_model(file), [image()])
    assert found.answer.value == asked.answer.value
    assert len(found.answer.value["detections"]) == 1
    assert save(found.draw(), folder, "drawn").is_file()
    assert "pdl-cv" in bundle.read(folder / "both.pdl").meta["requires"]
    with pytest.raises(UsageError, match=r"measure each of them \(detect, each\) by itself"):
        bench(folder / "both.pdl")


@pytest.mark.parametrize(
    ("detect", "each", "message"),
    [
        ("classifier", "finder", "Cascade: detect is no detector"),
        ("finder", "finder", "Cascade: each is neither a classifier nor a net of keypoints"),
    ],
)
def test_wrong_parts_are_one_error(folder: Path, detect: str, each: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        systems.export_system(told(folder, detect, each))
    assert not (folder / "both.pdl").exists()


@pytest.mark.parametrize("arguments", [{"most": "all"}, {"only": "face"}, {"margin": "wide"}, {"margin": 1e9}])
def test_arguments_of_files_are_checked(folder: Path, arguments: dict[str, Any]) -> None:
    program = {"kind": "system", "system": "pdl_cv.Cascade", "arguments": arguments}
    parts = {"detect": folder / "finder.pdl", "each": folder / "classifier.pdl"}
    data = bundle.pack(program, {}, parts={name: file.read_bytes() for name, file in parts.items()})
    with pytest.raises(DataError, match=f"program.json: pdl_cv.Cascade: {next(iter(arguments))}="):
        pdl.runtime.load(data)

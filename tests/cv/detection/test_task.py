"""Detection and instance segmentation from annotated images to answers in pixels of the image that was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import checkpoint, config, workflow
from pdl.data import Dataset
from pdl.errors import ConfigError, DataError, UsageError
from pdl.report import png
from pdl.train import Recipe
from pdl.train.images import frame_of
from pdl.workflow.slimming import read_plan, slim
from pdl_cv.detection.loader import training_batch

T = "pdl.data.transforms."
NORMALIZE = {"_target_": f"{T}Normalize", "mean": [0.5] * 3, "std": [0.25] * 3}
PREPARED = [{"_target_": f"{T}Letterbox", "size": 64}, NORMALIZE]
TINY = {"_target_": "pdl_cv.MobileNetV2", "width": 0.35}
MODELS: dict[str, dict[str, Any]] = {
    "detection": {"_target_": "pdl_cv.PicoDet", "size": "xs", "backbone": {"_target_": "pdl_cv.Backbone", "net": TINY}},
    "instance": {
        "_target_": "pdl_cv.MaskRCNN", "backbone": TINY, "strides": [8, 16], "channels": 16,
        "anchor_sizes": [[16], [32]], "hidden": 32, "regions": 16, "proposals": 20, "training_proposals": 20,
        "mask_convs": 1, "mask_channels": 16,
    },
}  # fmt: skip
TASKS = {"detection": "pdl_cv.Detection", "instance": "pdl_cv.InstanceSegmentation"}


class Bars(Dataset):
    """Wide images with a red or a blue bar, and its box and mask."""

    classes = ("red", "blue")
    foldable = True

    def __init__(self, count: int = 6, *, first: int = 0) -> None:
        self.count, self.first = count, first

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= self.count:
            raise IndexError
        draw = np.random.default_rng(self.first + index)
        image = draw.integers(90, 110, (48, 96, 3), dtype=np.uint8)
        x, y, label = int(draw.integers(5, 50)), int(draw.integers(3, 20)), index % 2
        image[y : y + 20, x : x + 35] = 60
        image[y : y + 20, x : x + 35, 2 * label] = 250
        mask = np.zeros((1, 48, 96), np.uint8)
        mask[0, y : y + 20, x : x + 35] = 1
        box = np.array([[x, y, x + 35, y + 20]], np.float32)
        return {"image": image, "boxes": box, "labels": np.array([label]), "masks": mask}


def written(folder: Path, bars: Bars) -> str:
    """The images as files, with annotations as COCO has them."""
    folder.mkdir(parents=True)
    images, annotations = [], []
    for i in range(len(bars)):
        sample = bars[i]
        (folder / f"{i}.png").write_bytes(png(sample["image"]))
        images.append({"id": i, "file_name": f"{i}.png", "width": 96, "height": 48})
        x1, y1, x2, y2 = map(float, sample["boxes"][0])
        annotations.append({
            "id": i, "image_id": i, "category_id": int(sample["labels"][0]), "bbox": [x1, y1, x2 - x1, y2 - y1],
            "segmentation": [[x1, y1, x2, y1, x2, y2, x1, y2]], "area": 700, "iscrowd": 0,
        })  # fmt: skip
    categories = [{"id": i, "name": name} for i, name in enumerate(bars.classes)]
    made = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(made))
    return str(folder)


def recipe(folder: Path, kind: str, **settings: Any) -> Any:
    train, val = written(folder / "train", Bars()), written(folder / "val", Bars(2, first=50))
    data = {"_target_": "pdl_cv.data.DetectionFolder", "masks": kind == "instance"}
    tree = {
        "task": {"_target_": TASKS[kind]},
        "model": MODELS[kind],
        "data": {
            "train": {**data, "root": train}, "val": {**data, "root": val}, "batch_size": 3,
            "transforms": {"train": PREPARED, "eval": PREPARED},
        },
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 1e-3},
        "train": {"epochs": 1},
    }  # fmt: skip
    for name, value in settings.items():
        section, _, key = name.partition("__")
        tree[section] = {**tree[section], key: value} if key else value
    return config.from_dict(tree)


@pytest.mark.parametrize("kind", TASKS)
def test_train_measure_answer_and_export(kind: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = workflow.train(recipe(tmp_path, kind), run=run)
    assert result.status == "finished"
    assert {"val/AP", "val/AP50", "val/AR100", "val/loss"} <= result.metrics.keys()
    assert (run / "model.pdl").is_file(), (run / "train.log").read_text()
    image = Bars(1, first=70)[0]["image"]
    session = pdl.runtime.load(run / "model.pdl")
    said = session(image)
    assert said["size"] == [48, 96]
    low = workflow.predict(run, [image], score=0.0, topk=3)[0]["detections"]
    assert len(low) == 3
    assert all(0 <= each["box"][0] < each["box"][2] <= 96 for each in low)
    assert all(0 <= each["box"][1] < each["box"][3] <= 48 for each in low)
    if kind == "instance":
        assert low[0]["mask"]["size"] == [48, 96]
        assert {"val/box_AP", "val/dice", "val/matched"} <= result.metrics.keys()
    bundle = workflow.evaluate(run / "model.pdl", split="val")
    assert "val/loss" not in bundle.metrics
    assert bundle.metrics["val/AP"] == pytest.approx(result.metrics["val/AP"], abs=1e-6)
    written(tmp_path / "other/train", Bars())
    written(tmp_path / "other/test", Bars(2, first=50))
    other = workflow.evaluate(run, data=tmp_path / "other")
    assert other.metrics["test/AP"] == pytest.approx(result.metrics["val/AP"], abs=1e-6)
    workflow.export(run, out=tmp_path / "dense.pdl", form="dense")
    with pytest.raises(UsageError, match="exported with --form dense"):
        workflow.evaluate(tmp_path / "dense.pdl", split="val")
    if kind == "detection":
        plan = "round: {samples: 4}\ntune_rounded: {teacher: '', set: [train.epochs=1, train.report=false]}\nint8: {}\n"
        (tmp_path / "plan.yaml").write_text(plan)
        small = slim(run, read_plan(tmp_path / "plan.yaml"), tmp_path / "small", progress=False)
        assert [step.name for step in small.steps] == ["start", "round", "tune_rounded", "int8"]
        assert small.steps[3].size < 0.5 * small.steps[2].size
        before, after = (
            checkpoint.load(next((tmp_path / "small" / name / "checkpoints").glob("*.safetensors")))["model"]
            for name in ("round", "tune_rounded")
        )
        learned = [name for name in before if name.endswith("weight")]
        assert len(learned) > 20
        assert all((before[name] != after[name]).any() for name in learned)  # gradients pass all roundings


def test_samples_are_padded_to_few_numbers_of_rows() -> None:
    samples = [{**Bars()[i], "index": i} for i in range(2)]
    samples[0] |= {"crowd": np.array([True])}
    samples[1] |= {name: np.repeat(samples[1][name], 9, axis=0) for name in ("boxes", "labels", "masks")}
    samples[1]["boxes"][3] = (5, 5, 5, 9)  # without area
    batch = training_batch(samples)
    assert batch["boxes"].shape == (2, 8, 4)
    assert (batch["labels"] >= 0).sum(axis=1).tolist() == [0, 8]
    assert batch["masks"].shape == (2, 8, 48, 96)
    samples[1]["boxes"][3] = (5, 5, 8, 9)
    assert training_batch(samples)["boxes"].shape == (2, 16, 4)


def test_the_frame_of_a_prepared_image() -> None:
    corners = np.array([[4, 10], [84, 10], [4, 50]], np.float32)
    frame = frame_of(corners, (100, 160))
    assert frame.back(np.array([[4, 10], [84, 50], [44, 30]])).tolist() == [[0, 0], [160, 100], [80, 50]]
    with pytest.raises(ConfigError, match="rotates or shears"):
        frame_of(np.array([[4, 10], [84, 12], [4, 50]], np.float32), (100, 160))


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"model": {"_target_": "pdl_cv.LeNet"}}, ConfigError, "is no detector"),
        ({"data__transforms": {"train": PREPARED[:1], "eval": PREPARED}}, ConfigError, "add pdl.data.transforms.Norm"),
        ({"data__transforms": {"train": [{**PREPARED[0], "size": 72}, NORMALIZE], "eval": PREPARED}}, ConfigError,
         "takes multiples of 32"),
        ({"task__classes": ["red", "green"]}, DataError, r"expected 2 \(red, green\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_before_training(
    settings: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        workflow.train(recipe(tmp_path, "detection", **settings), run=tmp_path / "run")


def test_the_thresholds_of_a_recipe_are_those_of_the_net(tmp_path: Path) -> None:
    known = Recipe(recipe(tmp_path, "detection", task__iou=0.4, task__most=7))
    task = known.task.build()
    task.prepare(known, {"train": Bars()})
    selection = task.model(known).selection
    assert (selection.iou, selection.most) == (0.4, 7)
    with pytest.raises(UsageError, match="dense"):
        task.deployer(known).choose("sparse")

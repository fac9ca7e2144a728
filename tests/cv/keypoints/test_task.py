"""The keypoints task from annotated images to answers in pixels of the image that was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import config, workflow
from pdl.data import Dataset
from pdl.errors import DataError
from pdl.report import png
from pdl.runtime.frame import Frame
from pdl.runtime.steps import Sample
from pdl_cv.keypoints.baselines import mean_pose
from pdl_cv.keypoints.flips import Flipped
from pdl_cv.keypoints.loader import Instances, evaluation_batch, spans
from pdl_cv.keypoints.losses import gaussians, heatmap_loss
from pdl_cv.keypoints.task import torso
from pdl_cv.steps.crops import Crop, around, cut
from pdl_cv.steps.keypoints import Keypoints, peaks

NAMES = ("left_shoulder", "right_shoulder", "right_hip")
SIDE = 48


class Dots(Dataset):
    """Images of gray with one or two objects: a red, a green and a blue dot on a dark square."""

    classes = ("dots",)
    keypoint_names, flip_pairs, skeleton = NAMES, ((0, 1),), ((0, 1), (1, 2))
    foldable = True

    def __init__(self, count: int = 8, *, objects: int = 1, boxes: bool = True, seed: int = 0) -> None:
        self.count, self.objects, self.boxes, self.seed = count, objects, boxes, seed

    def __len__(self) -> int:
        return self.count

    def annotation(self, index: int) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, index])
        corners = np.array([[4 + 50 * i, 6] for i in range(self.objects)]) + rng.integers(0, 8, (self.objects, 2))
        points = corners[:, None] + rng.uniform(8, SIDE - 16, (self.objects, 3, 2))
        boxes = np.concatenate([corners, corners + SIDE - 8], axis=1)
        if not self.boxes:
            boxes = np.concatenate([points.min(1), points.max(1)], axis=1)
        seen = np.full((self.objects, 3, 1), 2.0)
        return {
            "boxes": boxes.astype(np.float32),
            "labels": np.zeros(self.objects, np.int64),
            "keypoints": np.concatenate([points, seen], axis=-1).astype(np.float32),
        }

    def __getitem__(self, index: int) -> dict[str, Any]:
        found = self.annotation(index)
        image = np.full((64, 50 * self.objects + 20, 3), 128, np.uint8)
        for (x1, y1, x2, y2), points in zip(found["boxes"].astype(int), found["keypoints"], strict=True):
            image[y1:y2, x1:x2] = 30
            for channel, (x, y, _) in enumerate(points):
                image[int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3, channel] = 250
        return {"image": image, **found}


def recipe(tmp_path: Path, **task: Any) -> Path:
    rows = ["file,xmin,ymin,xmax,ymax," + ",".join(f"{name}_x,{name}_y" for name in NAMES)]
    for i, sample in ((i, Dots(16, objects=2)[i]) for i in range(16)):
        (tmp_path / f"{i}.png").write_bytes(png(sample["image"]))
        for box, points in zip(sample["boxes"], sample["keypoints"], strict=True):
            rows.append(",".join([f"{i}.png", *map(str, [*box, *points[:, :2].ravel()])]))
    (tmp_path / "dots.csv").write_text("\n".join(rows))
    data = f"{{_target_: pdl_cv.data.DetectionFolder, root: {tmp_path / 'dots.csv'}, keypoints: true}}"
    letterbox = "{_target_: pdl.data.transforms.Letterbox, size: [64, 64]}"
    lines = [
        "defaults: [/cv/keypoints, _self_]",
        f"task: {{{', '.join(f'{k}: {v}' for k, v in task.items())}}}",
        "model: {_target_: pdl_cv.SimpleBaseline, backbone: {_target_: pdl_cv.MobileNetV2, width: 0.35}}",
        "data:",
        *(f"  {split}: {data}" for split in ("train", "val", "test")),
        "  batch_size: 8",
        "  workers: 0",
        "  transforms:",
        f"    train: [{letterbox}, {{_target_: pdl.data.transforms.RandomHorizontalFlip}},",
        "            {_target_: pdl.data.transforms.ToFloat}]",
        f"    eval: [{letterbox}, {{_target_: pdl.data.transforms.ToFloat}}]",
        "train: {epochs: 1, eval_every: 1}",
    ]
    path = tmp_path / "dots.yaml"
    path.write_text("\n".join(lines))
    return path


def test_train_and_answer(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = workflow.train(config.load(recipe(tmp_path, flip_test="true")), run=run, progress=False)
    assert {"test/pck@0.2", "test/pck@0.1", "test/AP", "test/AR75", "test/loss"} <= set(result.metrics)
    assert set(result.baselines["mean pose"]) >= {"test/pck@0.2"}
    report = (run / "report.html").read_text()
    assert "Worst misses" in report
    assert "right_hip" in report
    image = Dots(1, objects=1)[0]["image"]
    by_bundle = pdl.runtime.load(run / "model.pdl")(image)["keypoints"]
    assert [each["name"] for each in by_bundle] == list(NAMES)
    (by_run,) = workflow.predict(run, [image], save=tmp_path / "drawn")
    for ours, theirs in zip(by_bundle, by_run["keypoints"], strict=True):
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-4)
    assert Path(by_run["saved"]).is_file()
    other = workflow.evaluate(run, data=tmp_path / "dots.csv").metrics
    assert other["test/pck@0.2"] == pytest.approx(result.metrics["test/pck@0.2"])


def test_preview_shows_objects_with_their_points(tmp_path: Path) -> None:
    made = workflow.preview(config.load(recipe(tmp_path)), samples=2, versions=1)
    assert made.sections[0].html.count("<img") == 2 * 3


# -- parts of images ---------------------------------------------------------------------------------------------------
def test_a_sample_for_each_object_with_points_in_its_pixels() -> None:
    data = Dots(4, objects=2)
    objects = Instances(data, aspect=0.75, margin=1.25)
    assert len(objects) == 8
    for i in range(8):
        sample = objects[i]
        height, width = sample["image"].shape[:2]
        assert width / height == pytest.approx(0.75, abs=0.05)
        for channel, (x, y, _) in enumerate(sample["keypoints"][0]):
            assert sample["image"][int(y), int(x), channel] == 250
        window, points = objects.placed(i)
        assert window == sample["original"]["crop"]
        np.testing.assert_array_equal(points, sample["original"]["keypoints"])


def test_the_way_back_leads_to_the_image() -> None:
    objects = Instances(Dots(2, objects=2), aspect=1.0, margin=1.5)
    samples = []
    for i in range(4):
        sample = objects[i]
        height, width = sample["image"].shape[:2]
        scale = np.array([2.0, 0.5], np.float32)
        corners = np.array([[0, 0], [width, 0], [0, height]], np.float32) * scale + 3
        points = np.concatenate([sample["keypoints"][..., :2] * scale + 3, sample["keypoints"][..., 2:]], axis=-1)
        samples.append({**sample, "image": np.zeros((8, 8, 3)), "keypoints": points, "points": corners, "index": i})
    batch = evaluation_batch(samples)
    for points, back, original in zip(batch["keypoints"], batch["back"], batch["original"], strict=True):
        there = points[:, :2] @ back[:, :2].T + back[:, 2]
        np.testing.assert_allclose(there, original["keypoints"][:, :2], atol=1e-3)


def test_boxes_that_only_span_points_are_no_boxes() -> None:
    assert spans(Dots(4, boxes=False))
    assert not spans(Dots(4))
    assert not spans(Dots(4, objects=2, boxes=False))


def test_whole_images_show_one_object_each() -> None:
    with pytest.raises(DataError, match="2 objects, but whole images must show one each"):
        Instances(Dots(2, objects=2), aspect=1.0, margin=None)
    assert Instances(Dots(2), aspect=1.0, margin=None)[0]["image"].shape == (64, 70, 3)


def test_windows_reach_beyond_the_image() -> None:
    image = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    window = around((0, 0, 6, 4), aspect=1.0, margin=2.0)
    assert window == Crop(-3, -4, 12, 12)
    made = cut(image, window)
    np.testing.assert_array_equal(made[4:8, 3:9], image)
    assert (np.delete(made.reshape(-1, 3), 0, axis=0) == 114).any()
    assert np.shares_memory(cut(image, Crop(1, 1, 3, 2)), image)


def test_mean_pose() -> None:
    pose = mean_pose(Instances(Dots(64), aspect=1.0, margin=1.0))
    assert pose.shape == (3, 2)
    assert ((pose > 0.3) & (pose < 0.7)).all()


# -- heatmaps ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("refine", "near"), [("none", 0.51), ("quarter", 0.27), ("dark", 0.02)])
def test_peaks_of_gaussians_are_their_middles(refine: str, near: float) -> None:
    points = np.random.default_rng(0).uniform(24, 72, (3, 5, 2)).astype(np.float32)
    maps = gaussians(pdl.tensor(points), (32, 24), stride=4, sigma=2.0).data
    found = peaks(maps, refine=refine, sigma=2.0)
    assert np.abs(found[..., :2] * 4 - points).max() <= 4 * near
    assert (found[..., 2] > 0.9).all()


@pytest.mark.parametrize("refine", ["none", "quarter", "dark"])
def test_peaks_at_the_edges_and_of_flat_maps(refine: str) -> None:
    maps = np.zeros((1, 4, 5, 3), np.float32)
    maps[0, 0, 0, 0] = maps[0, 3, 4, 1] = 1
    found = peaks(maps, refine=refine)
    assert np.isfinite(found).all()
    assert ((found[..., :2] >= 0) & (found[..., :2] <= (5, 4))).all()


def test_points_that_are_not_known_teach_nothing() -> None:
    maps = pdl.randn((2, 8, 8, 3))
    points = pdl.tensor(np.array([[[8, 8, 2], [0, 0, 0], [20, 20, 1]]] * 2, np.float32))
    other = maps.data.copy()
    other[..., 1] += 5
    ours, theirs = (float(heatmap_loss(pdl.tensor(m), points, stride=4, sigma=2.0)) for m in (maps.data, other))
    assert ours == theirs > 0


def test_flips_exchange_left_and_right() -> None:
    class Same(pdl.nn.Module):
        def forward(self, x: pdl.Tensor) -> pdl.Tensor:
            return x

    x = np.random.default_rng(0).random((2, 4, 6, 3), np.float32)
    y = Flipped(Same(), [[0, 1]], 3)(pdl.tensor(x)).data
    np.testing.assert_allclose(y, (x + x[:, :, :, [1, 0, 2]]) / 2, rtol=1e-6)


def test_the_step_answers_in_pixels_of_the_image() -> None:
    step = Keypoints(skeleton=[[0, 1]], score=0.5)
    step.labels = ("a", "b")
    points = np.array([[[40.0, 24.0], [60.0, 90.0]]], np.float32)
    maps = gaussians(pdl.tensor(points), (32, 24), stride=4, sigma=2.0).data[0]
    sample = Sample(inputs={"image": np.zeros((128, 96, 3))}, frame=Frame(400, 300, (2.0, 2.0), (10.0, 20.0)))
    answer = step(maps, sample)
    places = [(each["x"], each["y"]) for each in answer["keypoints"]]
    np.testing.assert_allclose(places, points[0] * 2 + (10, 20), atol=0.2)
    assert [each["name"] for each in step.rows(answer)] == ["a", "b"]
    assert step.caption(answer) == "2 of 2 points"
    assert len(step.marks(answer)) == 3
    assert step.agrees(answer, answer, 1e-4, sample)
    moved = {"keypoints": [{**each, "x": each["x"] + 9} for each in answer["keypoints"]]}
    assert not step.agrees(answer, moved, 1e-4, sample)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("lshoulder", "rhip"), ("lshoulder", "rhip")),
        (("Left Shoulder", "hip_r", "x"), ("Left Shoulder", "hip_r")),
        (("nose",), ()),
    ],
)
def test_the_torso_by_its_names(names: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert torso(names) == found

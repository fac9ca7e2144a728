"""Segmentation from a folder of images and masks to the class of each pixel of the image that was given."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

import pdl
from pdl import config, workflow
from pdl.errors import ConfigError, UsageError
from pdl.runtime.frame import Frame
from pdl.train import Recipe
from pdl_cv.data.index_maps import index_map
from pdl_cv.segmentation import Segmentation as Task
from pdl_cv.steps.segmentation import Segmentation, classes_of


def write(folder: Path, count: int = 16) -> Path:
    """Bright squares and dark discs on gray, each image of a size of its own; masks 0, 1 and 2, with some 255."""
    rng = np.random.default_rng(0)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for i in range(count):
        height, width = (48, 64) if i % 2 else (56, 52)
        image, mask = np.full((height, width, 3), 120, np.uint8), np.zeros((height, width), np.uint8)
        x, y = (int(v) for v in rng.integers(4, 16, 2))
        mask[y : y + 14, x : x + 14] = 1
        cv2.circle(mask, (width - 14, height - 14), 8, 2, -1)
        image[mask == 1], image[mask == 2] = 230, 20
        mask[:2] = 255
        cv2.imwrite(str(folder / "images" / f"{i}.png"), image)
        cv2.imwrite(str(folder / "masks" / f"{i}.png"), mask)
    (folder / "classes.txt").write_text("ground\nsquare\ndisc\nvoid\n")
    return folder


def recipe(tmp_path: Path, **task: str) -> Path:
    data = write(tmp_path / "shapes")
    source = f"{{_target_: pdl_cv.data.SegmentationFolder, root: {data}}}"
    letterbox = "{_target_: pdl.data.transforms.Letterbox, size: [64, 64]}"
    lines = [
        "defaults: [/cv/segmentation, _self_]",
        f"task: {{{', '.join(f'{k}: {v}' for k, v in task.items())}}}",
        "model: {_target_: pdl_cv.UNet, width: 8, depth: 2}",
        "data:",
        *(f"  {split}: {source}" for split in ("train", "val", "test")),
        "  batch_size: 4",
        "  workers: 0",
        "  transforms:",
        f"    train: [{letterbox}, {{_target_: pdl.data.transforms.RandomAffine, degrees: 20}},",
        "            {_target_: pdl.data.transforms.ToFloat}]",
        f"    eval: [{letterbox}, {{_target_: pdl.data.transforms.ToFloat}}]",
        "optim: {lr: 0.01}",
        "train: {epochs: 12, eval_every: 6, ema: null}",
    ]
    path = tmp_path / "shapes.yaml"
    path.write_text("\n".join(lines))
    return path


def test_train_measure_answer_and_export(tmp_path: Path) -> None:
    run, drawn = tmp_path / "run", tmp_path / "drawn"
    losses = "{cross_entropy: 1, dice: 0.5}"
    settings = config.load(recipe(tmp_path, loss=losses, class_weights="balanced", boundary="true",
                                  regions="{shape: [square, disc]}", tta="[horizontal_flip]"))  # fmt: skip
    result = workflow.train(settings, run=run, progress=False)
    assert result.metrics["test/mIoU"] > 0.8
    assert {"test/dice", "test/IoU_shape", "test/dice_shape", "test/accuracy", "test/boundary_F"} <= set(result.metrics)
    assert result.metrics["test/mIoU"] > result.baselines["typical mask"]["test/mIoU"]
    again = workflow.evaluate(run).metrics  # without the training data
    assert again["test/loss"] == pytest.approx(result.metrics["test/loss"])
    report = (run / "report.html").read_text()
    assert all(words in report for words in ("Weakest images", "Taken for another class", "square"))

    image = cv2.imread(str(tmp_path / "shapes/images/1.png"))[..., ::-1]
    truth = cv2.imread(str(tmp_path / "shapes/masks/1.png"), cv2.IMREAD_UNCHANGED)
    answer = pdl.runtime.load(run / "model.pdl")(image)
    assert answer["mask"].shape == image.shape[:2]
    assert np.mean(answer["mask"][2:] == truth[2:]) > 0.95
    assert answer["classes"][0]["name"] == "ground"
    assert sum(each["share"] for each in answer["classes"]) == pytest.approx(1)
    other = workflow.evaluate(run / "model.pdl", data=tmp_path / "shapes").metrics
    assert other["test/mIoU"] == pytest.approx(result.metrics["test/mIoU"], abs=1e-3)

    (by_run,) = workflow.predict(run, [image], save=drawn)
    assert Path(by_run["saved"]).is_file()
    (saved,) = workflow.predict(run, [image], save=drawn, form="mask")
    np.testing.assert_array_equal(index_map(saved["saved"]), by_run["mask"])
    file = str(tmp_path / "shapes/images/1.png")
    (cutout,) = workflow.predict(run, [file], save=drawn, form="cutout")
    alpha = cv2.imread(cutout["saved"], cv2.IMREAD_UNCHANGED)[..., 3]
    assert (alpha > 0).sum() == (by_run["mask"] != 0).sum()


def test_preview_and_check(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    made = workflow.preview(config.load(path), samples=2, versions=1)
    assert {section.title: section.html.count("<img") for section in made.sections} == {
        "Samples": 2 * 3, "Classes": 0, "Transforms": 2 * (3 + 2),
    }  # fmt: skip
    masks = tmp_path / "shapes/masks"
    cv2.imwrite(str(masks / "0.png"), np.full((56, 52), 7, np.uint8))
    cv2.imwrite(str(masks / "1.png"), np.full((48, 64), 255, np.uint8))
    cv2.imwrite(str(masks / "2.png"), np.zeros((20, 20), np.uint8))
    said = "\n".join(map(str, Task().check(Recipe(config.load(path)))))
    assert "the value 7 at (0, 0), of 2,912 pixels, is no class" in said
    assert "no pixel of the mask counts" in said
    assert "the mask has 20 x 20 pixels, the image 52 x 56" in said


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"regions": "{shape: [sqare]}"}, "task.regions.shape: 'sqare' is none of the classes .*did you mean 'square'"),
        ({"loss": "dice", "class_weights": "balanced"}, "only cross_entropy, ohem, focal take weights"),
    ],
)
def test_wrong_settings(tmp_path: Path, task: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        workflow.train(config.load(recipe(tmp_path, **task)), run=tmp_path / "run", progress=False)


# -- answers -----------------------------------------------------------------------------------------------------------
def test_scores_are_enlarged_as_resize_does() -> None:
    """The whole image in one grid: the argmax of bilinear interpolation at the middles of pixels."""
    scores = np.random.default_rng(0).standard_normal((6, 5, 4)).astype(np.float32)
    large = pdl.resize(pdl.tensor(scores[None]), (30, 40)).numpy()[0]
    found = classes_of(scores, Frame(30, 40), (30, 40))
    assert np.mean(found == large.argmax(-1)) > 0.999  # but for scores that are nearly equal


def test_the_frame_of_a_letterbox_is_undone() -> None:
    """A net's input of 8 x 8 that holds an image of 10 x 20, shrunk to 4 x 8, from row 2 on."""
    scores = np.zeros((8, 8, 2), np.float32)
    scores[..., 0] = 0.5
    scores[2:6, :4, 1] = 1  # the left half of the image
    found = classes_of(scores, Frame(10, 20, (2.5, 2.5), (0.0, -5.0)), (8, 8))
    assert (found[:, :9] == 1).all()
    assert (found[:, 11:] == 0).all()


def test_tiles_decide_up_to_the_middle_of_their_overlap() -> None:
    step = Segmentation()
    tiles = [{"mask": np.full((6, 6), number, np.uint8)} for number in (9, 1, 2, 3, 4)]
    found = step.joined(tiles, [(0, 0), (0, 0), (4, 0), (0, 4), (4, 4)], (10, 10))["mask"]
    assert found[:5, :5].min() == found[:5, :5].max() == 1
    assert found[5:, 5:].min() == found[5:, 5:].max() == 4
    with pytest.raises(UsageError, match=r"--cutout 3: it is none of"):
        step.configured({"--cutout": ["3"]}, None)

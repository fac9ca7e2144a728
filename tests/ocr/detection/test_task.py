"""The task: training, the bundle, what `pdl check` and `pdl init` make of pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.config.compose import load
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.train.assembly import assemble
from pdl.workflow.new_recipe import init
from pdl_ocr import EAST, Reader
from pdl_ocr.data.standin import drawn_page, write_pages
from tests.ocr.synthetic import session as synthetic

SMALL = [
    "data.transforms.train.0.size=128",
    "data.transforms.train.0.scale=[0.8,1.2]",
    "model.width=0.35",
    "model.channels=32",
    "data.workers=0",
]


def test_a_recipe_is_written_learns_and_finds(tmp_path: Path) -> None:
    """`pdl init`, train, and the bundle on a page of a size that it has not seen."""
    pages = tmp_path / "pages"
    for split in ("train", "val", "test"):
        write_pages(pages, split)
    recipe = init("ocr.detection", data=pages, out=tmp_path / "recipe.yaml")
    net = "model={_target_: pdl_ocr.DB, width: 0.35, channels: 32}"
    fast = [net, "train.epochs=20", "data.batch_size=4", "optim.lr=4.0e-3", "train.ema=null"]
    done = workflow.train(load(recipe, [*fast, *SMALL]), run=tmp_path / "run", progress=False)
    assert done.metrics["test/hmean"] > 0.6
    session = opened(tmp_path / "run/model.pdl")
    image, lines = drawn_page(SampleRandom(7, 0, 0))
    wide = cv2.copyMakeBorder(image, 0, 40, 0, 100, cv2.BORDER_REPLICATE)
    boxes = session(wide)["boxes"]
    assert 0 < len(boxes) <= 2 * len(lines)
    assert all(len(each["polygon"]) == 4 for each in boxes)


@pytest.mark.parametrize("learned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_east_learns_and_its_bundle_finds_what_the_net_finds(learned: bool, tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        write_pages(tmp_path, split)
    epochs = f"train.epochs={16 if learned else 1}"
    net = ["model={_target_: pdl_ocr.EAST, width: 0.35, channels: 32}", epochs, "data.batch_size=4"]
    recipe = init("ocr.detection", data=tmp_path, out=tmp_path / "recipe.yaml")
    config = load(recipe, [*net, *SMALL, "optim.lr=4.0e-3", "train.ema=null"])
    done = workflow.train(config, run=tmp_path / "run", progress=False)
    session = opened(tmp_path / "run/model.pdl")
    image, lines = drawn_page(SampleRandom(7, 0, 0))
    boxes = session(cv2.copyMakeBorder(image, 0, 40, 0, 100, cv2.BORDER_REPLICATE))["boxes"]
    if learned:
        assert done.metrics["test/hmean"] > 0.6
        assert 0 < len(boxes) <= 2 * len(lines)
    Reader(session, synthetic("rec"))  # takes it, to find lines
    x = np.random.default_rng(0).normal(size=(2, 96, 160, 3)).astype(np.float32)
    trained = EAST(width=0.35, channels=32, pretrained=str(tmp_path / "run")).eval()
    ours = trained(pdl.as_tensor(x)).detach().numpy()
    theirs = session.run({"image": x})["map"]
    assert ours.shape == (2, 24, 40, 6)
    assert np.abs(ours - theirs).max() <= EAST.tolerance * np.abs(ours).max()


def test_images_of_several_sizes_are_an_error_before_training(tmp_path: Path) -> None:
    config = load("ocr/text_pages", [f"data.train.path={write_pages(tmp_path, 'train')}", *SMALL,
                                     "data.transforms.train=${data.transforms.eval}"])  # fmt: skip
    for i in range(0, 48, 2):
        path = str(tmp_path / f"train/{i:03}.png")
        cv2.imwrite(path, cv2.imread(path)[:96])
    with pytest.raises(ConfigError, match="gives images of 2 sizes; end with one size"):
        workflow.train(config, run=tmp_path / "run", progress=False)


def test_nets_of_other_tasks_are_refused(tmp_path: Path) -> None:
    other = ["model={_target_: pdl_ocr.CRNN}", f"data.train.path={write_pages(tmp_path, 'train')}"]
    config = load("ocr/text_pages", other)
    with pytest.raises(ConfigError, match=r"CRNN is no pdl_ocr\.models\.TextDetector"):
        workflow.train(config, run=tmp_path / "run", progress=False)


def test_check_tells_what_is_wrong_with_pages(tmp_path: Path) -> None:
    cases = {
        "crossed": [[10, 10], [50, 30], [50, 10], [10, 30]],
        "flat": [[10, 40], [50, 40], [50, 42], [10, 42]],
        "away": [[300, 10], [350, 10], [350, 30], [300, 30]],
        "once": [[60, 10], [90, 10], [90, 30], [60, 30]],
        "twice": [[60, 10], [90, 10], [90, 30], [60, 30]],
    }
    rows = []
    for i in range(30):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.full((60, 100, 3), 7 * i, np.uint8))
        lines = [{"transcription": text, "points": points} for text, points in cases.items()] if i < 25 else []
        rows.append(f"{i}.png\t{json.dumps(lines)}")
    (tmp_path / "Label.txt").write_text("\n".join(rows))
    recipe = Recipe(load("ocr/text_pages", [f"data.train.path={tmp_path / 'Label.txt'}"]))
    found = recipe.task.build().check(recipe)
    said = " ".join(str(each) for each in found)
    for words in (
        "polygon of 'crossed' crosses itself",
        "polygon of 'flat' is 2 pixels high",
        "polygon of 'away' lies outside of the image of 100 x 60 pixels",
        "'once' and 'twice' have the same polygon",
        "pages have no lines; this one first",
    ):
        assert words in said
    assert "polygon of 'once'" not in said


def test_few_pages_are_too_few_for_a_recipe(tmp_path: Path) -> None:
    for i in range(3):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.full((60, 100, 3), 7, np.uint8))
        (tmp_path / f"{i}.txt").write_text("1,2,21,2,21,12,1,12,a\n")
    with pytest.raises(DataError, match="at least 10 are needed"):
        init("ocr.detection", data=tmp_path, out=tmp_path / "recipe.yaml")


@pytest.mark.parametrize("net", ["DB, backbone: pplcnet_v3", "DB", "EAST"])
def test_every_weight_has_a_gradient(net: str, tmp_path: Path) -> None:
    pages = [f"model={{_target_: pdl_ocr.{net}}}", f"data.train.path={write_pages(tmp_path, 'train')}"]
    recipe = Recipe(load("ocr/text_pages", [*pages, *SMALL]))
    task = recipe.task.build()
    parts = assemble(task, recipe)
    batch: Any = next(iter(parts.loaders["train"]))
    task.step(parts.model, batch).value.backward()
    none = [
        name for name, p in parts.model.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).max() > 0
    ]
    assert none == []

"""Retrieval from folders of images to the nearest pictures of a gallery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
from pdl import config, workflow
from pdl.cli import main
from pdl.config import from_dict
from pdl.data import ByClass
from pdl.errors import ConfigError, DataError, UsageError
from pdl.runtime.predict import Configured
from pdl.train import Recipe
from pdl_cv.data import ImageFolder
from pdl_cv.retrieval import Retrieval
from pdl_cv.retrieval.check import check_recipe
from pdl_cv.retrieval.init import write_recipe

KINDS, TAKES = 12, 5


def drawing(kind: int, rng: np.random.Generator) -> np.ndarray:
    """A bar at an angle, and a dot or none, of a kind, somewhere near the middle of a noisy square."""
    image = (200 + rng.normal(0, 8, (28, 28, 3))).clip(0, 255).astype(np.uint8)
    x, y = rng.integers(12, 17, 2).tolist()
    angle = np.pi * (kind % 6) / 6
    end = int(9 * np.cos(angle)), int(9 * np.sin(angle))
    cv2.line(image, (x - end[0], y - end[1]), (x + end[0], y + end[1]), (20, 20, 20), 3)
    if kind >= 6:
        cv2.circle(image, (x, y), 5, (20, 20, 20), -1)
    return image


def write(folder: Path, kinds: range = range(KINDS), takes: int = TAKES) -> Path:
    rng = np.random.default_rng(0)
    for kind in kinds:
        (folder / f"k{kind:02}").mkdir(parents=True, exist_ok=True)
        for take in range(takes):
            cv2.imwrite(str(folder / f"k{kind:02}" / f"{take}.png"), drawing(kind, rng))
    return folder


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("things"))


def recipe(things: Path, **changes: Any) -> Recipe:
    whole = {"_target_": "pdl.data.ByClass", "dataset": {"_target_": "pdl_cv.data.ImageFolder", "root": str(things)}}
    held = {"held_out": {"val": ["k01", "k08"], "test": ["k03", "k06", "k10"]}}
    steps = [{"_target_": "pdl.data.transforms.ToFloat"}]
    tree = {
        "task": {"_target_": "pdl_cv.Retrieval", "embedding": 16, "loss": "triplet"},
        "model": {"_target_": "pdl_cv.LeNet", "in_channels": 3, "image_size": 28},
        "data": {
            **{split: {**whole, **held, "split": split} for split in ("train", "val", "test")},
            "batch_size": 20, "workers": 0, "drop_last": True, "transforms": {"train": steps, "eval": steps},
        },
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 3e-3},
        "train": {"epochs": 25, "eval_every": 5},
    }  # fmt: skip
    for key, value in changes.items():
        node: Any = tree
        *path, last = key.split("__")
        for name in path:
            node = node[name]
        node[last] = value
    return Recipe(from_dict(tree))


@pytest.fixture(scope="module")
def run(things: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    losses = {"triplet": {"margin": None}, "arcface": {"margin": 0.2, "scale": 16, "weight": 0.5}}
    task = {"_target_": "pdl_cv.Retrieval", "embedding": 16, "loss": losses, "far": [0.1], "tta": ["horizontal_flip"]}
    workflow.train(recipe(things, task=task).config, run=folder, progress=False)
    return folder


def test_it_learns_and_the_report_shows_what_was_found(run: Path) -> None:
    found = json.loads((run / "result.json").read_text())
    assert found["metrics"]["test/recall@1"] >= 0.8
    assert {"test/recall@5", "test/map@r", "test/eer", "test/tar@far0.1", "test/auc"} <= found["metrics"].keys()
    assert "cosine of 16 x 16 pixels" in found["baselines"]
    page = (run / "report.html").read_text()
    assert all(f"{title} (test)" in page for title in ("Nearest images", "ROC", "DET", "Scores", "Classes", "Map"))


def test_run_and_bundle_embed_alike_and_without_the_losses(run: Path, things: Path) -> None:
    session: Any = pdl.runtime.load(run / "model.pdl")
    assert not [name for name in session.bundle.weights if "criterion" in name]
    picture = str(things / "k03/0.png")
    (ours,), theirs = workflow.predict(run, [picture]), session(picture)
    np.testing.assert_allclose(ours["vector"], theirs["vector"], atol=1e-4)
    assert np.linalg.norm(theirs["vector"]) == pytest.approx(1, abs=1e-4)
    measured = json.loads((run / "result.json").read_text())["metrics"]["test/map@r"]
    assert workflow.evaluate(run / "model.pdl").metrics["test/map@r"] == pytest.approx(measured, abs=0.02)


def test_losses_may_see_a_projection_of_all_features(things: Path, tmp_path: Path) -> None:
    task = {"_target_": "pdl_cv.Retrieval", "embedding": None, "projection": 8, "loss": "cosface"}
    made = recipe(things, task=task, train={"epochs": 2})
    net = made.task.build(classes=["a", "b", "c"]).model(made)
    assert sorted(net.criterion["cosface"].weight.shape) == [3, 8]
    result = workflow.train(made.config, run=tmp_path / "run", progress=False)
    session: Any = pdl.runtime.load(tmp_path / "run/model.pdl")
    assert not [name for name in session.bundle.weights if name.startswith(("criterion", "projection"))]
    vector = session(str(things / "k03/0.png"))["vector"]
    assert len(vector) == net.projection.weight.shape[0] > 8
    assert workflow.evaluate(tmp_path / "run").metrics["test/eer"] == pytest.approx(result.metrics["test/eer"])


def test_a_gallery_answers_and_a_bundle_keeps_it(run: Path, things: Path, tmp_path: Path) -> None:
    session, query = pdl.runtime.load(run / "model.pdl"), str(things / "k03/0.png")
    gallery = tmp_path / "gallery"
    write(gallery, range(3, 7), 2)
    (gallery / "k03/0.png").write_bytes(Path(query).read_bytes())
    kept = tmp_path / "kept.npz"
    known = Configured.of(session, {"--gallery": [str(gallery)], "--keep": [str(kept)]})
    (answer,) = workflow.predict(known, [query], topk=3, save=tmp_path / "drawn")
    assert Path(answer["saved"]).is_file()
    assert answer["label"] == "k03"
    assert answer["top"][0]["name"] == "k03/0.png"
    assert len(answer["top"]) == 3
    assert answer["top"][0]["distance"] == pytest.approx(0, abs=1e-2)
    scores = [each["score"] for each in answer["top"]]
    assert scores == sorted(scores, reverse=True)
    (again,) = workflow.predict(Configured.of(session, {"--gallery": [str(kept)]}), [query], topk=3)
    assert [each["name"] for each in again["top"]] == [each["name"] for each in answer["top"]]

    whole = tmp_path / "whole.pdl"
    assert main(["export", str(run), "--gallery", str(gallery), "-o", str(whole)]) == 0
    (held,) = workflow.predict(whole, [query], topk=3, save=tmp_path / "drawn")
    assert held["top"][0]["name"] == "k03/0.png"
    other = write(tmp_path / "other", range(7, 9), 1)
    (told,) = workflow.predict(Configured.of(pdl.runtime.load(whole), {"--gallery": [str(other)]}), [query])
    assert {each["label"] for each in told["top"]} == {"k07", "k08"}

    for words, match in (({"topk": 2}, "does not rank"), ({"save": tmp_path}, "add --gallery")):
        with pytest.raises(UsageError, match=match):
            workflow.predict(run / "model.pdl", [query], **words)  # type: ignore[arg-type]
    kept.write_bytes(b"PK")
    with pytest.raises(DataError, match="enrol them again: --gallery FOLDER --keep FILE"):
        Configured.of(session, {"--gallery": [str(kept)]})
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty"):
        Configured.of(session, {"--gallery": [str(tmp_path / "empty")]})


# -- data --------------------------------------------------------------------------------------------------------------
def test_splits_share_no_class(things: Path, tmp_path: Path) -> None:
    every = ImageFolder(things)
    splits = {split: ByClass(every, split=split) for split in ("train", "val", "test")}  # type: ignore[arg-type]
    assert sorted(name for data in splits.values() for name in data.classes) == every.classes
    deep = ImageFolder(write(tmp_path / "a" / "x", range(3)).parents[1], depth=3)
    write(tmp_path / "a" / "y", range(2))
    deep = ImageFolder(tmp_path, depth=3)
    assert deep.classes == ["a/x/k00", "a/x/k01", "a/x/k02", "a/y/k00", "a/y/k01"]
    assert ByClass(deep, split="val", held_out={"val": ["a/y"]}).classes == ["a/y/k00", "a/y/k01"]
    with pytest.raises(ConfigError, match="'a/z' must be one of"):
        ByClass(deep, split="val", held_out={"val": ["a/z"]})
    with pytest.raises(ConfigError, match="is held out twice"):
        ByClass(deep, split="val", held_out={"val": ["a/y"], "test": ["a/y/k00"]})


def test_what_is_wrong_is_said(things: Path, tmp_path: Path) -> None:
    wrong = recipe(things, data__test__split=None)
    with pytest.raises(DataError, match=r"data\.test: 7 of 12 classes are in train, too: k00"):
        wrong.task.build().prepare(wrong, wrong.data.datasets())
    alone = write(tmp_path / "alone")
    for kind in ("k03", "k00"):
        for take in range(1, TAKES):
            (alone / kind / f"{take}.png").unlink()
    (alone / "k02/0.png").write_bytes((alone / "k01/0.png").read_bytes())
    said = "\n".join(map(str, check_recipe(recipe(alone), each=4)))
    assert "1 of 7 classes have fewer than 4 images: k00" in said
    assert "1 of 3 classes have one image: k03" in said
    assert "k02/0.png" in said  # the same picture in val and train


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("tripplet", "'tripplet' is none of softmax, .*did you mean 'triplet'"),
        ({"arcface": {"margn": 0.3}}, r"task\.loss\.arcface\.margn: .*margin"),
        ({"arcface": {"margin": 2}}, r"task\.loss\.arcface\.margin"),
        ({"triplet": {"mining": "soft"}}, r"task\.loss\.triplet\.mining"),
        ({"triplet": {"weight": 0}}, r"task\.loss\.triplet\.weight: 0 must be a number above 0"),
        ({}, "no loss is named"),
    ],
)
def test_wrong_losses(loss: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Retrieval(loss=loss)


def test_batches_hold_several_images_of_each_class(things: Path) -> None:
    own = recipe(things)
    datasets, task = own.data.datasets(), own.task.build()
    task.prepare(own, datasets)
    batch = next(iter(task.loader(datasets["train"], own, training=True, seed=0)))
    assert (batch["label"].reshape(5, 4) == batch["label"].reshape(5, 4)[:, :1]).all()
    for size, match in ((18, "must be a multiple of task.images_per_class=4"), (4, "2 classes at least")):
        wrong = recipe(things, data__batch_size=size)
        with pytest.raises(ConfigError, match=match):
            task.loader(datasets["train"], wrong, training=True, seed=0)


def test_init_and_preview(things: Path, tmp_path: Path) -> None:
    path = tmp_path / "things.yaml"
    path.write_text(write_recipe(things))
    made = Recipe(config.load(path, ["model={_target_: pdl_cv.CifarResNet, depth: 8}"]))
    datasets = made.data.datasets()
    made.task.build().prepare(made, datasets)
    assert len(set().union(*(data.classes for data in datasets.values()))) == KINDS
    seen = workflow.preview(recipe(things).config, samples=2, versions=1)
    assert seen.sections[0].html.count("<img") == 2 * 3
    with pytest.raises(UsageError, match="at least 6 are needed"):
        write_recipe(write(tmp_path / "few", range(3)))

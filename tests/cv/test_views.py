"""Test-time augmentation: the mean over views in evaluation, answers and bundles, and never in training steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.config.source import values
from pdl.dims import Dim
from pdl.dtype import as_dtype
from pdl.errors import ConfigError, UsageError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.train.log import read_log
from pdl.train.recipe import check
from pdl.workflow import evaluate, export, predict, train
from pdl_cv import CifarResNet, Classification
from pdl_cv.views import SIDEWAYS, VIEWS, EmbeddingViews, MaskViews, Views

TURNS = {"horizontal_flip": lambda x: x[:, :, ::-1], "vertical_flip": lambda x: x[:, ::-1]} | {
    f"rotate{90 * k}": lambda x, k=k: np.rot90(x, k, (1, 2)) for k in (1, 2, 3)
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained and tested without views."""
    folder = tmp_path_factory.mktemp("views") / "run"
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_cv.Classification"},
        "model": {"_target_": "pdl_cv.LeNet", "image_size": 8, "channels": [4, 8], "hidden": [16, 8]},
        "data": {split: {"_target_": "pdl.data.Few", "n": 200, "dataset": {"_target_": "pdl_cv.data.Digits",
                 "split": split}} for split in ("train", "test")},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-2},
        "train": {"epochs": 3},
    }  # fmt: skip
    tree["data"]["transforms"] = {
        use: [{"_target_": "pdl.data.transforms.Normalize", "mean": 0.3, "std": 0.4}] for use in ("train", "eval")
    }
    train(tree, run=folder, progress=False)
    return folder


@pytest.mark.parametrize("views", [*([name] for name in VIEWS), list(VIEWS)], ids=lambda each: each[-1])
def test_the_mean_of_probabilities(views: list[Any]) -> None:
    assert list(TURNS) == list(VIEWS)
    net = CifarResNet(depth=8, num_classes=5).eval()
    module = Views(net, views)
    images = np.random.default_rng(0).normal(size=(3, 12, 16, 3)).astype(np.float32)
    each = [images, *(np.ascontiguousarray(TURNS[name](images)) for name in views)]
    with pdl.no_grad():
        mean = np.mean([pdl.softmax(net(pdl.as_tensor(x)), axis=-1).numpy() for x in each], axis=0)
        made = module(pdl.as_tensor(images))
    np.testing.assert_allclose(np.exp(made.numpy()), mean, atol=1e-6)
    np.testing.assert_allclose(pdl.softmax(made, axis=-1).numpy(), mean, atol=1e-6)
    sizes = [Dim.symbol(name, size) for name, size in (("n", 3), ("h", 12), ("w", 16))]
    plain, program = (
        trace_symbolic(module, {"image": Spec((*sizes, 3), as_dtype("float32"))}) for module in (net, module)
    )
    assert not program[1], "all sizes stay free"
    turned = any(name in SIDEWAYS for name in views)
    assert len(program[0].nodes) < (3 if turned else 2) * len(plain[0].nodes) + 20, "the net is called once or twice"


def test_run_and_bundle_agree(run: Path, tmp_path: Path, capsys: Any) -> None:
    flips = "task.tta=[rotate180,rotate90]"
    plain, viewed = evaluate(run).metrics, evaluate(run, overrides=[flips]).metrics
    assert plain != viewed
    assert main(["eval", str(run), flips, "--json", "--no-baselines"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == viewed
    bundle = run / "model.pdl"
    assert evaluate(bundle).metrics == pytest.approx(plain, rel=1e-4)
    assert evaluate(bundle, overrides=[flips]).metrics == pytest.approx(viewed, rel=1e-4), "views around the bundle"

    kept = tmp_path / "kept"
    text = (run / "config.yaml").read_text()
    shutil.copytree(run, kept)
    (kept / "config.yaml").write_text(text.replace("task:\n", "task:\n  tta: [rotate180, rotate90]\n", 1))
    assert values(kept / "config.yaml")["task"]["tta"] == ["rotate180", "rotate90"]
    assert main(["train", "--resume", str(kept), "--quiet"]) == 0
    assert json.loads((kept / "result.json").read_text())["metrics"]["test/loss"] == pytest.approx(viewed["test/loss"])
    assert evaluate(kept / "model.pdl").metrics == pytest.approx(viewed, rel=1e-4)
    card = pdl.runtime.load(kept / "model.pdl").bundle.card
    assert "its views (rotate180, rotate90)" in card
    images = [np.random.default_rng(i).integers(0, 256, (8, 8, 1), np.uint8) for i in range(5)]
    ours, theirs = predict(kept, images), predict(kept / "model.pdl", images)
    assert [each["score"] for each in ours] == pytest.approx([each["score"] for each in theirs], abs=1e-5)
    assert [each["score"] for each in ours] != pytest.approx([each["score"] for each in predict(run, images)], abs=1e-5)
    with pytest.raises(UsageError, match=r"averages over rotate180, rotate90; measure its run"):
        evaluate(kept / "model.pdl", overrides=["task.tta=[vertical_flip]"])
    assert main(["compress", str(kept), "--samples", "64"]) == 0
    assert export(kept, tmp_path / "half.pdl", store="bf16").path.is_file()


def test_masks_are_moved_back_and_embeddings_have_a_mean_direction() -> None:
    images = np.random.default_rng(0).normal(size=(2, 8, 12, 3)).astype(np.float32)
    back = TURNS | {"rotate90": TURNS["rotate270"], "rotate270": TURNS["rotate90"]}
    kernel = pdl.nn.Conv2d(3, 4, 3, stride=2, padding=1)
    with pdl.no_grad():
        masks = MaskViews(kernel, list(VIEWS))(pdl.as_tensor(images)).numpy()
        each = [pdl.softmax(kernel(pdl.as_tensor(images)), axis=-1).numpy()]
        for name, turn in TURNS.items():
            made = pdl.softmax(kernel(pdl.as_tensor(np.ascontiguousarray(turn(images)))), axis=-1).numpy()
            each.append(back[name](made))
        np.testing.assert_allclose(np.exp(masks), np.mean(each, axis=0), rtol=1e-5)
        net = CifarResNet(depth=8, num_classes=5).eval()
        found = EmbeddingViews(net, ["rotate90", "horizontal_flip"])(pdl.as_tensor(images)).numpy()
        one = [net(pdl.as_tensor(np.ascontiguousarray(x))).numpy()
               for x in (images, TURNS["horizontal_flip"](images), TURNS["rotate90"](images))]  # fmt: skip
    mean = sum(x / np.linalg.norm(x, axis=1, keepdims=True) for x in one)
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean, axis=1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_training_steps_have_no_views(run: Path, tmp_path: Path) -> None:
    tree = values(run / "config.yaml")
    tree["task"]["tta"] = ["horizontal_flip"]
    train(tree, run=tmp_path / "run", progress=False)
    losses = [
        [line["train/loss"] for line in read_log(folder / "metrics.jsonl") if line["kind"] == "epoch"]
        for folder in (run, tmp_path / "run")
    ]
    assert losses[0] == losses[1]


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="each view counts once"):
        Classification(tta=["rotate90", "rotate90"])
    with pytest.raises(ConfigError, match="horizontal_flip"):
        check({"task": {"_target_": "pdl_cv.Classification", "tta": ["flip"]}})

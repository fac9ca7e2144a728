"""Video classification from a folder of clips to the answers of a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import config, workflow
from pdl.cli import main
from pdl.config import from_dict
from pdl.errors import ConfigError, UsageError
from pdl.nn import Module
from pdl.train import Recipe
from pdl_cv.data.moving_digits import CLASSES, write_folders
from pdl_cv.video.clips import Averaged
from pdl_cv.video.init import write_recipe
from pdl_cv.video.task import VideoClassification

T = "pdl_cv.data.transforms."
NET = {"_target_": "pdl_cv.CifarResNet", "depth": 8, "width": 8}


def chain(*, training: bool, clips: int = 1) -> list[dict[str, Any]]:
    steps = [{"_target_": "pdl.data.transforms.Resize", "size": 24},
             {"_target_": "pdl.data.transforms.Normalize", "mean": 0.15, "std": 0.2}]  # fmt: skip
    first = {"_target_": f"{T}Segments", "frames": 9, **({"random": True} if training else {"clips": clips})}
    return [first, {"_target_": f"{T}EachFrame", "transforms": steps}]


def tree(**changes: Any) -> dict[str, Any]:
    made = {
        "task": {"_target_": "pdl_cv.VideoClassification"},
        "model": {"_target_": "pdl_cv.TSM", "frames": 9, "net": NET},
        "data": {
            **{split: {"_target_": "pdl_cv.data.MovingDigits", "split": split, "count": count, "seed": 1}
               for split, count in (("train", 32), ("val", 8), ("test", 8))},
            "transforms": {"train": chain(training=True), "eval": chain(training=False)},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 4.0e-3},
        "schedule": {"_target_": "pdl.optim.OneCycle"},
        "train": {"epochs": 1},
    }  # fmt: skip
    for key, value in changes.items():
        made["data" if key in ("train_data", "transforms") else key] = (
            {**made["data"], key.removesuffix("_data"): value} if key in ("train_data", "transforms") else value
        )
    return made


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ways")
    write_folders(folder, CLASSES, splits=True, count=24)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose evaluation takes two clips of each."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    steps = {"train": chain(training=True), "eval": chain(training=False, clips=2)}
    workflow.train(from_dict(tree(transforms=steps)), run=folder, progress=False)
    return folder


def test_run_and_bundle_answer_alike(run: Path, ways: Path) -> None:
    clips = sorted((ways / "test/up").iterdir())
    kinds = [next(each for each in clips if each.suffix == suffix) for suffix in (".avi", ".npy", "")]
    by_run = workflow.predict(run, [str(each) for each in kinds])
    session = pdl.runtime.load(run / "model.pdl")
    for answer, clip in zip(by_run, kinds, strict=True):
        found = session(str(clip))
        assert {each["label"] for each in found["top"]} == set(CLASSES)
        assert found["score"] == pytest.approx(answer["score"], abs=1e-5)
    array = np.load(kinds[1])
    assert session(array)["score"] == pytest.approx(session(str(kinds[1]))["score"], abs=1e-6)
    assert session.inputs[0].shape[1:] == (2, 9, 24, 24, 1)
    with pytest.raises(pdl.errors.DataError, match="no such file"):
        session("absent.mp4")


def test_what_a_run_says(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    assert {"test/accuracy", "test/loss", "val/accuracy"} <= set(result["metrics"])
    assert {"majority", "logistic regression, the middle frame", "logistic regression, the mean frame"} <= set(
        result["baselines"]
    )
    page = (run / "report.html").read_text()
    assert "Worst mistakes" in page
    assert "taken for" in page
    assert (run / "example.npy").is_file()


def test_the_command_line(run: Path, ways: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = next((ways / "test/up").glob("*.avi"))
    assert main(["predict", str(run / "model.pdl"), str(clip), "--save", str(tmp_path / "drawn"), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert Path(answer["saved"]).is_file()
    assert main(["init", "cv.video", "--data", str(ways), "--out", str(tmp_path / "ways.yaml")]) == 0
    assert main(["check", "-c", str(tmp_path / "ways.yaml")]) == 0
    recipe = config.load(tmp_path / "ways.yaml")
    found = workflow.preview(recipe, samples=2)
    assert [each.title for each in found.sections] == ["Samples", "Transforms"]


def test_a_recipe_for_a_folder(ways: Path, tmp_path: Path) -> None:
    text = write_recipe(ways)
    assert text.splitlines()[0] == "# 4 classes, 24 clips for training, mostly about 48 pixels a side, gray."
    assert "pdl_cv.CifarResNet" in text
    assert "RandomHorizontalFlip" not in text
    (tmp_path / "only").mkdir()
    with pytest.raises(pdl.errors.DataError, match="no clips"):
        write_recipe(tmp_path)


def test_check_finds_leaks_stills_and_what_cannot_be_read(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for number, name in enumerate(("a", "b")):
            (tmp_path / split / name).mkdir(parents=True)
            rng = np.random.default_rng([number, split == "val" and name == "b"])
            np.save(tmp_path / split / name / "x.npy", rng.integers(0, 256, (9, 24, 24), dtype=np.uint8))
    np.save(tmp_path / "train/a/still.npy", np.full((9, 24, 24), 7, np.uint8))
    (tmp_path / "train/b/broken.mp4").write_bytes(b"no video")
    made = tree()
    folder = {"_target_": "pdl_cv.data.VideoFolder", "root": str(tmp_path), "mode": "gray"}
    made["data"] |= {split: {**folder, "split": split} for split in ("train", "val")}
    del made["data"]["test"]
    found = {str(fault) for fault in VideoClassification().check(Recipe(from_dict(made)))}
    said = " ".join(found)
    assert len(found) == 3, said
    for part in ("broken.mp4", "its frames are all the same", "the same clip is in train"):
        assert part in said


def test_what_does_not_fit_is_said_before_training(tmp_path: Path) -> None:
    unchosen = {"train": [], "eval": chain(training=False)}
    cases: dict[str, dict[str, Any]] = {
        "begin with pdl_cv.data.transforms.Segments": tree(transforms={"train": [], "eval": []}),
        "model.frames=4 frames": tree(model={"_target_": "pdl_cv.TSM", "frames": 4}),
        "gives uint8 clips": tree(transforms={**unchosen, "train": chain(training=True)[:1]}),
    }
    for message, made in cases.items():
        with pytest.raises(ConfigError, match=message):
            workflow.train(from_dict(made), run=tmp_path / "run", progress=False)


class Mean(Module):
    """Logits that are means of pixels."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return pdl.stack([x.mean(axis=(1, 2, 3, 4)), -x.mean(axis=(1, 2, 3, 4))], axis=1)


def test_probabilities_of_views_are_averaged() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 2, 4, 4, 1)).astype(np.float32)
    net = Mean()
    found = Averaged(net, 5)(pdl.Tensor(x)).numpy()
    each = np.stack([pdl.softmax(net(pdl.Tensor(x[:, k])), axis=-1).numpy() for k in range(3)])
    np.testing.assert_allclose(np.exp(found), each.mean(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(Averaged(net, 5)(pdl.Tensor(x[:, 0])).numpy(), net(pdl.Tensor(x[:, 0])).numpy())


def test_skeletons_are_learned_and_deployed(tmp_path: Path) -> None:
    from pdl_cv.data import MSRAction3D

    MSRAction3D.stand_in(tmp_path, {})
    steps = [{"_target_": f"{T}Resample", "frames": 12}, {"_target_": f"{T}Centred", "joint": 6, "unit": [2, 6]}]
    made = tree(model={"_target_": "pdl_cv.STGCN", "widths": [8, 16]}, transforms={"train": steps, "eval": steps})
    made["data"] |= {split: {"_target_": "pdl_cv.data.MSRAction3D", "root": str(tmp_path), "split": split}
                     for split in ("train", "test")}  # fmt: skip
    del made["data"]["val"]
    workflow.train(from_dict(made), run=tmp_path / "run", progress=False)
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    x = MSRAction3D(tmp_path, split="test")[3]["skeleton"]
    np.save(tmp_path / "x.npy", x)
    (by_run,) = workflow.predict(tmp_path / "run", [str(tmp_path / "x.npy")], save=tmp_path / "drawn")
    assert session(x)["score"] == pytest.approx(by_run["score"], abs=1e-5)
    assert len(session(x)["top"]) == 5
    assert Path(by_run["saved"]).is_file()
    task = VideoClassification(edges=[[0, 1]])
    with pytest.raises(UsageError, match="skeletons are read by the data set"):
        task.data_at(tmp_path, "test")

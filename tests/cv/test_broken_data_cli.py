"""Every broken data set, through the command line: exit code 3, place and advice, no traceback, nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from pdl.cli import main
from tests.cv.data.broken import BROKEN, Broken, encoded, image_folder

RECIPE = {
    "defaults": ["/cv/classification", "_self_"],
    "model": {"_target_": "pdl_cv.LeNet"},
    "train": {"epochs": 1, "report": False},
}
STEPS = [
    {"_target_": f"pdl.data.transforms.{name}", **keys} for name, keys in (("Resize", {"size": 28}), ("ToFloat", {}))
]


def recipe(case: Broken, folder: Path) -> Path:
    """A recipe for the data set, which lies beside it."""
    if case.skip_as_root and os.geteuid() == 0:
        pytest.skip("root reads files of any permission")
    (folder / "data").mkdir()
    nodes = case.build(folder / "data")
    channels = 1 if any("MNIST" in node["_target_"] for node in nodes.values()) else 3
    tree = {**RECIPE, "model": {**RECIPE["model"], "in_channels": channels}}
    tree["data"] = {**nodes, "batch_size": 2, "transforms": {"train": STEPS, "eval": STEPS}}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def explained(case: Broken, said: str) -> bool:
    return all(word in said for word in case.says) and "Traceback" not in said


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("store")))


@pytest.mark.parametrize("case", BROKEN, ids=lambda c: c.name)
def test_check(case: Broken, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(case, tmp_path)
    assert main(["check", "-c", str(path)]) == 3
    printed = capsys.readouterr()
    assert explained(case, printed.err), printed.err


@pytest.mark.parametrize("case", [c for c in BROKEN if c.found != "check"], ids=lambda c: c.name)
def test_train(case: Broken, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(case, tmp_path)
    assert main(["train", "-c", str(path), "--run", str(tmp_path / "run")]) == 3
    printed = capsys.readouterr()
    assert explained(case, printed.err), printed.err
    assert not (tmp_path / "run").exists(), "a run that never started leaves nothing behind"


def test_broken_files_of_all_splits_are_told_before_the_first_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = image_folder(tmp_path / "data", splits=("train", "val", "test"))
    (tmp_path / "data/val/cat/002.png").write_bytes(encoded(50)[:-30])
    (tmp_path / "data/test/dog/003.png").write_bytes(b"")
    for i in range(5):
        (tmp_path / f"data/test/cat/x{i}.jpg").write_bytes(b"not an image")
    model = {**RECIPE["model"], "in_channels": 3}
    tree = {**RECIPE, "model": model, "data": {**nodes, "batch_size": 2, "transforms": {"train": STEPS, "eval": STEPS}}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(tree))
    assert main(["train", "-c", str(tmp_path / "recipe.yaml"), "--run", str(tmp_path / "run")]) == 3
    said = capsys.readouterr().err
    for words in ("7 of 29 samples", "[val]", "val/cat/002.png", "no IEND", "and 2 more", "data.on_error=skip"):
        assert words in said, (words, said)
    assert not (tmp_path / "run").exists(), said
    tree["data"]["on_error"] = "skip"
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(tree))
    assert main(["train", "-c", str(tmp_path / "recipe.yaml"), "--run", str(tmp_path / "run")]) == 0

"""Every recipe in configs/cv: checked whole, short, and run for a few batches where its data is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pdl
from pdl.errors import DataError

CONFIGS = Path(__file__).parents[2] / "configs" / "cv"
RECIPES = sorted(CONFIGS.glob("*.yaml"))
NAMES = {"digits_lenet", "fashion_mnist_lenet", "fashion_mnist_resnet", "cifar10_resnet20", "image_folder_mobilenetv3"}


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test data, where the environment or the place beside the checkout has it."""
    beside = CONFIGS.parents[2] / "shared" / "data"
    folder = os.environ.get("PDL_TEST_DATA") or (str(beside) if beside.is_dir() else None)
    if folder:
        monkeypatch.setenv("PDL_DATA", folder)


def test_all_are_there() -> None:
    assert {path.stem for path in RECIPES} >= NAMES


def overrides(path: Path) -> list[str]:
    return ["data.train.root=photos"] if path.stem.startswith("image_folder") else []


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_recipe_is_right_and_short(path: Path) -> None:
    pdl.config.check(pdl.config.load(path, overrides(path)))
    assert len(path.read_text().splitlines()) <= 40


# unpacking CIFAR-10's archive takes a while, and is cached in the user's data folder
MARKED = [pytest.param(path, marks=[pytest.mark.slow] if "cifar10" in path.stem else []) for path in RECIPES]


@pytest.mark.parametrize("path", MARKED, ids=lambda p: p.stem)
def test_recipe_runs(path: Path, tmp_path: Path) -> None:
    cfg = pdl.config.load(path, overrides(path))
    try:
        result = pdl.train.train(cfg, run=tmp_path / "run", fast_dev_run=True, progress=False)
    except DataError as error:
        pytest.skip(f"its data is not here: {error}")
    assert result.metrics["test/loss"] > 0
    assert (tmp_path / "run/report.html").is_file()
    assert pdl.runtime.load(tmp_path / "run/model.pdl").bundle.labels


@pytest.mark.slow
def test_digits_reach_their_target(tmp_path: Path) -> None:
    result = pdl.train.train(pdl.config.load(CONFIGS / "digits_lenet.yaml"), run=tmp_path / "run", progress=False)
    assert result.metrics["test/accuracy"] >= 0.98

"""Relative paths of a recipe mean the recipe's folder, then the working directory, then what the data set knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pdl.config import load
from pdl.config.places import there
from pdl.report import png
from pdl.train.recipe import check
from pdl.workflow import predict
from pdl.workflow.training import train
from pdl_cv.data import Digits

RECIPE = """\
defaults: [/cv/digits_lenet, _self_]
data:
  train: &files
    {_target_: pdl_cv.data.ImageFolder, root: pictures, mode: gray, split: train, ratios: {train: 0.8, val: 0.2}}
  val: {<<: *files, split: val}
  test: {<<: *files, split: val}
train: {epochs: 1, report: false, export: false}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe with pictures beside it."""
    folder = tmp_path / "project"
    for k in range(2):
        (folder / "pictures" / f"c{k}").mkdir(parents=True)
    data = Digits(split="train")
    for i in range(60):
        sample = data[i]
        path = folder / "pictures" / f"c{int(sample['label']) % 2}" / f"{i}.png"
        path.write_bytes(png(sample["image"]))
    (folder / "mine.yaml").write_text(RECIPE)
    return folder / "mine.yaml"


def test_a_run_answers_and_is_measured_from_anywhere(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(away)  # where there are no pictures
    config = check(load(recipe))
    assert config.get("data.train.root") == str(recipe.parent / "pictures")
    train(config, run=tmp_path / "run", progress=False)
    kept = load(tmp_path / "run")
    assert kept.get("data.test.root") == str(recipe.parent / "pictures")
    found = predict(tmp_path / "run", [next((recipe.parent / "pictures" / "c0").iterdir())])
    assert found[0]["label"] in ("c0", "c1")


def test_the_working_directory_comes_second_and_pdl_data_last(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    shutil.copytree(recipe.parent / "pictures", here / "others")
    monkeypatch.chdir(here)
    assert check(load(recipe, ["data.train.root=others"])).get("data.train.root") == str(here / "others")
    (here / "pictures").mkdir()  # the command line means the working directory, the recipe its own folder
    assert check(load(recipe)).get("data.train.root") == str(recipe.parent / "pictures")
    assert check(load(recipe, ["data.train.root=pictures"])).get("data.train.root") == str(here / "pictures")
    assert check(load(recipe, ["data.train.root=nowhere"])).get("data.train.root") == "nowhere"
    assert check(load(recipe)).get("data.train.split") == "train"  # a word, whatever lies about
    (recipe.parent / "train").mkdir()
    assert check(load(recipe)).get("data.train.split") == "train"


def test_what_lies_in_an_archive_and_lists_of_files(tmp_path: Path) -> None:
    (tmp_path / "clicks.zip").touch()
    assert there(tmp_path, "clicks.zip/day1.csv")
    assert not there(tmp_path, "other.zip/day1.csv")
    text = """\
defaults: [/rec/ml100k_lr, _self_]
data:
  train: {path: [clicks.zip/day1.csv, clicks.zip/day2.csv]}
"""
    (tmp_path / "mine.yaml").write_text(text)
    found = check(load(tmp_path / "mine.yaml")).get("data.train.path")
    assert found == [str(tmp_path / "clicks.zip" / name) for name in ("day1.csv", "day2.csv")]

"""Recipes that build on recipes of the suites, and on recipes beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl.config import load
from pdl.config.named import shipped
from pdl.errors import ConfigError
from pdl.train.recipe import check

SOME = [name for name in shipped() if name.endswith(("digits_lenet", "usair_seal", "h2_vqe", "ml100k_dssm"))]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", SOME)
def test_a_recipe_builds_on_a_whole_one(name: str, tmp_path: Path) -> None:
    mine = load(written(tmp_path, "mine", f"defaults: [/{name}, _self_]\ntrain: {{epochs: 3}}\n"))
    whole = load(name, ["train.epochs=3"])
    assert mine.plain() == whole.plain()
    assert check(mine)


def test_keys_are_told_of_with_the_file_that_wrote_them(tmp_path: Path) -> None:
    path = written(tmp_path, "mine", "defaults: [/cv/digits_lenet, _self_]\ntrain: {epochs: 3}\n")
    config = load(path, ["optim.lr=1e-2"])
    files = {key: config.origin(key).file for key in ("train.epochs", "train.ema", "schedule")}
    assert [None if file is None else file.name for file in files.values()] == [
        "mine.yaml", "digits_lenet.yaml", "classification.yaml",
    ]  # fmt: skip
    assert config.origin("train.ema").line > 1
    assert config.origin("optim.lr").override == "optim.lr=1e-2"


def test_recipes_on_recipes_on_recipes_with_parts_over_them(tmp_path: Path) -> None:
    written(tmp_path, "base", "defaults: [/graph/mutag_gin, _self_]\ntrain: {epochs: 7}\n")
    config = load(written(tmp_path, "mine", "defaults: [base, /graph/data/proteins, _self_]\noptim: {lr: 1.0e-4}\n"))
    assert config.get("train.epochs") == 7
    assert config.get("data.test.name") == "PROTEINS"
    assert config.get("model.encoder._target_") == "pdl_graph.GIN"


def test_what_is_not_there_and_what_builds_on_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine.yaml:1: defaults: there is no part 'cv/digits_lenett'; did you mean"):
        load(written(tmp_path, "mine", "defaults: [/cv/digits_lenett, _self_]\n"))
    with pytest.raises(ConfigError, match=r"round.yaml: defaults: it builds on itself"):
        load(written(tmp_path, "round", "defaults: [round, _self_]\n"))

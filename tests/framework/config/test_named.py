"""Recipes by name: those of the installed suites, and what is said of names that are none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pdl import config
from pdl.cli import main
from pdl.config.named import find, name_of, shipped, summary
from pdl.errors import ConfigError

DEMO = Path(__file__).parent / "demo" / "pdl_demo" / "recipes" / "points.yaml"


def test_names_and_files(demo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped() == {"demo/points": DEMO}
    assert find("demo/points") == find("points") == DEMO
    assert name_of(DEMO) == "demo/points"
    assert summary(DEMO) == "A line through points"
    assert config.load("demo/points").path == DEMO
    Path("points").mkdir()  # a path that exists comes first
    assert find("points") == Path("points")
    assert name_of(Path("points")) is None


def test_a_name_that_two_suites_have_is_given_whole(demo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl import suites

    (one,) = suites.installed().values()
    both = {"demo": one, "b": dataclasses.replace(one, name="b")}
    monkeypatch.setattr(suites, "installed", lambda: both)
    assert find("demo/points") == DEMO
    with pytest.raises(ConfigError, match="ships one of that name: -c demo/points or -c b/points"):
        config.load("points")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("demo/pionts", "demo/pionts: no such file; did you mean 'demo/points'?"),
        ("configs/demo/points.yaml", "no such file; an installed suite ships one of that name: -c demo/points"),
        ("something", "something: no such file; `pdl config list` shows the recipes that have names"),
        ("there/is/nothing.yaml", "the folder there/is does not exist either"),
    ],
)
def test_what_is_no_recipe(given: str, says: str, demo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        config.load(given)
    assert says in str(caught.value)


def test_list_and_use(
    demo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["config", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(maxsplit=1) == ["demo/points", "A line through points"]
    assert main(["config", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "demo/points", "summary": "A line through points"}]
    assert main(["train", "points", "train.epochs=1"]) == 2
    assert capsys.readouterr().err == "which recipe? write: -c points\n"
    Path("run").mkdir()
    Path("run/config.yaml").touch()
    assert main(["train", "run"]) == 2
    assert capsys.readouterr().err == "which recipe? write: -c run\n"
    assert main(["train", "-c", "points", "train.epochs=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["recipe"] == "points"
    assert Path("runs/points-1/config.yaml").is_file()


def test_a_summary_is_the_first_sentence(tmp_path: Path) -> None:
    for text, first in [
        ("SEAL (Zhang & Chen, 2018) on C. elegans. Ten splits.", "SEAL (Zhang & Chen, 2018) on C. elegans"),
        ("VQE (Peruzzo et al., 2014; section 2) of H2: a table.", "VQE (Peruzzo et al., 2014; section 2) of H2"),
        ("At 0.74 angstrom", "At 0.74 angstrom"),
        ("", ""),
    ]:
        (tmp_path / "recipe.yaml").write_text(f"# {text}\nmodel: 1\n")
        assert summary(tmp_path / "recipe.yaml") == first

"""Composing, origins, overrides, building, showing and writing."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pdl import config
from pdl.cli import main
from pdl.config.tree import Origin
from pdl.errors import ConfigError, DataError, UsageError
from pdl.train.recipe import check
from tests.framework.config.broken import GOOD

pytestmark = pytest.mark.usefixtures("demo")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(GOOD)
    return path


def test_layers(recipe: Path) -> None:
    """Later wins: part, recipe, overrides; what only one of them says stays."""
    cfg = config.load(recipe, ["data.batch_size=4", "train.tensorboard=true"])
    assert (cfg["train"]["epochs"], cfg["train"]["seed"]) == (2, 0)
    assert cfg.get("data.batch_size") == 4
    assert cfg.get("train.tensorboard") is True
    assert cfg.get("train.nope") is None
    check(cfg)


def test_origins(recipe: Path) -> None:
    cfg = config.load(recipe, ["model.stages=[1,2]"])
    assert (cfg.origin("train.epochs").file, cfg.origin("train.epochs").line) == (recipe, 15)
    part = cfg.origin("train.seed")
    assert part.file is not None
    assert (part.file.name, part.line) == ("base.yaml", 11)
    assert cfg.origin("data.transforms.train.0.sigma").line == 13
    assert str(cfg.origin("model.stages.1")) == "command line: model.stages=[1,2]"
    assert cfg["data"]["transforms"]["train"][0].origin.line == 13


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("optim.lr=1e-3", "optim.lr", 1e-3),
        ("+train.clip_norm=1", "train.clip_norm", 1),
        ("++train.clip_norm=1", "train.clip_norm", 1),
        ("~model.dropout", "model.dropout", None),
        ("data.transforms.train.0.sigma=0", "data.transforms.train.0.sigma", 0),
        ("data.transforms.train=[]", "data.transforms.train", []),
        ("model.norm={_target_: pdl_demo.Norm, eps: 1e-3}", "model.norm.eps", 1e-3),
        ("task.classes=['a b','c,d']", "task.classes", ["a b", "c,d"]),
        ("model.width=${train.epochs}", "model.width", 2),
        ("data.val=null", "data.val", None),
    ],
)
def test_overrides(override: str, key: str, value: Any, recipe: Path) -> None:
    cfg = check(config.load(recipe, [override]))
    assert cfg.get(key) == value


def test_overrides_name_their_key_once() -> None:
    assert str(Origin(override="train.epochs=2")) == "command line: train.epochs=2"
    long = Origin(override=f"data.test={{root: {'a' * 90}}}")
    assert str(long) == long.of(("data", "test")) == "command line: data.test"
    assert long.of(("data", "test", "root")) == "command line: data.test: data.test.root"


def test_interpolation_and_environment(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_WIDTH", "7")
    recipe.write_text(GOOD.replace("width: 8", "width: ${oc.decode:${oc.env:PDL_WIDTH}}"))
    cfg = config.load(recipe)
    assert check(cfg)["model"]["width"] == 7


def test_a_folder_with_spaces_and_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder, really"
    folder.mkdir()
    (folder / "my recipe.yaml").write_text(GOOD)
    assert config.load(folder / "my recipe.yaml").get("train.epochs") == 2


def test_parts_beside_the_recipe(recipe: Path) -> None:
    """A recipe may have parts of its own; their faults carry their own file and line."""
    (recipe.parent / "mine").mkdir()
    (recipe.parent / "mine" / "big.yaml").write_text("# @package _global_\nmodel:\n  width: wide\n")
    recipe.write_text(GOOD.replace("  width: 8\n", "").replace("  - /demo/base\n", "  - /demo/base\n  - /mine/big\n"))
    with pytest.raises(ConfigError, match=r"mine/big.yaml:3: model.width: expected a whole number"):
        check(config.load(recipe))
    (recipe.parent / "mine" / "big.yaml").write_text("model:\n  width: 3\n")
    with pytest.raises(ConfigError, match=r"mine/big.yaml:1: mine: unknown key.*# @package _global_"):
        check(config.load(recipe))
    (recipe.parent / "mine" / "big.yaml").write_text("# @package _global_\nmodel:\n\twidth: 3\n")
    with pytest.raises(ConfigError, match=r"mine/big.yaml:3: not valid YAML"):
        config.load(recipe)


def test_moved_names_stay_alive(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(GOOD.replace("pdl_demo.Net", "pdl_demo.OldNet"))
    cfg = check(config.load(recipe))
    assert cfg["model"]["_target_"] == "pdl_demo.Net"
    assert len(cfg.notices) == 1
    assert "pdl_demo.OldNet is now pdl_demo.Net" in cfg.notices[0]
    assert main(["config", "check", "-c", str(recipe)]) == 0
    assert "pdl_demo.OldNet is now pdl_demo.Net" in capsys.readouterr().err


def test_build(recipe: Path) -> None:
    cfg = check(
        config.load(recipe, ["model.kernel=[3,5]", "model.norm._target_=pdl_demo.Norm", "model.stages=[1]"])
    )
    net = config.build(cfg["model"])
    assert type(net).__name__ == "Net"
    assert (net.kernel, type(net.norm).__name__, net.stages) == ((3, 5), "Norm", [1])
    assert [type(each).__name__ for each in config.build(cfg["data"]["transforms"]["train"])] == ["Jitter"]
    assert config.build({"_target_": "pdl_demo.make_net"}, width=3).kernel == 3
    assert config.build({"a": [1, {"b": None}]}) == {"a": [1, {"b": None}]}


def test_build_says_where(recipe: Path) -> None:
    cfg = config.load(recipe, ["model.width=13", "data.train.root=/nowhere"])
    with pytest.raises(ConfigError, match=r"recipe.yaml:4: model: pdl_demo.Net: width 13 brings bad luck"):
        config.build(cfg["model"])
    with pytest.raises(DataError, match=r"recipe.yaml:9: data.train: pdl_demo.Points: /nowhere: no such folder"):
        config.build(cfg["data"]["train"])
    with pytest.raises(ConfigError, match=r"os\.getcwd.*refused"):
        config.build({"_target_": "os.getcwd"})


TREE = {
    "numbers": [1, 2.0, 1e-7, 1e30, -0.0, math.inf, 0.1 + 0.2],
    "words": [
        "1e-3",
        "yes",
        "null",
        "~",
        "",
        "0x10",
        "1_000",
        "12:30",
        "é\n x",
        "# no",
        " lead",
        "2020-01-01",
        "a: b",
        "\\",
    ],
    "literal": ["${x}", "\\${x}", "a ${b} c", "$x", "C:\\x\\"],
    "empty": {"mapping": {}, "list": [], "nothing": None},
    "true": True,
}


def test_dump_and_load_give_the_same_tree(tmp_path: Path) -> None:
    config.dump(config.from_dict(TREE), tmp_path / "run")
    again = config.load(tmp_path / "run").plain()
    assert repr(again) == repr(TREE)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.yaml"]


def test_dump_of_a_recipe(recipe: Path, tmp_path: Path) -> None:
    cfg = check(config.load(recipe, ["optim.lr=1e-5", "train.epochs=7"]))
    config.dump(cfg, tmp_path / "run")
    again = check(config.load(tmp_path / "run"))
    assert again.plain() == cfg.plain()
    assert config.diff(cfg, again) == []


def test_diff(recipe: Path) -> None:
    found = config.diff(
        config.load(recipe), config.load(recipe, ["train.epochs=3", "~model.dropout", "+train.ema=0.9"])
    )
    assert {str(each) for each in found} == {"  train.epochs: 2 -> 3", "- model.dropout: 0.1", "+ train.ema: 0.9"}


def test_show_with_origins(recipe: Path) -> None:
    lines = config.show(config.load(recipe, ["train.epochs=3"]), origins=True).splitlines()
    assert any(line.startswith("  epochs: 3") and line.endswith("# command line: train.epochs=3") for line in lines)
    assert any(line.strip().startswith("dropout: 0.1") and line.endswith("recipe.yaml:7") for line in lines)


def test_from_dict_is_checked_like_a_recipe() -> None:
    with pytest.raises(ConfigError, match=r"train\.epochz: unknown key"):
        check(config.from_dict({"train": {"epochz": 3}}))


def test_errors_are_usage_errors(recipe: Path) -> None:
    with pytest.raises(UsageError):
        config.load(recipe.with_name("nope.yaml"))


def test_threads_compose_side_by_side(tmp_path: Path) -> None:
    """Recipes of the same name in folders of their own, with parts beside them and overrides of their own."""

    def compose(number: int) -> tuple[int, int, float]:
        folder = tmp_path / str(number)
        (folder / "width").mkdir(parents=True)
        (folder / "width/own.yaml").write_text(f"# @package _global_\nmodel: {{width: {number + 1}}}\n")
        (folder / "recipe.yaml").write_text(GOOD.replace("  - _self_", "  - _self_\n  - width: own"))
        cfg = config.load(folder / "recipe.yaml", [f"train.epochs={number + 1}"])
        check(cfg)
        assert cfg.origin("model.width").file == folder / "width/own.yaml"
        return cfg["model"]["width"], cfg["train"]["epochs"], cfg["data"]["transforms"]["train"][0]["sigma"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(compose, range(24))) == [(n + 1, n + 1, 0.1) for n in range(24)]


def test_an_application_of_hydra_keeps_its_state(recipe: Path) -> None:
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.utils import JobRuntime

    with initialize_config_dir(str(recipe.parent), job_name="theirs", version_base="1.3"):
        theirs = GlobalHydra.instance().hydra
        assert config.load(recipe)["model"]["width"] == 8
        assert GlobalHydra.instance().hydra is theirs
        assert JobRuntime.instance().get("name") == "theirs"


SECRET = "correct horse battery staple"


def test_what_comes_from_the_environment_is_written_as_it_was(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_SECRET", SECRET)
    monkeypatch.setenv("PDL_WIDTH", "7")
    given = ["++data.password=${oc.env:PDL_SECRET}", "++data.same='at ${data.password}'", "++data.list=[${data.same}]",
             'model.width="${oc.decode:${oc.env:PDL_WIDTH}}"']  # fmt: skip
    cfg = config.load(recipe, given)
    assert cfg.get("data.password") == SECRET
    assert cfg.get("data.list.0") == f"at {SECRET}"
    for text in (config.to_yaml(cfg), config.show(cfg, origins=True), config.dump(cfg, recipe.parent).read_text()):
        assert SECRET not in text
        assert "password: ${oc.env:PDL_SECRET}" in text
    again = config.load(recipe.parent / "config.yaml")
    assert again.plain() == cfg.plain()
    cfg.tree["data"]["password"] = "another"
    assert "password: another" in config.to_yaml(cfg)


def test_a_part_whose_name_is_too_long_for_any_file(recipe: Path) -> None:
    recipe.write_text(GOOD.replace("/demo/base", "/demo/" + "a" * 5000))
    with pytest.raises(ConfigError, match=r"recipe.yaml:2: defaults: there is no part 'demo/a{55}'") as caught:
        config.load(recipe)
    assert len(str(caught.value)) < 400

"""What a config may build: parts where they fit, and nothing else, wherever it is written."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import pdl_cv
from pdl import config, suites
from pdl.cli import main
from pdl.config import build, from_dict
from pdl.config.schema import Checker
from pdl.config.signature import signature
from pdl.errors import ConfigError
from pdl.hints import is_part
from tests.framework.config.broken import GOOD
from tests.framework.runtime.test_bundle import contents, rehashed

DIGITS = Path(pdl_cv.__file__).parent / "weights/digits_lenet.pdl"

#: functions and classes that are not parts: they would empty a cache, read or write a file, run a command, ask a server
OUT_OF_REACH: list[dict[str, Any]] = [
    {"_target_": "pdl.hub.copies.clear"},
    {"_target_": "pdl.hub.resolve", "name": "cv/digits_lenet"},
    {"_target_": "pdl.hub.fetch.download", "url": "https://host.example", "part": "x", "entry": 1, "progress": 1},
    {"_target_": "pdl.checkpoint.load", "path": "x"},
    {"_target_": "pdl.files.write_atomic", "path": "x", "data": "y"},
    {"_target_": "pdl.cli.main", "argv": ["info"]},
    {"_target_": "pdl.workflow.train", "recipe": "x"},
    {"_target_": "pdl.runtime.load", "source": "x"},
    {"_target_": "pdl.runtime.Session"},
    {"_target_": "pdl.workflow.run.Run", "path": "x"},
    {"_target_": "pdl.train.log.MetricsLog", "path": "x", "every": 1},
    {"_target_": "pdl.hub.fetch.Patience"},
    {"_target_": "pdl.seed", "value": 1},
    {"_target_": "pdl_demo.load_net", "path": "x"},
    {"_target_": "pdl_demo.make_something"},
    {"_target_": "pdl_demo.Helper"},
    {"_target_": "pdl_demo.Net.load_state_dict"},
]  # fmt: skip
PLACES = [
    "net", "nets.0", "by_name.a", "either", "either.0", "call", "anything", "anything.0.deep.er", "sizes", "sizes.0",
    "numbers", "numbers.0", "mode", "untold", "further_keyword", "further_keyword.inner", "helper.n",
]  # fmt: skip


def holder(place: str, node: Any) -> dict[str, Any]:
    """A Holder whose argument at the place is the node."""
    first, *rest = place.split(".")
    inner: Any = dict(node)
    for name in reversed(rest):
        inner = [inner] if name.isdigit() else {name: inner}
    if first == "helper":
        inner = {"_target_": "pdl_demo.Helper", **inner}
    return {"_target_": "pdl_demo.Holder", first: inner}


def faults(node: dict[str, Any], hint: Any = Any) -> list[str]:
    checker = Checker()
    checker.value(from_dict({"x": node}).tree["x"], hint, ("x",))
    return [fault.message for fault in checker.faults]


@pytest.mark.parametrize("node", OUT_OF_REACH, ids=lambda node: node["_target_"])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_but_parts_is_reached(demo: None, place: str, node: dict[str, Any]) -> None:
    """Refused by the check, with one fault for it, and by the building itself, before anything is called."""
    tree = holder(place, node)
    assert faults(tree)
    if not place.startswith("helper"):  # its n is a number, which the check alone asks for
        with pytest.raises(ConfigError, match=r"part|is not one|expected|does not say"):
            build(tree)
    with pytest.raises(ConfigError):
        build(node)


def test_parts_stand_where_they_fit(demo: None) -> None:
    net, norm = {"_target_": "pdl_demo.Net", "width": 2}, {"_target_": "pdl_demo.Norm"}
    good = {
        "_target_": "pdl_demo.Holder", "net": net, "nets": [net, norm], "by_name": {"a": norm}, "either": [norm],
        "helper": {"_target_": "pdl_demo.Helper", "n": 3}, "call": net, "anything": {"a": [norm, {"b": net}]},
        "untold": norm, "further": {"x": [net]}, "sizes": [1, 2], "numbers": [1],
    }  # fmt: skip
    assert faults(good) == []
    held = build(good)._held
    assert held["helper"].n == 3
    assert type(held["anything"]["a"][1]["b"]).__name__ == "Net"
    assert held["sizes"] == (1, 2)
    assert type(build({"_target_": "pdl_demo.make_net"})).__name__ == "Net"


@pytest.mark.parametrize(("place", "target", "says"), [
    ("nets.0", "pdl_demo.Points", "expected a pdl.nn.Module; pdl_demo.Points is not one"),
    ("either", "pdl_demo.Points", "pdl_demo.Points is not one"),
    ("helper.n", "pdl_demo.Net", "expected a whole number"),
    ("numbers.0", "pdl_demo.Net", "expected a whole number"),
    ("sizes", "pdl_demo.Net", "expected a list of 2"),
    ("mode", "pdl_demo.Net", "expected one of 'a', 'b'"),
    ("anything", "pdl_demo.Helper", "pdl_demo.Helper is no part (@pdl.hints.part), so a config builds it only where"),
    ("net", "pdl_demo.load_net", "is a function that is not declared as a part (@pdl.hints.part)"),
    ("net", "pdl_demo.make_something", "does not say which class it returns"),
])  # fmt: skip
def test_what_is_said(demo: None, place: str, target: str, says: str) -> None:
    assert says in "\n".join(faults(holder(place, {"_target_": target})))


def test_functions_are_parts_by_declaration_alone() -> None:
    """Of all functions of pdl and of the suites a config may use those that are declared; each says what it makes."""
    found = set()
    for root in suites.roots():
        for info in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}."):
            module = _imported(info.name)
            members = [getattr(module, name) for name in suites.public_names(module)] if module else []
            found.update(member for member in members if inspect.isfunction(member))
    assert {each.__name__ for each in found} >= {"uccsd", "real_amplitudes"}
    for function in found:
        assert is_part(function)
        assert inspect.isclass(signature(function).makes), function


def _imported(name: str) -> Any:
    if "__main__" in name or ".workflow.template" in name or "kernels" in name:
        return None
    try:
        return importlib.import_module(name)
    except ImportError:  # of what an extra brings
        return None


# -- by every way in ---------------------------------------------------------------------------------------------------
@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a file in it."""
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / ("0" * 64) / "net.pdl"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    return kept


@pytest.mark.parametrize("place", ["data.train", "data.test", "model", "task", "optim", "schedule",
                                   "data.transforms.train.0", "data.train.root", "train.freeze"])  # fmt: skip
def test_a_recipe(demo: None, tmp_path: Path, cache: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(GOOD)
    override = f"{place}={{_target_: pdl.hub.copies.clear}}"
    for command in (["train", "-c"], ["check", "-c"], ["config", "check", "-c"]):
        assert main([*command, str(recipe), override]) == 2
        assert "pdl.hub.copies.clear" in capsys.readouterr().err
    assert cache.read_text() == "kept"


def test_a_run_folder(tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", "-c", "cv/digits_lenet", "--run", str(run), "train.max_steps=1", "train.export=false"]) == 0
    tree = config.load(run / "config.yaml").plain()
    tree["data"]["test"] = {"_target_": "pdl.hub.copies.clear"}
    (run / "config.yaml").write_text(config.to_yaml(tree))
    for command in (["predict", str(run), "x.png"], ["eval", str(run)], ["export", str(run)], ["info", str(run)]):
        main(command)
        assert cache.read_text() == "kept"
    assert "pdl.hub.copies.clear' is a function that is not declared as a part" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["train", "test"])
def test_the_recipe_that_a_bundle_carries(
    tmp_path: Path, cache: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = contents(DIGITS.read_bytes())
    text = parts["config.yaml"].decode()
    tree = config.load(_written(tmp_path / "own.yaml", text)).plain()
    tree["data"][key] = {"_target_": "pdl.hub.copies.clear"}
    parts["config.yaml"] = config.to_yaml(tree).encode()
    bad = tmp_path / "untrusted.pdl"
    bad.write_bytes(rehashed(parts))
    assert main(["eval", str(bad)]) == 2
    assert "'pdl.hub.copies.clear' is a function that is not declared as a part" in capsys.readouterr().err
    assert cache.read_text() == "kept"


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path

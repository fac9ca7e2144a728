"""Systems: several models of an index that answer together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import pdl
from pdl import hub, suites
from pdl.cli import main
from pdl.errors import ConfigError, UsageError
from pdl.export.from_hub import open_system
from pdl.hub import catalogue, schema, systems
from pdl.packages import Package
from pdl.report import png
from tests.framework.hub.conftest import INDEX, model
from tests.framework.runtime import made


class Chain:
    """A predictor of two sessions: the weighted sums of what they answer."""

    def __init__(self, first: Any, second: Any, *, factor: float = 1.0) -> None:
        self.first, self.second, self.factor = first, second, factor
        self.pipeline = first.pipeline

    def run(self, inputs: Any, /) -> dict[str, Any]:
        return {"y": self.factor * (self.first.run(inputs)["y"] + self.second.run(inputs)["y"])}


def system(**change: Any) -> dict[str, Any]:
    """A system of `hub.yaml` without a fault; a value of None leaves its key out."""
    good = {
        "task": "adding",
        "summary": "both together",
        "pdl": ">=0.1",
        "parts": {"first": "a", "second": "b"},
        "predictor": {"_target_": "pdl_demo.Chain", "factor": 2.0},
    }
    return {key: value for key, value in (good | change).items() if value is not None}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Package:
    """The only package with an index; its weights are two bundles."""
    found = Package("demo", "pdl_demo", "1.0", tmp_path / "pdl_demo")
    (found.folder / "weights").mkdir(parents=True)
    for module in (INDEX, systems):
        monkeypatch.setattr(module, "offering", lambda: [found])
    return found


def write(package: Package, **given: Any) -> None:
    content = made.whole("conv")
    entry = model(content, file="net.pdl", sources=[{"package": "weights/net.pdl"}])
    (package.folder / "weights" / "net.pdl").write_bytes(content)
    tree = {"format": 1, "models": {"a": entry, "b": entry}, "systems": given}
    (package.folder / "hub.yaml").write_text(yaml.safe_dump(tree))


#: what is changed in a good system -> what is said of it
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a missing key": ({"task": None}, "systems.net.task: missing; expected text"),
    "an unknown key": ({"part": {}}, "systems.net.part: unknown key; did you mean 'parts'?"),
    "an unknown model": ({"parts": {"first": "aa"}}, "systems.net.parts.first: 'aa' is no model of this file; did you"),
    "no model": ({"parts": {}}, "systems.net.parts: is empty; a system has models"),
    "no predictor": ({"predictor": {"factor": 2}}, "systems.net.predictor: expected {_target_: import.path, ...}"),
    "no range": ({"pdl": "new"}, "systems.net.pdl: expected versions of pdl"),
    "a card from outside": ({"card": "../a"}, "systems.net.card: expected a path inside the package"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_refused(name: str, package: Package) -> None:
    change, says = BROKEN[name]
    write(package, net=system(**change))
    with pytest.raises(ConfigError) as caught:
        schema.read(package)
    assert len(caught.value.problems) == 1
    assert re.match(r".*hub\.yaml:\d+: ", caught.value.problems[0])
    assert says in caught.value.problems[0]
    assert systems.systems() == {}
    assert hub.broken().keys() == {"demo"}


def test_a_name_is_that_of_one_thing(package: Package) -> None:
    write(package, a=system())
    with pytest.raises(ConfigError, match=r"systems\.a: 'a' is a model already; take another name"):
        schema.read(package)


def test_systems_are_found_by_name(package: Package) -> None:
    write(package, both=system(), other=system())
    assert list(systems.systems()) == ["demo/both", "demo/other"]
    found = systems.system("both")
    assert found == systems.system("demo/both")
    assert found is not None
    assert found.parts == {"first": "demo/a", "second": "demo/b"}
    assert systems.system("demo/a") is None
    assert systems.system(package.folder) is None
    assert hub.index().keys() == {"demo/a", "demo/b"}


def test_a_system_stands_for_its_parts(package: Package, capsys: pytest.CaptureFixture[str]) -> None:
    write(package, both=system(metric={"name": "sum", "value": 0.5, "data": "ones", "protocol": "all"}))
    assert [each.name for each in catalogue.select(["both", "demo/b"])] == ["demo/a", "demo/b"]
    assert catalogue.combined("demo/*", task="nothing") == []
    with pytest.raises(UsageError, match="demo/both is a system and no single model: demo/a, demo/b; name one"):
        hub.entry("both")
    assert main(["models", "demo/bo*"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert re.match(r"demo/both +adding +.*kB +sum 0\.5 +ones +Apache-2\.0 +yes", line)
    assert main(["models", "--json", "demo/*"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)["systems"]
    assert (facts["name"], facts["parts"]) == ("demo/both", {"first": "demo/a", "second": "demo/b"})


def test_a_system_answers(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "locate", {"pdl_demo.Chain": Chain}.__getitem__)
    write(package, both=system())
    found = systems.system("both")
    assert found is not None
    chain = open_system(found, threads=1)
    x = np.ones((1, *made.SHAPE), np.float32)
    alone = pdl.runtime.load(made.whole("conv")).run({"image": x})["y"]
    np.testing.assert_allclose(chain.run({"image": x})["y"], 4 * alone, rtol=1e-6)


def test_the_command_line_takes_systems(
    package: Package, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(suites, "locate", {"pdl_demo.Chain": Chain}.__getitem__)
    write(package, both=system())
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(png(np.full((9, 12, 3), ord(name[0]), np.uint8)))
    assert main(["predict", "demo/both", str(tmp_path / "*.png"), "--topk", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(each["input"]).stem for each in found] == ["a", "b"]
    assert [len(each["top"]) for each in found] == [1, 1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "both").mkdir()  # what lies at the path comes first
    assert main(["predict", "both", "a.png"]) != 0
    assert main(["info", "demo/both"]) == 2
    assert "demo/both is a system and no single model: demo/a, demo/b; name one" in capsys.readouterr().err


def test_what_cannot_be_opened(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "locate", {"pdl_demo.Chain": Chain}.__getitem__)
    write(package, new=system(pdl=">=99"), wrong=system(parts={"first": "a", "third": "b"}))
    new, wrong = systems.system("new"), systems.system("wrong")
    assert new is not None
    assert wrong is not None
    with pytest.raises(UsageError, match="demo/new is made for pdl >=99"):
        open_system(new)
    with pytest.raises(ConfigError, match=r"hub\.yaml:\d+: demo/wrong: pdl_demo\.Chain: .*'second'"):
        open_system(wrong)

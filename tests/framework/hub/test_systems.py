"""Systems: several models of an index that answer together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import pdl
from pdl import hub, packages, suites
from pdl.cli import main
from pdl.errors import ConfigError, DataError, PackageError, PdlError, UsageError
from pdl.export.from_hub import open_system
from pdl.hub import catalogue, schema, systems
from pdl.packages import Package, Provided
from pdl.report import png
from pdl.runtime import bundle
from pdl.workflow.systems import export_system
from tests.framework.hub.conftest import INDEX, model
from tests.framework.runtime import made
from tests.framework.runtime.test_bundle import contents, rehashed


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


# -- as one bundle -----------------------------------------------------------------------------------------------------
@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Chain` as a distribution declares it."""
    monkeypatch.setattr(suites, "locate", {"pdl_demo.Chain": Chain}.__getitem__)
    chain = Provided(packages.SYSTEMS, "pdl_demo.Chain", f"{Chain.__module__}:Chain", "pdl-core", "0.1")
    monkeypatch.setitem(packages.read(packages.SYSTEMS).good, "pdl_demo.Chain", chain)


def packed(**change: Any) -> bytes:
    """A system of two bundles."""
    program = {"kind": "system", "system": "pdl_demo.Chain", "arguments": {"factor": 2.0}, **change}
    return bundle.pack(program, {}, parts={"first": made.whole("conv"), "second": made.whole("conv")})


def test_one_bundle_answers_as_its_parts(
    package: Package, declared: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(package, both=system(metric={"name": "sum", "value": 0.5, "data": "ones", "protocol": "all"}))
    target = tmp_path / "both.pdl"
    assert main(["export", "demo/both", "-o", str(target)]) == 0
    found = systems.system("both")
    assert found is not None
    image = np.full((9, 12, 3), 100, np.uint8)
    session = pdl.runtime.load(target, threads=1)
    assert session(image) == session.batch([image, image])[1]
    x = np.ones((2, *made.SHAPE), np.float32)
    np.testing.assert_array_equal(session.run({"image": x})["y"], open_system(found, threads=1).run({"image": x})["y"])
    read = bundle.read(target)
    assert (read.meta["licence"], read.meta["metrics"]) == ("", {"sum": 0.5})
    assert list(read.parts) == ["first", "second"]
    (tmp_path / "a.png").write_bytes(png(image))
    capsys.readouterr()
    assert main(["predict", str(target), str(tmp_path / "a.png"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["label"] == session(image)["label"]
    assert main(["info", str(target)]) == 0
    assert re.search(r"parts\.second\.inputs +image float32", capsys.readouterr().out)
    with pytest.raises(UsageError, match=r"both\.pdl: holds several models \(first, second\)"):
        read.build()
    assert main(["export", str(target), "--to", "onnx"]) == 2
    assert main(["export", "demo/both", "--to", "onnx"]) == 2


def test_parts_of_a_file_may_be_run_folders(declared: None, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "model.pdl").write_bytes(made.whole("conv"))
    file = tmp_path / "both.yaml"
    file.write_text("parts: {first: a, second: b}\npredictor: {_target_: pdl_demo.Chain}\n")
    with pytest.raises(UsageError, match=r"b: the run has no bundle \(model\.pdl\); write it first: pdl export"):
        export_system(file)
    (tmp_path / "b" / "model.pdl").write_bytes(made.whole("conv"))
    made_of = export_system(file, licence="MIT")
    assert made_of.path == tmp_path / "both.pdl"
    assert bundle.read(made_of.path).meta["licence"] == "MIT"
    file.write_text("parts: {first: both.pdl, second: b}\npredictor: {_target_: pdl_demo.Chain}\n")
    with pytest.raises(UsageError, match=r"parts\.first: .*both\.pdl is a system itself"):
        export_system(file)


def test_what_no_distribution_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "locate", {"pdl_demo.Chain": Chain}.__getitem__)
    (tmp_path / "a.pdl").write_bytes(made.whole("conv"))
    file = tmp_path / "both.yaml"
    file.write_text("parts: {first: a.pdl, second: a.pdl}\npredictor: {_target_: pdl_demo.Chain}\n")
    with pytest.raises(UsageError, match=r'no bundle can hold Chain: .*"pdl\.systems"\] "tests\.Chain" = "tests\.'):
        export_system(file)
    assert not (tmp_path / "both.pdl").exists()


def edited(**change: Any) -> Callable[[dict[str, bytes]], None]:
    """A change of program.json."""

    def edit(members: dict[str, bytes]) -> None:
        members["program.json"] = json.dumps(json.loads(members["program.json"]) | change).encode()

    return edit


def told(members: dict[str, bytes]) -> bytes:
    """The archive of edited members, of which meta.json tells."""
    meta = json.loads(members["meta.json"])
    meta["members"] = dict.fromkeys(name for name in members if name != "meta.json")
    return rehashed({**members, "meta.json": json.dumps(meta).encode()})


def inside(members: dict[str, bytes]) -> None:
    members["parts/first.pdl"] = packed()


def halved(members: dict[str, bytes]) -> None:
    members["parts/first.pdl"] = members["parts/first.pdl"][:-100]


def drop(members: dict[str, bytes], *names: str) -> None:
    for name in names:
        del members[f"parts/{name}.pdl"]


def put(members: dict[str, bytes], name: str) -> None:
    members[f"parts/{name}.pdl"] = made.good()


DAMAGED: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "an unknown system": (edited(system="os.system"), "program.json: unknown system 'os.system'; installed are"),
    "an unknown argument": (edited(arguments={"speed": 1}), "program.json: pdl_demo.Chain: .*'speed'"),
    "a part given twice": (edited(arguments={"first": 1}), "program.json: pdl_demo.Chain: .*'first'"),
    "no arguments": (edited(arguments=[]), "program.json: arguments is a list, expected an object"),
    "another kind": (edited(kind="chain"), "kind is 'chain', expected one of program, onnx, system"),
    "a system inside": (inside, "parts/first.pdl: 'parts/first.pdl': no member of a bundle"),
    "a part cut off": (halved, "parts/first.pdl: archive: its end record is not at the end"),
    "no parts": (lambda members: drop(members, "first", "second"), "archive: 0 parts, expected 1 to 16"),
    "a part less": (lambda members: drop(members, "first"), "program.json: pdl_demo.Chain: .*'first'"),
    "a part more": (lambda members: put(members, "c"), "program.json: pdl_demo.Chain: .*'c'"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_bundles_of_systems(name: str, declared: None) -> None:
    change, says = DAMAGED[name]
    members = contents(packed())
    change(members)
    with pytest.raises(DataError, match=says):
        pdl.runtime.load(told(members))


def test_other_bundles_have_no_parts(declared: None) -> None:
    members = contents(made.whole("conv"))
    put(members, "first")
    with pytest.raises(DataError, match="archive: 1 parts, expected none"):
        bundle.read(told(members))


def test_changed_bytes_are_found(declared: None) -> None:
    data = bytearray(packed())
    data[len(data) // 4] ^= 1
    with pytest.raises(PdlError):
        pdl.runtime.load(bytes(data))


def test_a_system_of_a_distribution_that_is_not_here(declared: None) -> None:
    members = contents(packed())
    edited(system="pdl_songs.Choir")(members)
    meta = json.loads(members["meta.json"])
    members["meta.json"] = json.dumps(meta | {"requires": ["pdl-songs"]}).encode()
    with pytest.raises(PackageError, match=r"needs the system 'pdl_songs\.Choir' of pdl-songs.*pip install pdl-songs"):
        pdl.runtime.load(rehashed(members))

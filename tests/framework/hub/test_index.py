"""`hub.yaml`: what is read from it, what is refused, and how names find entries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdl import hub
from pdl.errors import ConfigError, UsageError
from pdl.hub import schema
from pdl.hub.index import incompatible
from pdl.packages import MODELS, SUITES, Package
from tests.framework.hub.conftest import INDEX, Offer, model

WHEEL = {"name": "some-project", "version": "1.4.4", "member": "some/x.onnx"}
METRIC = {"name": "test/accuracy", "value": 1, "data": "digits", "protocol": "all of it"}
#: what is changed in a good entry -> what is said of it
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a missing key": ({"licence": None}, "models.net.licence: missing; expected text"),
    "an unknown key": ({"licens": "MIT"}, "models.net.licens: unknown key; did you mean 'licence'?"),
    "a wrong type": ({"bytes": "12"}, "models.net.bytes: expected a whole number >= 1, got '12' (text); remove the"),
    "no bytes": ({"bytes": 0}, "models.net.bytes: 0 is out of range"),
    "a short hash": ({"sha256": "0" * 63}, "models.net.sha256: expected 64 lower-case hex digits"),
    "a hash in capitals": ({"sha256": "A" * 64}, "64 lower-case hex digits"),
    "a folder in the file": ({"file": "a/b"}, "models.net.file: expected a plain file name, without folders"),
    "the folder above": ({"file": ".."}, "models.net.file: expected a plain file name"),
    "the name of a partial file": ({"file": "a.part"}, "models.net.file: expected a plain file name"),
    "no licence": ({"licence": "do what you like!"}, "models.net.licence: expected an SPDX name"),
    "two lines": ({"summary": "a\nb"}, "models.net.summary: expected one line of text"),
    "no range": ({"pdl": "0.1 or later"}, "models.net.pdl: expected versions of pdl such as '>=0.1,<0.2'"),
    "an empty range": ({"pdl": ""}, "models.net.pdl: expected versions"),
    "no source": ({"sources": []}, "models.net.sources: is empty"),
    "an empty source": ({"sources": [{}]}, "models.net.sources.0: expected exactly one of package, wheel and url"),
    "two sources in one": (
        {"sources": [{"package": "a", "url": "https://a/b"}]},
        "models.net.sources.0: expected exactly one of package, wheel and url, but package and url are given",
    ),
    "a way out of the package": ({"sources": [{"package": "../a"}]}, "models.net.sources.0.package: expected a path"),
    "an absolute path": ({"sources": [{"package": "/etc/passwd"}]}, "models.net.sources.0.package: expected a path"),
    "a drive": ({"card": "c:x.md"}, "models.net.card: expected a path inside the package"),
    "a file address": ({"sources": [{"url": "file:///etc/passwd"}]}, "models.net.sources.0.url: expected an address"),
    "a password": ({"sources": [{"url": "https://me:pw@host/a"}]}, "models.net.sources.0.url: expected an address"),
    "a mad port": ({"sources": [{"url": "https://host:99999/a"}]}, "models.net.sources.0.url: expected an address"),
    "a wheel without version": (
        {"sources": [{"wheel": {"name": "a", "member": "b"}}]},
        "models.net.sources.0.wheel.version: missing",
    ),
    "an option as version": (
        {"sources": [{"wheel": WHEEL | {"version": "--pre"}}]},
        "models.net.sources.0.wheel.version: expected one version",
    ),
    "an option as project": (
        {"sources": [{"wheel": WHEEL | {"name": "-r"}}]},
        "models.net.sources.0.wheel.name: expected the name of a project",
    ),
    "a version as a number": (
        {"sources": [{"wheel": WHEEL | {"version": 1.4}}]},
        "models.net.sources.0.wheel.version: expected text, got 1.4 (float); for text put it in quotes: '1.4'",
    ),
    "a metric without protocol": (
        {"metric": {key: value for key, value in METRIC.items() if key != "protocol"}},
        "models.net.metric.protocol: missing",
    ),
    "a bundle to build": ({"file": "net.pdl", "build": {"labels": "a.txt"}}, "models.net.build: net.pdl is a bundle"),
    "a part without target": ({"build": {"model": {"width": 1}}}, "models.net.build.model: expected {_target_:"),
    "labels from outside": ({"build": {"labels": "../a"}}, "models.net.build.labels: expected a path inside"),
    "names from outside": ({"build": {"vocabularies": {"a": "/b"}}}, "build.vocabularies.a: expected a path"),
    "arrays from outside": ({"build": {"arrays": "/a"}}, "models.net.build.arrays: expected a path inside"),
    "a pipeline from outside": ({"build": {"pipeline": "/a"}}, "models.net.build.pipeline: expected a mapping or"),
    "a size of text": ({"build": {"sizes": {"h": "x"}}}, "models.net.build.sizes.h: expected a whole number"),
}


def package(folder: Path, name: str = "demo", group: str = SUITES) -> Package:
    return Package(name, f"pdl_{name}", "1.0", folder, group=group)


def written(folder: Path, tree: Any) -> Package:
    folder.mkdir(exist_ok=True)
    (folder / "hub.yaml").write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
    return package(folder)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    change, says = BROKEN[name]
    with pytest.raises(ConfigError) as caught:
        schema.read(written(tmp_path, {"format": 1, "models": {"net": model(**change)}}))
    assert len(caught.value.problems) == 1
    assert re.match(r".*hub\.yaml:\d+: ", caught.value.problems[0])
    assert says in caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: expected a mapping with the keys format and models"),
        ("- 1", ":1: expected a mapping with the keys"),
        ("format: 1\nmodels: [", ": not valid YAML"),
        ("format: 1", "hub.yaml: models: missing"),
        ("models: {}", "format: missing"),
        ("format: '1'\nmodels: {}", ":1: format: expected a whole number"),
        ("format: 2\nmodells: {}", ":1: format: this pdl reads format 1, the file is of format 2"),
        ("format: 1\nmodels: {a: 3}", ":2: models.a: expected a mapping, got 3"),
        ("format: 1\nmodels: {}\nmodels: {}", ":3: models: written twice (also on line 2)"),
        ("format: 1\nmodels: &a {a: *a}", "an alias (*name) stands inside of what it is an alias of"),
        ("format: 1\nmodels: {a: !!python/name:os.system {}}", ":2: not valid YAML: could not determine a constructor"),
        ("format: 1\nmodels: {2026-01-01: {}}", ":2: the key '2026-01-01' is read by YAML as a timestamp"),
    ],
)
def test_what_is_no_index(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        schema.read(written(tmp_path, text))
    assert says in str(caught.value)


def test_all_faults_at_once_with_their_lines(tmp_path: Path) -> None:
    text = yaml.safe_dump({"format": 1, "models": {"a": model(taks="fit", bytes=-1), "b": model(sha256="x")}})
    lines = text.splitlines()
    with pytest.raises(ConfigError) as caught:
        schema.read(written(tmp_path, text))
    found = {int(re.findall(r"hub\.yaml:(\d+):", problem)[0]) for problem in caught.value.problems}
    assert found == {1 + lines.index(f"    {line}") for line in ("taks: fit", "bytes: -1", "sha256: x")}


def test_what_is_read(tmp_path: Path) -> None:
    given = model(
        metric=METRIC,
        build={"model": {"_target_": "pdl_nowhere.Net"}, "labels": "metadata:names", "sizes": {"h": 48}},
        sources=[{"package": "weights/a"}, {"wheel": WHEEL}, {"url": "https://host.example/a?b=c"}],
    )
    entry = schema.read(written(tmp_path, {"format": 1, "models": {"net": given}}))["demo/net"]
    assert (entry.short, entry.inside("a"), entry.origin_line.line) == ("net", tmp_path / "a", 3)
    assert [str(source) for source in entry.sources] == [
        "weights/a inside the package", "some/x.onnx of the wheel some-project==1.4.4", "https://host.example/a?b=c",
    ]  # fmt: skip
    assert entry.metric is not None
    assert entry.build is not None
    assert (str(entry.metric), entry.build.sizes) == ("test/accuracy 1 (digits)", {"h": 48})
    assert entry.to_dict().items() >= {"name": "demo/net", "package": "demo", "metric": METRIC}.items()


def test_the_index_follows_the_file(offer: Offer) -> None:
    offer("net", summary="before")
    assert offer("net", summary="after, longer").summary == "after, longer"


def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two suites that share a short name, one whose index is broken, and a model package."""
    good = {name: written(tmp_path / name, {"format": 1, "models": {"net": model(), name: model()}}) for name in "ab"}
    broken = written(tmp_path / "c", {"format": 1, "models": {"lost": model(bytes=0)}})
    found = [package(each.folder, name, MODELS if name == "b" else SUITES) for name, each in good.items()]
    monkeypatch.setattr(INDEX, "offering", lambda: [*found, package(broken.folder, "c")])


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several(tmp_path, monkeypatch)
    assert list(hub.index()) == ["a/a", "a/net", "b", "b/net"]
    assert hub.entry("a").name == "a/a"
    assert hub.entry("b").name == "b"
    with pytest.raises(UsageError, match="'net' is in several packages; write a/net or b/net"):
        hub.entry("net")
    with pytest.raises(UsageError, match="did you mean 'a/net'"):
        hub.entry("a/nett")
    with pytest.raises(UsageError, match=r"'nothing'.*`pdl models` lists what there is"):
        hub.entry("nothing")
    with pytest.raises(
        UsageError, match="no package 'elsewhere' is installed, `pip install pdl-elsewhere` may bring it"
    ):
        hub.entry("elsewhere/net")


def test_a_broken_index_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several(tmp_path, monkeypatch)
    assert list(hub.broken()) == ["c"]
    with pytest.raises(ConfigError, match=r"models.lost.bytes: 0 is out of range"):
        hub.entry("c/lost")
    with pytest.raises(UsageError, match="the index of c has faults and was left out"):
        hub.entry("lost")


def test_one_name_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = written(tmp_path / "one", {"format": 1, "models": {"net": model()}})
    monkeypatch.setattr(INDEX, "offering", lambda: [one, Package("demo", "other", "1.0", one.folder)])
    assert list(hub.index()) == ["demo/net"]
    assert "demo/net is the name of a model of pdl_demo too" in str(hub.broken()["demo"])


def test_versions(offer: Offer) -> None:
    assert incompatible(offer(pdl=">=0.1,<0.2")) is None
    assert "demo/net is made for pdl >=7, and this is pdl 0.1" in str(incompatible(offer(pdl=">=7")))
    with pytest.raises(UsageError, match="demo/net is made for pdl >=7"):
        hub.resolve("demo/net")


def test_a_model_package(tmp_path: Path) -> None:
    """Found by its entry point, by its plain name; nothing of it is imported."""
    folder = tmp_path / "my_model"
    written(folder, {"format": 1, "models": {"my-model": model(), "tiny": model()}})
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    info = tmp_path / "my_model-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-model\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[pdl.models]\nmy-model = my_model\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom pdl import hub\n"
        "print([n for n in hub.index() if n.startswith('my')], hub.entry('my-model').package.version)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (said.stderr, said.stdout) == ("", "['my-model', 'my-model/tiny'] 2.0\n")


def test_the_index_imports_no_suite() -> None:
    code = "import sys; from pdl import hub; hub.index(); print(*[n for n in sys.modules if n.startswith('pdl_')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "\n"

"""Public data sets: what a suite says of them, and the way from a name to files that are surely the right ones."""

from __future__ import annotations

import dataclasses
import gzip
import inspect
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdl import suites
from pdl.cli import main
from pdl.data.store import find, to_get
from pdl.errors import ConfigError, DataError, UsageError
from pdl.files import fetched_root, under_roots
from pdl.hub import gathering, public, web
from pdl.hub.fetch import Patience
from pdl.hub.gathering import get_public
from pdl.hub.public import Original, PublicSet, public_set, public_sets
from pdl.packages import Package
from tests.framework.hub.server import Server, chunked, cut, redirect, silent, status, whole

CONTENT = bytes(range(256)) * 4
DIGEST = sha256(CONTENT).hexdigest()
QUICK = Patience(stall=5.0, attempts=2, pause=0.0)
Make = Callable[..., PublicSet]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A suite of which `data.yaml` is all there is, and an environment that names no place."""
    for name in ("PDL_HUB", "PDL_OFFLINE", "PDL_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    found = Package("demo", "pdl_demo", "1.0", tmp_path / "pdl_demo")
    found.folder.mkdir()
    monkeypatch.setattr(suites, "installed", lambda: {"demo": found})
    return found


def described(**change: Any) -> dict[str, Any]:
    good = {"summary": "bytes", "home": "https://host/home", "licence": "none stated", "folder": "sets/one",
            "files": [{"file": "a.bin", "urls": ["https://host/a.bin"], "bytes": 1024, "sha256": DIGEST}]}  # fmt: skip
    return {key: value for key, value in (good | change).items() if value is not None}


def write(package: Package, **change: Any) -> None:
    content = {"format": 1, "sets": {"one": described(**change)}}
    (package.folder / "data.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


ORIGINAL = described()["files"][0]
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "http": ({"files": [ORIGINAL | {"urls": ["http://host/a"]}]}, "sets.one.files.0.urls: expected an address like"),
    "no address": ({"files": [ORIGINAL | {"urls": []}]}, "no address, and no by_hand"),
    "no files": ({"files": []}, "sets.one.files: is empty"),
    "a path": ({"files": [ORIGINAL | {"file": "../a"}]}, "expected a plain file name"),
    "a hash": ({"files": [ORIGINAL | {"sha256": "abc"}]}, "expected 64 lower-case hex digits, got 'abc'"),
    "no size": ({"files": [{"file": "a", "urls": ["https://host/a"], "sha256": DIGEST}]}, "has a known size"),
    "home": ({"home": "somewhere"}, "sets.one.home: expected an address like"),
    "folder": ({"folder": "/etc"}, "sets.one.folder: expected a path inside"),
    "no licence": ({"licence": None}, "sets.one.licence: missing"),
    "unknown key": ({"license": "MIT"}, "license.*did you mean 'licence'"),
    "convert alone": ({"convert": {"function": "f"}}, "convert and makes belong together"),
    "no function": ({"convert": {"name": "f"}, "makes": {"a": None}}, "expected {function: NAME, ...}"),
    "makes": ({"convert": {"function": "f"}, "makes": {"a/b": None}}, "is no plain file name"),
    "hash made": ({"convert": {"function": "f"}, "makes": {"b": "1"}}, "makes.b: expected 64 lower-case"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_told_with_their_place(package: Package, name: str) -> None:
    change, messages = FAULTS[name]
    write(package, **change)
    with pytest.raises(ConfigError, match=rf"data.yaml:\d+: .*{messages}"):
        public_sets()


def test_names(package: Package) -> None:
    write(package)
    assert public_set("demo/one") == public_set("one")
    with pytest.raises(UsageError, match=r"'ome' is no public data set .*did you mean 'one'"):
        public_set("ome")
    (package.folder / "data.yaml").write_text("format: 2\nsets: {}\n")
    with pytest.raises(ConfigError, match=r"this pdl reads format 1, the file is of format 2"):
        public_sets()


# -- fetching ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def make(package: Package, server: Server, monkeypatch: pytest.MonkeyPatch) -> Make:
    """make(known=True, **changes): the set `demo/one` with one original on the server."""

    def doubled(originals: dict[str, Path], out: Path, *, times: int) -> None:
        (out / "b.txt.gz").write_bytes(gzip.compress(originals["a.bin"].read_bytes() * times))

    module = type("Module", (), {"doubled": staticmethod(doubled)})
    monkeypatch.setattr(Package, "module", lambda self, inner="": module)

    def made(known: bool = True, **change: Any) -> PublicSet:
        facts = described()
        original = Original("a.bin", (f"{server.url}/a.bin",), *((1024, DIGEST) if known else ()))
        chosen = PublicSet(**(facts | {"files": (original,)} | change), name="demo/one", package=package)
        monkeypatch.setattr(gathering, "public_set", lambda name: chosen)
        return chosen

    return made


def get(**options: Any) -> list[Path]:
    return get_public("one", **({"accept_licence": True, "patience": QUICK} | options))


def test_a_known_file_is_fetched_once(make: Make, server: Server, tmp_path: Path) -> None:
    make()
    server.answers["/a.bin"] = [cut(CONTENT, 100), whole(CONTENT)]
    (path,) = get()
    assert path == tmp_path / "cache/data/sets/one/a.bin" == under_roots("sets/one/a.bin")[0]
    assert path.read_bytes() == CONTENT
    assert [requested for _, requested, _ in server.seen] == [None, "bytes=100-"]
    assert get(accept_licence=False) == [path]
    assert len(server.seen) == 2
    record = json.loads((tmp_path / "cache/data/.sources/demo.one.json").read_text())
    assert record["files"] == record["makes"] == {"a.bin": DIGEST}
    assert record["licence"] == "none stated"
    assert not list((tmp_path / "cache/data/.sources").glob("*.part"))
    path.write_bytes(b"damaged")
    assert get()[0].read_bytes() == CONTENT


def test_a_licence_must_be_accepted(make: Make, server: Server) -> None:
    make()
    with pytest.raises(UsageError, match=r"under a licence: none stated \(https://host/home\).*--accept-licence"):
        get(accept_licence=False)
    assert not server.seen


def test_every_source_and_its_failure(make: Make, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    server.answers["/a.bin"] = [whole(CONTENT[::-1])]
    with pytest.raises(DataError, match=r"a.bin is not to be had:\n(.*\n)*.*a.bin: serves another file(.*\n)*.*--from"):
        get()
    monkeypatch.setenv("PDL_OFFLINE", "1")
    seen = len(server.seen)
    with pytest.raises(DataError, match=r"not asked, for PDL_OFFLINE is set"):
        get()
    assert len(server.seen) == seen
    assert not fetched_root().joinpath("sets").exists()


@pytest.mark.parametrize("known", [True, False])
def test_originals_at_hand_and_mirrors(
    make: Make, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    make(known, convert={"function": "doubled", "times": 2}, makes={"b.txt.gz": sha256(CONTENT * 2).hexdigest()})
    monkeypatch.setenv("PDL_OFFLINE", "1")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a.bin").write_bytes(CONTENT)
    (path,) = get(originals=tmp_path / "own", folder=tmp_path / "to")
    assert path == tmp_path / "to/sets/one/b.txt.gz"
    assert (tmp_path / "own/a.bin").read_bytes() == CONTENT
    monkeypatch.setenv("PDL_HUB", str(tmp_path / "own"))
    assert get()[0].is_file()
    if known:
        monkeypatch.delenv("PDL_OFFLINE")
        monkeypatch.setenv("PDL_HUB", f"{server.url}/mirror")
        server.answers[f"/mirror/{DIGEST}/a.bin"] = [whole(CONTENT)]
        get(folder=tmp_path / "other")
        assert [path for path, _, _ in server.seen] == [f"/mirror/{DIGEST}/a.bin"]


def test_what_is_made_decides_where_the_original_is_unknown(make: Make, server: Server) -> None:
    known = {"b.txt.gz": sha256(CONTENT * 2).hexdigest()}
    make(False, convert={"function": "doubled", "times": 2}, makes=known)
    server.answers["/a.bin"] = [whole(CONTENT)]
    assert gzip.decompress(get()[0].read_bytes()) == CONTENT * 2
    make(False, convert={"function": "doubled", "times": 3}, makes=known)
    get()[0].unlink()
    with pytest.raises(DataError, match=r"pdl's results were measured on .*--trust-first takes it"):
        get()
    with pytest.raises(DataError, match=r"and had .* when it was first fetched; .*remove .*demo\.one\.json"):
        get(trust_first=True)


def test_what_nobody_knows_is_taken_on_request_and_held_to(make: Make, server: Server, tmp_path: Path) -> None:
    assert not make(False).verified
    server.answers["/a.bin"] = [whole(CONTENT)]
    with pytest.raises(UsageError, match=r"nobody has published a hash.*--trust-first"):
        get()
    assert not server.seen
    (path,) = get(trust_first=True)
    path.unlink()
    server.answers["/a.bin"] = [whole(CONTENT[::-1])]
    with pytest.raises(DataError, match=rf"and had {DIGEST} when it was first fetched"):
        get(trust_first=True)
    (tmp_path / "cache/data/.sources/demo.one.json").unlink()
    assert get(trust_first=True)[0].read_bytes() == CONTENT[::-1]


def test_by_hand(make: Make, tmp_path: Path) -> None:
    make(files=(Original("a.bin"),), by_hand="It comes by post.")
    with pytest.raises(DataError, match=r"It comes by post\.\n.*--from FOLDER"):
        get()
    (tmp_path / "a.bin").write_bytes(CONTENT)
    assert get(originals=tmp_path)[0].read_bytes() == CONTENT


def test_data_is_found_where_it_was_fetched_and_errors_say_how(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDL_DATA", str(tmp_path / "own"))
    with pytest.raises(DataError, match=r"looked in .*own for a.bin; fetch it: pdl data get demo/one"):
        find("One", ["a.bin"], address="demo/one")
    (tmp_path / "cache/data").mkdir(parents=True)
    (tmp_path / "cache/data/a.bin").write_bytes(b"")
    assert find("One", ["a.bin"], address="demo/one") == tmp_path / "cache/data/a.bin"
    assert to_get("https://host") == "get it from https://host"


def test_the_commands(make: Make, server: Server, capsys: pytest.CaptureFixture[str], package: Package,
                      monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    chosen = make()
    monkeypatch.setattr(public, "public_set", lambda name: chosen)
    monkeypatch.setattr(public, "public_sets", lambda: {chosen.name: chosen})
    server.answers["/a.bin"] = [whole(CONTENT)]
    assert main(["data", "get", "one"]) == 2
    assert "--accept-licence" in capsys.readouterr().err
    assert main(["data", "get", "one", "--accept-licence", "--json"]) == 0
    messages = capsys.readouterr()
    path = str(fetched_root() / "sets/one/a.bin")
    assert json.loads(messages.out) == {"demo/one": [path]}
    assert "licence   none stated" in messages.err
    assert main(["data", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["demo/one", "1.0", "kB", "yes"]
    assert main(["data", "list", "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert (facts["verified"], facts["folder"]) == (True, str(Path(path).parent))
    assert main(["data", "list", "nothing"]) == 2


# -- addresses of which nothing is known -------------------------------------------------------------------------------
ANSWERS: dict[str, tuple[list[Any], str | None]] = {
    "honest": ([whole(CONTENT)], None),
    "chunked": ([chunked(CONTENT)], None),
    "once cut": ([cut(CONTENT, 10), whole(CONTENT)], None),
    "busy once": ([status(503, Retry_After="0"), whole(CONTENT)], None),
    "elsewhere": ([redirect("/b.bin")], None),
    "too long": ([whole(CONTENT * 2)], "is 2048 bytes long; at most 1024 are taken"),
    "too long, and says nothing": ([chunked(CONTENT * 2)], "sends more than 1024 bytes"),
    "not there": ([status(404)], "answers 404"),
    "to a file": ([redirect("file:///etc/passwd")], "which is no http or https address"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_web(package: Package, server: Server, name: str) -> None:
    answers, messages = ANSWERS[name]
    server.answers |= {"/a.bin": answers, "/b.bin": [whole(CONTENT)]}
    if messages is None:
        assert web.content(f"{server.url}/a.bin", 1024, patience=QUICK) == CONTENT
        return
    with pytest.raises(DataError, match=messages):
        web.content(f"{server.url}/a.bin", 1024, patience=QUICK)


def test_web_has_a_deadline_and_stays_offline(
    package: Package, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/a.bin"] = [whole(CONTENT)]
    with pytest.raises(DataError, match=r"after 0 s, and not all; that is too slow"):
        web.content(f"{server.url}/a.bin", 1024, deadline=0)
    server.answers["/a.bin"] = [silent]
    with pytest.raises(DataError, match=r"sent nothing for 0\.2 s"):
        web.content(f"{server.url}/a.bin", 1024, patience=dataclasses.replace(QUICK, stall=0.2, attempts=1))
    with pytest.raises(UsageError, match=r"begins with http"):
        web.content("file:///etc/passwd", 1024)
    monkeypatch.setenv("PDL_OFFLINE", "1")
    with pytest.raises(UsageError, match=r"PDL_OFFLINE is set"):
        web.content(f"{server.url}/a.bin", 1024)


# -- the suites' own ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("chosen", public_sets().values(), ids=list(public_sets()))
def test_entries_are_verified_and_their_conversions_there(chosen: PublicSet) -> None:
    assert chosen.verified or chosen.by_hand
    if chosen.convert is None:
        return
    convert = getattr(chosen.package.module(gathering.ORIGINALS), chosen.convert["function"])
    given = {key: value for key, value in chosen.convert.items() if key != "function"}
    inspect.signature(convert).bind({}, Path(), **given)

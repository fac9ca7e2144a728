"""Files from the package, from wheels by pip and from mirrors; and nothing is asked for what is here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from pdl import hub, watch
from pdl.errors import DataError
from pdl.hub import cache as store
from pdl.hub import mirrors, wheels
from pdl.hub.cache import fault
from pdl.hub.fetch import Failed
from tests.framework.hub.conftest import CONTENT, FILE, Offer
from tests.framework.hub.server import Answer, Server, redirect, status, whole

OTHER = CONTENT[::-1]
WHEEL = {"name": "pdl-test-weights", "version": "1.0", "member": "pdl_test_weights/net.safetensors"}


def wheel(folder: Path, version: str = "1.0", **members: bytes) -> Path:
    """A wheel of these members, as pip takes it; it asks for a Python that nobody has."""
    info = f"pdl_test_weights-{version}.dist-info"
    path = folder / f"pdl_test_weights-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"pdl_test_weights/{name}.safetensors", content)
        metadata = f"Metadata-Version: 2.1\nName: pdl-test-weights\nVersion: {version}\nRequires-Python: >=99\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that the user's pip knows of."""
    folder = tmp_path / "links"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that can neither open a socket nor start another program."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("went out for something that is here")

    for owner, name in ((socket, "socket"), (socket, "create_connection"), (subprocess, "run"), (subprocess, "Popen")):
        monkeypatch.setattr(owner, name, refuse)


def test_a_member_of_a_wheel(links: Path, offer: Offer, cache: Path) -> None:
    wheel(links, net=CONTENT)
    wheel(links, "1.1", net=OTHER)
    entry = offer(sources=[{"wheel": WHEEL}])
    found = hub.resolve("demo/net")
    assert (found, found.read_bytes()) == (store.place(cache, entry), CONTENT)
    assert [path for path in cache.rglob("*") if path.is_file()] == [found]
    with pytest.raises(ModuleNotFoundError):
        __import__("pdl_test_weights")


def test_a_wheel_with_several_models_is_fetched_once(
    offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"net": CONTENT, "other": OTHER, "bad": CONTENT}
    monkeypatch.setattr(wheels, "fetch", lambda _, folder, patience=None: wheel(folder, **members))
    wanted = {name: {"wheel": WHEEL | {"member": f"pdl_test_weights/{name}.safetensors"}} for name in members}
    offer("other", OTHER, sources=[wanted["other"]])
    bad = offer("bad", b"?" * len(CONTENT), sources=[wanted["bad"]])
    offer(sources=[{"wheel": WHEEL}])
    hub.resolve("demo/net")
    assert not store.place(cache, bad).exists()
    monkeypatch.setattr(wheels, "fetch", None)
    assert hub.resolve("demo/other").read_bytes() == OTHER


def test_an_index_that_does_not_answer_is_told_once(
    links: Path, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(sources=[{"wheel": WHEEL}])
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens at the discard port
    monkeypatch.setenv("PIP_RETRIES", "1")
    said = r"no package index could be reached; is this machine online\? \| ERROR"
    with pytest.raises(DataError, match=said) as error:
        hub.resolve("demo/net")
    assert "Retrying" not in str(error.value)


def test_a_wheel_that_pip_does_not_have(links: Path, offer: Offer, cache: Path) -> None:
    wheel(links, "1.1", net=CONTENT)
    offer(sources=[{"wheel": WHEEL}])
    said = "pip download failed: .*No matching distribution found for pdl-test-weights==1.0"
    with pytest.raises(DataError, match=rf"{WHEEL['member']} of the wheel pdl-test-weights==1\.0: {said}"):
        hub.resolve("demo/net")
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"nett": CONTENT}, "has no pdl_test_weights/net.safetensors; it has pdl_test_weights/nett.safetensors"),
        ({"net": OTHER}, "has another file: it has sha256 [0-9a-f]{64}, the published file [0-9a-f]{64}"),
    ],
)
def test_a_wheel_that_does_not_help(
    members: dict[str, bytes], says: str, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "fetch", lambda _, folder, patience=None: wheel(folder, **members))
    offer(sources=[{"wheel": WHEEL}])
    with pytest.raises(DataError, match=rf"the wheel pdl-test-weights==1\.0: .*{says}"):
        hub.resolve("demo/net")
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CONTENT + b"x", f"has {len(CONTENT) + 1} bytes, the published file {len(CONTENT)}"),
        (b"\0" * (1 << 26), f"has {1 << 26} bytes"),
        (b"", "has 0 bytes"),
    ],
)
def test_a_member_of_another_size_is_not_unpacked(content: bytes, says: str, tmp_path: Path, offer: Offer) -> None:
    path, part = wheel(tmp_path, net=content), tmp_path / "part"
    with pytest.raises(Failed, match=says):
        wheels.take(path, WHEEL["member"], part, offer())
    assert not part.exists()


@pytest.mark.parametrize("damage", ["no zip", "cut", "a flipped byte"])
def test_a_damaged_wheel(damage: str, tmp_path: Path, offer: Offer) -> None:
    path = wheel(tmp_path, net=CONTENT)
    data = bytearray(path.read_bytes())
    if damage == "a flipped byte":
        data[120] ^= 255  # inside the packed member
    path.write_bytes({"no zip": b"<html>", "cut": data[:200]}.get(damage, data))
    with pytest.raises(Failed, match=r"pdl_test_weights-1.0-py3-none-any.whl is damaged or no wheel"):
        wheels.take(path, WHEEL["member"], tmp_path / "part", offer())


@pytest.mark.parametrize(("does", "works"), [("exec tail -f /dev/null", False), ("exec sh -c 'exit 0'", True)])
def test_a_pip_that_says_nothing_is_stopped(
    does: str, works: bool, tmp_path: Path, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants the file waits for the lock that is held meanwhile."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{does}\n")
    python.chmod(0o755)
    monkeypatch.setattr(wheels.sys, "executable", str(python))
    monkeypatch.setattr(wheels, "STALL", 10.0 if works else 0.05)
    offer(sources=[{"wheel": WHEEL}])
    said = "pip download left 0 wheels" if works else r"pip download was stopped: nothing came for 0\.05 seconds"
    with pytest.raises(DataError, match=said):
        hub.resolve("demo/net")
    assert not list(cache.rglob("wheel-*"))


def test_a_pip_that_brings_something_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on when the first wait is over and the folder has grown, and ends where the test says so."""
    end = tmp_path / "end"
    os.mkfifo(end)
    sizes = iter([1, 2])

    def size(folder: Path) -> int:
        have = next(sizes)
        if have == 2:
            end.write_text("now")
        return have

    monkeypatch.setattr(wheels, "STALL", 0.05)
    monkeypatch.setattr(wheels, "_size", size)
    assert wheels._run(["sh", "-c", f"cat {end} >&2; exit 3"], tmp_path) == (3, "now")


def test_a_python_without_pip(links: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    offer(sources=[{"wheel": WHEEL}])
    with pytest.raises(DataError, match=r"this Python has no pip .*your own tool: pdl-test-weights==1.0"):
        hub.resolve("demo/net")


def test_an_installed_wheel(tmp_path: Path, offer: Offer, alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is used where it lies, if it is that version; the other is not looked into."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel(tmp_path, net=CONTENT)) as archive:
        archive.extractall(site)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    offer(sources=[{"wheel": WHEEL}])
    assert hub.resolve("demo/net") == site / WHEEL["member"]
    offer(sources=[{"wheel": WHEEL | {"version": "1.1"}}])
    with pytest.raises(AssertionError, match="went out"):
        hub.resolve("demo/net")


def test_what_is_here_needs_no_connection(
    tmp_path: Path, offer: Offer, cache: Path, alone: None, monkeypatch: Any
) -> None:
    far = [{"wheel": WHEEL}, {"url": "https://host.example/net"}]
    packaged = tmp_path / "pdl_demo" / "weights" / FILE
    entry = offer(sources=[*far, {"package": f"weights/{FILE}"}])
    packaged.parent.mkdir()
    packaged.write_bytes(CONTENT)
    assert hub.resolve("demo/net") == packaged
    packaged.unlink()
    own = tmp_path / "own" / FILE
    own.parent.mkdir()
    own.write_bytes(CONTENT)
    monkeypatch.setenv("PDL_HUB", f"https://host.example/mirror{os.pathsep}{own.parent}")
    assert hub.resolve("demo/net") == own
    cached = store.place(cache, entry)
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CONTENT)
    assert hub.resolve("demo/net") == cached
    cached.write_bytes(OTHER)
    with pytest.warns(RuntimeWarning, match=r"passed over .*: has sha256"):
        assert hub.resolve("demo/net") == own


def test_what_can_be_obtained(links: Path, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(sources=[{"wheel": WHEEL}])
    problem = hub.obtainable("demo/net")
    assert problem is not None
    assert "`pdl download demo/net` fetches it" in problem
    assert len(problem.splitlines()) == 1
    wheel(links, net=CONTENT)
    assert hub.obtainable("demo/net") is None, "fetched"
    monkeypatch.setenv("PDL_OFFLINE", "1")
    assert hub.obtainable("demo/net") is None, "here by now"


def test_offline(offer: Offer, alone: None, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_OFFLINE", "1")
    monkeypatch.setenv("PDL_HUB", "http://mirror.example:8080/hub/")
    entry = offer(sources=[{"wheel": WHEEL}, {"url": "https://host.example/net"}])
    with pytest.raises(DataError) as caught:
        hub.resolve("demo/net")
    target = store.place(cache, entry)
    assert str(caught.value).splitlines()[1:] == [
        f"  {target}: not there",
        f"  http://mirror.example:8080/hub/{entry.sha256}/{FILE}: not asked, for PDL_OFFLINE is set",
        f"  {WHEEL['member']} of the wheel pdl-test-weights==1.0: not asked, for PDL_OFFLINE is set",
        "  https://host.example/net: not asked, for PDL_OFFLINE is set",
        "  What helps: unset PDL_OFFLINE, or on a machine that is online, `pdl hub mirror DIR demo/net`; then set "
        f"PDL_HUB to a copy of DIR here, or put the file at {target}",
    ]
    assert not cache.exists()


def test_only_the_package_has_it(offer: Offer, alone: None, cache: Path) -> None:
    """A package that lost its file: nothing else could help, and nothing is written."""
    offer()
    with pytest.raises(DataError, match=rf"weights/{FILE}: not there"):
        hub.resolve("demo/net")
    assert not cache.exists()


@pytest.mark.skipif(os.pathsep != ":", reason="folders are separated by another sign")
def test_what_pdl_hub_names(monkeypatch: pytest.MonkeyPatch) -> None:
    named = "/a:https://host.example/x::~/b:http://host:8080/y/:HTTP://h:81:c/8080:80:http://h:https://me:pw@h:82/z:/d"
    monkeypatch.setenv("PDL_HUB", named)
    assert mirrors.named() == [
        "/a", "https://host.example/x", "~/b", "http://host:8080/y/", "HTTP://h:81", "c/8080", "80", "http://h",
        "https://me:pw@h:82/z", "/d",
    ]  # fmt: skip
    assert mirrors.addresses() == [
        "https://host.example/x",
        "http://host:8080/y",
        "HTTP://h:81",
        "http://h",
        "https://me:pw@h:82/z",
    ]
    assert mirrors.shown("https://me:pw@h:82/z") == "https://h:82/z"
    assert mirrors.folders() == [Path("/a"), Path.home() / "b", Path("c/8080"), Path("80"), Path("/d")]


def test_a_mirror(tmp_path: Path, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made of what there is and what the network has; then used as a folder, and as an address."""
    with Server() as server:
        server.answers["/file"] = [whole(OTHER)]
        entries = [offer("near"), offer("far", OTHER, sources=[{"url": f"{server.url}/file"}])]
        packaged = tmp_path / "pdl_demo" / "weights" / FILE
        packaged.parent.mkdir()
        packaged.write_bytes(CONTENT)
        folder = tmp_path / "mirror"
        made = hub.mirror(folder)
        assert [(entry.name, state) for entry, state in made] == [("demo/near", "copied"), ("demo/far", "fetched")]
        assert not cache.exists()
        assert [path for path in folder.rglob("*") if fault(path, entries[0]) is None] == [
            store.place(folder, entries[0])
        ]
        assert store.place(folder, entries[1]).read_bytes() == OTHER
        sums = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True)
        assert sums.stdout.count(": OK") == 2
        store.place(folder, entries[0]).write_bytes(OTHER)
        with pytest.warns(RuntimeWarning, match=r"demo/near: passed over .*mirror.*: has sha256"):
            again = hub.mirror(folder, "demo/*")
        assert [(entry.name, state) for entry, state in again] == [("demo/near", "copied"), ("demo/far", "there")]
        assert len(server.seen) == 1

        packaged.unlink()
        monkeypatch.setenv("PDL_HUB", str(folder))
        assert hub.resolve("demo/far") == store.place(folder, entries[1])
        for entry in entries:
            path = f"/{entry.sha256}/{entry.file}"
            server.answers[path] = [whole((folder / path[1:]).read_bytes())]
        monkeypatch.setenv("PDL_HUB", f"{server.url}/")
        for entry in entries:
            assert hub.resolve(entry.name) == store.place(cache, entry)


def test_a_mirror_that_asks_for_a_password(offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to that server alone, and into no message."""
    said: list[str | None] = []

    def listen(answer: Answer) -> Answer:
        return lambda request: (said.append(request.headers.get("Authorization")), answer(request))[1]

    entry = offer(sources=[{"package": "nowhere"}])
    path = f"/{entry.sha256}/{entry.file}"
    with Server() as server, Server() as other:
        monkeypatch.setenv("PDL_HUB", server.url.replace("//", "//me:p%40ss@"))
        server.answers[path] = [listen(status(401))]
        with pytest.raises(DataError) as caught:
            hub.resolve("demo/net")
        assert f"{server.url}{path}: answers 401 Unauthorized" in str(caught.value)
        assert "ss@" not in str(caught.value)
        server.answers[path] = [listen(redirect("/x"))]
        server.answers["/x"] = [listen(redirect(f"{other.url}/y"))]
        other.answers["/y"] = [listen(whole(CONTENT))]
        assert hub.resolve("demo/net") == store.place(cache, entry)
    assert said == [f"Basic {b64encode(b'me:p@ss').decode()}"] * 3 + [None]


def test_a_mirror_that_lacks_something(tmp_path: Path, offer: Offer) -> None:
    """The rest is mirrored; what is missing is said in the end."""
    offer("lost")
    offer("here", OTHER, sources=[{"package": "here"}])
    (tmp_path / "pdl_demo" / "here").write_bytes(OTHER)
    with pytest.raises(DataError, match=r"1 of 2 files are missing:\n.*demo/lost: .* is not to be had"):
        hub.mirror(tmp_path / "mirror")
    assert [path.read_bytes() for path in (tmp_path / "mirror").rglob(FILE)] == [OTHER]


def test_a_mirror_where_nothing_can_be_written(tmp_path: Path, offer: Offer) -> None:
    """Said once, not once a file."""
    for name in ("one", "two"):
        offer(name, sources=[{"package": "here"}])
    (tmp_path / "pdl_demo" / "here").write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"^[^\n]*here/mirror: cannot be written: Not a directory[^\n]*$"):
        hub.mirror(tmp_path / "pdl_demo" / "here" / "mirror")


def test_an_incompatible_model_is_mirrored_too(tmp_path: Path, offer: Offer) -> None:
    """A mirror serves machines with other versions of pdl."""
    offer("new", OTHER, pdl=">=99", sources=[{"package": "here"}])
    (tmp_path / "pdl_demo" / "here").write_bytes(OTHER)
    assert [state for _, state in hub.mirror(tmp_path / "mirror")] == ["copied"]


def test_notes_are_warnings_unless_somebody_listens() -> None:
    with pytest.warns(RuntimeWarning, match="something"):
        watch.note("something")

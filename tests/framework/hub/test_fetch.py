"""Files over http from servers that misbehave: got all the same or explained, and never a wrong file in the cache."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from pdl import hub, watch
from pdl.errors import DataError
from pdl.hub import cache as store
from pdl.hub.fetch import Patience
from tests.framework.hub.conftest import CONTENT, FILE, Offer, files
from tests.framework.hub.server import (
    Answer,
    Request,
    Server,
    chunked,
    cut,
    endless,
    held,
    lie,
    raw,
    redirect,
    silent,
    status,
    whole,
)

N = len(CONTENT)
OTHER = CONTENT[::-1]
QUICK = Patience(stall=5.0, attempts=3, pause=0.0)
HASTY = Patience(stall=0.2, attempts=3, pause=0.0)

#: what the server does, request by request -> what is asked for (Range, If-Range), request by request
RECOVERED: dict[str, tuple[list[Answer], list[tuple[str | None, str | None]]]] = {
    "honest": ([whole(CONTENT)], [(None, None)]),
    "no length": ([lie(CONTENT, None)], [(None, None)]),
    "chunked": ([chunked(CONTENT)], [(None, None)]),
    "truncated": ([cut(CONTENT, 100), whole(CONTENT)], [(None, None), ("bytes=100-", None)]),
    "truncated, with a tag": (
        [cut(CONTENT, 100, tag='"a"'), whole(CONTENT, tag='"a"')],
        [(None, None), ("bytes=100-", '"a"')],
    ),
    "a weak tag": (
        [cut(CONTENT, 100, tag='W/"a"'), whole(CONTENT, tag='W/"a"')],
        [(None, None), ("bytes=100-", None)],
    ),
    "truncated twice": (
        [cut(CONTENT, 100), lambda request: request.say(206, CONTENT[100:300], Content_Length=N - 100,
                                                        Content_Range=f"bytes 100-{N - 1}/{N}"), whole(CONTENT)],
        [(None, None), ("bytes=100-", None), ("bytes=300-", None)],
    ),
    "truncated chunks": ([chunked(CONTENT[:100], b""), whole(CONTENT)], [(None, None), ("bytes=100-", None)]),
    "no ranges": ([cut(CONTENT, 100), whole(CONTENT, ranges=False)], [(None, None), ("bytes=100-", None)]),
    "the range is not the one asked for": (
        [cut(CONTENT, 100), lambda request: request.say(206, CONTENT[:50], Content_Range=f"bytes 0-49/{N}"),
         whole(CONTENT)],
        [(None, None), ("bytes=100-", None), ("bytes=100-", None)],
    ),
    "no such range": (
        [cut(CONTENT, 100), status(416), whole(CONTENT)],
        [(None, None), ("bytes=100-", None), (None, None)],
    ),
    "an error once": ([status(500), whole(CONTENT)], [(None, None)] * 2),
    "busy": ([status(503, Retry_After="0"), status(429), whole(CONTENT)], [(None, None)] * 3),
    "no answer once": ([raw(b""), whole(CONTENT)], [(None, None)] * 2),
    "nonsense once": ([raw(b"good morning\r\n\r\n"), whole(CONTENT)], [(None, None)] * 2),
    "another file, then the right one": (
        [cut(OTHER, 100), whole(CONTENT)],
        [(None, None), ("bytes=100-", None), (None, None)],
    ),
    "replaced while it is fetched": (
        [cut(OTHER, 100, tag='"old"'), whole(CONTENT, tag='"new"')],
        [(None, None), ("bytes=100-", '"old"')],
    ),
}  # fmt: skip

#: what the server does -> what is said
EXPLAINED: dict[str, tuple[list[Answer], str]] = {
    "gone": ([status(404)], "answers 404 Not Found"),
    "forbidden": ([status(403)], "answers 403 Forbidden"),
    "never well": ([status(500)], r"answers 500 Internal Server Error \(3 attempts\)"),
    "no content": ([status(204)], "answers 204 No Content, which is no file"),
    "another file": ([whole(OTHER)], "serves another file: it has sha256 [0-9a-f]{64}, the published file"),
    "always another file, in pieces": ([cut(OTHER, 100), whole(OTHER)], "serves another file: it has sha256"),
    "a page": (
        [lambda request: request.say(200, b"<html>", Content_Length=6, Content_Type="text/html")],
        rf"has a file of 6 bytes \(text/html\), the published one has {N}",
    ),
    "too long": ([lie(CONTENT + b"x", N + 1)], f"has a file of {N + 1} bytes .*, the published one has {N}"),
    "a length too long": ([lie(CONTENT, N + 7)], f"has a file of {N + 7} bytes"),
    "a length too short": ([lie(CONTENT, N - 7)], f"has a file of {N - 7} bytes"),
    "a negative length": ([lie(CONTENT, -1)], "has a file of -1 bytes"),
    "no end": ([lie(CONTENT * 100, None)], f"sends more than the {N} bytes"),
    "no end, in chunks": ([chunked(CONTENT + b"x")], f"sends more than the {N} bytes"),
    "always truncated": ([cut(CONTENT, 100)], rf"ended the connection after 100 of {N} bytes \(3 attempts\)"),
    "another length, in pieces": (
        [cut(CONTENT, 100), lambda request: request.say(206, CONTENT[100:], Content_Range=f"bytes 100-{N}/{N + 1}")],
        f"has a file of {N + 1} bytes",
    ),
    "in circles": ([redirect("/file")], "redirects more than 10 times"),
    "to a file": ([redirect("file:///etc/passwd")], "redirects to file:///etc/passwd, which is no http"),
    "to a script": ([redirect("javascript:alert(1)")], "redirects to javascript:alert"),
    "to nowhere": ([redirect("http://[::1")], "redirects to 'http://.*', which is no address"),
    "to a mad port": ([redirect("http://127.0.0.1:port/x")], "which is no address"),
    "without a target": ([status(302)], "answers 302 Found"),
    "no HTTP": ([raw(b"good morning\r\n\r\n")], r"broke off the connection \(good morning"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOVERED)
def test_recovered(name: str, server: Server, offer: Offer, cache: Path, messages: list[str]) -> None:
    answers, requested = RECOVERED[name]
    server.answers["/file"] = list(answers)
    offer(sources=[{"url": f"{server.url}/file"}])
    found = hub.resolve("demo/net", patience=QUICK)
    assert found.read_bytes() == CONTENT
    assert found.is_relative_to(cache)
    assert [request[1:] for request in server.seen] == requested
    assert [path for path in cache.rglob("*") if path.is_file()] == [found]  # no partial file, no lock
    assert messages == []


@pytest.mark.parametrize("name", EXPLAINED)
def test_explained(name: str, server: Server, offer: Offer, cache: Path) -> None:
    answers, says = EXPLAINED[name]
    server.answers["/file"] = list(answers)
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError) as caught:
        hub.resolve("demo/net", patience=QUICK)
    assert re.search(rf"{re.escape(server.url)}/file: .*{says}", str(caught.value))
    assert f"put the file at {cache}" in str(caught.value)
    assert files(cache) == {}


ANSWERS = {
    "whole": whole(CONTENT, tag='"a"'), "no ranges": whole(CONTENT, ranges=False), "other": whole(OTHER, tag='"b"'),
    "cut": cut(CONTENT, 300, tag='"a"'), "cut early": cut(CONTENT, 1), "other, cut": cut(OTHER, 300),
    "error": status(500), "chunks": chunked(CONTENT[:700], b""), "no range": status(416),
    "nothing": raw(b""), "gone": status(404), "long": lie(CONTENT * 2, None), "circle": redirect("/file"),
}  # fmt: skip


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=strategies.lists(strategies.sampled_from(sorted(ANSWERS)), min_size=1, max_size=6))
def test_whatever_the_server_does(names: list[str], server: Server, offer: Offer, cache: Path) -> None:
    """Three calls against any series of answers: a call brings the right file or says why it does not, and under the
    file's name there is never another.
    """
    shutil.rmtree(cache, ignore_errors=True)
    server.answers["/file"] = [ANSWERS[name] for name in names]
    offer(sources=[{"url": f"{server.url}/file"}])
    for _ in range(3):
        try:
            said = str(hub.resolve("demo/net", patience=QUICK))
        except DataError as error:
            said = str(error)
        assert (f"\n  {server.url}/file: " in said) != (files(cache) == {FILE: CONTENT})
        assert files(cache) in ({}, {FILE: CONTENT})


def test_a_stall(server: Server, offer: Offer) -> None:
    server.answers["/file"] = [held(CONTENT, 100), whole(CONTENT)]
    offer(sources=[{"url": f"{server.url}/file"}])
    assert hub.resolve("demo/net", patience=HASTY).read_bytes() == CONTENT
    assert server.seen[1] == ("/file", "bytes=100-", None)


def test_a_stall_without_end(server: Server, offer: Offer, cache: Path) -> None:
    server.answers["/file"] = [held(CONTENT, 100), silent]
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError, match=r"sent nothing for 0.2 s \(3 attempts\)"):
        hub.resolve("demo/net", patience=HASTY)
    assert [path.stat().st_size for path in cache.rglob(f"*{store.PART}")] == [100]
    assert files(cache) == {}


OK, CHUNKS = b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = f"Content-Length: {N}\r\n\r\n".encode()
LATE, LITTLE = r"(gave no answer in|sent nothing for) 0\.2 s", r"sent \d+ bytes in 0\.2 s, fewer than 819"
#: what never ends, quickly or a few bytes at a time -> what is said
ENDLESS: dict[str, tuple[Answer, str]] = {
    "go on": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), f"trailers without an end|{LATE}|{LITTLE}"),
    "go on, slowly": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), LATE),
    "headers": (endless(OK, b"X: " + b"x" * 60_000 + b"\r\n"), f"broke off the connection|headers or trailers|{LATE}"),
    "a header, slowly": (endless(OK + b"X: ", b"x", 0.01), LATE),
    "headers, slowly": (endless(OK, b"X: x\r\n", 0.01), LATE),
    "a status, slowly": (endless(b"HTTP/1.1 200 ", b"O", 0.01), LATE),
    "bytes, slowly": (endless(OK + LENGTH, b"x", 0.01), LITTLE),
    "chunks, slowly": (endless(OK + CHUNKS, b"1\r\nx\r\n", 0.01), LITTLE),
    "a chunk's length": (endless(OK + CHUNKS + b"1", b";x" * 1000), f"broke off|without an end|{LITTLE}"),
    "trailers": (endless(OK + CHUNKS + b"0\r\n", b"X: x\r\n" * 1000), f"trailers without an end|{LATE}|{LITTLE}"),
    "trailers, slowly": (endless(OK + CHUNKS + b"0\r\n", b"X: x\r\n", 0.01), LITTLE),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_answers_without_an_end(name: str, server: Server, offer: Offer, cache: Path) -> None:
    answer, says = ENDLESS[name]
    server.answers["/file"] = [answer]
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError, match=says):
        hub.resolve("demo/net", patience=HASTY)
    assert files(cache) == {}


def test_all_attempts_together_have_an_end(server: Server, offer: Offer) -> None:
    """A server that brings a little more each time would be waited for again and again."""
    server.answers["/file"] = [cut(CONTENT, 100)]
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError, match=f"all attempts together take too long, 100 of {N} bytes are kept"):
        hub.resolve("demo/net", patience=Patience(attempts=9, pause=0.0, slowest=1e12, begin=0.0))


def test_an_answer_without_end_is_cut_off(server: Server, offer: Offer) -> None:
    """After the published bytes, not when the disk is full."""
    broken = threading.Event()

    def endless(request: Request) -> None:
        request.say(200)
        try:
            for _ in range(2000):
                request.wfile.write(bytes(1 << 16))
        except ConnectionError:
            broken.set()

    server.answers["/file"] = [endless]
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError, match=f"sends more than the {N} bytes"):
        hub.resolve("demo/net", patience=QUICK)
    assert broken.wait(60)


def test_a_later_try_goes_on_where_the_first_stopped(server: Server, offer: Offer, cache: Path) -> None:
    server.answers["/file"] = [cut(CONTENT, 700), status(404), whole(CONTENT)]
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError, match="answers 404"):
        hub.resolve("demo/net", patience=QUICK)
    assert hub.resolve("demo/net", patience=QUICK).read_bytes() == CONTENT
    assert server.seen[-1] == ("/file", "bytes=700-", None)


@pytest.mark.parametrize(("rest", "requests"), [(OTHER[:300], 2), (CONTENT + b"more", 1), (OTHER, 1), (CONTENT, 0)])
def test_a_partial_file_is_not_believed(rest: bytes, requests: int, server: Server, offer: Offer, cache: Path) -> None:
    """What a stopped program left may be anything."""
    server.answers["/file"] = [whole(CONTENT)]
    entry = offer(sources=[{"url": f"{server.url}/file"}])
    part = store.place(cache, entry).with_name(FILE + store.PART)
    part.parent.mkdir(parents=True)
    part.write_bytes(rest)
    assert hub.resolve("demo/net", patience=QUICK).read_bytes() == CONTENT
    assert len(server.seen) == requests
    assert list(files(cache)) == [FILE]


def test_redirections(server: Server, offer: Offer) -> None:
    other = Server()
    with other:
        server.answers["/file"] = [redirect("/next", 301)]
        server.answers["/next"] = [redirect(f"{other.url}/a b?c=%20d", 307)]
        other.answers["/a%20b?c=%20d"] = [cut(CONTENT, 10), whole(CONTENT)]
        offer(sources=[{"url": f"{server.url}/file"}])
        assert hub.resolve("demo/net", patience=QUICK).read_bytes() == CONTENT
        assert [request[1] for request in other.seen] == [None, "bytes=10-"]


CERTIFICATE = ssl.SSLCertVerificationError("no")
CERTIFICATE.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            r"address of host.example cannot be found \(Name or ser.*online",
        ),
        (CERTIFICATE, r"certificate of host.example is not trusted \(self-signed certificate\).* set SSL_CERT_FILE"),
        (
            OSError(errno.ENETUNREACH, "Network is unreachable"),
            r"no connection to host.example \(Network is unreachable",
        ),
        (TimeoutError("timed out"), r"sent nothing for 5 s \(3 attempts\)"),
    ],
)
def test_no_connection(reason: OSError, says: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise reason

    monkeypatch.setattr(socket, "create_connection", refuse)
    offer(sources=[{"url": "http://host.example/file"}])
    with pytest.raises(DataError, match=f"http://host.example/file: .*{says}"):
        hub.resolve("demo/net", patience=QUICK)


def test_never_from_https_to_http() -> None:
    from pdl.hub.fetch import Failed, _target

    assert _target("http://a.example/x", "https://b.example/y") == "https://b.example/y"
    assert _target("https://a.example/x/y", "../z") == "https://a.example/z"
    with pytest.raises(Failed, match=r"redirects from https to http://a.example/, which is not encrypted"):
        _target("https://a.example/x", "http://a.example/")


def test_the_next_source_helps(server: Server, offer: Offer, messages: list[str]) -> None:
    server.answers |= {"/bad": [whole(OTHER)], "/good": [whole(CONTENT)]}
    offer(sources=[{"url": f"{server.url}/bad"}, {"url": f"{server.url}/good"}])
    assert hub.resolve("demo/net", patience=QUICK).read_bytes() == CONTENT
    assert len(messages) == 1
    assert f"demo/net: passed over {server.url}/bad: serves another file" in messages[0]


def test_every_source_is_named_when_none_helps(server: Server, offer: Offer, tmp_path: Path, cache: Path) -> None:
    offer(sources=[{"url": f"{server.url}/b"}, {"package": "weights/x"}, {"url": "http://127.0.0.1:9/c"}])
    with pytest.raises(DataError) as caught:
        hub.resolve("demo/net", patience=QUICK)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"demo/net: {FILE} ({N} bytes, sha256 ")
    assert lines[1].endswith(f"{FILE}: not there")
    assert lines[2].endswith(f"{Path('pdl_demo/weights/x')}: not there")
    assert lines[3:5] == [
        f"  {server.url}/b: answers 404 Not Found",
        "  http://127.0.0.1:9/c: no connection to 127.0.0.1 (Connection refused); is this machine online?",
    ]
    assert lines[5].startswith("  What helps: try again later, or on a machine that is online, `pdl hub mirror DIR ")


def test_a_damaged_file_in_the_cache_is_replaced(
    server: Server, offer: Offer, cache: Path, messages: list[str]
) -> None:
    server.answers["/file"] = [whole(CONTENT)]
    entry = offer(sources=[{"url": f"{server.url}/file"}])
    cached = store.place(cache, entry)
    cached.parent.mkdir(parents=True)
    for wrong in (OTHER, b"", CONTENT[:-1]):
        cached.write_bytes(wrong)
        assert hub.resolve("demo/net", patience=QUICK).read_bytes() == CONTENT
    assert len(messages) == 3
    assert f"passed over {cached}: has sha256 " in messages[0]
    assert f"passed over {cached}: has 0 bytes, the published file {N}" in messages[1]


def test_progress(server: Server, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []
    monkeypatch.setattr(watch, "progress", lambda *facts: seen.append(facts))
    server.answers["/file"] = [cut(CONTENT, 10), whole(CONTENT)]
    offer(sources=[{"url": f"{server.url}/file"}])
    hub.resolve("demo/net", patience=QUICK)
    assert [name for name, *_ in seen] == ["demo/net"] * len(seen)
    assert ("demo/net", 10, N) in seen
    assert seen[-1] == ("demo/net", N, N)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            errno.ENOSPC,
            r"No space left on device; 0.0 MB are needed, \d+\.\d MB are free there; make room",
        ),
        (errno.EROFS, "Read-only file system; choose a folder that you may write to"),
    ],
)
def test_a_disk_that_takes_no_more(
    code: int, says: str, server: Server, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other sources are not tried: they would not help."""
    real = Path.open

    def full(path: Path, mode: str = "r", *rest: Any, **settings: Any) -> Any:
        if path.suffix == store.PART and mode != "rb":
            raise OSError(code, os.strerror(code), str(path))
        return real(path, mode, *rest, **settings)

    server.answers["/file"] = [whole(CONTENT)]
    offer(sources=[{"url": f"{server.url}/file"}, {"url": f"{server.url}/other"}])
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DataError, match=rf"{FILE}\.part: cannot be written: {says}"):
        hub.resolve("demo/net", patience=QUICK)
    assert len(server.seen) == 1
    assert files(cache) == {}


def test_a_disk_that_takes_a_little_at_a_time(
    server: Server, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unbuffered write may take fewer bytes than it is given."""

    class Slow(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(data[:100])

    real = Path.open

    def slow(path: Path, mode: str = "r", *rest: Any, **settings: Any) -> Any:
        return Slow(path, mode) if path.suffix == store.PART and mode != "rb" else real(path, mode, *rest, **settings)

    server.answers["/file"] = [whole(CONTENT)]
    offer(sources=[{"url": f"{server.url}/file"}])
    monkeypatch.setattr(Path, "open", slow)
    assert hub.resolve("demo/net", patience=QUICK).read_bytes() == CONTENT
    assert len(server.seen) == 1


def test_a_cache_that_is_no_folder(server: Server, offer: Offer, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "file"))
    offer(sources=[{"url": f"{server.url}/file"}])
    with pytest.raises(DataError, match=r"file/hub.*: cannot be written: Not a directory; choose a folder"):
        hub.resolve("demo/net", patience=QUICK)

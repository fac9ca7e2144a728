"""One file over http or https into a partial file, which a broken connection or a stopped program leaves to be gone on
with (HTTP range requests, RFC 9110 section 14).

What a server says is not believed: the size is limited while the bytes come in, and the hash decides in the end.
"""

from __future__ import annotations

import base64
import http.client
import io
import re
import socket
import ssl
import string
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from pdl.errors import DataError
from pdl.hub.cache import CHUNK, fault, write, writing
from pdl.hub.entries import Entry
from pdl.version import __version__

Progress = Callable[[int], None]
"""Called with the bytes that are there by now."""

REDIRECTS = 10
_HEADERS = {"User-Agent": f"pdl/{__version__}", "Accept-Encoding": "identity"}
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # worth another try
_HEADWAY = 1 << 20  # bytes that make up for a failed attempt


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for: seconds without a byte, attempts in a row that bring little, seconds before the
    second attempt (then twice as many, and so on), and the most that a server may ask to wait (Retry-After).

    In `stall` seconds an answer must begin, and in any `stall` seconds after that bring `slowest` bytes a second. All
    attempts together may take `begin` seconds and what the file takes at `slowest`.
    """

    stall: float = 30.0
    attempts: int = 4
    pause: float = 0.5
    longest: float = 20.0
    slowest: float = 4096.0
    begin: float = 300.0


class Failed(DataError):
    """A source has no file for us; the message says why."""


class _Again(Exception):
    """An attempt failed that another may make good, after `wait` seconds or what patience says."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


def download(url: str, part: Path, entry: Entry, progress: Progress, patience: Patience) -> None:
    """Fill `part` with the published file, going on from what it holds. Raises Failed where that cannot be done; `part`
    then holds what came, or is gone when that was wrong.
    """
    fetch = _Fetch(url, part, entry, progress, patience)
    left, best = patience.attempts, fetch.have()
    deadline = time.monotonic() + patience.begin + entry.bytes / patience.slowest
    while True:
        try:
            return fetch.attempt()
        except _Again as problem:
            further = fetch.have() >= best + _HEADWAY
            left, best = (patience.attempts if further else left) - 1, max(best, fetch.have())
            if left <= 0:
                raise Failed(f"{problem} ({patience.attempts} attempts)") from None
            if time.monotonic() > deadline:
                kept = f"{fetch.have()} of {entry.bytes} bytes are kept for another time"
                raise Failed(f"{problem}; all attempts together take too long, {kept}") from None
            pause = patience.pause * 2 ** (patience.attempts - left - 1)
            time.sleep(min(max(pause, problem.wait or 0), patience.longest))


class _Fetch:
    """One file from one address, in as many attempts as it takes."""

    def __init__(self, url: str, part: Path, entry: Entry, progress: Progress, patience: Patience) -> None:
        self.url, self.credentials = _without_credentials(url)
        self.part, self.entry, self.progress, self.patience = part, entry, progress, patience
        self.tag = ""  # of the content that `part` holds the beginning of, where this program has seen it
        self.mixed = self.have() > 0  # it may come from more than one answer

    def have(self) -> int:
        """Bytes that are there."""
        return self.part.stat().st_size if self.part.exists() else 0

    def attempt(self) -> None:
        if self.have() < self.entry.bytes:
            self._transfer()
        problem = fault(self.part, self.entry)
        if problem is None:
            return
        with writing(self.part, self.entry.bytes):
            self.part.unlink(missing_ok=True)
        if not self.mixed:
            raise Failed(f"serves another file: it {problem}")
        self.mixed, self.tag = False, ""
        raise _Again(f"what was fetched in pieces {problem}")

    def _transfer(self) -> None:
        try:
            with self._answer() as answer:
                self._check(answer)
                self._receive(answer)
        except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as error:
            raise _Again(_broken(error, self.patience)) from error

    def _answer(self) -> Any:
        """The server's answer, after redirections."""
        have, url = self.have(), self.url
        headers = dict(_HEADERS)
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.tag:
                headers["If-Range"] = self.tag
        for _ in range(REDIRECTS + 1):
            own = self.credentials if _origin(url) == _origin(self.url) else {}
            request = urllib.request.Request(url, headers=headers | own)
            try:
                return _opener(self.patience, self.entry.bytes).open(request, timeout=self.patience.stall)
            except urllib.error.HTTPError as error:
                with error:
                    url = self._redirected(url, error)
            except (http.client.InvalidURL, ValueError):
                raise Failed(f"leads to {url}, which is no address") from None
            except urllib.error.URLError as error:
                raise _unreachable(url, error.reason, self.patience) from error
        raise Failed(f"redirects more than {REDIRECTS} times (at last to {url})")

    def _redirected(self, url: str, error: urllib.error.HTTPError) -> str:
        """The next address, where the answer names one; raises what else it means."""
        status = f"answers {error.code} {error.reason}".rstrip()
        if error.code == 416 and self.have():
            with writing(self.part, self.entry.bytes):
                self.part.unlink()
            self.tag = ""
            raise _Again(f"{status}, so the file there ends before ours goes on")
        if error.code in _BUSY:
            raise _Again(status, _seconds(error.headers.get("Retry-After")))
        if error.code not in (301, 302, 303, 307, 308) or not error.headers.get("Location"):
            raise Failed(status)
        return _target(url, error.headers["Location"])

    def _check(self, answer: Any) -> None:
        """Refuse what cannot be the file; start again where the server does not resume."""
        want, length, kind = self.entry.bytes, answer.headers.get("Content-Length"), answer.headers.get_content_type()
        if answer.status == 206 and self.have():
            start, total = _range(answer.headers.get("Content-Range", ""))
            if total not in (want, None):
                raise Failed(f"has a file of {total} bytes, the published one has {want}")
            if start != self.have():
                raise _Again(f"was asked for the bytes from {self.have()} on and sends those from {start}")
            return
        if answer.status != 200:
            raise Failed(f"answers {answer.status} {answer.reason}, which is no file")
        if length is not None and length != str(want):
            raise Failed(f"has a file of {length} bytes ({kind}), the published one has {want}")
        self.tag = _strong(answer.headers.get("ETag"))
        with writing(self.part, want):
            self.part.unlink(missing_ok=True)
        self.mixed = False

    def _receive(self, answer: Any) -> None:
        have, want = self.have(), self.entry.bytes
        self.mixed |= have > 0
        with writing(self.part, want):
            file = self.part.open("ab", buffering=0)
        with file:
            while chunk := answer.read1(CHUNK):
                have += len(chunk)
                if have > want:
                    break
                write(file, chunk, self.part, self.entry)
                self.progress(have)
        if have > want:
            with writing(self.part, want):
                self.part.unlink()
            raise Failed(f"sends more than the {want} bytes of the published file")
        if have < want:
            raise _Again(f"ended the connection after {have} of {want} bytes")


def _without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """`https://name:password@host/path` as an address and the header with the credentials (RFC 7617)."""
    split = urlsplit(url)
    who, _, host = split.netloc.rpartition("@")
    if not who:
        return url, {}
    name, _, password = who.partition(":")
    token = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode("ascii")
    return split._replace(netloc=host).geturl(), {"Authorization": f"Basic {token}"}


def _origin(url: str) -> tuple[str, str]:
    """Scheme and host: whom credentials are for."""
    return urlsplit(url).scheme, urlsplit(url).netloc


def _target(url: str, location: str) -> str:
    """Where a redirection leads; Failed where one must not follow it."""
    try:
        target = quote(urljoin(url, location), safe=string.punctuation, encoding="latin-1")
        scheme, host = urlsplit(target).scheme, urlsplit(target).hostname
    except ValueError:
        raise Failed(f"redirects to {location!r}, which is no address") from None
    if scheme not in ("http", "https") or not host:
        raise Failed(f"redirects to {target}, which is no http or https address")
    if urlsplit(url).scheme == "https" and scheme == "http":
        raise Failed(f"redirects from https to {target}, which is not encrypted")
    return target


class _Paced(io.RawIOBase):
    """What comes from a server, in time and of bounded length: http.client would read heads and trailers without end.

    A head comes within `stall` seconds; from then on every `stall` seconds bring `slowest` bytes each. In all there may
    be `most` bytes: the file and what is written around it.
    """

    def __init__(self, sock: Any, patience: Patience, most: int) -> None:
        self.sock, self.raw, self.patience, self.left = sock, sock.makefile("rb", buffering=0), patience, most
        self.came, self.until, self.body = 0, time.monotonic() + patience.stall, False

    def makefile(self, mode: str) -> io.BufferedReader:
        """What `http.client` wants of a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, into: Any) -> int:
        """The next bytes, as many as there are."""
        now, least = time.monotonic(), self.patience.slowest * self.patience.stall
        if now >= self.until:
            if not self.body:
                raise _Slow(f"gave no answer in {self.patience.stall:g} s")
            if self.came < least:
                raise _Slow(f"sent {self.came} bytes in {self.patience.stall:g} s, fewer than {least:.0f}")
            self.came, self.until = 0, now + self.patience.stall
        self.sock.settimeout(max(0.001, self.until - now if not self.body else self.patience.stall))
        count = int(self.raw.readinto(into) or 0)
        self.came, self.left = self.came + count, self.left - count
        if self.left < 0:
            raise Failed("sends more around the file than it takes itself: headers or trailers without an end")
        return count

    def close(self) -> None:
        """Let go of the connection."""
        self.raw.close()
        super().close()


class _Slow(TimeoutError):
    """A server that sends, but too little."""


def _response(patience: Patience, most: int) -> type[http.client.HTTPResponse]:
    """The class of answers that are read through `_Paced`."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
            self.pace = _Paced(sock, patience, most)
            super().__init__(self.pace, *arguments, **options)  # type: ignore[arg-type]  # it makes a file of it

        def begin(self) -> None:
            """Read the head."""
            super().begin()
            pace = self.pace
            pace.body, pace.came, pace.until = True, 0, time.monotonic() + patience.stall

    return Response


def _opener(patience: Patience, size: int) -> urllib.request.OpenerDirector:
    """http and https, by the proxies of the environment; no other scheme, and redirections are not followed unseen."""
    response = _response(patience, 8 * size + _HEADWAY)  # chunks may be as short as a byte, with a line each

    class Http(urllib.request.HTTPHandler):
        def http_open(self, request: Any) -> Any:
            """An http connection."""
            return self.do_open(_connection(http.client.HTTPConnection, response), request)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, request: Any) -> Any:
            """An https connection, with the certificates of this machine."""
            return self.do_open(_connection(http.client.HTTPSConnection, response), request)

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(), Http(), Https(),
        urllib.request.HTTPErrorProcessor(), urllib.request.HTTPDefaultErrorHandler(), urllib.request.UnknownHandler(),
    ):  # fmt: skip
        opener.add_handler(handler)
    return opener


def _connection(kind: Any, response: type[http.client.HTTPResponse]) -> Any:
    def made(*arguments: Any, **options: Any) -> Any:
        connection = kind(*arguments, **options)
        connection.response_class = response
        return connection

    return made


def _unreachable(url: str, reason: Any, patience: Patience) -> Exception:
    """What a connection that did not come about means."""
    host = urlsplit(url).hostname
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Failed(
            f"the certificate of {host} is not trusted ({reason.verify_message}); behind a proxy of your organisation, "
            "set SSL_CERT_FILE to its certificates"
        )
    if isinstance(reason, socket.gaierror):
        return Failed(f"the address of {host} cannot be found ({reason.strerror}); is this machine online?")
    if isinstance(reason, ConnectionResetError | TimeoutError | ssl.SSLError):
        return _Again(_broken(reason, patience))
    return Failed(f"no connection to {host} ({getattr(reason, 'strerror', None) or reason}); is this machine online?")


def _broken(error: BaseException, patience: Patience) -> str:
    if isinstance(error, _Slow):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"sent nothing for {patience.stall:g} s"
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"broke off the connection ({said})"


def _range(text: str) -> tuple[int | None, int | None]:
    """First byte and total length of a Content-Range; None for what it does not say."""
    found = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", text.strip())
    if found is None:
        return None, None
    return int(found[1]), None if found[2] == "*" else int(found[2])


def _strong(tag: str | None) -> str:
    """An entity tag that may stand in If-Range: weak ones may not."""
    return tag if tag and tag.startswith('"') and tag.isascii() and tag.isprintable() else ""


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() and len(text) < 9 else None

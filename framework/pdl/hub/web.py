"""What an address answers, where neither its size nor its hash is known beforehand: within limits, and into memory."""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pdl.errors import DataError, UsageError
from pdl.hub.cache import CHUNK
from pdl.hub.entries import Entry
from pdl.hub.fetch import Failed, Patience, Progress, _Again, _broken, _Fetch
from pdl.hub.files import offline
from pdl.packages import Package

T = TypeVar("T")
DEADLINE = 120.0
"""Seconds in which all of an answer must be here."""


def content(
    url: str,
    most: int,
    *,
    patience: Patience | None = None,
    deadline: float = DEADLINE,
    progress: Progress = lambda done: None,
) -> bytes:
    """All bytes that an http or https address answers, redirections followed as `pdl.hub.fetch` does.

    DataError with the address for no answer, one of more than `most` bytes, or one that is not here after `deadline`
    seconds; UsageError with PDL_OFFLINE, and for another scheme.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url}: expected an address that begins with http:// or https://")
    return _attempted(
        url, most, patience, lambda page: page.read(most, time.monotonic() + deadline, deadline, progress)
    )


def _attempted(url: str, most: int, patience: Patience | None, attempt: Callable[[_Page], T]) -> T:
    """What an attempt at an address gives, tried again as `patience` says; the errors of `content`."""
    if offline():
        raise UsageError(f"{url}: PDL_OFFLINE is set, so no connection is opened; unset it, or give a file")
    patience = patience or Patience()
    page = _Page(url, most, patience)
    for left in reversed(range(patience.attempts)):
        try:
            return attempt(page)
        except _Again as problem:
            if not left:
                raise DataError(f"{page.url}: {problem}") from None
            time.sleep(min(max(patience.pause, problem.wait or 0), patience.longest))
        except Failed as problem:
            raise DataError(f"{page.url}: {problem}") from None
    raise AssertionError("an attempt ends with an answer or an error")


class _Page(_Fetch):
    """An answer that nothing is known of."""

    def __init__(self, url: str, most: int, patience: Patience) -> None:
        unknown = Entry("", "", "", "", "", "", most, "", [], package=Package("", "", "", Path()))
        super().__init__(url, Path(os.devnull), unknown, lambda done: None, patience)

    def have(self) -> int:
        return 0

    def write(self, path: Path, most: int, known: str, progress: Callable[[int, int], None]) -> str:
        """One attempt to put the answer into a file; the name of its version."""
        done = 0
        try:
            with self._answer() as answer:
                size = self._announced(answer, most)
                version = answer.headers.get("ETag") or f"{answer.headers.get('Last-Modified', '')} {size}"
                if known and version == known:
                    return version
                with path.open("wb") as file:
                    while chunk := answer.read1(CHUNK):
                        done += len(chunk)
                        if done > most:
                            raise Failed(f"sends more than {most} bytes, which is the most that is taken")
                        file.write(chunk)
                        progress(done, size or done)
        except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as error:
            raise _Again(_broken(error, self.patience)) from error
        if size is not None and done < size:
            raise _Again(f"ended the connection after {done} of {size} bytes")
        return version

    def _announced(self, answer: Any, most: int) -> int | None:
        """The bytes that are to come, where that is said."""
        if answer.status != 200:
            raise Failed(f"answers {answer.status} {answer.reason}, which is no file")
        announced = answer.headers.get("Content-Length")
        size = int(announced) if announced is not None and announced.isdigit() else None
        if size is not None and size > most:
            raise Failed(f"is {size} bytes long; at most {most} are taken")
        return size

    def read(self, most: int, end: float, seconds: float, progress: Progress) -> bytes:
        """One attempt."""
        found = bytearray()
        try:
            with self._answer() as answer:
                size = self._announced(answer, most)
                while chunk := answer.read1(CHUNK):
                    found += chunk
                    if len(found) > most:
                        raise Failed(f"sends more than {most} bytes, which is the most that is taken")
                    if time.monotonic() > end:
                        raise Failed(f"has sent {len(found)} bytes after {seconds:g} s, and not all; that is too slow")
                    progress(len(found))
        except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as error:
            raise _Again(_broken(error, self.patience)) from error
        if size is not None and len(found) < size:
            raise _Again(f"ended the connection after {len(found)} of {size} bytes")
        return bytes(found)


def into_file(
    url: str,
    path: Path,
    most: int,
    *,
    known: str = "",
    patience: Patience | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Put what an http or https address answers into the file `path`; what the server calls this version of it (its
    ETag, else its date and size) is returned. Where that is `known`, nothing is read or written.

    DataError with the address for no answer, one of more than `most` bytes, or one that is too slow; UsageError with
    PDL_OFFLINE.
    """
    return _attempted(url, most, patience, lambda page: page.write(path, most, known, progress))

"""HTTP on a connection: uvicorn's protocol on httptools, with a shorter way for requests that have come whole.

Nearly all requests come by one read of a socket. Such a one needs none of what uvicorn keeps for bodies that arrive in
pieces: it has a cycle of its own (`Whole`), the same ASGI to the application, and no task unless the application waits
for something. All others (pieces, pipelines, `Expect`, upgrades) go uvicorn's way.

Clients that keep a connection send the same line and headers again and again. What the parser made of them is kept by
their bytes, so it need not read them again.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

JOINED = 1 << 16  # bytes of a body that are copied behind its headers, to be one write
HEADS, HEAD = 512, 2048  # requests' lines and headers that are kept, and bytes of one
_ASGI = {"version": "3.0", "spec_version": "2.3"}


def shortened(base: Any) -> Any:
    """`base`, uvicorn's HttpToolsProtocol, with that way."""
    import httptools

    @lru_cache(256)
    def split(url: bytes) -> tuple[str, bytes]:
        """Path and query."""
        parsed = httptools.parse_url(url)
        return unquote(parsed.path.decode("ascii")), parsed.query or b""

    #: line and headers -> the scope of a request that they begin, and the bytes of its body
    heads: dict[bytes, tuple[dict[str, Any], int]] = {}

    class Protocol(base):  # type: ignore[misc]
        between = True  # no request has begun to come, or the last one has come
        coming = False  # the headers of a request have come, and it goes the short way if all of it does by this read
        body: bytes | bytearray = b""  # of it
        target: tuple[str, bytes] = "", b""
        headers: list[tuple[bytes, bytes]]

        def on_message_begin(self) -> None:
            self.between = False
            self.url, self.headers, self.expect_100_continue = b"", [], False

        def on_headers_complete(self) -> None:
            under_way = self.cycle is not None and not self.cycle.response_complete
            self.coming = not (under_way or self.expect_100_continue or self.parser.should_upgrade())
            if self.coming:
                self.target, self.body = split(self.url) if len(self.url) < 300 else split.__wrapped__(self.url), b""
            else:
                self._long_way()

        def on_body(self, body: bytes) -> None:
            if not self.coming:
                super().on_body(body)
            elif not self.body:
                self.body = body
            else:  # another chunk
                self.body = bytearray(self.body) if isinstance(self.body, bytes) else self.body
                self.body += body

        def on_message_complete(self) -> None:
            self.between = True
            if not self.coming:
                return super().on_message_complete()  # type: ignore[no-any-return]
            self.coming = False
            parser, version = self.parser, self.parser.get_http_version()
            scope = {
                "type": "http", "asgi": _ASGI, "http_version": version, "method": parser.get_method().decode("ascii"),
                "path": self.target[0], "query_string": self.target[1], "headers": self.headers,
            }  # fmt: skip
            self._answer(scope, self.body, version != "1.0" and parser.should_keep_alive())
            self.body = b""

        def _answer(self, scope: dict[str, Any], body: bytes | bytearray, keep_alive: bool) -> None:
            self.cycle = Whole(self, scope, body, keep_alive)
            begin(self.cycle.run(), self.loop, self.tasks)

        def data_received(self, data: bytes) -> None:
            before, at = self.cycle, data.find(b"\r\n\r\n", 0, HEAD) + 4
            ready = before is None or (before.response_complete and before.keep_alive)
            head = data[:at] if at > 4 and ready and self.between and not self.transport.is_closing() else b""
            known = heads.get(head)
            if known is not None and known[1] == len(data) - at:
                self._unset_keepalive_if_required()
                return self._answer(known[0], data[at:], True)
            super().data_received(data)
            if self.coming and not self.transport.is_closing():
                self.coming, body, self.body = False, self.body, b""
                self._long_way()
                if body:
                    super().on_body(body)
            elif head and self.cycle is not before and getattr(self.cycle, "size", -1) == len(data) - at:
                if len(heads) >= HEADS:  # bodies in chunks are shorter than what came
                    heads.clear()
                heads[head] = self.cycle.scope, self.cycle.size

        def _long_way(self) -> None:
            url, headers, expect = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expect
            self.headers.extend(headers)
            super().on_headers_complete()

        def on_whole_answered(self) -> None:
            """What `on_response_complete` does, but for the timer: `Connections.look` closes who stays too long."""
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.since = self.loop.time()
                self.flow.resume_reading()
                if self.pipeline:
                    self._start_asgi_task(*self.pipeline.pop())

    return Protocol


class _Nobody:
    """In place of an event that nobody waits for."""

    @staticmethod
    def set() -> None:
        """Wake nobody."""


class Whole:
    """The cycle of a request that has come whole, for an application that answers by one body. Its fields are those
    that a protocol of uvicorn reads and writes.

    size   bytes of the body; -1: the connection ends with this request
    """

    __slots__ = (
        "_body", "_of", "_start", "disconnected", "keep_alive", "message_event", "response_complete", "scope", "size",
    )  # fmt: skip
    more_body = False

    def __init__(self, of: Any, scope: dict[str, Any], body: bytes | bytearray, keep_alive: bool) -> None:
        self._of, self.scope, self.keep_alive = of, scope, keep_alive
        self._body: bytes | bytearray | None = body
        self.size = len(body) if keep_alive else -1
        self._start: dict[str, Any] = {}
        self.disconnected = self.response_complete = False
        self.message_event: Any = _Nobody

    async def run(self) -> None:
        """Let the application answer."""
        try:
            await self._of.app(self.scope, self._receive, self._send)
        except BaseException as error:
            self._of.logger.error("Exception in ASGI application\n", exc_info=error)
            self._of.transport.close()

    async def _receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body}
        if not (self.disconnected or self.response_complete):
            self.message_event = asyncio.Event()
            await self.message_event.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        of, start, body = self._of, self._start, message["body"]
        if of.flow.write_paused and not self.disconnected:
            await of.flow.drain()
        if self.disconnected:
            return
        lines = [_status_line(start["status"])]
        for name, value in start["headers"]:
            if name == b"connection":
                self.keep_alive = self.keep_alive and value != b"close"
            else:
                lines += (name, b": ", value, b"\r\n")
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        if self.scope["method"] == "HEAD":
            body = b""
        if len(body) <= JOINED:
            lines.append(body)
            of.transport.write(b"".join(lines))
        else:
            of.transport.write(b"".join(lines))
            of.transport.write(body)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            of.transport.close()
        of.on_whole_answered()


@lru_cache
def _status_line(status: int) -> bytes:
    from http import HTTPStatus

    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""  # 499
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


def begin(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[None]]) -> None:
    """Run a coroutine until it waits for something, and from there on as one of the tasks. Until then no task is the
    current one, so it must not use what asks for that (`asyncio.timeout`)."""
    context = copy_context()
    try:
        waits = context.run(work.send, None)
    except StopIteration:
        return
    task = loop.create_task(_rest(work, waits), context=context)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _rest(work: Coroutine[Any, Any, None], waits: Any) -> None:
    await _steps(work, waits)


@types.coroutine
def _steps(work: Coroutine[Any, Any, None], waits: Any) -> Generator[Any, Any, None]:
    """What is left of a coroutine that waits."""
    step: Callable[[Any], Any]
    while True:
        try:
            given, step = (yield waits), work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            given, step = error, work.throw
        try:
            waits = step(given)
        except StopIteration:
            return

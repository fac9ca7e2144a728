"""Connections on which nothing is asked hold no place of a request, and do not stay for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pdl.serving.connections import HEAD, KEEP, Connections
from pdl.serving.protocol import shortened
from pdl.serving.service import Settings
from tests.framework.serving.asking import Asked, served

uvicorn = pytest.importorskip("uvicorn")
ASK = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabcd"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Application:
    """Answers; requests for /slow when they are let."""

    def __init__(self) -> None:
        self.begun, self.let = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if scope["path"] == "/slow":
            self.begun.set()
            await self.let.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Asking:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, data: bytes = ASK) -> bytes:
        self.writer.write(data)
        return await asyncio.wait_for(self.reader.readexactly(len(ANSWER)), 60)

    async def rest(self) -> bytes:
        """All that still comes until it is closed."""
        return await asyncio.wait_for(self.reader.read(), 60)


def serving(base: str, connections: Connections, app: Any, test: Callable[[Any], Awaitable[None]]) -> None:
    """Run a test, which gets what opens a connection."""

    async def run() -> None:
        module, name = base.removeprefix("short ").split(":")
        kind = getattr(pytest.importorskip(module), name)
        kind = connections.protocol(shortened(kind) if base.startswith("short ") else kind)
        config = uvicorn.Config(app, lifespan="off", http=kind, ws="none", log_config=None, timeout_keep_alive=75,
                                h11_max_incomplete_event_size=HEAD)  # fmt: skip
        config.load()
        state = uvicorn.server.ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: kind(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        opened: list[Asking] = []

        async def connect() -> Asking:
            opened.append(Asking(*await asyncio.open_connection(*server.sockets[0].getsockname())))
            return opened[-1]

        try:
            await test(connect)
        finally:
            for each in opened:
                each.writer.close()
            server.close()

    asyncio.run(run())


SHORT = "short uvicorn.protocols.http.httptools_impl:HttpToolsProtocol"
BASES = [
    SHORT,
    "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol",
    "uvicorn.protocols.http.h11_impl:H11Protocol",
]


@pytest.mark.parametrize("base", BASES)
def test_those_that_have_waited_longest_make_room_and_those_that_are_answered_stay(base: str) -> None:
    connections, app = Connections(idle=4, seconds=5.0, request=100), Application()

    async def test(connect: Any) -> None:
        slow = await connect()
        answered = asyncio.ensure_future(slow.ask(ASK.replace(b"POST / ", b"POST /slow ")))
        await app.begun.wait()
        waiting = [await connect() for _ in range(4)]
        for each in waiting:
            await each.ask()
        await waiting[0].ask()  # it is the newest now
        more = [await connect() for _ in range(3)]
        for each in more:
            await each.ask()
        assert [await each.rest() for each in waiting[1:]] == [b""] * 3
        assert await waiting[0].ask() == ANSWER
        assert len(connections.open) == 5
        app.let.set()
        assert await answered == ANSWER

    serving(base, connections, app, test)


@pytest.mark.parametrize("base", BASES)
def test_requests_that_do_not_arrive_end(base: str) -> None:
    connections = Connections(idle=100, seconds=5.0, request=100)

    async def test(connect: Any) -> None:
        silent, part, kept, half, endless = [await connect() for _ in range(5)]
        await kept.ask()
        await half.ask()
        for each in (part, half):
            each.writer.write(ASK[:20])
        endless.writer.write(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (HEAD // 4))
        assert (await endless.rest()).startswith(b"HTTP/1.1 400 ")
        connections.look(asyncio.get_running_loop().time())
        assert len(connections.open) == 4
        connections.look(asyncio.get_running_loop().time() + 5.0)
        assert [await each.rest() for each in (silent, part, half)] == [b""] * 3
        await kept.ask()
        connections.look(asyncio.get_running_loop().time() + KEEP + 1.0)
        assert await kept.rest() == b""

    serving(base, connections, Application(), test)


@pytest.mark.parametrize("base", BASES)
def test_a_request_whose_body_does_not_arrive_is_refused_and_counts_no_more(base: str) -> None:
    app = Asked(served(), Settings(seconds=0.1))

    async def test(connect: Any) -> None:
        slow, gone, kept = [await connect() for _ in range(3)]
        for each in (slow, gone):
            each.writer.write(ASK.replace(b"POST / ", b"POST /v2/models/m/infer ")[:-1])
        gone.writer.close()
        assert (await slow.rest()).startswith(b"HTTP/1.1 408 ")
        await kept.ask()
        kept.writer.write(ASK[:-1])  # of one that is cut off when the one before was answered
        kept.writer.close()
        async with asyncio.timeout(60):
            while app.service.under_way:
                await asyncio.sleep(0.01)
        assert app.service.held == 0

    serving(base, Connections(idle=100, seconds=5.0, request=100), app.app, test)


class Telling:
    """Answers with what it was asked; requests for /slow when they are let, and a body of many bytes for /large."""

    def __init__(self) -> None:
        self.let, self.gone = asyncio.Event(), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message, body = {"more_body": True}, b""
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        if scope["path"] == "/slow":
            waits = [asyncio.ensure_future(each) for each in (self.let.wait(), receive())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self.gone += waits[1].done()
        names = b" ".join(name for name, _ in scope["headers"])
        asked = f"{scope['method']} {scope['path']} {scope['query_string'].decode()}"
        said = b" ".join((asked.encode(), names, body))
        if scope["path"] == "/large":
            said = b"x" * 3_000_000
        headers = [(b"content-length", b"%d" % len(said))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})


A = b"POST /a%20b?c=d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
ASKED = {
    "whole, and again": ([A + b"one", A + b"two", A + b"one"], 3),
    "a head, then a body": ([A, b"one", A + b"two"], 2),
    "in bytes": ([bytes([each]) for each in A + b"one"] + [A + b"two"], 2),
    "a known head with half of its body": ([A + b"one", A + b"t", b"wo", A + b"one"], 3),
    "several at once": ([A + b"oneGET /slow HTTP/1.1\r\n\r\n" + A + b"two", A + b"one"], 4),
    "a known head and another request": ([A + b"one", A + b"two" + A + b"six"], 3),
    "a known head within another": ([A + b"one", b"GET /x HTTP/1.1\r\nX: ", A + b"one"], 2),
    "a known head beside a slow request": ([A + b"one", b"GET /slow HTTP/1.1\r\n\r\n", A + b"two"], 3),
    "chunks": ([CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"] * 2 + [CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", A + b"one"], 4),
    "chunks in pieces": ([CHUNKED + b"2\r\nab\r\n", b"1\r\nc\r\n0\r\n\r\n"], 1),
    "no body": ([b"GET /?q HTTP/1.1\r\n\r\n", b"HEAD / HTTP/1.1\r\n\r\n", b"GET /?q HTTP/1.1\r\n\r\n"], 3),
    "the last one": ([A + b"one", A.replace(b"Host: h", b"Connection: close") + b"one"], 2),
    "HTTP/1.0": ([A.replace(b"HTTP/1.1", b"HTTP/1.0") + b"one"], 1),
    "expected": ([A.replace(b"Host: h", b"Expect: 100-continue"), b"one"], 2),
    "no HTTP": ([A + b"one", b"what?\r\n\r\n"], 2),
    "no address": ([b"GET \x01 HTTP/1.1\r\n\r\n"], 1),
    "large": ([b"GET /large HTTP/1.1\r\n\r\n"] * 2, 2),
}  # fmt: skip


@pytest.mark.parametrize("what", ASKED)
def test_the_short_way_answers_as_uvicorn_does(what: str) -> None:
    pieces, count = ASKED[what]

    def answers(base: str) -> bytes:
        app, found = Telling(), bytearray()

        async def test(connect: Any) -> None:
            one = await connect()
            for piece in pieces:
                one.writer.write(piece)
                await one.writer.drain()
                await asyncio.sleep(0.002 if len(pieces) > 9 else 0.01)
            app.let.set()
            while found.count(b"HTTP/1.1 ") < count or b"/slow" in bytes(found).rpartition(b"HTTP/1.1 ")[2]:
                piece = await asyncio.wait_for(one.reader.read(1 << 20), 60)
                if not piece:
                    break
                found.extend(piece)
            await asyncio.sleep(0.01)
            one.writer.write_eof()
            found.extend(await one.rest())

        serving(base, Connections(idle=9, seconds=5.0, request=1000), app, test)
        return bytes(found).replace(b"connection: close\r\n", b"").replace(b"\r\ncontent-length", b"\r\nContent-length")

    assert answers(SHORT) == answers(BASES[1]) != b""


def test_who_leaves_a_short_request_is_noticed() -> None:
    app = Telling()

    async def test(connect: Any) -> None:
        one = await connect()
        one.writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.01)
        one.writer.close()
        async with asyncio.timeout(60):
            while not app.gone:
                await asyncio.sleep(0.01)

    serving(SHORT, Connections(idle=9, seconds=5.0, request=1000), app, test)

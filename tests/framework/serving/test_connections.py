"""Connections on which nothing is asked hold no place of a request, and do not stay for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pdl.serving.connections import HEAD, Connections
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
        module, name = base.split(":")
        kind = connections.protocol(getattr(pytest.importorskip(module), name))
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


BASES = [
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

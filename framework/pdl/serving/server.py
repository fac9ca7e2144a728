"""One process that serves: HTTP by uvicorn, gRPC beside it, signals.

SIGTERM and SIGINT drain: the server says that it is not ready, answers what it was asked, takes no more connections,
and ends with exit code 0; a second one ends it at once. SIGHUP loads what has changed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pdl.errors import PackageError, UsageError
from pdl.serving.connections import HEAD, KEEP, LOOK, Connections, allow_files
from pdl.serving.http import Http
from pdl.serving.models import Models
from pdl.serving.protocol import shortened
from pdl.serving.service import Service, Settings

NEEDS = "pdl serve needs uvicorn: pip install 'pdl-core[serve]'"
SWITCH = 0.0005  # seconds that a thread may keep Python from others: answers wait for no batch that is being made
BACKLOG = 2048


@dataclass(frozen=True)
class Listening:
    """Where a server listens.

    port, grpc    of HTTP and of gRPC (None: without); 0: any that is free
    cert, key     files of TLS, PEM
    watch         seconds between looks at the files of models; 0: none
    drain         seconds that requests have to end
    """

    host: str = "127.0.0.1"
    port: int = 8000
    grpc: int | None = None
    cert: str | None = None
    key: str | None = None
    watch: float = 0.0
    drain: float = 30.0

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise UsageError("TLS needs both, --tls-cert FILE and --tls-key FILE")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    @property
    def scheme(self) -> str:
        """Of addresses."""
        return "https" if self.cert else "http"


LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names of a server that listens on loopback: a page that gave itself another one could ask it in a browser."""


def listen(where: Listening) -> socket.socket:
    """The socket of HTTP. UsageError where the port is taken, or may not be had."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((where.host, where.port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise UsageError(
            f"--host {where.host} --port {where.port}: cannot listen there ({error.strerror or error}); choose another "
            "port, or --port 0 for any"
        ) from None
    made.set_inheritable(True)
    return made


def needed() -> Any:
    """uvicorn; PackageError where it is not installed."""
    try:
        import uvicorn
    except ImportError:
        raise PackageError(NEEDS) from None
    return uvicorn


def serve(
    models: Models,
    settings: Settings,
    where: Listening,
    sock: socket.socket,
    *,
    service: Callable[[Models, Settings], Service] = Service,
    started: Callable[[int | None], None] | None = None,
    reload: Callable[[], None] | None = None,
) -> bool:
    """Serve until a signal; whether all that was asked until then was answered.

    started   called with the port of gRPC (None: without) when requests are answered
    reload    as `Http` has it
    """
    uvicorn = needed()
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # models stay: what looks for circles of objects need not look at theirs
    made = service(models, settings)
    made.alone = reload is None
    app = Http(made, reload=reload)
    logger = logging.getLogger("uvicorn")
    logger.propagate = False
    logger.addHandler(_Lines(made))
    connections = Connections(settings.idle, settings.seconds, settings.request)
    allow_files(settings.connections + settings.idle)
    config = uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, server_header=False, date_header=False,
        proxy_headers=False, ws="none", backlog=BACKLOG, timeout_keep_alive=KEEP,
        timeout_graceful_shutdown=max(1, int(where.drain)), ssl_certfile=where.cert, ssl_keyfile=where.key,
        **_fast(connections),
    )  # fmt: skip
    return _Server(uvicorn, config, made, where, started, connections).run(sock)


class _Lines(logging.Handler):
    """What uvicorn warns of, as lines of the log; bytes that are no HTTP are counted, as anybody may send many."""

    def __init__(self, service: Service) -> None:
        super().__init__(logging.WARNING)
        self.service = service

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("Invalid HTTP request"):
            self.service.models.metrics.count("pdl_refused_total", way="http", reason="no_http")
        else:
            trace = {} if record.exc_info is None else {"trace": self.format(record)[-4000:]}
            self.service.log(record.levelname.lower(), message=text, **trace)


def _fast(connections: Connections) -> dict[str, Any]:
    """The quick parser and loop, where they are installed."""
    found: dict[str, Any] = {"loop": "asyncio", "h11_max_incomplete_event_size": HEAD}
    with suppress(ImportError):
        import uvloop  # noqa: F401

        found["loop"] = "uvloop"
    try:
        from uvicorn.protocols.http import httptools_impl

        base: Any = shortened(httptools_impl.HttpToolsProtocol)
    except ImportError:
        from uvicorn.protocols.http import h11_impl

        base = h11_impl.H11Protocol
    return {**found, "http": connections.protocol(base)}


class _Server:
    def __init__(
        self,
        uvicorn: Any,
        config: Any,
        service: Service,
        where: Listening,
        started: Callable[[int | None], None] | None,
        connections: Connections,
    ) -> None:
        self.service, self.where, self.started, self.connections = service, where, started, connections
        self.drained = True
        outer = self

        class Server(uvicorn.Server):  # type: ignore[misc]
            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield  # they are the loop's, see `_signals`

            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets)
                if not self.should_exit:
                    await outer.begin()

        self.uvicorn = Server(config)
        service.open = self.uvicorn.server_state.connections.__len__
        self.rpc: Any = None

    def run(self, sock: socket.socket) -> bool:
        """Until a signal."""
        self.uvicorn.run([sock])
        self.drained &= self.service.models.close(5.0)
        return self.drained

    async def begin(self) -> None:
        """Requests are answered from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        port = None
        if self.where.grpc is not None:
            from pdl.serving.rpc import Rpc

            self.rpc = Rpc(self.service)
            port = await self.rpc.start(self.where)
        self.service.background(self._look())
        if self.where.watch:
            self.service.background(self._watch())
        if self.started is not None:
            self.started(port)

    def _reload(self) -> None:
        self.service.background(self.service.reload())

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK)
            self.connections.look(loop.time())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.where.watch)
            await self.service.reload()

    def _stop(self, number: int) -> None:
        if self.service.draining:
            self.service.log("ended", signal=signal.Signals(number).name, under_way=self.service.under_way)
            os._exit(128 + number)
        self.service.draining = True
        self.service.log("draining", signal=signal.Signals(number).name, under_way=self.service.under_way)
        self.service.background(self._drain())

    async def _drain(self) -> None:
        """Answers say that connections end; who has asked is answered."""
        for server in self.uvicorn.servers:
            server.close()
        if self.rpc is not None:
            await self.rpc.stop(self.where.drain)
        loop = asyncio.get_running_loop()
        end = loop.time() + self.where.drain
        quiet = 0
        while loop.time() < end and quiet < 3:  # idle for three looks: a request may be on its way
            quiet = quiet + 1 if not self.service.under_way else 0
            await asyncio.sleep(0.05)
        self.drained = not self.service.under_way
        self.service.log("drained" if self.drained else "given up", under_way=self.service.under_way)
        self.uvicorn.should_exit = True

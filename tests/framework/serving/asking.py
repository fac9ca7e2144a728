"""Requests to a server in this process, and to one of its own."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pdl.report.page import png
from pdl.serving.batching import Batching
from pdl.serving.http import Http
from pdl.serving.models import Models, sources
from pdl.serving.service import Log, Service, Settings

LENET = "cv/digits_lenet"


def picture(value: int = 255, size: int = 16) -> bytes:
    x = np.zeros((size, size, 3), np.uint8)
    x[3:13, 7:9] = value
    return png(x)


class Asked:
    """An application that answers in this process, without sockets."""

    def __init__(self, models: Models, settings: Settings | None = None, log: Any = None, tracing: Any = None) -> None:
        self.models, self.lines = models, log
        self.service = Service(models, settings, log or Log(io.StringIO()), tracing)
        self.app = Http(self.service)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        gone: asyncio.Event | None = None,
        chunk: int = 0,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        path, _, query = path.partition("?")
        pairs = {
            "host": "127.0.0.1",
            "content-length": str(len(body)),
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        scope = {
            "type": "http", "method": method, "path": path, "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in pairs.items()],
        }  # fmt: skip
        size = chunk or len(body) or 1
        pieces = [body[i : i + size] for i in range(0, len(body), size)] or [b""]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if pieces:
                piece = pieces.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        if not sent:
            return 0, {}, b""
        said = {k.decode(): v.decode("latin-1") for k, v in sent[0]["headers"]}
        return sent[0]["status"], said, b"".join(each.get("body", b"") for each in sent[1:])

    async def json(self, method: str, path: str, value: Any = None, **headers: str) -> tuple[int, Any]:
        body = b"" if value is None else json.dumps(value).encode()
        status, _, said = await self.ask(method, path, body, **{"content_type": "application/json", **headers})
        return status, json.loads(said)


def served(*words: str, **more: Any) -> Models:
    policy = more.pop("policy", Batching())
    models = Models(sources(words or (f"m={LENET}",)), policy=policy, **more)
    models.load_all()
    return models


def infer(rows: int = 1, value: float = 0.5, **more: Any) -> dict[str, Any]:
    tensor = {"name": "image", "shape": [rows, 8, 8, 1], "datatype": "FP32", "data": [value] * (64 * rows)}
    return {"inputs": [{**tensor, **more}]}


@contextmanager
def running(*words: str, token: str = "") -> Iterator[tuple[Any, str]]:
    """`pdl serve` in a process of its own, and its address; it is drained at the end and must end well."""
    environment = {**os.environ, "PDL_NUM_THREADS": "1", "PDL_SERVE_TOKEN": token}
    process = subprocess.Popen(
        [sys.executable, "-m", "pdl", "serve", "--port", "0", *words], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    logged: list[str] = []
    reader = threading.Thread(target=lambda: logged.extend(process.stderr), daemon=True)  # type: ignore[arg-type]
    reader.start()
    process.logged = logged  # type: ignore[attr-defined]
    try:
        line = process.stdout.readline()  # type: ignore[union-attr]
        found = re.search(r"://([^:]+:\d+)(?:; gRPC at (\S+))?", line)
        assert found, (line, logged)
        process.grpc = found[2]  # type: ignore[attr-defined]
        yield process, found[1]
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, logged
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(5)
        for stream in (process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr]


def ask(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found

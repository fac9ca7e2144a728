"""The server over HTTP, an ASGI application: the Open Inference Protocol (KServe v2), POST /predict, metrics, health,
and a page. It is written against ASGI itself: a framework between would cost more than a small model.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

from pdl.serving.answering import asked, to_json
from pdl.serving.errors import Refused
from pdl.serving.page import PAGE, POLICY
from pdl.serving.service import Facts, Service
from pdl.serving.tensors import HEADER, metadata, parse, response
from pdl.version import __version__

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
EXTENSIONS = ["binary_tensor_data", "model_repository"]
_JSON, _BINARY = (b"content-type", b"application/json"), (b"content-type", b"application/octet-stream")
_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(/ready)?")
_REPOSITORY = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
_OPEN = ("/", "/v2/health/live", "/v2/health/ready")  # paths that need no token
_SAFE = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Http:
    """``Http(service)`` is the application.

    reload   called where a model is loaded by request, to tell the other workers; None: there are none
    """

    def __init__(self, service: Service, *, reload: Callable[[], None] | None = None) -> None:
        self.service, self.reload = service, reload
        self._tokens = [f"Bearer {token}".encode() for token in service.settings.tokens]
        self._hosts = {host.lower().encode() for host in service.settings.hosts}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """ASGI: a request, the beginning or the end of the application."""
        if scope["type"] != "http":
            return await _other(scope, receive, send)
        service, path = self.service, scope["path"]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        infer = _inferred(path) if scope["method"] == "POST" and len(path) < 300 else None
        way = "infer" if infer is not None else "predict" if path == "/predict" else "http"
        facts = service.begin(way, _carrier(headers) if service.tracing is not None else None)
        held = 0
        try:
            self._admit(path, headers)
            if infer is not None or scope["method"] in ("POST", "PUT"):
                body = await self._body(headers, receive)
                held = len(body)
                service.held += held
            else:
                body = b""
            if infer is not None:
                await self._infer(facts, infer, headers, body, receive, send)
            else:
                await self._route(facts, scope, headers, body, receive, send)
        except asyncio.CancelledError:
            facts.status, facts.reason = 499, "cancelled"
            raise
        except Exception as error:
            said = service.failed(facts, error)
            if said.status != 499:
                more = [] if said.retry is None else [(b"retry-after", str(said.retry).encode())]
                if said.status == 401:
                    more.append((b"www-authenticate", b"Bearer"))
                if said.status in (408, 413):
                    more.append((b"connection", b"close"))
                await self._send(send, said.status, to_json({"error": str(said)}), [_JSON, *more])
        finally:
            service.held -= held
            service.end(facts)

    # -- who may ask, and how much -------------------------------------------------------------------------------------
    def _admit(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        if self._hosts:
            host = headers.get(b"host", b"").lower()
            name = host if host.endswith(b"]") else host.rsplit(b":", 1)[0]
            if name not in self._hosts:
                raise Refused(403, "host", "this server is not known by that name (--allow-host)")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            raise Refused(403, "origin", "pages of other sites may not ask this server")
        if self._tokens and path not in _OPEN:
            given = headers.get(b"authorization", b"")
            if not any(hmac.compare_digest(given, token) for token in self._tokens):
                raise Refused(401, "token", "a token is needed: Authorization: Bearer TOKEN")

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes | bytearray:
        settings, service = self.service.settings, self.service
        if service.under_way > settings.connections:
            most = f"{settings.connections} requests are under way, the most there may be"
            raise Refused(503, "busy", f"{most}; try again", retry=1)
        if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
            raise Refused(415, "bad_request", "bodies are taken as they are, without content-encoding")
        length = headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() and len(length) < 16 else settings.request + 1
        if size > settings.request:
            raise _large(settings.request)
        if service.held + size > settings.held:
            raise Refused(429, "memory", "the server holds as many bytes of requests as it may; try again", retry=1)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(499, "cancelled", "who asked is gone")
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(body) > settings.request:
                raise _large(settings.request)
            return body
        made = bytearray(body)
        service.held += size
        try:
            async with asyncio.timeout(settings.seconds):
                while message.get("more_body"):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(499, "cancelled", "who asked is gone")
                    made += message.get("body", b"")
                    if len(made) > settings.request:
                        raise _large(settings.request)
                    if service.held - size + len(made) > settings.held:
                        raise Refused(429, "memory", "the server holds as many bytes of requests as it may", retry=1)
        except TimeoutError:
            raise Refused(408, "slow", f"the request did not arrive within {settings.seconds:g} seconds") from None
        finally:
            service.held -= size
        return made

    # -- inference -----------------------------------------------------------------------------------------------------
    async def _infer(
        self, facts: Facts, of: tuple[str, str], headers: Mapping[bytes, bytes], body: bytes | bytearray,
        receive: Receive, send: Send,
    ) -> None:  # fmt: skip
        service = self.service
        version = service.models.find(*of)
        facts.model, facts.version, facts.counted = version.name, version.version, version
        if version.session is None:
            raise Refused(400, "bad_request", f"{version.name} answers inputs of its pipeline alone: POST /predict")
        size = headers.get(HEADER)
        if size is not None and not (size.isdigit() and len(size) < 16):
            raise Refused(400, "bad_request", "Inference-Header-Content-Length is no number")
        request = parse(body, None if size is None else int(size), version.inputs, version.outputs)
        facts.id = request.id

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        version, outputs = await service.infer(facts, version, request.arrays, request.seconds, gone)
        facts.version = version.version
        made, json_size = response(version.name, version.version, request.id, outputs, request.wanted)
        if json_size is None:
            await self._send(send, 200, made, [_JSON])
        else:
            await self._send(send, 200, made, [_BINARY, (HEADER, str(json_size).encode())])

    async def _send(self, send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        headers.append((b"content-length", b"%d" % len(body)))
        if self.service.draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _json(self, send: Send, value: Any, status: int = 200) -> None:
        await self._send(send, status, to_json(value), [_JSON, *_SAFE])

    # -- everything else -----------------------------------------------------------------------------------------------
    async def _route(
        self, facts: Facts, scope: Mapping[str, Any], headers: Mapping[bytes, bytes], body: bytes | bytearray,
        receive: Receive, send: Send,
    ) -> None:  # fmt: skip
        service, method, path = self.service, scope["method"], scope["path"]
        models = service.models
        if path == "/predict" and method == "POST":
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
            kind = headers.get(b"content-type", b"").decode("latin-1")

            async def gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass

            wanted = asked(kind, bytes(body), query, service.settings.inputs)
            return await self._json(send, await service.predict(facts, wanted, gone))
        if method == "POST" and (found := _REPOSITORY.fullmatch(path)):
            return await self._control(unquote(found[1]), found[2], send)
        if path == "/v2/repository/index" and method in ("GET", "POST"):
            return await self._json(send, index(service))
        if method not in ("GET", "HEAD"):
            raise Refused(404 if method == "POST" else 405, "unknown_path", f"{method} {path[:80]!r} is not offered")
        if path == "/":
            page = (b"content-type", b"text/html; charset=utf-8")
            guard = [(b"content-security-policy", POLICY.encode()), (b"referrer-policy", b"no-referrer")]
            return await self._send(send, 200, PAGE.encode(), [page, *_SAFE, *guard])
        if path == "/metrics":
            text = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
            return await self._send(send, 200, service.metrics_text().encode(), [text])
        if path == "/v2/health/live":
            return await self._json(send, {"live": True})
        if path == "/v2/health/ready":
            ready = models.ready and not service.draining
            return await self._json(send, {"ready": ready}, 200 if ready else 503)
        if path == "/predict":
            return await self._json(send, [models.find(name).about() for name in models.entries])
        if path in ("/v2", "/v2/"):
            return await self._json(send, {"name": "pdl", "version": __version__, "extensions": EXTENSIONS})
        if found := _MODEL.fullmatch(path):
            version = models.find(unquote(found[1]), found[2] or "")
            return await self._json(
                send, {"name": version.name, "ready": True} if found[3] else about(service, version)
            )
        raise Refused(404, "unknown_path", f"{path[:80]!r} is not there; there are /, /predict, /v2/..., /metrics")

    async def _control(self, name: str, what: str, send: Send) -> None:
        service = self.service
        if not service.settings.control:
            raise Refused(403, "control", "models are not loaded by request; start the server with --control")
        service.models.entry(name)
        if what == "unload":
            if self.reload is not None:
                raise Refused(409, "control", "several workers serve this; stop the server, and leave the model out")
            await asyncio.get_running_loop().run_in_executor(None, service.models.unload, name)
        else:
            if faults := await service.reload(name):
                raise Refused(400, "control", "; ".join(faults))
            if self.reload is not None:
                self.reload()
        await self._json(send, {})


@lru_cache(256)
def _inferred(path: str) -> tuple[str, str] | None:
    """Model and version ("": any) that a path asks for inference."""
    found = re.fullmatch(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/infer", path)
    return None if found is None else (unquote(found[1]), found[2] or "")


def about(service: Service, version: Any) -> dict[str, Any]:
    """The metadata of a model."""
    versions = sorted(service.models.entry(version.name).versions, key=int)
    return {
        "name": version.name, "versions": versions, "platform": "pdl", "inputs": metadata(version.inputs),
        "outputs": metadata(version.outputs),
    }  # fmt: skip


def index(service: Service) -> list[dict[str, str]]:
    """All versions of all models, and whether they are there."""
    found = []
    for name, number in service.models.given:
        there = number in service.models.entries[name].versions
        state = "READY" if there else "UNAVAILABLE"
        found.append({"name": name, "version": number, "state": state, "reason": "" if there else "not loaded"})
    return found


def _large(most: int) -> Refused:
    return Refused(413, "too_large", f"a request has at most {most} bytes (--max-request)")


def _carrier(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name: headers[name.encode()].decode("latin-1") for name in ("traceparent", "tracestate")
            if name.encode() in headers}  # fmt: skip


async def _other(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """The beginning and the end of the application; websockets are not offered."""
    if scope["type"] == "lifespan":
        while True:
            what = (await receive())["type"]
            await send({"type": f"{what}.complete"})
            if what == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1003})

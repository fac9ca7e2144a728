"""A server on the loopback that misbehaves as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

Answer = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One request; an answer writes with `say`."""

    server: Server

    def do_GET(self) -> None:
        answers = self.server.answers.get(self.path, [status(404)])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.server.seen.append((self.path, self.headers.get("Range"), self.headers.get("If-Range")))
        with suppress(ConnectionError):  # the client has heard enough
            answer(self)
        self.close_connection = True

    def say(self, code: int, body: bytes = b"", **headers: object) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Not a word."""


class Server(ThreadingHTTPServer):
    """`answers[path]` are used one after the other; the last one stays. `seen` are the requests: path, Range, If-Range.

    `gate` is what `held` answers wait for.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.answers: dict[str, list[Answer]] = {}
        self.seen: list[tuple[str, str | None, str | None]] = []
        self.gate = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None) -> None:
        self.gate.set()
        self.shutdown()
        self.server_close()


def whole(content: bytes, *, tag: str = "", ranges: bool = True) -> Answer:
    """An honest server; without `ranges` one that sends everything whatever is asked."""

    def answer(request: Request) -> None:
        requested, unless = request.headers.get("Range"), request.headers.get("If-Range")
        known = {"ETag": tag} if tag else {}
        if ranges and requested and unless in (None, tag):
            start = int(requested.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return request.say(416, Content_Range=f"bytes */{len(content)}")
            said = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return request.say(206, content[start:], Content_Length=len(content) - start, Content_Range=said, **known)
        return request.say(200, content, Content_Length=len(content), **known)

    return answer


def cut(content: bytes, size: int, *, tag: str = "") -> Answer:
    """Promises all and ends the connection after `size` bytes."""
    return lambda request: request.say(
        200, content[:size], Content_Length=len(content), **({"ETag": tag} if tag else {})
    )


def held(content: bytes, size: int) -> Answer:
    """Sends `size` bytes, and the rest when the gate opens."""

    def answer(request: Request) -> None:
        request.say(200, content[:size], Content_Length=len(content))
        request.server.gate.wait()
        request.wfile.write(content[size:])

    return answer


def status(code: int, **headers: object) -> Answer:
    """Says so and no more."""
    return lambda request: request.say(code, Content_Length=0, **headers)


def redirect(location: str, code: int = 302) -> Answer:
    """Sends elsewhere."""
    return status(code, Location=location)


def lie(body: bytes, length: int | None) -> Answer:
    """This body under another length, or without any."""
    return lambda request: request.say(200, body, **({} if length is None else {"Content_Length": length}))


def chunked(body: bytes, end: bytes = b"0\r\n\r\n") -> Answer:
    """The transfer coding without a length beforehand; another `end` breaks it off."""

    def answer(request: Request) -> None:
        request.protocol_version = "HTTP/1.1"
        request.say(200, b"%x\r\n%b\r\n" % (len(body), body) + end, Transfer_Encoding="chunked")

    return answer


def raw(text: bytes) -> Answer:
    """Bytes that need be no HTTP at all."""

    def answer(request: Request) -> None:
        request.wfile.write(text)

    return answer


def silent(request: Request) -> None:
    """Takes the request and says nothing until the gate opens."""
    request.server.gate.wait()


def endless(begin: bytes, piece: bytes, pause: float = 0.0) -> Answer:
    """Says `begin` and then `piece` again and again, `pause` seconds apart, until nobody listens."""

    def answer(request: Request) -> None:
        request.wfile.write(begin)
        while not request.server.gate.wait(pause):
            request.wfile.write(piece)

    return answer

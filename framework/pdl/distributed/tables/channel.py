"""Calls of a `TableServer` in another process: frames over a socket, numbers as their bytes; no pickle is ever read.

A frame is the sizes of its head and body, a head of JSON, and arrays, one behind the other. An array that lies in
memory of the caller which the server sees too (`Blocks`) stays there, and the head says where. Both ends show that they
hold the key of the server (an HMAC challenge in either direction). What travels is not encrypted.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import answer_challenge, deliver_challenge
from typing import Any

import numpy as np

from pdl import errors
from pdl.distributed.group import RankError
from pdl.distributed.tables.blocks import Blocks, Window
from pdl.distributed.tables.client import ServerLost
from pdl.distributed.tables.server import TableServer
from pdl.dtype import Array

_SIZES = struct.Struct("<IQ")
_HEAD, _CHALLENGE = 1 << 26, 1 << 10  # most bytes
_PATIENCE = 30.0  # seconds until a caller has shown its key
_DTYPES = ("<i8", "<f4")
_ERRORS = {each.__name__: each for each in (errors.DataError, errors.ShapeError, errors.UsageError)}
_CALLS = ("applied", "items", "push", "saved", "snapshot", "stats")
_GONE = (OSError, EOFError, AuthenticationError)


class Line:
    """Frames over a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection

    def send(self, head: Mapping[str, Any], tree: Any, blocks: Blocks | None = None) -> list[Array]:
        """One frame; the arrays that lie in `blocks`, which must stay as they are until the answer."""
        arrays: list[Array] = []
        plain = _plain(tree, arrays, {})
        about: list[Any] = []
        body: list[Array] = []
        kept: list[Array] = []
        for array in arrays:
            at = None
            if blocks is not None and (at := blocks.find(array)) is None:
                copy = blocks.empty(array.shape, array.dtype)
                copy[...] = array
                array, at = copy, blocks.find(copy)
            if (kind := array.dtype.newbyteorder("<").str) not in _DTYPES:
                raise errors.DtypeError(f"table servers take int64 and float32, not {array.dtype}")
            about.append([kind, array.shape, at])
            (body if at is None else kept).append(np.ascontiguousarray(array))
        text = json.dumps({**head, "tree": plain, "arrays": about}).encode()
        self.socket.sendall(_SIZES.pack(len(text), sum(each.nbytes for each in body)) + text)
        for array in body:
            if array.size:
                self.socket.sendall(array.reshape(-1).view(np.uint8).data)
        return kept

    def receive(self, window: Window | None = None) -> tuple[dict[str, Any], Any]:
        """(head, tree) of the next one."""
        size, rest = _SIZES.unpack(self._bytes(_SIZES.size))
        if size > _HEAD:
            raise ConnectionError(f"a head of {size} bytes")
        try:
            head = json.loads(self._bytes(size))
            arrays = []
            for kind, shape, at in head.pop("arrays"):
                if kind not in _DTYPES:
                    raise ValueError(f"numbers of kind {kind}")
                dtype = np.dtype(kind)
                if at is not None and window is not None:
                    arrays.append(window.array(at, shape, dtype))
                    continue
                count = int(np.prod(shape, dtype=object))
                if at is not None or not 0 <= count * dtype.itemsize <= rest:
                    raise ValueError(f"an array {shape}")
                rest -= count * dtype.itemsize
                arrays.append(np.frombuffer(self._bytes(count * dtype.itemsize), dtype).reshape(shape))
            return head, _tree(head.pop("tree"), arrays)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ConnectionError(f"a damaged frame: {error}") from error

    def _bytes(self, size: int) -> bytearray:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            if not (more := self.socket.recv_into(view[got:])):
                raise ConnectionError("the other end has gone")
            got += more
        return data

    # as `multiprocessing.connection` asks for its challenges
    def send_bytes(self, data: bytes) -> None:
        """A short message."""
        self.socket.sendall(_SIZES.pack(len(data), 0) + data)

    def recv_bytes(self, most: int = _CHALLENGE) -> bytes:
        """One."""
        size, _ = _SIZES.unpack(self._bytes(_SIZES.size))
        if size > min(most, _CHALLENGE):
            raise ConnectionError(f"a challenge of {size} bytes")
        return bytes(self._bytes(size))

    def close(self) -> None:
        """No more."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Service:
    """A `TableServer` that listens at `host`; whoever holds `key` may call it. Each worker has a thread here, which
    waits where rows must have pushes that are not in."""

    def __init__(self, server: TableServer, born: str, key: bytes, host: str) -> None:
        self.server, self.born, self.key = server, born, key
        self._news = threading.Condition()
        self._listener = socket.create_server((host, 0), backlog=128)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        _thread(self._accept)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                _thread(self._serve, self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        line = Line(connection)
        with suppress(*_GONE):
            connection.settimeout(_PATIENCE)
            deliver_challenge(line, self.key)  # type: ignore[arg-type]
            answer_challenge(line, self.key)  # type: ignore[arg-type]
            head, _ = line.receive()
            window = Window.open(str(head["memory"]), bytes.fromhex(head["proof"]))
            connection.settimeout(None)
            line.send({"here": window is not None}, None)
            while True:
                head, arguments = line.receive(window)
                about = {"id": head["id"], "born": self.born}
                try:
                    line.send(about, self._answer(head["call"], arguments))
                except Exception as error:  # whatever it is, the caller is told
                    line.send({**about, "error": type(error).__name__, "text": str(error)}, None)
        line.close()

    def _answer(self, name: str, arguments: Any) -> Any:
        with self._news:
            if name == "pull":
                clock, wanted, touch, into = arguments
                self._news.wait_for(lambda: not touch or self.server.ready(clock))
                rows = self.server.pull(wanted, touch, into)
                return rows if into is None else None
            if name not in _CALLS:
                raise errors.UsageError(f"a table server has no call {name!r}")
            answer = getattr(self.server, name)(*arguments)
            self._news.notify_all()
            return answer


class Far:
    """A server behind a `Service`, as a client calls it.

    reach     gives (host, port, key) of where it is now; ServerLost while it is nowhere
    timeout   seconds that an answer may take
    """

    def __init__(self, reach: Callable[[], tuple[str, int, bytes]], blocks: Blocks, timeout: float) -> None:
        self.reach, self.blocks, self.timeout = reach, blocks, timeout
        self._line: Line | None = None
        self._here = False  # whether it sees the blocks
        self._sent = 0
        self._waiting: dict[int, Any] = {}  # of calls that are not answered: their arrays, and where rows go
        self._early: dict[int, tuple[dict[str, Any], Any]] = {}

    def send(self, name: str, *arguments: Any) -> int:
        """The number of the call; where the server is lost, `receive` says so."""
        self._sent += 1
        with suppress(ServerLost):
            line = self._connected()
            into = arguments[3] if name == "pull" else None
            if into is not None and (not self._here or any(self.blocks.find(each) is None for each in into.values())):
                arguments = (*arguments[:3], None)
            try:
                about = {"id": self._sent, "call": name}
                kept = line.send(about, arguments, self.blocks if self._here else None)
                self._waiting[self._sent] = kept, into
            except _GONE:
                self.close()
        return self._sent

    def receive(self, ticket: int) -> tuple[str, Any]:
        """The answer."""
        while ticket not in self._early:
            if self._line is None or ticket not in self._waiting:
                raise ServerLost("no connection")
            try:
                head, answer = self._line.receive()
            except TimeoutError:
                raise RankError(
                    f"tables: no answer for {self.timeout:g} s; a server hangs, or rows wait for a worker that has gone"
                ) from None
            except _GONE as error:
                self.close()
                raise ServerLost(str(error)) from error
            self._early[int(head["id"])] = head, answer
        head, answer = self._early.pop(ticket)
        _, into = self._waiting.pop(ticket)
        if "error" in head:
            kind = _ERRORS.get(head["error"])
            raise kind(head["text"]) if kind else RankError(f"table server: {head['error']}: {head['text']}")
        if into is not None:
            for name, rows in (answer or {}).items():
                into[name][...] = rows
            answer = into
        return str(head["born"]), answer

    def _connected(self) -> Line:
        if self._line is not None:
            return self._line
        host, port, key = self.reach()
        try:
            self._line = line = Line(socket.create_connection((host, port), timeout=self.timeout))
            answer_challenge(line, key)  # type: ignore[arg-type]
            deliver_challenge(line, key)  # type: ignore[arg-type]
            line.send({"memory": self.blocks.path, "proof": self.blocks.proof.hex()}, None)
            self._here = bool(line.receive()[0]["here"])
        except _GONE as error:
            self.close()
            raise ServerLost(str(error)) from error
        return line

    def close(self) -> None:
        """Leave the server."""
        if self._line is not None:
            self._line.close()
        self._line = None
        self._waiting.clear()
        self._early.clear()


def _plain(tree: Any, arrays: list[Array], known: dict[int, int]) -> Any:
    """A tree without its arrays, each once into the list."""
    if isinstance(tree, np.ndarray):
        if id(tree) not in known:
            known[id(tree)] = len(arrays)
            arrays.append(tree)
        return {"@": known[id(tree)]}
    if isinstance(tree, Mapping):
        return {key: _plain(value, arrays, known) for key, value in tree.items()}
    return [_plain(each, arrays, known) for each in tree] if isinstance(tree, list | tuple) else tree


def _tree(plain: Any, arrays: list[Array]) -> Any:
    if isinstance(plain, dict):
        if "@" in plain:
            return arrays[plain["@"]]
        return {key: _tree(value, arrays) for key, value in plain.items()}
    return [_tree(each, arrays) for each in plain] if isinstance(plain, list) else plain


def _thread(target: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


__all__ = ["Far", "Service"]

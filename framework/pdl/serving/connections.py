"""Connections of HTTP. One on which a request is answered counts as that request; those that wait for one have a limit
of their own, at which the ones that have waited longest go, and a time. So nobody takes a place by being there.
"""

from __future__ import annotations

import heapq
import resource
from collections.abc import Sized
from contextlib import suppress
from typing import Any

KEEP = 75  # seconds that a connection stays open after an answer with nothing asked
HEAD = 64 << 10  # bytes of the line and the headers of a request
LOOK = 1.0  # seconds between looks for requests that do not arrive
OTHERS = 256  # files that a process has open beside its connections


class Connections:
    """Those of a server.

    idle      that may wait
    seconds   that a request may take to begin: its line and headers
    request   bytes of the body of one
    """

    def __init__(self, idle: int, seconds: float, request: int) -> None:
        self.idle, self.seconds, self.request = idle, seconds, request
        self.open: set[Any] = set()
        self.asked: Sized = ()  # requests that are answered

    def protocol(self, base: Any) -> Any:
        """What speaks HTTP by `base`, a protocol of uvicorn, and is held to all that."""
        outer = self

        class Protocol(base):  # type: ignore[misc]
            since, head = 0.0, 0  # the time at which it began to wait for a request, and bytes that have come of it

            def on_response_complete(self) -> None:
                super().on_response_complete()
                self.since = self.loop.time()

            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                self.since = self.loop.time()
                outer.open, outer.asked = self.connections, self.tasks
                if len(outer.open) - len(outer.asked) > outer.idle:
                    outer.make_room()

            def data_received(self, data: bytes) -> None:
                before = self.cycle
                super().data_received(data)
                if self.cycle is not before:
                    self.head = 0
                elif before is None or before.response_complete:
                    if not self.head:
                        self.since = self.loop.time()
                    self.head += len(data)
                    rest = outer.request if before is not None and before.more_body else 0  # of one that was refused
                    if self.head > HEAD + rest and not self.transport.is_closing():
                        self.send_400_response(f"The headers of a request have at most {HEAD} bytes.")

        return Protocol

    def make_room(self) -> None:
        """Close those that have waited longest."""
        waiting = [(since, id(each), each) for each in self.open if (since := _since(each)) is not None]
        for _, _, each in heapq.nsmallest(max(0, len(waiting) - self.idle + self.idle // 16), waiting):
            each.transport.close()

    def look(self, now: float) -> None:
        """Close those whose request does not arrive, and those that have been silent too long since an answer."""
        for each in list(self.open):
            since = _since(each)
            if since is not None and now - since > (self.seconds if each.cycle is None or each.head else KEEP):
                each.transport.close()


def _since(each: Any) -> float | None:
    """The time since when a connection waits for a request; None: it is answered one."""
    if each.cycle is not None and not each.cycle.response_complete:
        return None
    return each.since  # type: ignore[no-any-return]


def allow_files(count: int) -> None:
    """Let this process have so many connections open, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHERS if hard == resource.RLIM_INFINITY else min(count + OTHERS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

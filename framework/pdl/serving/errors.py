"""What a server refuses, with the status of HTTP and the code of gRPC that say so."""

from __future__ import annotations

from pdl.errors import (
    DataError,
    DtypeError,
    IndexRangeError,
    LimitError,
    MemoryLimitError,
    PdlError,
    ShapeError,
    TimeLimitError,
    UsageError,
)


class Refused(PdlError):
    """A request that is not answered; `status` is that of HTTP, `code` the name of gRPC's, `reason` a word for metrics.

    retry   seconds after which the same request may be asked again; None: it would be refused again
    """

    def __init__(self, status: int, reason: str, message: str, *, retry: int | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry = status, reason, retry

    @property
    def code(self) -> str:
        """The name of the status of gRPC."""
        return _CODES.get(self.status, "UNKNOWN")


_CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED", 409: "FAILED_PRECONDITION", 413: "RESOURCE_EXHAUSTED", 429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


def bad(message: str) -> Refused:
    """A request that says something that cannot be answered."""
    return Refused(400, "bad_request", message)


def full(name: str, most: int) -> Refused:
    """A queue that has no room."""
    return Refused(429, "queue_full", f"{name}: {most} requests are waiting, the most there may be; try again", retry=1)


def late(seconds: float) -> Refused:
    """A request whose deadline has passed."""
    return Refused(504, "deadline", f"not answered within {seconds:g} seconds, the time limit of the request")


def refusal(error: BaseException) -> Refused:
    """What an error of a run says to the one who asked: what a request is to blame for with its reason, all else as
    an error of the server, whose details belong in its log."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, TimeLimitError):
        return Refused(504, "deadline", str(error))
    if isinstance(error, MemoryLimitError):
        return Refused(413, "memory", str(error))
    if isinstance(error, LimitError | ShapeError | DtypeError | IndexRangeError | UsageError | DataError):
        return bad(str(error))
    if isinstance(error, MemoryError):
        return Refused(503, "memory", "the server has not enough memory for this now; try again", retry=5)
    return Refused(500, "internal", "the server failed to answer; its log says why")

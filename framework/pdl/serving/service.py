"""What a server does with requests, whichever way they came: limits, queue, deadline, cancellation, metrics, log."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any, Protocol, TextIO

from pdl.dtype import Array
from pdl.serving.answering import Asked, answers
from pdl.serving.batching import Job
from pdl.serving.errors import Refused, full, late, refusal
from pdl.serving.models import Models, Version

MIB = 1 << 20
PATIENCE = 0.05  # seconds until it is looked whether who asked is still there


@dataclass(frozen=True)
class Settings:
    """What a server accepts.

    seconds      that a request may take; what it asks for itself counts where it is less
    request      bytes of a request
    held         bytes of all requests that are being read or answered
    pixels       of an image
    inputs       of one POST /predict
    at_once      threads that prepare inputs and finish answers of POST /predict
    connections  on which requests are answered at once: requests that may be under way
    idle         connections that may be open with nothing asked
    tokens       any of which a request must show; none: everybody may ask
    hosts        names that a request may call this server by; none: any
    control      whether models may be loaded and unloaded by request
    requests     whether each request is logged
    """

    seconds: float = 30.0
    request: int = 16 * MIB
    held: int = 256 * MIB
    pixels: int = 50_000_000
    inputs: int = 256
    at_once: int = 16
    connections: int = 1024
    idle: int = 1024
    tokens: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    control: bool = False
    requests: bool = False


class Log:
    """Lines of JSON: time, event, and facts of it."""

    def __init__(self, stream: TextIO | None = None, **always: Any) -> None:
        self.stream, self.always = stream, always
        self._lock = threading.Lock()

    def __call__(self, event: str, **facts: Any) -> None:
        """A line."""
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
        line = json.dumps({"time": stamp, "event": event, **self.always, **facts}, ensure_ascii=True, default=str)
        with self._lock:
            try:
                stream = self.stream or sys.stderr
                stream.write(f"{line}\n")
                stream.flush()
            except (OSError, ValueError):  # a log that nobody reads ends no server
                pass


class Tracing(Protocol):
    """What follows requests, such as `pdl.serving.telemetry.OpenTelemetry`."""

    def begin(self, name: str, carrier: Mapping[str, str]) -> Any:
        """A request begins; `carrier` has what it says about the trace that it is a part of (`traceparent`)."""

    def end(self, span: Any, facts: Mapping[str, Any]) -> None:
        """It has ended; facts are model, version, status, and seconds in queue and run."""


Watch = Callable[[], Coroutine[Any, Any, None]]
"""Returns when who asked is gone."""


@dataclass(slots=True)
class Facts:
    """What is known of a request when it has ended."""

    way: str
    model: str = ""
    version: str = ""
    status: int = 200
    reason: str = ""
    id: str = ""
    waited: float = 0.0
    ran: float = 0.0
    began: float = field(default_factory=perf_counter)
    counted: Version | None = None
    span: Any = None


class Service:
    """Answers requests on the loop that runs when it is made."""

    def __init__(
        self, models: Models, settings: Settings | None = None, log: Log | None = None, tracing: Tracing | None = None
    ) -> None:
        self.models, self.settings = models, settings or Settings()
        self.log = log or Log()
        self.tracing = tracing
        self.alone = True  # no other worker serves the same
        self.draining = False
        self.held = 0  # bytes of requests
        self.under_way = 0
        self.open: Callable[[], int] = lambda: 0  # connections of a server
        self.asking = 0  # requests that threads prepare, or that wait for one
        self._woken = self._wake
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # the loop's
        self._came = self._before = 0  # requests for inference in this turn of the loop, and in the last one with any
        self.pool = ThreadPoolExecutor(self.settings.at_once, "pdl-serve-predict")
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- arrays --------------------------------------------------------------------------------------------------------
    async def infer(
        self,
        facts: Facts,
        version: Version,
        arrays: Mapping[str, Array],
        seconds: float | None,
        watch: Watch | None,
    ) -> tuple[Version, Mapping[str, Array]]:
        """The outputs for arrays that were checked for `version`, and the version that gave them: it, or what replaced
        it since."""
        loop = self.loop
        if loop is None:
            loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            self.loop = loop
        longest = self.settings.seconds
        seconds = longest if seconds is None or seconds > longest else seconds
        job = _Awaited(arrays, version.rows(arrays), self._woken, seconds)
        version = self.models.submit(version, job, loop.call_soon, lone=self._lone(loop))
        if not job.settled:
            await self._settled(loop, job, watch, version.batcher.quick(job.rows))
        facts.waited, facts.ran = job.waited, job.ran
        if job.error is not None:
            raise job.error
        assert job.outputs is not None
        if self.models.entries[version.name].shadow is not None:
            self.models.mirror(version, arrays, job.rows, job.outputs)
        return version, job.outputs

    def _lone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a request for inference is the only one: no other is under way, and in the last turn of the loop was
        none beside one. So those of many connections, which a loop finds in one turn, are gathered."""
        self._came += 1
        if self._came == 1:
            loop.call_soon(self._turn)
        return self.under_way <= 1 and self._came == 1 and self._before <= 1

    def _turn(self) -> None:
        self._before, self._came = self._came, 0

    async def _settled(self, loop: asyncio.AbstractEventLoop, job: _Awaited, watch: Watch | None, quick: bool) -> None:
        """Wait for what becomes of a job; unless that is `quick`, see after a while whether somebody waits for it."""
        job.future = loop.create_future()
        seconds = self.settings.seconds if job.seconds is None else job.seconds
        timer = None if quick else loop.call_later(min(PATIENCE, seconds), self._look, job, watch)
        try:
            await job.future
        except asyncio.CancelledError:
            job.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if job.watching is not None:
                job.watching.cancel()

    def _look(self, job: _Awaited, watch: Watch | None) -> None:
        """An answer takes long: from now on see whether somebody waits for it, and for how long."""
        assert self.loop is not None
        job.watching = self.loop.create_task(self._watch(job, watch))

    async def _watch(self, job: _Awaited, watch: Watch | None) -> None:
        assert job.deadline is not None
        left = job.deadline - monotonic()
        error = late(job.seconds or 0.0)
        try:
            async with asyncio.timeout(max(left, 0)):
                await (asyncio.Event().wait() if watch is None else watch())
            error = Refused(499, "cancelled", "who asked is gone")
        except TimeoutError:
            pass
        job.cancel()
        if job.future is not None and not job.future.done():
            job.future.set_exception(error)

    def _wake(self, jobs: list[Any]) -> None:
        """In the batcher's thread, or in the loop's."""
        assert self.loop is not None
        if threading.get_ident() == self._thread:
            return _settle(jobs)
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self.loop.call_soon_threadsafe(_settle, jobs)

    # -- inputs as people have them ------------------------------------------------------------------------------------
    async def predict(self, facts: Facts, wanted: Asked, watch: Watch | None) -> list[dict[str, Any]]:
        """The answers of POST /predict, by threads."""
        name = wanted.model or self._only()
        version = self.models.find(name, wanted.version)
        facts.model, facts.version, facts.counted = version.name, version.version, version
        if self.asking >= self.models.policy.waiting:
            raise full(name, self.models.policy.waiting)
        loop, seconds = asyncio.get_running_loop(), self.settings.seconds
        self.asking += 1
        future = loop.run_in_executor(self.pool, self._answers, version, wanted, monotonic() + seconds, seconds)
        future.add_done_callback(self._asked)
        gone: asyncio.Task[None] | None = loop.create_task(watch()) if watch is not None else None
        try:
            waits: list[asyncio.Future[Any]] = [future, *([gone] if gone is not None else [])]
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if future in done:
                return future.result()
            future.cancel()
            if gone in done:
                raise Refused(499, "cancelled", "who asked is gone")
            raise late(seconds)
        finally:
            if gone is not None:
                gone.cancel()

    def _asked(self, future: asyncio.Future[Any]) -> None:
        self.asking -= 1
        if not future.cancelled():
            future.exception()  # who asked may be gone

    def _answers(self, version: Version, wanted: Asked, deadline: float, seconds: float) -> list[dict[str, Any]]:
        from pdl.serving.batching import Closed

        for _ in range(8):
            left = deadline - monotonic()
            if left <= 0:
                raise late(seconds)
            try:
                return answers(version, wanted, left, self.settings.pixels)
            except Closed:
                version = self.models.find(version.name, wanted.version)
        raise Refused(503, "not_loaded", f"{version.name} is being replaced again and again", retry=1)

    def _only(self) -> str:
        names = list(self.models.entries)
        if len(names) != 1:
            raise Refused(400, "bad_request", f"which model? say ?model=NAME; served are {', '.join(names)}")
        return names[0]

    # -- accounts ------------------------------------------------------------------------------------------------------
    def begin(self, way: str, carrier: Mapping[str, str] | None = None) -> Facts:
        """A request."""
        facts = Facts(way)
        if self.tracing is not None:
            facts.span = self.tracing.begin(f"pdl {way}", carrier or {})
        self.under_way += 1
        return facts

    def failed(self, facts: Facts, error: BaseException) -> Refused:
        """What is said of an error; what nobody expected is logged with its lines."""
        said = refusal(error)
        facts.status, facts.reason = said.status, said.reason
        if said.status == 500:
            trace = "".join(traceback.format_exception(error))[-4000:]
            self.log("error", way=facts.way, model=facts.model, error=str(error), trace=trace)
        self.models.metrics.count("pdl_refused_total", way=facts.way, reason=said.reason)
        return said

    def end(self, facts: Facts) -> None:
        """A request has its answer, or has been refused."""
        self.under_way -= 1
        took = perf_counter() - facts.began
        version = facts.counted
        if version is not None:
            key = facts.way, facts.status
            series = version.counters.get(key)
            if series is None:
                metrics, labels = self.models.metrics, {**version.labels, "way": facts.way}
                series = version.counters[key] = (
                    metrics.counter("pdl_requests_total", **labels, status=facts.status),
                    metrics.histogram("pdl_request_seconds", **labels),
                    metrics.histogram("pdl_queue_seconds", **version.labels),
                )
            series[0].add()
            series[1].see(took)
            if facts.ran:
                series[2].see(facts.waited)
        if self.tracing is not None:
            self.tracing.end(facts.span, {
                "model": facts.model, "version": facts.version, "status": facts.status, "reason": facts.reason,
                "queue_seconds": facts.waited, "run_seconds": facts.ran,
            })  # fmt: skip
        if self.settings.requests:
            self.log("request", way=facts.way, model=facts.model, version=facts.version, status=facts.status,
                     reason=facts.reason, id=facts.id, ms=round(1e3 * took, 3), queue_ms=round(1e3 * facts.waited, 3),
                     run_ms=round(1e3 * facts.ran, 3))  # fmt: skip

    def metrics_text(self) -> str:
        """All metrics, with those that are looked up now."""
        metrics = self.models.metrics
        for version in self.models:
            metrics.gauge("pdl_waiting", float(version.batcher.waiting), **version.labels)
        metrics.gauge("pdl_under_way", float(self.under_way))
        metrics.gauge("pdl_connections", float(self.open()))
        return metrics.text()

    async def reload(self, name: str | None = None) -> list[str]:
        """`Models.reload`, while requests go on."""
        return await asyncio.get_running_loop().run_in_executor(None, self.models.reload, name)

    def background(self, work: Any) -> None:
        """Run a coroutine beside requests."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Awaited(Job):
    """A job that a coroutine waits for, if it was not `settled` at once."""

    __slots__ = ("future", "settled", "watching")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.settled = False
        self.future: asyncio.Future[None] | None = None
        self.watching: asyncio.Task[None] | None = None


def _settle(jobs: list[_Awaited]) -> None:
    for job in jobs:
        job.settled = True
        if job.future is not None and not job.future.done():
            job.future.set_result(None)

"""Several processes that serve the same models on one socket: a parent that starts them, and starts again what ends.

All accept from the same socket, so that connections which wait belong to none of them, and a worker that is killed
takes along only what it was answering. Workers whose parent is gone drain and end. Files of bundles are mapped by each
and lie in memory once; metrics lie in memory that all share. The parent loads no model: SIGHUP, SIGTERM and SIGINT are
handed on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pdl.errors import PdlError, UsageError
from pdl.serving.batching import Batching
from pdl.serving.metrics import Metrics, Shared
from pdl.serving.models import Models, Source
from pdl.serving.server import Listening, serve
from pdl.serving.service import Log, Service, Settings

QUICK, WAIT = 5.0, 10.0  # seconds that a worker lives at least, and that one which did not is waited for at most
STARTUP = 600.0
READY = b"\n"


def plan_of(
    sources: Sequence[Source], policy: Batching, settings: Settings, where: Listening, options: Mapping[str, Any],
    weights: Mapping[str, Mapping[str, float]], shadows: Mapping[str, str], telemetry: bool,
) -> dict[str, Any]:  # fmt: skip
    """All that a worker has to know, as plain values."""
    return {
        "sources": [vars(each) for each in sources], "policy": vars(policy), "settings": vars(settings),
        "where": vars(where), "options": dict(options), "weights": weights, "shadows": shadows, "telemetry": telemetry,
    }  # fmt: skip


def models_of(plan: Mapping[str, Any], metrics: Metrics, log: Log) -> Models:
    """The models of a plan, loaded."""
    made = Models(
        [Source(**each) for each in plan["sources"]], policy=Batching(**plan["policy"]), metrics=metrics,
        weights=plan["weights"], shadows=plan["shadows"], options=plan["options"],
        seconds=plan["settings"]["seconds"], tell=log,
    )  # fmt: skip
    made.load_all()
    return made


def run_one(
    plan: Mapping[str, Any], sock: socket.socket, log: Log, started: Callable[[int | None], None],
    *, metrics: Metrics | None = None, reload: Callable[[], None] | None = None,
) -> bool:  # fmt: skip
    """Serve in this process; whether all was answered."""
    tracing = None
    if plan["telemetry"]:
        from pdl.serving.telemetry import OpenTelemetry

        tracing = OpenTelemetry()
    models = models_of(plan, metrics or Metrics(), log)
    settings = Settings(**{**plan["settings"], **{k: tuple(plan["settings"][k]) for k in ("tokens", "hosts")}})

    def service(models: Models, settings: Settings) -> Service:
        return Service(models, settings, log, tracing)

    return serve(models, settings, Listening(**plan["where"]), sock, service=service, started=started, reload=reload)


class Workers:
    """The parent."""

    def __init__(self, count: int, plan: Mapping[str, Any], sock: socket.socket, log: Log) -> None:
        if count < 2 or count > 256:
            raise UsageError(f"--workers {count}: expected 1 to 256")
        self.count, self.plan, self.sock, self.log = count, plan, sock, log
        self.shared = Shared(count + 1)  # the last part is the parent's
        self.metrics = Metrics(self.shared, count)
        self.metrics.gauge("pdl_workers", float(count))
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self.began = [0.0] * count
        self.tries = [0] * count
        self.ending = False
        self._alive, self._own = os.pipe()  # nobody writes: workers read its end when this process is gone

    def _start(self, number: int) -> int:
        """Start a worker; what it writes to when it is ready."""
        reading, writing = os.pipe()
        told, telling = os.pipe()
        handed = (self.sock.fileno(), self.shared.descriptor, writing, told, self._alive)
        for each in handed:
            os.set_inheritable(each, True)
        words = [sys.executable, "-m", "pdl.serving.workers", *map(str, (number, self.count + 1, *handed))]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # until the worker has a handler (`server`)
        self.processes[number] = subprocess.Popen(words, pass_fds=handed, stdin=subprocess.DEVNULL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self.began[number] = time.monotonic()
        os.close(writing)
        os.close(told)
        with os.fdopen(telling, "wb") as file, suppress(BrokenPipeError):
            file.write(json.dumps(self.plan).encode())
        return reading

    def run(self, started: Callable[[int | None], None]) -> bool:
        """Until a signal; whether all workers have answered all that they were asked."""
        previous = {number: signal.signal(number, self._receive)
                    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}  # fmt: skip
        try:
            pipes = [self._start(number) for number in range(self.count)]
            for number, pipe in enumerate(pipes):
                with os.fdopen(pipe, "rb") as file:
                    if file.read(1) != READY and not self.ending:
                        self._end()
                        raise UsageError(f"worker {number} could not start; its error is above")
            if not self.ending:
                started(self.plan["where"]["grpc"])
            self._keep()
            codes = {0 if each is None else each.wait() for each in self.processes}
            return codes <= {0, -signal.SIGTERM}  # one that had not begun yet
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _keep(self) -> None:
        """Start again what ends, until all of it shall end."""
        while any(each is not None and each.poll() is None for each in self.processes) or not self.ending:
            for number, process in enumerate(self.processes):
                if self.ending or (process is not None and process.poll() is None):
                    continue
                lived = time.monotonic() - self.began[number]
                if process is not None:
                    self.log("worker ended", worker=number, code=process.returncode, seconds=round(lived, 1))
                    self.metrics.count("pdl_restarts_total")
                    self.tries[number] = self.tries[number] + 1 if lived < QUICK else 0
                    self.processes[number] = None
                    self.began[number] = time.monotonic() + min(WAIT, 0.1 * 2 ** min(self.tries[number], 8)) - 0.1
                elif lived >= 0:
                    os.close(self._start(number))
            time.sleep(0.05)

    def _receive(self, number: int, frame: Any) -> None:
        if number != signal.SIGHUP:
            if self.ending:
                number = signal.SIGKILL
            self.ending = True
        self._send(number)

    def _send(self, number: int) -> None:
        for process in self.processes:
            if process is not None and process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    def _end(self) -> None:
        self.ending = True
        self._send(signal.SIGTERM)
        for process in self.processes:
            if process is not None:
                process.wait()


def main(words: Sequence[str]) -> int:
    """A worker: its number, how many parts the metrics have, and descriptors."""
    number, parts, listening, shared, ready, told, alive = map(int, words)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
    with os.fdopen(told, "rb") as file:
        plan = json.loads(file.read())
    log = Log(worker=number)
    parent = os.getppid()

    def started(port: int | None) -> None:
        with suppress(BrokenPipeError):  # one that was started again is not waited for
            os.write(ready, READY)
        os.close(ready)

    def reload() -> None:
        os.kill(parent, signal.SIGHUP)

    try:
        drained = run_one(
            plan, socket.socket(fileno=listening), log, started,
            metrics=Metrics(Shared(parts, shared), number), reload=reload,
        )  # fmt: skip
    except PdlError as error:
        log("error", error=str(error))
        return error.exit_code
    return 0 if drained else 1


def _end_with_parent(alive: int) -> None:
    """Drain when the parent is gone, be it by kill -9."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

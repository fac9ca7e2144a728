"""Several runs at once on this machine, each in a process with cores of its own.

A worker (`python -m pdl.cli.sweep_worker`) reads an order a line on standard input and answers in lines of JSON:
{"epoch": 3, "value": 0.9, "last": false} after each evaluation, which waits for {"stop": ""}; at last {"done": ...}.
The end of its input tells it to end after the step under way, with a checkpoint: so it does where the sweep was killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any

from pdl.errors import CheckError, DataError, NumericalError, PdlError, UsageError
from pdl.threads import get_num_threads
from pdl.workflow.sweeps.plans import Job
from pdl.workflow.sweeps.trials import Trials

MODULE = "pdl.cli.sweep_worker"
AGAIN = 2  # times that a run is taken up again whose process was killed
KINDS = {each.__name__: each for each in (DataError, NumericalError, UsageError)}  # that `Trials.failed` tells apart


class Worker:
    """A process that trains one run after another."""

    def __init__(self, threads: int) -> None:
        environment = {**os.environ, "PDL_NUM_THREADS": str(threads)}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `close`)
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._said, encoding="utf-8", start_new_session=True,
        )  # fmt: skip

    def tell(self, **message: Any) -> None:
        """A line to the process."""
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, which its answers say, or is to end
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """A line from the process; {} where it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line.endswith("\n") else {}

    def leave(self) -> None:
        """It ends after the step under way."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def close(self) -> str:
        """It has ended, or does so now: why, if not in good order."""
        self.leave()
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        return f"signal {-code}" if code < 0 else (lines[-1] if lines else f"exit code {code}")


def at_once(trials: Trials, jobs: int) -> None:
    """Train all, `jobs` runs at once. An interruption ends those under way with checkpoints, a second one at once."""
    threads = max(1, get_num_threads() // jobs)
    drivers = [_Driver(trials, threads) for _ in range(jobs)]
    for driver in drivers:
        driver.start()
    try:
        while any(driver.is_alive() for driver in drivers):
            for driver in drivers:
                driver.join(0.1)
            if any(driver.error for driver in drivers):
                break
    finally:
        for driver in drivers:
            driver.leave()
        try:
            for driver in drivers:
                driver.join()
        except BaseException:
            for driver in drivers:
                driver.kill()
            raise
    for driver in drivers:
        if driver.error is not None:
            raise driver.error


class _Driver(threading.Thread):
    """Hands runs to a worker, one after another, and tells `trials` what becomes of them."""

    def __init__(self, trials: Trials, threads: int) -> None:
        super().__init__(daemon=True)
        self.trials, self.threads = trials, threads
        self.worker: Worker | None = None
        self.error: BaseException | None = None
        self.leaving = False

    def leave(self) -> None:
        """No run is begun any more, and the one under way ends after its step."""
        self.leaving = True
        if self.worker is not None:
            self.worker.leave()

    def kill(self) -> None:
        """The process ends at once."""
        if self.worker is not None:
            self.worker.process.kill()

    def run(self) -> None:
        """Until nothing is left."""
        try:
            while not self.leaving and (job := self.trials.take()) is not None:
                self._train(job)
        except BaseException as error:
            self.error = error
        finally:
            if self.worker is not None:
                self.worker.close()

    def _train(self, job: Job) -> None:
        killed = 0
        while not self.leaving:
            self.worker = self.worker or Worker(self.threads)
            if self.leaving:  # meanwhile
                return self.worker.leave()
            self.worker.tell(**job.order)
            answer = self._until_done(self.worker, job)
            if answer:
                return self._ended(job, answer)
            if self.leaving:
                return None
            why, self.worker = self.worker.close(), None
            killed += 1
            if killed > AGAIN:
                error = CheckError(f"its process ended {killed} times, at last by {why}")
                return self.trials.failed(job, error)
            self.trials.say(self.trials.trials[job.plan.name], job, f"its process ended ({why}); it is taken up again")
        return None

    def _until_done(self, worker: Worker, job: Job) -> dict[str, Any]:
        while (answer := worker.answer()) and "done" not in answer:
            value = float("nan") if answer["value"] is None else answer["value"]
            worker.tell(stop=self.trials.evaluated(job, answer["epoch"], value, answer["last"]))
        return answer

    def _ended(self, job: Job, answer: dict[str, Any]) -> None:
        how, said = answer["done"], answer.get("said", "")
        if how == "finished":
            self.trials.done(job)
        elif how == "stopped":
            self.trials.stopped(job, said)
        elif how != "interrupted":
            self.trials.failed(job, told(how, said))


def told(kind: str, said: str) -> PdlError:
    """The error that another process told of, by the name of its class."""
    return KINDS.get(kind, CheckError)(said)

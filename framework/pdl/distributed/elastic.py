"""Training with processes that come and go: `pdl train --elastic MIN:MAX`.

A `Supervisor` starts the processes and watches over them; each is a `Member`. Those that are there form a generation: a
`Group` of sockets. A process that ends, is silent or is told to end breaks the generation; those that are left say
where they stand and form the next one, whose rank 0 hands its state to all: the rank 0 of before where it lives, else
the one that has done least. All are equal after a step, so none is lost but the one under way. New ones wait until
those of the generation have come to the end of a step.

What comes over the sockets, which only this user can reach (a folder with mode 700), is JSON and numbers.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

from pdl.distributed.group import Group
from pdl.distributed.launcher import RANK, threads_each
from pdl.distributed.peers import Lost, Peers, Wire
from pdl.distributed.pods import RESTART, STOPPED, Line
from pdl.errors import UsageError, listed

_PLACE, _ADDRESS = "PDL_ELASTIC_PLACE", "PDL_ELASTIC"  # environment of a member
_BEAT = "PDL_ELASTIC_BEAT"
_HELLO = struct.Struct("<II")  # generation, rank
_PAUSES = (1.0, 60.0)  # seconds until a lost one is started again: at first, and after many losses in a row
_LEAVE = 60.0  # and one that was told to end
_STEADY = 30.0  # seconds after which one that was started again is as good as the others
_VAIN = 5  # losses in a row without a step between them
_LAST = 30.0  # seconds to end in good order
_TICK = 0.1


def bounds(text: str) -> tuple[int, int]:
    """MIN and MAX of ``MIN:MAX``, or of ``N``, both the same."""
    least, _, most = text.partition(":")
    most = most or least
    if not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most) <= 1024):
        raise UsageError(f"--elastic {text}: expected MIN:MAX, how many processes there are at least and at most: 1:4")
    return int(least), int(most)


# -- the processes ---------------------------------------------------------------------------------------------------
class Regroup(KeyboardInterrupt):
    """Others wait to join: this generation ends after the step under way."""

    def __init__(self) -> None:
        super().__init__("the processes of this training regroup")


@dataclass(frozen=True)
class Generation:
    """Those who train together from now on.

    run     the run folder, where there is one already
    source  whether rank 0 holds the state to go on from in memory
    said    what has happened, for the log of the run
    """

    number: int
    group: Group
    run: str | None
    source: bool
    said: list[str]


class Member:
    """This process, one of those that a `Supervisor` has started."""

    def __init__(self, address: str, place: int) -> None:
        self.place, self.ending, self.number, self.rank = place, False, -1, place
        self.trainer: Any = None
        self._asked: KeyboardInterrupt | None = None
        self._broken = -1  # the last generation of which one is gone
        self._inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._wire: Wire | None = None
        path = str(Path(address).with_name(f"{place}-{os.getpid()}"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(1024)
        connection = Client(address, family="AF_UNIX")
        beat = float(os.environ.get(_BEAT, "5"))
        self.line = Line(connection, beat=beat)
        self.line.send(place=place, pid=os.getpid(), host=os.uname().nodename, address=path)
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self, held: Sequence[int] | None, save: Callable[[str], None] | None = None) -> Generation:
        """The next generation. `held`: how far the state in this process has come, if there is one, and `save` writes
        it into a run folder. SystemExit where the training is over."""
        while True:
            self._close()
            self.line.send(waits=self.number, held=held and list(held))
            while "number" not in (message := self._inbox.get() or {"over": 0}):
                if "over" in message:
                    raise SystemExit(int(message["over"]))
                if "save" in message and save is not None:
                    save(message["save"])
                    self.line.send(saved=True)
            self.number, self.rank, self._asked = int(message["number"]), int(message["rank"]), None
            os.environ[RANK] = str(self.rank)
            with suppress(Lost):
                group = self._join(message["addresses"], float(message["timeout"]))
                return Generation(self.number, group, message["run"], bool(message["source"]), message["said"])

    def training(self, trainer: Any) -> None:
        """What is to end where others wait to join; None: nothing."""
        self.trainer = trainer
        if trainer is not None and self._asked is not None:
            trainer.interruption = trainer.interruption or self._asked

    def leave(self, code: int) -> SystemExit:
        """This process alone goes, with what others need handed over."""
        self._close()
        self.line.send(leaves=True)
        return SystemExit(code)

    def done(self) -> None:
        """The training has come to its end."""
        self.line.send(done=True)

    def missing(self, ranks: Sequence[int]) -> None:
        """These have not answered for longer than they may."""
        self.line.send(missing=list(ranks), generation=self.number)

    def _join(self, addresses: list[str], timeout: float) -> Group:
        sockets: dict[int, socket.socket] = {}
        end = time.monotonic() + timeout
        try:
            for rank in range(self.rank):
                sockets[rank] = each = socket.socket(socket.AF_UNIX)
                each.connect(addresses[rank])
                each.sendall(_HELLO.pack(self.number, self.rank))
            self._listener.settimeout(_TICK)
            while len(sockets) < len(addresses) - 1:
                if self._broken >= self.number or time.monotonic() > end:
                    raise Lost("a process is gone")
                with suppress(TimeoutError):
                    each, _ = self._listener.accept()
                    each.settimeout(timeout)
                    hello = each.recv(_HELLO.size, socket.MSG_WAITALL)
                    number, rank = _HELLO.unpack(hello) if len(hello) == _HELLO.size else (-1, -1)
                    if number == self.number:
                        sockets[rank] = each
                    else:
                        each.close()
        except (OSError, Lost) as error:
            for each in sockets.values():
                each.close()
            raise Lost("a process is gone") from error
        self._wire = Wire(self.rank, sockets, lambda: self._broken >= self.number)
        return _Watched(Peers(self._wire), self, timeout)

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = self.trainer = None

    def _listen(self) -> None:
        while (message := self.line.receive()) is not None:
            if "regroup" in message:
                if message["regroup"] == self.number:
                    self._asked = Regroup()
                    self.training(self.trainer)
            elif "lost" in message:
                self._broken = max(self._broken, int(message["lost"]))
            elif "end" in message:
                self._end(int(message["end"]))
            else:
                self._inbox.put(message)
        self._end(signal.SIGTERM)  # who watches over us is gone
        self._inbox.put(None)

    def _end(self, number: int) -> None:
        self.ending = True
        os.kill(os.getpid(), number)


class _Watched(Group):
    """A group that says whom it misses."""

    def __init__(self, comm: Any, member: Member, timeout: float) -> None:
        self.member = member
        super().__init__(comm, timeout=timeout)

    def part(self, ranks: Sequence[int]) -> Group:
        members = self.comm.Get_group().Incl(list(ranks))
        return Group(self.comm.Create_group(members), timeout=self.timeout)

    def _missing(self) -> list[int]:
        ranks = super()._missing()
        self.member.missing(ranks)
        return ranks


@cache
def member() -> Member | None:
    """What this process is in an elastic training; None where it is in none."""
    address = os.environ.get(_ADDRESS)
    return Member(address, int(os.environ[_PLACE])) if address else None


def is_member() -> bool:
    """Whether an elastic training has started this process."""
    return _ADDRESS in os.environ


# -- who watches over them -------------------------------------------------------------------------------------------
@dataclass
class Worker:
    """A process as its supervisor sees it.

    state    "starts", "waits" for a generation, "trains" in one, "leaves"
    held     how far the state in its memory has come; None: it has none
    """

    place: int
    process: subprocess.Popen[bytes]
    state: str = "starts"
    line: Line | None = None
    address: str = ""
    host: str = ""
    held: list[int] | None = None
    began: float = field(default_factory=time.monotonic)
    silent: str = ""  # why it was killed, if it was


class Supervisor:
    """Keeps between `least` and `most` processes of a command line at one training.

    heartbeat  seconds without a sign of life after which one is killed
    timeout    seconds that a process may be behind the others; and that fewer than `least` wait for more
    threads    of each process; by default the cores of this machine are divided among them
    pauses     seconds until a lost one is started again: at first, and at most
    """

    def __init__(
        self,
        line: Sequence[str],
        least: int,
        most: int,
        *,
        heartbeat: float = 30.0,
        timeout: float = 600.0,
        threads: int | None = None,
        pauses: tuple[float, float] = _PAUSES,
    ) -> None:
        self.line, self.least, self.most = list(line), least, most
        self.heartbeat, self.timeout, self.pauses = heartbeat, timeout, pauses
        self.threads = threads or threads_each(most)
        self.workers: dict[int, Worker] = {}  # by place
        self.due: dict[int, float] = dict.fromkeys(range(most), 0.0)  # when a place is filled again
        self.pause: dict[int, float] = {}
        self.number = 0  # of the generation
        self.members: list[Worker] = []  # of it, by rank
        self.asked = False  # it was asked to regroup
        self.run_folder: str | None = None
        self.said: list[str] = []  # since it began
        self.vain, self.mark = 0, -1  # losses in a row without progress, and how far it had come before
        self.lost = False  # one since the generation began
        self.short = 0.0  # since when there are too few
        self.saved = False  # what was learned last, after all was over
        self.code: int | None = None  # what to end with
        self.ended = 0.0  # when that was decided
        self._events: queue.SimpleQueue[tuple[Worker | None, dict[str, Any] | None]] = queue.SimpleQueue()
        self._signals: list[int] = []

    def run(self) -> int:
        """The exit code: 0, that of a process that failed, or `RESTART` where too few are left."""
        before = {n: signal.signal(n, self._receive) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        folder = tempfile.mkdtemp(prefix="pdl-")  # mode 700
        address = str(Path(folder) / "lead")
        try:
            with Listener(address, family="AF_UNIX", backlog=self.most) as listener:
                threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
                while not (self.code is not None and not self.workers):
                    self._turn(address)
            return self.code
        finally:
            for worker in self.workers.values():
                worker.process.kill()
                worker.process.wait()
            shutil.rmtree(folder, ignore_errors=True)
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- a turn of its loop --------------------------------------------------------------------------------------------
    def _turn(self, address: str) -> None:
        self._start(address)
        with suppress(queue.Empty):
            worker, message = self._events.get(timeout=_TICK)
            while True:
                if worker is not None:
                    self._hear(worker, message)
                worker, message = self._events.get_nowait()
        for worker in list(self.workers.values()):
            if worker.line is None and not worker.silent and time.monotonic() - worker.began > self.timeout:
                self._kill(worker, f"has not come in {self.timeout:g} s")
            if worker.process.poll() is not None:
                self._bury(worker)
        if self._signals and self.code is None:
            self._end(128 + self._signals[0], self._signals[0])
        if self.code is not None:
            if time.monotonic() - self.ended > _LAST or len(self._signals) > 1:
                for worker in self.workers.values():
                    worker.process.kill()
            return
        self._form()

    def _start(self, address: str) -> None:
        """Fill the places that are due."""
        for place, due in list(self.due.items()):
            if self.code is None and due <= time.monotonic():
                del self.due[place]
                environment = os.environ | {
                    _ADDRESS: address,
                    _PLACE: str(place),
                    RANK: str(place),
                    _BEAT: str(self.heartbeat / 5),
                    "PDL_NUM_THREADS": str(self.threads),
                }
                process = subprocess.Popen(self.line, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
                self.workers[place] = Worker(place, process)

    def _hear(self, worker: Worker, message: dict[str, Any] | None) -> None:
        if message is None:
            if worker.process.poll() is None and worker.state != "leaves" and self.code is None:
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(1.0)
                if worker.process.poll() is None:
                    self._kill(worker, f"gave no sign of life for {self.heartbeat:g} s")
        elif "waits" in message:
            worker.state, worker.held = "waits", message["held"]
            if self.code is not None:
                self._answer_late(worker)
        elif "run" in message:
            self.run_folder = message["run"]
        elif "leaves" in message:
            worker.state = "leaves"
            if self.code is None:
                self._say(f"{self._named(worker)} was told to end and leaves")
        elif "done" in message:
            worker.state = "leaves"
            self._over(0, self.members)
        elif "missing" in message and message["generation"] == self.number:
            for rank in message["missing"]:
                missed = self.members[rank]
                if missed.state == "trains" and missed.process.poll() is None:
                    self._kill(missed, f"has not answered the others for {self.timeout:g} s")

    def _kill(self, worker: Worker, why: str) -> None:
        worker.silent = why
        worker.process.kill()

    def _bury(self, worker: Worker) -> None:
        """A process has ended."""
        code = worker.process.returncode
        del self.workers[worker.place]
        if self.code is not None:
            return
        left = worker.state == "leaves" or code in STOPPED
        if code > 0 and not left and code != RESTART:
            return self._over(code)  # it has said why
        if code == 0 and not left:
            return self._over(1)
        now, first = time.monotonic(), self.pauses[0]
        steady = now - worker.began > _STEADY
        pause = first if steady else min(2 * self.pause.get(worker.place, first / 2), self.pauses[1])
        self.pause[worker.place] = pause
        self.due[worker.place] = now + (max(_LEAVE, pause) if left else pause)
        if worker.silent:
            self._say(f"{self._named(worker)} {worker.silent}, and was ended")
        elif worker.state != "leaves":
            what = f"was killed (signal {-code})" if code < 0 else f"ended with exit code {code}"
            self._say(f"{self._named(worker)} {what}")
        self.lost = self.lost or not left
        self._break()

    def _named(self, worker: Worker) -> str:
        """Rank, process and machine."""
        rank = f"rank {self.members.index(worker)}, " if worker in self.members else ""
        return f"{rank}process {worker.process.pid}" + (f" on {worker.host}" if worker.host else "")

    def _break(self) -> None:
        """One of the generation is gone: the others leave it, too."""
        for each in self.members:
            if each.line is not None and each.process.poll() is None:
                each.line.send(lost=self.number)

    def _form(self) -> None:
        """A generation of those who wait, when none trains."""
        alive = [worker for worker in self.workers.values() if worker.state in ("waits", "trains")]
        waiting = [worker for worker in alive if worker.state == "waits"]
        if any(worker.state == "trains" for worker in alive):
            new = [worker for worker in waiting if worker not in self.members]
            if new and not self.asked and self.members[0].line is not None:
                self.asked = True
                self.members[0].line.send(regroup=self.number)
            return
        starting = any(worker.state == "starts" for worker in self.workers.values())
        if not self.members and not self.lost and starting:
            return  # the first generation has all
        if len(waiting) < self.least:
            return self._wait(waiting)
        self.short = 0.0
        self._begin(waiting)

    def _wait(self, waiting: list[Worker]) -> None:
        """Too few: what they hold is written down, and more are waited for."""
        now = time.monotonic()
        if not self.short:
            self.short = now
            if self.members:
                left = f"{_processes(len(waiting))} left, {self.least} needed"
                self._say(f"{left}: waiting for {self.timeout:g} s at most")
            best = _first(waiting, self.members) if waiting else None
            if best is not None and best.held and best.line is not None and self.run_folder:
                best.line.send(save=self.run_folder)
        elif now - self.short > self.timeout:
            missing = [f"place {place}" for place in range(self.most) if place not in [w.place for w in waiting]]
            self._say(f"no process for {listed(missing)} in {self.timeout:g} s: start this training again")
            self._over(RESTART)

    def _begin(self, waiting: list[Worker]) -> None:
        """Those who wait are the next generation."""
        lead = _first(waiting, self.members)
        others = [worker for worker in waiting if worker is not lead]
        old = {id(worker): rank for rank, worker in enumerate(self.members)}
        others.sort(key=lambda worker: (old.get(id(worker), self.most), worker.place))
        new = sum(id(worker) not in old for worker in waiting) if self.members else 0
        self.number, self.asked = self.number + 1, False
        if self.lost:
            mark = lead.held[0] if lead.held else self._written()
            self.vain, self.mark = 0 if mark != self.mark else self.vain + 1, mark
            if self.vain >= _VAIN:
                self._say(f"{self.vain} losses in a row without a step between them; see what ends the processes")
                return self._over(1)
        if self.members:
            joined = f"{_processes(new)} joined; " if new else ""
            where = (
                f"step {lead.held[0]}" if lead.held else "the last checkpoint" if self.run_folder else "the beginning"
            )
            self._say(f"{joined}{_processes(len(waiting))} go on from {where}".replace("process go", "process goes"))
        self.members, self.lost = [lead, *others], False
        for rank, worker in enumerate(self.members):
            worker.state = "trains"
            assert worker.line is not None
            worker.line.send(
                number=self.number,
                rank=rank,
                addresses=[each.address for each in self.members],
                timeout=self.timeout,
                run=self.run_folder,
                source=lead.held is not None,
                said=self.said,
            )
        self.said = []

    def _written(self) -> int:
        """When the last checkpoint was."""
        folder = Path(self.run_folder or "") / "checkpoints"
        return folder.stat().st_mtime_ns if self.run_folder and folder.is_dir() else 0

    def _end(self, code: int, number: int) -> None:
        """Told to end: rank 0 and with it the others after the step under way, with a checkpoint."""
        lead = self.members[0] if self.members and self.members[0].state == "trains" else None
        self._over(code, [worker for worker in self.workers.values() if worker.state == "trains"])
        if lead is not None and lead.line is not None:
            lead.line.send(end=number)

    def _over(self, code: int, left: Sequence[Worker] = ()) -> None:
        """All is over: processes end, but for those that are `left` to do so in good order."""
        self.code, self.ended = code, time.monotonic()
        for worker in self.workers.values():
            if worker.state == "waits" and worker.line is not None:
                worker.line.send(over=0)
            elif worker.state != "leaves" and worker not in left:
                worker.process.kill()

    def _answer_late(self, worker: Worker) -> None:
        """One that waits though all is over; where rank 0 could not write what was learned last, it does."""
        assert worker.line is not None
        lead = self.members[0] if self.members else worker
        died = worker.held and (lead.process.poll() or 0) < 0 and self.code != 0
        if died and self.run_folder and not self.saved:
            self.saved = True
            worker.line.send(save=self.run_folder)
        worker.line.send(over=0)

    # -- threads and signals -------------------------------------------------------------------------------------------
    def _accept(self, listener: Listener) -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=self._serve, args=(listener.accept(),), daemon=True).start()

    def _serve(self, connection: Any) -> None:
        line = Line(connection, beat=self.heartbeat / 5, silence=self.heartbeat)
        hello = line.receive()
        if hello is None or "place" not in hello:
            return
        worker = self.workers.get(int(hello["place"]))
        if worker is None or worker.process.pid != hello["pid"]:
            return connection.close()
        worker.host, worker.address, worker.line = hello["host"], hello["address"], line
        while (message := line.receive()) is not None:
            self._events.put((worker, message))
        self._events.put((worker, None))

    def _receive(self, number: int, frame: Any) -> None:
        self._signals.append(number)
        self._events.put((None, None))

    def _say(self, text: str) -> None:
        self.said.append(text)
        with suppress(OSError):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _first(waiting: Sequence[Worker], members: Sequence[Worker]) -> Worker:
    """Whose state all take: that of rank 0 of before, or of the one that has done least."""
    held = [worker for worker in waiting if worker.held]
    if members and members[0] in held:
        return members[0]
    return min(held, key=lambda worker: worker.held or []) if held else min(waiting, key=lambda worker: worker.place)


def _processes(n: int) -> str:
    return f"{n} process{'es' if n != 1 else ''}"


__all__ = ["Generation", "Member", "Regroup", "Supervisor", "bounds", "is_member", "member"]

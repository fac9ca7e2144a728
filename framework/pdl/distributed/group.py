"""`Group`: the processes that train one model, and what they exchange. Numbers travel as their bytes over MPI; no
pickle is ever read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from pdl.distributed.launcher import NEEDS, come, job_size
from pdl.dtype import Array
from pdl.errors import PackageError, PdlError

_PIECE = 1 << 28  # bytes of one message; MPI counts them in 32 bits
_ROLL_CALL = 61  # tag
_SPIN, _YIELD, _NAP = 2e-4, 2e-3, 1e-4  # seconds: of asking without a pause, of leaving others the core, of a pause
_ANSWER = 2.0  # seconds for it


class RankError(PdlError):
    """A rank does not answer, or differs from the others."""

    exit_code = 1


class Silence(RankError):
    """A rank does not answer."""


class Pending:
    """Messages under way; `what` they are, for who records them (`Group.spans`).

    ranks without an answer after `timeout` seconds are a RankError that names them
    """

    def __init__(self, group: Group, request: Any, kept: Any, what: str = "", size: int = 0) -> None:
        self.group, self.request = group, request
        self.kept = kept  # memory that MPI reads and writes meanwhile
        self.what, self.size = what if group.spans is not None else "", size
        self.begin = time.perf_counter() if self.what else 0.0

    def done(self) -> bool:
        """Whether all of it has arrived; asking is what moves it on."""
        done = bool(self.request.Test())
        if done and self.what and self.group.spans is not None:
            self.group.spans(self.what, self.begin, time.perf_counter(), self.size)
            self.what = ""
        return done

    def wait(self) -> None:
        """Return when all of it has arrived."""
        self.group.wait_for(self.done)


class _All:
    """Requests of MPI as one."""

    def __init__(self, requests: list[Any]) -> None:
        self.requests = requests

    def Test(self) -> bool:
        """Whether all are done."""
        while self.requests and self.requests[-1].Test():
            self.requests.pop()
        return not self.requests


class Group:
    """Processes by their ranks 0 to size - 1, all of which make the same calls in the same order.

    comm       the communicator of mpi4py; it is duplicated, so that messages of others are not taken for ours, and once
               more for gathers that begin when something has come: their order is the same on all ranks, but not
               whether they begin before or after another exchange
    timeout    seconds that a rank may be behind the others before they give up
    """

    def __init__(self, comm: Any, *, timeout: float = 600.0) -> None:
        self.comm, self.later, self.timeout = comm.Dup(), comm.Dup(), timeout
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
        self.waited = 0.0  # seconds spent in `wait_for`
        #: while set, called as ``spans(what, begin, end, bytes)`` (seconds of `time.perf_counter`) for messages, when
        #: it is seen that they have come, and as "wait" for the time in `wait_for`
        self.spans: Callable[[str, float, float, int], None] | None = None
        self.hosts = [os.uname().nodename] * self.size  # until they have told: waiting for that asks, too
        self.hosts = self.texts(self.hosts[0])

    @property
    def one_machine(self) -> bool:
        """Whether all ranks are on the same machine."""
        return len(set(self.hosts)) == 1

    def part(self, ranks: Sequence[int]) -> Group:
        """A group of these ranks alone, each of which makes this call."""
        members = self.comm.Get_group().Incl(list(ranks))
        comm = self.comm.Create_group(members)
        made = Group(comm, timeout=self.timeout)
        comm.Free()
        return made

    # -- moving numbers ------------------------------------------------------------------------------------------------
    def exchange(self, outgoing: Array, incoming: Array, what: str = "exchange") -> Pending:
        """Row r of `outgoing` [size, ...] goes to rank r; row r of `incoming` comes from it."""
        request = self.comm.Ialltoall(_bytes(outgoing), _bytes(incoming))
        return Pending(self, request, (outgoing, incoming), what, outgoing.nbytes)

    def gather(self, mine: Array, whole: Array, what: str = "gather", *, later: bool = False) -> Pending:
        """`mine` of every rank, by rank, into `whole` [size, ...] of each. `later`: its turn is among such gathers."""
        comm = self.later if later else self.comm
        return Pending(self, comm.Iallgather(_bytes(mine), _bytes(whole)), (mine, whole), what, whole.nbytes)

    def rows(self, mine: Array) -> Array:
        """[size, *mine.shape]: the arrays of all ranks, which have one shape."""
        whole = np.empty((self.size, *mine.shape), mine.dtype)
        self.gather(np.ascontiguousarray(mine), whole).wait()
        return whole

    def ragged(self, mine: Array) -> list[Array]:
        """The arrays of all ranks, which may differ in their first size."""
        lengths = self.rows(np.array([len(mine)], np.int64))[:, 0].tolist()
        whole = np.zeros((self.size, max(lengths), *mine.shape[1:]), mine.dtype)
        padded = np.zeros(whole.shape[1:], mine.dtype)
        padded[: len(mine)] = mine
        self.gather(padded, whole).wait()
        return [row[:length] for row, length in zip(whole, lengths, strict=True)]

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Put the numbers of rank `root` into the contiguous `array` of every rank."""
        flat = array.reshape(-1).view(np.uint8)
        for begin in range(0, len(flat), _PIECE):
            piece = flat[begin : begin + _PIECE]
            Pending(self, self.comm.Ibcast(_bytes(piece), root=root), piece, "broadcast", piece.nbytes).wait()

    def texts(self, mine: str) -> list[str]:
        """The texts of all ranks."""
        return [row.tobytes().decode() for row in self.ragged(np.frombuffer(mine.encode(), np.uint8))]

    def any(self, flag: bool) -> bool:
        """Whether it holds on any rank."""
        return bool(self.rows(np.array([flag], np.uint8)).any())

    def send(self, array: Array, rank: int, tag: int, what: str = "send") -> Pending:
        """A contiguous array to one rank, which must stay as it is until that is done."""
        return self._each(array, lambda piece: self.comm.Isend(piece, dest=rank, tag=tag), what)

    def receive(self, array: Array, rank: int, tag: int, what: str = "receive") -> Pending:
        """The next array with this tag from one rank, into a contiguous one of its size."""
        return self._each(array, lambda piece: self.comm.Irecv(piece, source=rank, tag=tag), what)

    def _each(self, array: Array, begin: Callable[[Array], Any], what: str) -> Pending:
        flat = _bytes(array)
        pieces = [flat[at : at + _PIECE] for at in range(0, len(flat), _PIECE)] or [flat]
        return Pending(self, _All([begin(piece) for piece in pieces]), array, what, array.nbytes)

    # -- waiting -------------------------------------------------------------------------------------------------------
    def wait_for(self, done: Callable[[], bool]) -> None:
        """Ask until `done`; RankError naming those that are missing where that takes longer than the timeout. On one
        machine whoever is waited for may need this core: after a moment it is left to others, then slept through."""
        if done():
            return
        begin, patience = time.perf_counter(), _YIELD if self.one_machine else 0.1
        while not done():
            waited = time.perf_counter() - begin
            if waited > self.timeout:
                raise Silence(self._silent())
            if waited > patience:
                time.sleep(_NAP)
            elif waited > _SPIN:
                os.sched_yield()
        end = time.perf_counter()
        self.waited += end - begin
        if self.spans is not None:
            self.spans("wait", begin, end, 0)

    def rest(self) -> None:
        """Wait for all ranks, however long, without using the core."""
        request = self.comm.Ibarrier()
        while not request.Test():
            time.sleep(0.01)

    def _missing(self) -> list[int]:
        """Who does not answer: every rank that gives up calls all others."""
        here = np.array([1], np.uint8)
        others = [r for r in range(self.size) if r != self.rank]
        heard = {r: np.zeros(1, np.uint8) for r in others}
        calls = [self.comm.Isend(_bytes(here), dest=r, tag=_ROLL_CALL) for r in others]
        answers = {r: self.comm.Irecv(_bytes(heard[r]), source=r, tag=_ROLL_CALL) for r in others}
        end = time.monotonic() + _ANSWER
        while time.monotonic() < end:
            missing = [r for r in others if not answers[r].Test()]
            time.sleep(0.01)
        del calls
        return missing

    def _silent(self) -> str:
        missing = self._missing()
        named = ", ".join(f"rank {r} on {self.hosts[r]}" for r in missing) or "no rank in particular"
        return (
            f"rank {self.rank} has waited {self.timeout:g} s for the others; no answer from {named}: look at its "
            "log and machine, or allow more time (distributed.timeout)"
        )

    # -- agreeing ------------------------------------------------------------------------------------------------------
    def check_same(self, facts: Mapping[str, str]) -> None:
        """RankError naming each fact in which a rank differs from rank 0."""
        all_facts = [dict(_pairs(text)) for text in self.texts("\n".join(f"{k}\t{v}" for k, v in facts.items()))]
        faults = [
            f"{name}: {value} on rank 0, {other.get(name)} on rank {rank} ({self.hosts[rank]})"
            for name, value in all_facts[0].items()
            for rank, other in enumerate(all_facts)
            if other.get(name) != value
        ]
        if faults:
            raise RankError("\n  ".join(["the processes do not train the same thing:", *faults]))


def _pairs(text: str) -> Sequence[tuple[str, str]]:
    return [(name, value) for name, _, value in (line.partition("\t") for line in text.splitlines())]


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


@cache
def world() -> Group | None:
    """All processes of the MPI job that this one belongs to; None where it stands alone. PackageError where there is
    a job and mpi4py is missing."""
    if job_size() == 1:
        return None
    try:
        import mpi4py

        mpi4py.rc.thread_level = "funneled"  # the loader's threads send nothing
        come()
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise PackageError(f"{NEEDS} ({error})") from error
    return Group(MPI.COMM_WORLD)

"""`Peers`: what a `Group` asks of a communicator, over sockets between processes that may come and go.

A process that is gone is a `Lost` in every exchange that still waits for it; what it had sent before counts.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from pdl.distributed.group import Silence
from pdl.dtype import Array

_HEADER = struct.Struct("<8sqQ")  # channel, tag, bytes that follow
_TOGETHER = 1 << 16  # bytes up to which header and content are one message
_MANY = 16  # pieces of one call
_COLLECTIVE = -1  # tag
Key = tuple[int, bytes, int]  # peer, channel, tag


class Lost(Silence):
    """A process has left the group."""


class _Transfer:
    """A message under way."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.done = view, False


class _Arriving(_Transfer):
    """One that comes before it is asked for: `wanted` gets it when it is here."""

    wanted: _Transfer | None = None

    def hand_over(self) -> None:
        """Copy it to who asks."""
        assert self.wanted is not None
        self.wanted.view[:] = self.view
        self.wanted.done = True


class Wire:
    """The sockets of this process to all others of its generation.

    sockets  by rank; of all ranks but `rank`
    broken   whether who watches over the processes says that one is gone
    """

    def __init__(self, rank: int, sockets: Mapping[int, socket.socket], broken: Callable[[], bool]) -> None:
        self.rank, self.size, self.sockets, self.broken = rank, len(sockets) + 1, dict(sockets), broken
        self.gone = set[int]()
        self._poll = select.poll()
        self._ranks = {each.fileno(): r for r, each in self.sockets.items()}
        self._out: dict[int, deque[tuple[memoryview, _Transfer | None]]] = {r: deque() for r in self.sockets}
        self._asked: dict[Key, deque[_Transfer]] = defaultdict(deque)
        self._early: dict[Key, deque[_Arriving]] = defaultdict(deque)
        self._heads = {r: memoryview(bytearray(_HEADER.size)) for r in self.sockets}
        self._filled = dict.fromkeys(self.sockets, 0)
        self._reading: dict[int, _Transfer | None] = dict.fromkeys(self.sockets)
        for each in self.sockets.values():
            each.setblocking(False)
            self._poll.register(each, select.POLLIN)

    def send(self, rank: int, channel: bytes, tag: int, view: memoryview) -> _Transfer:
        """Begin to send; `view` must stay as it is until that is done."""
        transfer, head = _Transfer(view), _HEADER.pack(channel, tag, len(view))
        if rank in self.gone:
            return transfer
        queue = self._out[rank]
        if len(view) <= _TOGETHER:
            queue.append((memoryview(head + view), transfer))
        else:
            queue += [(memoryview(head), None), (view, transfer)]
        self._write(rank)
        return transfer

    def receive(self, rank: int, channel: bytes, tag: int, view: memoryview) -> _Transfer:
        """Ask for the next message of a peer's in a channel."""
        key, transfer = (rank, channel, tag), _Transfer(view)
        if early := self._early[key]:
            arriving = early.popleft()
            _check(arriving.view, view)
            arriving.wanted = transfer
            if arriving.done:
                arriving.hand_over()
        else:
            self._asked[key].append(transfer)
        return transfer

    def advance(self) -> None:
        """Write and read what can be without waiting."""
        for number, event in self._poll.poll(0):
            rank = self._ranks[number]
            if event & select.POLLOUT:
                self._write(rank)
            if event & ~select.POLLOUT and rank not in self.gone:
                self._read(rank)

    def close(self) -> None:
        """Leave: the others see it."""
        for each in self.sockets.values():
            each.close()
        self.gone.update(self.sockets)

    def _write(self, rank: int) -> None:
        queue = self._out[rank]
        try:
            while queue:
                left = self.sockets[rank].sendmsg([view for view, _ in list(queue)[:_MANY]])
                while queue and left >= len(queue[0][0]):
                    view, transfer = queue.popleft()
                    left -= len(view)
                    if transfer is not None:
                        transfer.done = True
                if left:
                    queue[0] = queue[0][0][left:], queue[0][1]
        except BlockingIOError:
            pass
        except OSError:
            return self._miss(rank)
        self._poll.modify(self.sockets[rank], select.POLLIN | (select.POLLOUT if queue else 0))

    def _read(self, rank: int) -> None:
        try:
            while self._read_some(rank):
                pass
        except BlockingIOError:
            pass
        except OSError:
            self._miss(rank)

    def _read_some(self, rank: int) -> bool:
        """One call; False where the peer is gone."""
        transfer = self._reading[rank]
        target = self._heads[rank] if transfer is None else transfer.view
        if len(target):
            n = self.sockets[rank].recv_into(target[self._filled[rank] :])
            if n == 0:
                self._miss(rank)
                return False
            self._filled[rank] += n
        if self._filled[rank] == len(target):
            self._filled[rank] = 0
            if transfer is not None:
                self._finish(transfer)
            self._reading[rank] = self._place(rank) if transfer is None else None
        return True

    def _place(self, rank: int) -> _Transfer:
        """Where a message goes whose header has come."""
        channel, tag, length = _HEADER.unpack(self._heads[rank])
        key = rank, channel, tag
        if asked := self._asked[key]:
            transfer = asked.popleft()
            if len(transfer.view) != length:
                _check(memoryview(bytearray(length)), transfer.view)
            return transfer
        arriving = _Arriving(memoryview(bytearray(length)))
        self._early[key].append(arriving)
        return arriving

    def _finish(self, transfer: _Transfer) -> None:
        transfer.done = True
        if isinstance(transfer, _Arriving) and transfer.wanted is not None:
            transfer.hand_over()

    def _miss(self, rank: int) -> None:
        self.gone.add(rank)
        self._out[rank].clear()
        self._poll.unregister(self.sockets[rank])


def _check(come: memoryview, asked: memoryview) -> None:
    if len(come) != len(asked):
        raise Lost(f"a message of {len(come)} bytes came where {len(asked)} were asked for")


class Request:
    """Transfers that belong together."""

    def __init__(self, wire: Wire, transfers: Iterable[_Transfer]) -> None:
        self.wire, self.open = wire, list(transfers)

    def Test(self) -> bool:
        """Whether all is done; `Lost` where it will never be."""
        for _ in range(2):
            self.open = [each for each in self.open if not each.done]
            if not self.open:
                return True
            self.wire.advance()
        self.open = [each for each in self.open if not each.done]
        if self.open and (self.wire.gone or self.wire.broken()):
            raise Lost("a process of this training is gone")
        return not self.open


class Peers:
    """Those methods of a communicator of mpi4py that `Group` calls. Buffers are uint8 [bytes]."""

    def __init__(self, wire: Wire, ranks: Sequence[int] | None = None, channel: bytes = b"") -> None:
        self.wire, self.ranks = wire, list(range(wire.size) if ranks is None else ranks)
        self.channel = channel or _named(b"world", 0)
        self.rank = self.ranks.index(wire.rank)
        self._made: dict[tuple[int, ...], int] = defaultdict(int)

    # The names are those of mpi4py.
    def Get_rank(self) -> int:
        """Of this process."""
        return self.rank

    def Get_size(self) -> int:
        """How many there are."""
        return len(self.ranks)

    def Dup(self) -> Peers:
        """The same processes, whose messages are apart."""
        return self.Create_group(self.Get_group())

    def Get_group(self) -> Members:
        """The processes."""
        return Members(range(len(self.ranks)))

    def Create_group(self, members: Members) -> Peers:
        """Some of the processes, all of which make this call."""
        ranks = tuple(self.ranks[r] for r in members.ranks)
        self._made[ranks] += 1
        return Peers(self.wire, ranks, _named(self.channel + repr(ranks).encode(), self._made[ranks]))

    def Free(self) -> None:
        """Nothing is kept."""

    def Isend(self, buffer: Array, dest: int, tag: int = 0) -> Request:
        """One message."""
        return Request(self.wire, [self._send(dest, tag, _view(buffer))])

    def Irecv(self, buffer: Array, source: int, tag: int = 0) -> Request:
        """One message."""
        return Request(self.wire, [self._receive(source, tag, _view(buffer))])

    def Ialltoall(self, outgoing: Array, incoming: Array) -> Request:
        """Piece r of `outgoing` to r, piece r of `incoming` from r."""
        size = len(outgoing) // len(self.ranks)
        return self._all([outgoing[r * size : (r + 1) * size] for r in range(len(self.ranks))], incoming)

    def Iallgather(self, mine: Array, whole: Array) -> Request:
        """`mine` of all, by rank."""
        return self._all([mine] * len(self.ranks), whole)

    def Ibcast(self, buffer: Array, root: int = 0) -> Request:
        """The numbers of `root` to all."""
        view, others = _view(buffer), [r for r in range(len(self.ranks)) if r != self.rank]
        if self.rank == root:
            return Request(self.wire, [self._send(r, _COLLECTIVE, view) for r in others])
        return Request(self.wire, [self._receive(root, _COLLECTIVE, view)])

    def Ibarrier(self) -> Request:
        """Done when all have called."""
        empty = [memoryview(b"")] * len(self.ranks)
        return self._all(empty, memoryview(bytearray()))

    def _all(self, pieces: Sequence[Any], incoming: Any) -> Request:
        size = len(incoming) // len(self.ranks)
        transfers = []
        for step in range(1, len(self.ranks)):  # each begins with another one
            r = (self.rank + step) % len(self.ranks)
            place = memoryview(incoming)[r * size : (r + 1) * size]
            transfers.append(self._receive(r, _COLLECTIVE, place))
            transfers.append(self._send(r, _COLLECTIVE, memoryview(pieces[r])))
        incoming[self.rank * size : (self.rank + 1) * size] = pieces[self.rank]
        return Request(self.wire, transfers)

    def _send(self, rank: int, tag: int, view: memoryview) -> _Transfer:
        return self.wire.send(self.ranks[rank], self.channel, tag, view)

    def _receive(self, rank: int, tag: int, view: memoryview) -> _Transfer:
        return self.wire.receive(self.ranks[rank], self.channel, tag, view)


class Members:
    """Processes of a communicator, by their ranks in it."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self.ranks = list(ranks)

    def Incl(self, ranks: Sequence[int]) -> Members:
        """Some of them."""
        return Members(self.ranks[r] for r in ranks)


def _view(array: Array) -> memoryview:
    return memoryview(array)  # type: ignore[arg-type]  # arrays have the protocol of buffers


def _named(text: bytes, number: int) -> bytes:
    """A channel that all who make the same calls call the same."""
    return blake2b(text + b" %d" % number, digest_size=8).digest()

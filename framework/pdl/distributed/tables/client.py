"""`TableClient`: the tables as one who trains sees them, wherever their rows are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pdl.distributed.group import RankError
from pdl.distributed.tables.cache import HotRows
from pdl.distributed.tables.keys import server_of
from pdl.distributed.tables.server import Order, Rows, TableServer
from pdl.distributed.tables.shard import Shard, TableSpec
from pdl.dtype import Array
from pdl.errors import ShapeError

_UNDER_WAY = 4  # pushes to a server that are not answered yet
_PIECE = 1 << 16


class ServerLost(Exception):
    """A server did not answer, and may be started anew."""


class Server(Protocol):
    """A `TableServer`, somewhere. `born` in an answer is another where it has been started anew."""

    def send(self, name: str, *arguments: Any) -> Any:
        """Begin a call; returns a ticket."""

    def receive(self, ticket: Any) -> tuple[str, Any]:
        """(born, the answer); ServerLost where there is none."""


class Here:
    """A server in this process."""

    def __init__(self, server: TableServer) -> None:
        self.server = server

    def send(self, name: str, *arguments: Any) -> Any:
        """The answer itself."""
        if name == "pull":
            clock, wanted, touch = arguments
            if touch and not self.server.ready(clock):
                raise RankError(f"tables: rows of step {clock} wait for pushes that nobody makes")
            return self.server.pull(wanted, touch)
        return getattr(self.server, name)(*arguments)

    def receive(self, ticket: Any) -> tuple[str, Any]:
        """It."""
        return "", ticket


@dataclass
class _Line:
    """What one client has with one server."""

    server: Server
    born: str | None = None
    tickets: deque[Any] = field(default_factory=deque)  # of pushes that are not answered
    kept: deque[tuple[int, tuple[Any, ...], int]] = field(default_factory=deque)  # pushes not in its snapshot; bytes
    bytes: int = 0


class TableClient:
    """Rows of several tables for one of `workers` processes.

        begin(clock)               step number `clock` begins: rows are pulled again
        prefetch({table: keys})    ask for rows of the next step while this one computes (async, ssp)
        read(table, index, out)    out[i] = the row index[i]; negative numbers and `padding` give 0
        push({table: (keys, gradients, lr)})   what the step has learned, a row once; every table is named
        settle()                   until all pushes are in (geo: after a merge)
        whole(table, rows)         [rows, C]: all rows, those never made as they begin

    Keys are parted by hash, and a server gets one call a batch for all tables. Each keeps `replay_megabytes` of pushes,
    then asks for a snapshot; a server that was lost is waited for `timeout` seconds and gets again what its snapshot
    lacks. So nothing is lost with a server. Of hot rows `cache_rows` a table are kept and used until they are
    `order.staleness` steps old (async, ssp).
    """

    def __init__(
        self,
        specs: Sequence[TableSpec],
        servers: Sequence[Server],
        *,
        worker: int = 0,
        workers: int = 1,
        order: Order | None = None,
        cache_rows: int = 0,
        replay_megabytes: float | None = None,
        timeout: float = 600.0,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self.specs, self.worker, self.workers = {spec.name: spec for spec in specs}, worker, workers
        self.order, self.timeout, self.notify = order or Order(), timeout, notify
        self.lines = [_Line(server) for server in servers]
        self.replay = None if replay_megabytes is None else int(replay_megabytes * 2**20)
        self.clock, self.training = 0, True
        self.waited = 0.0  # seconds that rows were waited for
        self.pulled = self.pushed = self.calls = 0  # rows, and calls of servers
        self._index = 0  # of pushes
        self._step: dict[str, tuple[Array, Array]] = {}  # of each table the keys of this step, in order, and rows
        self._last: tuple[Array, Array, Array] | None = None
        self._ahead: dict[str, tuple[Array, Array]] | None = None
        self._coming: _Coming | None = None
        lazy = self.order.mode in ("async", "ssp")
        self._hot = {name: HotRows(cache_rows, s.columns) for name, s in self.specs.items() if cache_rows and lazy}
        own = self.order.mode == "geo"
        self._mine = {name: (Shard(s), Shard(s)) for name, s in self.specs.items() if own}  # learned, and as merged
        self._learned: dict[str, list[Array]] = {name: [] for name in self.specs}

    # -- a step
    # ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Count pushes from where the servers stand."""
        applied = {self._call(line, "applied", self.worker) for line in self.lines}
        self._index = max(applied)
        if len(applied) > 1:
            raise RankError(f"tables: servers stand at different steps ({sorted(applied)}); go on from a checkpoint")

    def begin(self, clock: int) -> None:
        """Step `clock` begins."""
        self.clock, self._step = clock, {}
        if self._coming is not None:
            for name, keys, rows in self._coming.rows():
                self._step[name] = keys, rows
            self._coming = None

    def prefetch(self, wanted: Mapping[str, Array]) -> None:
        """Ask for rows of the next step: sorted keys, each once. Where rows must be of that very step, or are here
        anyway, nothing is done."""
        if self.order.mode in ("async", "ssp"):
            self._coming = self._ask(wanted, self.clock, True)

    def read(self, table: str, index: Array, out: Array, padding: int | None = None) -> None:
        """Rows by number: index int64 [n] -> out [n, C]."""
        if padding is not None:
            index = np.where(index == padding, -1, index)
        keys, back = self._unique(index)
        rows = self.rows(table, keys)
        np.take(rows, back, axis=0, out=out)
        if (left_out := index < 0).any():
            out[left_out] = 0

    def rows(self, table: str, keys: Array) -> Array:
        """Rows of sorted keys, each once: [n, C]. In a step they are pulled once."""
        if not self.training:
            return self._pull(table, keys, False)
        if table not in self._step:
            self._step[table] = keys, self._pull(table, keys, True)
        held, rows = self._step[table]
        if held is keys or np.array_equal(held, keys):
            return rows
        at = np.minimum(np.searchsorted(held, keys), max(len(held) - 1, 0))
        lacks = np.ones(len(keys), bool) if not len(held) else held[at] != keys
        if lacks.any():
            joined, both = (
                np.concatenate([held, keys[lacks]]),
                np.concatenate([rows, self._pull(table, keys[lacks], True)]),
            )
            order = np.argsort(joined)
            held, rows = self._step[table] = joined[order], both[order]
            at = np.searchsorted(held, keys)
        return np.asarray(rows[at])

    def push(self, updates: Mapping[str, tuple[Array, Array, float]]) -> None:
        """Hand over what this step has learned."""
        if self.order.mode == "geo":
            for name, (keys, gradients, lr) in updates.items():
                self._mine[name][0].push(keys, gradients, lr)
                self._learned[name].append(keys)
            if (self.clock + 1) % self.order.merge == 0:
                self._merge()
        else:
            self._push(updates, False)
        self._step = {}

    def settle(self) -> None:
        """Wait until all that was pushed is in."""
        if self.order.mode == "geo":
            self._merge()
        for line in self.lines:
            while line.tickets:
                self._answered(line)

    def snapshot(self, tag: str) -> None:
        """Let all servers keep what they have as `tag`; every worker has settled."""
        for line in self.lines:
            self._call(line, "snapshot", tag)

    def whole(self, table: str, rows: int) -> Array:
        """[rows, C] float32."""
        spec = self.specs[table]
        values = np.empty((rows, spec.columns), np.float32)
        for begin in range(0, rows, _PIECE):
            piece = values[begin : begin + _PIECE]
            piece[...] = spec.initial(np.arange(begin, begin + len(piece)), spec.columns)
        for line in self.lines:
            keys, made = self._call(line, "items", table)
            values[keys] = made
        return values

    def stats(self) -> dict[str, dict[str, int]]:
        """`TableServer.stats` of all servers together."""
        found: dict[str, dict[str, int]] = {}
        for line in self.lines:
            for name, numbers in self._call(line, "stats").items():
                held = found.setdefault(name, dict.fromkeys(numbers, 0))
                for key, value in numbers.items():
                    held[key] = max(held[key], value) if key == "updates" else held[key] + value
        return found

    # -- calls
    # -----------------------------------------------------------------------------------------------------------
    def _unique(self, index: Array) -> tuple[Array, Array]:
        """The keys in index, in order, and where in them each place's is; those of the same index again are kept."""
        if self._last is None or not np.array_equal(self._last[0], index):
            keys, back = np.unique(index, return_inverse=True)
            low = int(np.searchsorted(keys, 0))  # negative ones name no row
            self._last = index.copy(), keys[low:], np.maximum(back - low, 0)
            if low == len(keys):
                self._last = index.copy(), np.zeros(1, np.int64), np.zeros(len(index), np.int64)
        return self._last[1:]

    def _pull(self, table: str, keys: Array, touch: bool) -> Array:
        if table not in self._mine or not touch:
            return next(rows for _, _, rows in self._ask({table: keys}, self.clock, touch).rows())
        mine, merged = self._mine[table]
        new = keys[mine.places.find(keys) < 0]
        if len(new):
            rows = next(rows for _, _, rows in self._ask({table: new}, self.clock, True).rows())
            mine.write(new, rows)
            merged.write(new, rows)
        return mine.pull(keys)

    def _ask(self, wanted: Mapping[str, Array], clock: int, touch: bool) -> _Coming:
        """Send for rows, but for those that are hot here."""
        coming = _Coming(self, clock, touch)
        for name, keys in wanted.items():
            coming.want(name, keys, self._hot.get(name) if touch else None)
        coming.send()
        return coming

    def _push(self, updates: Mapping[str, tuple[Array, Array, float]], add: bool) -> None:
        self._index += 1
        for name, (keys, gradients, _) in updates.items():
            if gradients.shape != (len(keys), self.specs[name].columns):
                raise ShapeError(f"table {name}: gradients {gradients.shape} do not fit {len(keys)} rows")
        owners = {name: server_of(keys, len(self.lines)) for name, (keys, _, _) in updates.items()}
        for number, line in enumerate(self.lines):
            own = {}
            for name, (keys, gradients, lr) in updates.items():
                mine = owners[name] == number
                own[name] = keys[mine], np.asarray(gradients[mine], np.float32), float(lr)
                self.pushed += len(own[name][0])
            arguments = self.worker, self._index, self.clock, own, add
            if self.replay is not None:
                size = sum(keys.nbytes + values.nbytes for keys, values, _ in own.values()) + 100
                line.kept.append((self._index, arguments, size))
                line.bytes += size
            self.calls += 1
            line.tickets.append(line.server.send("push", *arguments))
            while len(line.tickets) > _UNDER_WAY:
                self._answered(line)
            if self.replay is not None and line.bytes > self.replay:
                self._call(line, "snapshot", None)
                while line.tickets:
                    self._answered(line)
                self._forget(line, self._call(line, "saved", self.worker))

    def _answered(self, line: _Line) -> None:
        """Wait for the oldest push."""
        try:
            born, saved = line.server.receive(line.tickets[0])
        except ServerLost as lost:
            return self._again(line, str(lost))
        if line.born is not None and born != line.born:
            return self._again(line, "it was started anew")
        line.born = born
        line.tickets.popleft()
        self._forget(line, saved)

    def _forget(self, line: _Line, saved: int) -> None:
        while line.kept and line.kept[0][0] <= saved:
            line.bytes -= line.kept.popleft()[2]

    def _call(self, line: _Line, name: str, *arguments: Any) -> Any:
        """The answer of a server, be it to a second call."""
        return self._got(line, line.server.send(name, *arguments), name, *arguments)

    def _got(self, line: _Line, ticket: Any, name: str, *arguments: Any) -> Any:
        """What a call has given; it is made again where the server was lost meanwhile."""
        while True:
            try:
                born, answer = line.server.receive(ticket)
                if line.born in (None, born):
                    line.born = born
                    return answer
                self._again(line, "it was started anew")
            except ServerLost as lost:
                self._again(line, str(lost))
            ticket = line.server.send(name, *arguments)

    def _again(self, line: _Line, why: str) -> None:
        """Wait for a server that was lost, and push again what its snapshot lacks."""
        number, until = self.lines.index(line), time.monotonic() + self.timeout
        if self.replay is None:
            raise RankError(f"table server {number} is lost: {why}; it takes no snapshots, so its rows are gone")
        line.tickets.clear()
        while True:
            try:
                line.born, applied = line.server.receive(line.server.send("applied", self.worker))
                if line.kept and line.kept[0][0] > applied + 1:
                    raise RankError(
                        f"table server {number} is back without its snapshot: it has {applied} pushes, and those up to "
                        f"{line.kept[0][0] - 1} are not kept; go on from the last checkpoint (--resume)"
                    )
                lacking = [arguments for index, arguments, _ in line.kept if index > applied]
                for arguments in lacking:
                    born, _ = line.server.receive(line.server.send("push", *arguments))
                    if born != line.born:
                        raise ServerLost("it was started anew")
                break
            except ServerLost as lost:
                if time.monotonic() > until:
                    raise RankError(
                        f"table server {number} is lost and not back after {self.timeout:g} s: {lost}"
                    ) from lost
                time.sleep(0.2)
        if self.notify is not None:
            self.notify(f"table server {number} was lost ({why}) and is back; {len(lacking)} pushes were made again")

    def _merge(self) -> None:
        """Give the others the share of what this worker has learned since the last time, and take what all have."""
        keys = {
            name: np.unique(np.concatenate(parts or [np.empty(0, np.int64)])) for name, parts in self._learned.items()
        }
        changes = {}
        for name, own in keys.items():
            mine, merged = self._mine[name]
            amounts = (mine.pull(own, touch=False) - merged.pull(own, touch=False)) / np.float32(self.workers)
            changes[name] = own, amounts, 0.0
        self._push(changes, True)
        for name, own, rows in self._ask(keys, self.clock, True).rows():
            for shard in self._mine[name]:
                shard.write(own, rows)
        self._learned = {name: [] for name in self._learned}


class _Coming:
    """Rows that were asked for."""

    def __init__(self, client: TableClient, clock: int, touch: bool) -> None:
        self.client, self.clock, self.touch = client, clock, touch
        self._tables: list[tuple[str, Array, Array, Array, HotRows | None]] = []
        self._parts: list[dict[str, Array]] = [{} for _ in client.lines]
        self._sent: list[tuple[_Line, Any, dict[str, Array]]] = []

    def want(self, name: str, keys: Array, hot: HotRows | None) -> None:
        """Rows of a table."""
        rows = np.empty((len(keys), self.client.specs[name].columns), np.float32)
        owners = server_of(keys, len(self._parts))
        if hot is not None:
            owners[hot.fill(keys, rows, self.clock - self.client.order.staleness)] = -1
        for number, part in enumerate(self._parts):
            mine = owners == number
            if mine.any():
                part[name] = keys[mine]
        self._tables.append((name, keys, owners, rows, hot))

    def send(self) -> None:
        """One call for each server."""
        for line, part in zip(self.client.lines, self._parts, strict=True):
            if part:
                self.client.calls += 1
                self._sent.append((line, line.server.send("pull", self.clock, part, self.touch), part))

    def rows(self) -> list[tuple[str, Array, Array]]:
        """(table, keys, rows) of each, when they are here."""
        begin = time.perf_counter()
        for line, ticket, part in self._sent:
            answers: Rows = self.client._got(line, ticket, "pull", self.clock, part, self.touch)
            number = self.client.lines.index(line)
            for name, _, owners, rows, _ in self._tables:
                if name in answers:
                    rows[owners == number] = answers[name]
                    self.client.pulled += len(answers[name])
        self.client.waited += time.perf_counter() - begin
        for _, keys, owners, rows, hot in self._tables:
            if hot is not None:
                hot.put(keys[owners >= 0], rows[owners >= 0], self.clock)
        return [(name, keys, rows) for name, keys, _, rows, _ in self._tables]


__all__ = ["Here", "Server", "ServerLost", "TableClient"]

"""`TableClient`: the tables as one who trains sees them, wherever their rows are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from pdl.distributed.group import RankError
from pdl.distributed.tables.blocks import Blocks
from pdl.distributed.tables.cache import HotRows
from pdl.distributed.tables.keys import Dealt, Places, same
from pdl.distributed.tables.server import Order, TableServer
from pdl.distributed.tables.shard import Shard, TableSpec
from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.kernels import keys as key_kernels
from pdl.kernels import rows as kernels

_UNDER_WAY = 4  # pushes to a server that are not answered yet
_PIECE = 1 << 16
_DEALT = 4  # of this step and the next


class ServerLost(Exception):
    """A server did not answer, and may be started anew."""


class Server(Protocol):
    """A `TableServer`, somewhere. `born` in an answer is another where it has been started anew."""

    @property
    def blocks(self) -> Blocks | None:
        """Memory that it sees too, if any. Arrays of a call stay as they are until its answer."""

    def send(self, name: str, *arguments: Any) -> Any:
        """Begin a call; returns a ticket."""

    def receive(self, ticket: Any) -> tuple[str, Any]:
        """(born, the answer); ServerLost where there is none."""

    def close(self) -> None:
        """Leave it."""


class Here:
    """A server in this process."""

    blocks = None

    def __init__(self, server: TableServer) -> None:
        self.server = server

    def send(self, name: str, *arguments: Any) -> Any:
        """The answer itself."""
        if name == "pull":
            clock, wanted, touch, into = arguments
            if touch and not self.server.ready(clock):
                raise RankError(f"tables: rows of step {clock} wait for pushes that nobody makes")
            return self.server.pull(wanted, touch, into)
        return getattr(self.server, name)(*arguments)

    def receive(self, ticket: Any) -> tuple[str, Any]:
        """It."""
        return "", ticket

    def close(self) -> None:
        """It stays."""


@dataclass
class _Line:
    """What one client has with one server."""

    server: Server
    born: str | None = None
    tickets: deque[Any] = field(default_factory=deque)  # of pushes that are not answered
    kept: deque[tuple[int, tuple[Any, ...], int]] = field(default_factory=deque)  # pushes not in its snapshot; bytes
    bytes: int = 0


class _Held:
    """Rows of a table that a step has: row i is that of keys[i]."""

    def __init__(self, keys: Array, rows: Array, dealt: Dealt | None = None) -> None:
        self.keys, self.rows, self.dealt = keys, rows, dealt
        self._places: Places | None = None

    def find(self, keys: Array) -> Array:
        """Where they lie here; -1: nowhere."""
        if self._places is None:
            self._places = Places(len(self.keys))
            self._places.put(self.keys, np.arange(len(self.keys)))
        return self._places.find(keys)


class TableClient:
    """Rows of several tables for one of `workers` processes.

        begin(clock)               step number `clock` begins: rows are pulled again
        prefetch({table: (index, padding)}, clock)    ask for rows of the batch after the next (async, ssp)
        read(table, index, out, padding)       out[i] = the row index[i]; negative numbers and `padding` give 0
        combine(keys, sums, index, g, padding)    the keys in index, each once, and the sums of their g, as a push has
                                   them cheapest
        push({table: (keys, gradients, lr)}, scale)   what the step has learned, times `scale`: each key once, sorted or
                                   as `combine` has them; every table is named
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
        self.blocks = next((each.blocks for each in servers if each.blocks is not None), None)
        self.clock = 0
        self.waited = 0.0  # seconds that rows were waited for
        self.pulled = self.pushed = self.calls = 0  # rows, and calls of servers
        self._index = 0  # of pushes
        self._step: dict[str, _Held] = {}  # of each table
        self._dealt: deque[Dealt] = deque(maxlen=_DEALT)  # the latest
        self._arriving: _Coming | None = None  # for the batch that is next
        self._coming: _Coming | None = None  # and for the one after it
        lazy = self.order.mode in ("async", "ssp")
        self._hot = {name: HotRows(cache_rows, s.columns) for name, s in self.specs.items() if cache_rows and lazy}
        own = {} if self.order.mode != "geo" else self.specs
        here = {name: replace(spec, rows_in_memory=None) for name, spec in own.items()}  # which is a limit of servers
        self._mine = {name: (Shard(spec), Shard(spec)) for name, spec in here.items()}  # learned, and as merged
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

    def prefetch(self, wanted: Mapping[str, tuple[Array, int | None]], clock: int) -> None:
        """Ask for rows of the batch after the next one, which is of step `clock`; what was asked for the last time is
        that next one's. Where rows must be of that very step, or are here anyway, nothing is done."""
        if self._arriving is not None:  # no lookup wanted them
            self._arriving.rows()
        self._arriving, self._coming = self._coming, None
        if wanted and (self.order.mode == "async" or (self.order.mode == "ssp" and self.order.staleness)):
            self._coming = self._ask({name: self._deal(*each) for name, each in wanted.items()}, clock)

    def read(self, table: str, index: Array, out: Array, padding: int | None = None) -> None:
        """Rows by number: index int64 [n] -> out [n, C]."""
        dealt = self._deal(index, padding)
        if self._arriving is not None:
            for each in self._arriving.rows():
                self._hold(*each)
            self._arriving = None
        held = self._step.get(table)
        if held is None:
            held = self._hold(table, dealt, self._pull(table, dealt))
        places = dealt.back
        if held.keys is not dealt.keys:
            at = held.find(dealt.keys)
            if (at < 0).any():
                more = Dealt(dealt.keys[at < 0], len(self.lines))
                held = self._hold(table, more, self._pull(table, more))
                at = held.find(dealt.keys)
            places = np.where(places < 0, -1, at[places]) if len(at) else places
        kernels.take(out, held.rows, places, drop=True, name=table)

    def _hold(self, table: str, dealt: Dealt, rows: Array) -> _Held:
        """Rows for this step; those that are here stay."""
        held = self._step.get(table)
        if held is None:
            self._step[table] = _Held(dealt.keys, rows, dealt)
        elif (new := held.find(dealt.keys) < 0).any():
            keys = np.concatenate([held.keys, dealt.keys[new]])
            self._step[table] = _Held(keys, np.concatenate([held.rows, rows[new]]))
        return self._step[table]

    def rows(self, table: str, keys: Array) -> Array:
        """Rows by number: keys int64 [n] -> [n, C]."""
        out = np.empty((len(keys), self.specs[table].columns), np.float32)
        self.read(table, keys, out)
        return out

    def push(self, updates: Mapping[str, tuple[Array, Array, float]], scale: float = 1.0) -> None:
        """Hand over what this step has learned."""
        if self.order.mode == "geo":
            for name, (keys, gradients, lr) in updates.items():
                self._mine[name][0].push(keys, gradients * np.float32(scale), lr)
                self._learned[name].append(keys.copy())
            if (self.clock + 1) % self.order.merge == 0:
                self._merge()
        else:
            self._push(updates, False, scale)
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

    def close(self) -> None:
        """Leave the servers."""
        for line in self.lines:
            line.server.close()

    # -- calls
    # -----------------------------------------------------------------------------------------------------------
    def _deal(self, index: Array, padding: int | None) -> Dealt:
        """The keys in index, by server; those of the same index again are kept."""
        for dealt in self._dealt:
            if dealt.padding == padding and same(dealt.index, index):
                return dealt
        self._dealt.append(Dealt(index.copy(), len(self.lines), padding))
        return self._dealt[-1]

    def combine(self, keys: Array, sums: Array, index: Array, g: Array, padding: int | None = None) -> None:
        """index int64 [n], g [n, C] -> keys int64 [n], sums [n, C]; -1 and zeros where there are fewer."""
        dealt = self._deal(index, padding)
        count = len(dealt.keys)
        keys[:count], keys[count:], sums[count:] = dealt.keys, -1, 0
        key_kernels.sum(sums[:count], dealt.back, g)

    def _same(self, table: str, keys: Array) -> tuple[Dealt, Array | None]:
        """Keys by server: mostly those that the step has read. And where each lies among `keys`; None: as there."""
        for latest in self._dealt:
            if same(latest.keys, keys):
                return latest, None
        held = self._step.get(table)
        dealt = None if held is None else held.dealt
        if dealt is None or not same(dealt.ordered, keys):
            dealt = self._deal(keys, None)
        return dealt, dealt.order

    def _pull(self, table: str, dealt: Dealt) -> Array:
        if table not in self._mine:
            return self._ask({table: dealt}, self.clock).rows()[0][2]
        mine, merged = self._mine[table]
        new = dealt.keys[mine.family.places.find(dealt.keys) < 0]
        if len(new):
            for _, asked, rows in self._ask({table: Dealt(new, len(self.lines))}, self.clock).rows():
                mine.write(asked.keys, rows)
                merged.write(asked.keys, rows)
        return mine.pull(dealt.keys)

    def _ask(self, wanted: Mapping[str, Dealt], clock: int) -> _Coming:
        """Send for rows, but for those that are hot here."""
        coming = _Coming(self, clock)
        for name, dealt in wanted.items():
            coming.want(name, dealt, self._hot.get(name))
        coming.send()
        return coming

    def _empty(self, rows: int, table: str) -> Array:
        """Rows that servers read or write, in memory that they see where there is such."""
        shape = rows, self.specs[table].columns
        return np.empty(shape, np.float32) if self.blocks is None else self.blocks.empty(shape, np.float32)

    def _push(self, updates: Mapping[str, tuple[Array, Array, float]], add: bool, scale: float = 1.0) -> None:
        self._index += 1
        dealt = {}
        for name, (keys, gradients, _) in updates.items():
            if gradients.shape != (len(keys), self.specs[name].columns):
                raise ShapeError(f"table {name}: gradients {gradients.shape} do not fit {len(keys)} rows")
            dealt[name] = self._same(name, keys)
        for number, line in enumerate(self.lines):
            own = {}
            for name, (_, gradients, lr) in updates.items():
                split, order = dealt[name]
                part = split.of(number)
                values = self._empty(part.stop - part.start, name)
                if order is None:
                    np.multiply(gradients[part], np.float32(scale), out=values)
                else:
                    kernels.take(values, np.ascontiguousarray(gradients, np.float32), order[part], name=name)
                    values *= np.float32(scale)
                own[name] = split.parts[number], values, float(lr)
                self.pushed += len(values)
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
        changes, dealt = {}, {}
        for name, parts in self._learned.items():
            mine, merged = self._mine[name]
            dealt[name] = Dealt(np.concatenate([np.empty(0, np.int64), *parts]), len(self.lines))
            keys = dealt[name].ordered
            amounts = (mine.pull(keys, touch=False) - merged.pull(keys, touch=False)) / np.float32(self.workers)
            changes[name] = keys, amounts, 0.0
        self._push(changes, True)
        for name, own, rows in self._ask(dealt, self.clock).rows():
            for shard in self._mine[name]:
                shard.write(own.keys, rows)
        self._learned = {name: [] for name in self._learned}


class _Coming:
    """Rows that were asked for."""

    def __init__(self, client: TableClient, clock: int) -> None:
        self.client, self.clock = client, clock
        self._tables: list[tuple[str, Dealt, Array]] = []
        self._wanted: list[dict[str, Array]] = [{} for _ in client.lines]  # keys by server and table
        self._into: list[dict[str, Array]] = [{} for _ in client.lines]  # and where their rows go
        self._sent: list[tuple[_Line, Any, tuple[Any, ...]]] = []
        self._hot: dict[str, tuple[HotRows, Array]] = {}

    def want(self, name: str, dealt: Dealt, hot: HotRows | None) -> None:
        """Rows of a table."""
        rows = self.client._empty(len(dealt.keys), name)
        self._tables.append((name, dealt, rows))
        lacks = None
        if hot is not None:
            lacks = ~hot.fill(dealt.keys, rows, self.clock - self.client.order.staleness)
            self._hot[name] = hot, lacks
        for number, (wanted, into) in enumerate(zip(self._wanted, self._into, strict=True)):
            part = dealt.of(number)
            keys = dealt.parts[number] if lacks is None else dealt.parts[number][lacks[part]]
            if len(keys):
                wanted[name] = keys
                into[name] = rows[part] if lacks is None else self.client._empty(len(keys), name)

    def send(self) -> None:
        """One call for each server."""
        for line, wanted, into in zip(self.client.lines, self._wanted, self._into, strict=True):
            if wanted:
                self.client.calls += 1
                arguments = self.clock, wanted, True, into
                self._sent.append((line, line.server.send("pull", *arguments), arguments))

    def rows(self) -> list[tuple[str, Dealt, Array]]:
        """(table, keys, rows) of each, when they are here."""
        begin = time.perf_counter()
        for line, ticket, arguments in self._sent:
            self.client._got(line, ticket, "pull", *arguments)
            self.client.pulled += sum(map(len, arguments[1].values()))
        self.client.waited += time.perf_counter() - begin
        for name, dealt, rows in self._tables:
            if name in self._hot:
                hot, lacks = self._hot[name]
                for number, into in enumerate(self._into):
                    if name in into:
                        part = dealt.of(number)
                        rows[part][lacks[part]] = into[name]
                hot.put(dealt.keys[lacks], rows[lacks], self.clock)
        return self._tables


__all__ = ["Here", "Server", "ServerLost", "TableClient"]

"""`TableServer`: the shards of one server, and the order in which it answers those who train."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from pdl.distributed.tables.family import Family
from pdl.distributed.tables.shard import Shard, TableSpec
from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import replacing
from pdl.hints import Range
from pdl.kernels import rows as kernels

LATEST = "latest.safetensors"
#: {table: keys}, {table: values}, {table: (keys, gradients, learning rate)}
Wanted = Mapping[str, Array]
Rows = dict[str, Array]
Updates = Mapping[str, tuple[Array, Array, float]]


@dataclass(frozen=True)
class Order:
    """In which order those who train see each other's updates; step t of all of them is their clock t.

    mode       sync: a step's gradients of all are summed, in the order of the workers, for one update, and rows of a
               step have those of all steps before (the weights of one process, to rounding). async: each push is an
               update when it comes. ssp: async, and whoever is more than `staleness` steps ahead of the slowest waits
               (Ho et al., NIPS 2013). geo: each learns on rows of its own, and every `merge` steps the mean of what
               they have changed is added
    staleness  of ssp, in steps; hot rows (`cache_rows`) may be as old
    merge      of geo, in steps
    """

    mode: Literal["sync", "async", "ssp", "geo"] = "sync"
    staleness: Annotated[int, Range(0)] = 4
    merge: Annotated[int, Range(1)] = 16


class TableServer:
    """Shard `number` of each table, for `workers` processes that train.

        ready(clock)                   whether rows may be pulled for that step now
        pull(wanted, touch, into)      rows
        push(worker, index, ...)       push number `index` (from 1) of a worker for a step; they count in this order and
                                       each once. Returns how many of this worker's the latest snapshot holds
        snapshot(tag)                  all of it into a file that appears whole or not at all; it is kept as `tag`

    A server that begins with a folder that has a snapshot stands where this was taken; `applied(worker)` tells from
    which push on it needs them again.
    """

    def __init__(
        self, number: int, specs: Sequence[TableSpec], workers: int, order: Order, folder: Path | None = None
    ) -> None:
        self.number, self.workers, self.order = number, workers, order
        self.folder = None if folder is None else folder / f"server-{number}"
        self.shards: dict[str, Shard] = {}
        families: dict[str, Shard] = {}  # the first of each
        for at, spec in enumerate(specs):
            file = None if self.folder is None else self.folder / f"{at}.rows"
            made = self.shards[spec.name] = Shard(spec, file, families.get(spec.family or ""))
            if spec.family is not None:
                families.setdefault(spec.family, made)
        self.clocks = [0] * workers  # steps of each that are in
        self._applied, self._received, self._saved = [0] * workers, [0] * workers, [0] * workers
        self._early: list[dict[int, tuple[int, Updates, bool]]] = [{} for _ in range(workers)]  # before their turn
        self._waiting: dict[int, dict[int, tuple[int, Updates]]] = {}  # by step and worker
        if self.folder is not None and (latest := self.folder / LATEST).is_file():
            self._load(latest)

    def ready(self, clock: int) -> bool:
        """Whether the updates are in that rows for this step must have."""
        if self.order.mode == "sync":
            return min(self.clocks) >= clock
        return self.order.mode != "ssp" or min(self.clocks) >= clock - self.order.staleness

    def pull(self, wanted: Wanted, touch: bool = True, into: Mapping[str, Array] | None = None) -> Rows:
        """Rows of each table, new arrays or in `into`."""
        rows = {}
        for names in self._by_keys(wanted):
            keys = wanted[names[0]]
            places = self.shards[names[0]].family.pulled(keys, touch)
            for name in names:
                rows[name] = self.shards[name].take(keys, places, touch, None if into is None else into[name])
        return rows

    def _by_keys(self, keys: Mapping[str, Array]) -> list[list[str]]:
        """Names of tables, by family and array of keys."""
        found: dict[tuple[int, int], list[str]] = {}
        for name, each in keys.items():
            found.setdefault((id(self.shards[name].family), id(each)), []).append(name)
        return list(found.values())

    def push(self, worker: int, index: int, clock: int, updates: Updates, add: bool = False) -> int:
        """Take in what a worker has learned in a step; its arrays are read now, and not kept."""
        early = self._early[worker]
        if index > self._received[worker]:  # else it came before
            if index > self._received[worker] + 1 or (self.order.mode == "sync" and self.workers > 1):
                kept = {id(keys): keys.copy() for keys, _, _ in updates.values()}
                updates = {name: (kept[id(keys)], values.copy(), lr) for name, (keys, values, lr) in updates.items()}
            early[index] = clock, updates, add
        while (following := self._received[worker] + 1) in early:
            self._received[worker] = following
            self._take(worker, following, *early.pop(following))
        return self._saved[worker]

    def _take(self, worker: int, index: int, clock: int, updates: Updates, add: bool) -> None:
        """The next push of a worker."""
        if self.order.mode == "sync":
            self._waiting.setdefault(clock, {})[worker] = index, updates
            while len(self._waiting.get(now := min(self.clocks), ())) == self.workers:
                self._together(self._waiting.pop(now))
            return
        self._update(updates, add)
        self._applied[worker], self.clocks[worker] = index, clock + 1

    def _update(self, updates: Updates, add: bool = False) -> None:
        """One update of all tables."""
        families = list(dict.fromkeys(self.shards[name].family for name in updates))
        for family in families:
            family.updates += 1
        for names in self._by_keys({name: keys for name, (keys, _, _) in updates.items()}):
            family, keys = self.shards[names[0]].family, updates[names[0]][0]
            places = family.touched(keys, count=False) if add else family.pushed(keys)
            for name in names:
                _, values, lr = updates[name]
                self.shards[name].add(places, values) if add else self.shards[name].update(places, values, lr)
        for family in families:
            family.age()

    def _together(self, parts: Mapping[int, tuple[int, Updates]]) -> None:
        """One update by the sum of what all have pushed for a step."""
        summed: dict[str, tuple[Array, Array, float]] = {}
        known: dict[tuple[int, ...], Array] = {}  # keys of all workers, which are one array where theirs are
        for name in self.shards:
            given = [parts[worker][1][name] for worker in range(self.workers)]
            keys, gradients = np.concatenate([each[0] for each in given]), np.concatenate([each[1] for each in given])
            if self.workers > 1 and len(keys):
                rows, values = np.empty_like(keys), np.empty_like(gradients)
                kernels.combine(rows, values, keys, gradients)
                count = int(np.count_nonzero(rows >= 0))
                keys, gradients = rows[:count], values[:count]
            keys = known.setdefault(tuple(id(each[0]) for each in given), keys)
            summed[name] = keys, gradients, given[0][2]
        self._update(summed)
        for worker in range(self.workers):
            self._applied[worker] = parts[worker][0]
            self.clocks[worker] += 1

    def applied(self, worker: int) -> int:
        """The pushes of a worker that are in."""
        return self._applied[worker]

    def saved(self, worker: int) -> int:
        """The pushes of a worker that are in the latest snapshot."""
        return self._saved[worker]

    def items(self, name: str) -> tuple[Array, Array]:
        """Keys and values of all rows of a table."""
        return self.shards[name].items()

    def stats(self) -> dict[str, dict[str, int]]:
        """Of each table: rows, bytes in memory, updates, and gradients dropped of rows that were not admitted."""
        return {
            name: {"rows": s.family.rows, "bytes": s.bytes, "updates": s.family.updates, "dropped": s.dropped}
            for name, s in self.shards.items()
        }

    # -- keeping -------------------------------------------------------------------------------------------------------
    def snapshot(self, tag: str | None = None) -> None:
        """Write all that is in. What still waits for other workers is not: these push it again where it is needed."""
        from safetensors.numpy import save_file

        if self.folder is None:
            raise DataError("a table server without a folder takes no snapshots")
        arrays = {f"{at}/{key}": np.ascontiguousarray(array) for at, family in enumerate(self._families())
                  for key, array in family.state_dict().items()}  # fmt: skip
        about = {
            "tables": {name: shard.spec.plain() for name, shard in self.shards.items()},
            "order": asdict(self.order), "clocks": self.clocks, "applied": self._applied,
        }  # fmt: skip
        with replacing(self.folder / LATEST) as part:
            save_file(arrays, part, {"pdl_tables": json.dumps(about)})
        self._saved = list(self._applied)
        if tag is not None:
            keep(self.folder, tag)

    def _families(self) -> list[Family]:
        return list(dict.fromkeys(shard.family for shard in self.shards.values()))

    def _load(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {})["pdl_tables"])
                names = list(file.keys())
                trees: list[dict[str, Array]] = []
                for at, _ in enumerate(self._families()):
                    own = [each for each in names if each.startswith(f"{at}/")]
                    trees.append({each.partition("/")[2]: file.get_tensor(each) for each in own})
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise DataError(f"{path}: damaged, or no snapshot of tables ({error})") from error
        if list(about["tables"]) != list(self.shards):
            raise DataError(f"{path}: has the tables {', '.join(about['tables'])}, not {', '.join(self.shards)}")
        if len(about["clocks"]) != self.workers:  # gone on with by others: all have done what all have done
            about["clocks"] = [min(about["clocks"])] * self.workers
            about["applied"] = [min(about["applied"])] * self.workers
        for family, tree in zip(self._families(), trees, strict=True):
            family.load_state_dict(tree)
        self.clocks, self._applied = list(about["clocks"]), list(about["applied"])
        self._saved, self._received = list(self._applied), list(self._applied)


def keep(folder: Path, tag: str) -> None:
    """Keep the latest snapshot of a server as `tag`, and of the others two."""
    target = folder / f"{tag}.safetensors"
    target.unlink(missing_ok=True)
    os.link(folder / LATEST, target)
    old = sorted(folder.glob("step-*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
    for path in old[:-2]:
        path.unlink()


def stand_at(folder: Path, servers: int, tag: str | None) -> None:
    """Make `tag` the latest snapshot of all servers; None: begin without one. DataError where one has none."""
    for number in range(servers):
        own = folder / f"server-{number}"
        (own / LATEST).unlink(missing_ok=True)
        if tag is None:
            continue
        kept = own / f"{tag}.safetensors"
        if not kept.is_file():
            raise DataError(f"{kept}: not there; the tables of the checkpoint cannot be gone on with")
        os.link(kept, own / LATEST)


__all__ = ["Order", "TableServer", "stand_at"]

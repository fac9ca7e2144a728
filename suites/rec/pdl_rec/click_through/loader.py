"""Batches out of a file that does not fit into memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from pdl.data import Batch
from pdl.data.randomness import BatchRandom
from pdl.errors import UsageError
from pdl_rec.data.click_file import ClickStream


class StreamLoader:
    """Batches of a `ClickStream`, made by a thread of their own while the caller works.

    In training the rows of each buffer are in an order drawn from (seed, epoch, number of the buffer), and batches run
    across buffers. `position` counts the batches of this epoch that were delivered, so a resumed run goes on with the
    next one: buffers before it are read over, not encoded.
    """

    def __init__(
        self, dataset: ClickStream, *, batch_size: int, shuffle: bool, seed: int = 0, prefetch: int = 4,
        drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.dataset, self.batch_size, self.shuffle, self.seed = dataset, batch_size, shuffle, seed
        self.prefetch, self.drop_last = prefetch, drop_last
        self.epoch = self.position = 0
        self.rank, self.world = 0, 1

    def share(self, rank: int, world: int) -> None:
        """From now on give a part of each batch alone: every world-th of its rows, from number `rank` on."""
        self.rank, self.world = rank, world

    def __iter__(self) -> Iterator[Batch]:
        start, self.position = self.position, self.position
        for batch in ahead(self._batches(start), self.prefetch):
            self.position += 1
            yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def _batches(self, start: int) -> Iterator[Batch]:
        """The batches of this epoch from number `start` on."""
        size, buffer = self.batch_size, self.dataset.buffer
        skip = start * size // buffer
        begun, rest, wanted = start, Batch(), list[np.ndarray]()

        def chosen(number: int, rows: int) -> np.ndarray:
            """Rows of a buffer that this rank's parts of these batches have, in their order."""
            places = number * buffer + np.arange(rows)  # in the order of the epoch
            mine = (places >= start * size) & (places % size % self.world == self.rank)
            order = self._order(number, rows)[mine]
            wanted[:] = [order + number * buffer, places[mine] // size, np.array([number * buffer + rows])]
            return order

        for arrays in self.dataset.buffers(skip, chosen):
            index, batch, end = wanted
            arrays = {**arrays, "index": index, "batch": batch}
            whole = {name: np.concatenate([rest[name], array]) for name, array in arrays.items()} if rest else arrays
            complete = int(end[0]) // size
            cuts = np.searchsorted(whole["batch"], np.arange(begun, complete + 1))
            for begin, stop in pairwise(cuts):
                if begin < stop:
                    yield {name: array[begin:stop] for name, array in whole.items() if name != "batch"}
            if len(cuts):
                begun, rest = complete, {name: array[cuts[-1] :] for name, array in whole.items()}
            else:
                rest = whole
        if rest and len(rest["index"]) and not self.drop_last:
            yield {name: array for name, array in rest.items() if name != "batch"}

    def _order(self, number: int, rows: int) -> np.ndarray:
        if not self.shuffle:
            return np.arange(rows)
        draws = BatchRandom(self.seed, self.epoch, number * self.dataset.buffer + np.arange(rows))
        return np.argsort(draws.fork("order").uniform(), kind="stable")

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next loop; a position that was loaded for this same epoch stays."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Where the loader stands."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "batch_size": self.batch_size}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on behind the batch after which `state` was taken."""
        for name, mine in (("seed", self.seed), ("batch_size", self.batch_size)):
            if state.get(name, mine) != mine:
                raise UsageError(f"the saved position belongs to {name}={state[name]}, this loader has {name}={mine}; "
                                 "resume with the settings of the first run, or start a new run")  # fmt: skip
        self.epoch, self.position = int(state["epoch"]), int(state["position"])


def ahead(items: Iterator[Any], count: int) -> Iterator[Any]:
    """The same items, up to `count` of them made in advance by a thread; its errors are raised here."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(max(1, count))
    stop = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not stop.is_set():
            try:
                waiting.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:  # handed to the caller, who raises it
            put("error", error)

    thread = threading.Thread(target=work, name="pdl-rec-rows", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        thread.join()

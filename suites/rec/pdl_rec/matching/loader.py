"""Batches of matching: pairs of a query and an item that fits it, with others to tell it from; and queries with all the
items that are relevant. Built by the loader's thread, beside the training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdl.data import Batch, Dataset, Sample
from pdl.data.negatives import Negatives
from pdl.data.randomness import BatchRandom
from pdl.ranking import Lists
from pdl_rec.data.interactions import Interactions

Others = Literal["own", "shared", "in_batch", "all"]
Before = Literal["others", "before"]
DAY = 86400.0


@dataclass(frozen=True)
class Histories:
    """The items of every user in order of time: those of user u are `items[start[u]:start[u + 1]]`.

    place   int64 [interactions]: where each interaction stands in its user's history
    """

    start: np.ndarray
    items: np.ndarray
    place: np.ndarray

    @classmethod
    def of(cls, known: Interactions | None, size: int) -> Histories:
        """Of the users 0 to size - 1; user 0 is nobody and has none."""
        if known is None:
            return cls(np.zeros(size + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
        kept = np.flatnonzero((known.users > 0) & (known.items > 0))
        users, times = known.users[kept], None if known.times is None else known.times[kept]
        order = np.argsort(users, kind="stable") if times is None else np.lexsort((times, users))
        start = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=size))])
        place = np.full(len(known), -1, np.int64)
        place[kept[order]] = np.arange(len(kept)) - start[users[order]]
        return cls(start, known.items[kept[order]], place)

    @property
    def longest(self) -> int:
        """Items of the longest history."""
        return int(np.diff(self.start).max(initial=0))

    def newest(self, users: np.ndarray, length: int) -> np.ndarray:
        """The newest items of each user in order of time: int64 [N, length], zeros behind the last."""
        return self._stretch(np.maximum(self.start[users], self.start[users + 1] - length), users, None, length)

    def before(self, users: np.ndarray, rows: np.ndarray, length: int) -> np.ndarray:
        """The newest items before each of these interactions."""
        ends = self.start[users] + self.place[rows]
        return self._stretch(np.maximum(self.start[users], ends - length), users, ends, length)

    def others(self, users: np.ndarray, rows: np.ndarray, length: int, shift: np.ndarray) -> np.ndarray:
        """All items of each user but that of the interaction; where they are more than `length` a stretch of them that
        begins at the share `shift` in [0, 1) of the history, and goes on at its beginning."""
        counts = self.start[users + 1] - self.start[users] - 1
        steps = np.arange(length)
        at = ((shift * counts).astype(np.int64)[:, None] + steps) % np.maximum(counts, 1)[:, None]
        at = at + (at >= self.place[rows][:, None]) + self.start[users][:, None]
        return np.where(steps < counts[:, None], self._items[np.minimum(at, len(self.items))], 0)

    def _stretch(self, begins: np.ndarray, users: np.ndarray, ends: np.ndarray | None, length: int) -> np.ndarray:
        ends = self.start[users + 1] if ends is None else ends
        at = begins[:, None] + np.arange(length)
        return np.where(at < ends[:, None], self._items[np.minimum(at, len(self.items))], 0)

    @property
    def _items(self) -> np.ndarray:
        return np.append(self.items, 0)


@dataclass(frozen=True)
class Reading:
    """What queries hold, by the names that the model reads.

    inputs   "user", "history", "example_age", and fields of users
    fields   of users: name -> int64 [users + 1, L]
    length   items of a history
    """

    inputs: tuple[str, ...]
    fields: Mapping[str, np.ndarray]
    length: int

    def query(self, users: np.ndarray, history: np.ndarray | None, age: np.ndarray | None = None) -> dict[str, Any]:
        """The queries of these users (0: one that is not known)."""
        found: dict[str, Any] = {}
        for name in self.inputs:
            if name == "user":
                found[name] = users
            elif name == "history":
                found[name] = history
            elif name == "example_age":
                found[name] = np.zeros((len(users), 1), np.float32) if age is None else age
            else:
                found[name] = self.fields[name][users]
        return found


class Pairs(Dataset):
    """Training: a sample is an interaction, {"query": {...}, "item": int64 [N]} and its negatives:

    "own"       "others" int64 [N, K]: drawn for each query, none of which its user has
    "shared"    "others" [K], drawn for the batch, and "known" bool [N, K]: those of them that the query's user has
    "in_batch"  the items of the batch; "known" [N, N] as before, and the query's own item
    "all"       all items; "known" [N, num_items + 1], but not the query's own item

    With `log_draws` the batch also says how often, on average, each of the others is drawn in a batch: "log_draws"
    float32 [K] or [N], the logarithm.
    """

    def __init__(
        self,
        known: Interactions,
        reading: Reading,
        num_users: int,
        num_items: int,
        *,
        others: Others,
        k: int,
        alpha: float,
        log_draws: bool,
        before: Before,
        seed: int,
    ) -> None:
        self.known, self.reading, self.num_items, self.seed, self.epoch = known, reading, num_items, seed, 0
        self.others, self.k, self.log_draws, self.before = others, k, log_draws, before
        self.histories = Histories.of(known, num_users + 1)
        self.positives = Lists.of_pairs(known.users, known.items, num_users + 1)
        rows = np.repeat(np.arange(num_users + 1), self.positives.lengths)
        self._pairs = rows * (num_items + 1) + self.positives.values
        counts = np.bincount(known.items, minlength=num_items + 1)
        power = alpha if others in ("own", "shared") else 1.0
        self.negatives = Negatives(num_items, counts=counts if power else None, alpha=power, seed=seed)
        self._newest = None if known.times is None else known.times.max(initial=0.0)

    def __len__(self) -> int:
        return len(self.known)

    def set_epoch(self, epoch: int) -> None:
        """New draws for every epoch."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> Sample:
        return {"user": int(self.known.users[index]), "item": int(self.known.items[index])}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The batch of these interactions."""
        users, items = self.known.users[indices], self.known.items[indices]
        query = self.reading.query(users, self._history(users, indices), self._age(indices))
        return {"query": query, "item": items, **self._negatives(users, items, indices)}

    def _history(self, users: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        if "history" not in self.reading.inputs:
            return None
        if self.before == "before":
            return self.histories.before(users, rows, self.reading.length)
        shift = BatchRandom(self.seed, self.epoch, rows).fork("history").uniform()
        return self.histories.others(users, rows, self.reading.length, shift)

    def _age(self, rows: np.ndarray) -> np.ndarray | None:
        """Days before the newest interaction of all: float32 [N, 1]."""
        if self.known.times is None or self._newest is None:
            return None
        return ((self._newest - self.known.times[rows]) / DAY).astype(np.float32)[:, None]

    def _negatives(self, users: np.ndarray, items: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
        if self.others == "own":
            others = self.negatives.rows(rows, self.k, epoch=self.epoch, step=0, positives=self.positives, lists=users)
            return {"others": others, **self._log_draws(others, self.k)}
        if self.others == "shared":
            others = self.negatives.shared(self.k, epoch=self.epoch, step=int(rows[0]))
            return {"others": others, "known": self.has(users[:, None], others), **self._log_draws(others, self.k)}
        if self.others == "in_batch":
            return {"known": self.has(users[:, None], items), **self._log_draws(items, len(items) - 1)}
        known = self.has(users[:, None], np.arange(self.num_items + 1))
        known[np.arange(len(items)), items] = False
        return {"known": known}

    def _log_draws(self, negatives: np.ndarray, k: int) -> dict[str, np.ndarray]:
        """Of k samples; a batch of one query has no negatives but its own item."""
        if not self.log_draws:
            return {}
        return {"log_draws": (self.negatives.log_chances[negatives] + np.log(max(k, 1))).astype(np.float32)}

    def has(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether each user has each item in training: bool, as the two broadcast."""
        pairs = users * (self.num_items + 1) + items
        at = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        found: np.ndarray = self._pairs[at] == pairs
        return found


class Queries(Dataset):
    """Evaluation: a sample is a user, {"query": {...}, "relevant": Lists, "excluded": Lists | None}: all the items of
    the split that the user had, and those that are not ranked because the user had them before.

    An item that training does not have is relevant, too, and missed: it stands there as 0, once for each such item
    (where the data set keeps them). Left out are users who have no relevant item, and, where the model reads numbers of
    users, those it does not know.
    """

    def __init__(
        self, data: Interactions, reading: Reading, num_users: int, num_items: int, *, repeat: bool, source: Any = None
    ) -> None:
        self.reading, self.dataset, self.num_items, size = reading, source, num_items, num_users + 1
        self.histories = Histories.of(data.known, size)
        self.excluded = None
        if not repeat and data.known is not None:
            self.excluded = Lists.of_pairs(data.known.users, data.known.items, size)
        self.relevant = _relevant(data, size, num_items, self.excluded)
        self.users = np.flatnonzero(self.relevant.lengths)
        if "user" in reading.inputs:
            self.users = self.users[self.users > 0]

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, index: int) -> Sample:
        return self.get_batch(np.array([index]))

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The queries of these users."""
        users = self.users[indices]
        history = self.histories.newest(users, self.reading.length) if "history" in self.reading.inputs else None
        return {
            "query": self.reading.query(users, history),
            "relevant": self.relevant.take(users),
            "excluded": None if self.excluded is None else self.excluded.take(users),
        }


def _relevant(data: Interactions, size: int, num_items: int, excluded: Lists | None) -> Lists:
    """The items of each user, without what is excluded; an item counts once, but every unknown one for itself."""
    pairs = data.users * (num_items + 1) + data.items
    kept = np.append(np.unique(pairs[data.items > 0]), pairs[data.items == 0])
    if excluded is not None:
        rows = np.repeat(np.arange(size), excluded.lengths)
        kept = kept[~np.isin(kept, rows * (num_items + 1) + excluded.values)]
    kept.sort()
    users = kept // (num_items + 1)
    start = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=size))])
    return Lists(start, kept % (num_items + 1))

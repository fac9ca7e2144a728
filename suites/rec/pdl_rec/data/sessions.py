"""Sessions in columns: what all sequence code reads, and the base of the data sets that give them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, Subset, digest, not_dealt
from pdl.data.faults import fault
from pdl.errors import ConfigError, UsageError
from pdl.vocabulary import Vocabulary

Unseen = Literal["drop", "keep"]


@dataclass(frozen=True)
class Sessions:
    """Sessions one behind another: session i is `items[offsets[i]:offsets[i + 1]]`, in order of time.

    items         int64 [events], from 1 on; 0 is an item that the vocabulary does not know
    offsets       int64 [sessions + 1]
    times         float64 [events], or None where the data tells no times
    names         of the sessions (users), an array [sessions] of int64 or text
    first_target  int64 [sessions]: from which of its items on (counted from 0) a session's items are to be predicted;
                  those before are known beforehand. None: every item but the first
    """

    items: np.ndarray
    offsets: np.ndarray
    times: np.ndarray | None
    names: np.ndarray
    first_target: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Items of each session, int64 [sessions]."""
        return np.diff(self.offsets)

    def session(self, row: int) -> np.ndarray:
        """The items of one session."""
        return self.items[self.offsets[row] : self.offsets[row + 1]]

    def rows(self) -> np.ndarray:
        """The session of every event, int64 [events]."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def targets(self) -> tuple[np.ndarray, np.ndarray]:
        """All that is to be predicted: (session, event), int64 [targets] each, in order. What is known before event e
        of session s is `items[offsets[s]:e]`, at least one item."""
        first = np.ones(len(self), np.int64) if self.first_target is None else np.maximum(self.first_target, 1)
        counts = np.maximum(self.lengths - first, 0)
        rows = np.repeat(np.arange(len(self)), counts)
        return rows, _ranges(self.offsets[:-1] + first, counts)

    def prefixes(self, rows: np.ndarray, events: np.ndarray, max_length: int | None = None) -> np.ndarray:
        """What is known before these events (`targets`): int64 [N, T], the `max_length` newest items of each in order
        of time, zeros behind the last. Unknown items are left out, so a row may be all zeros."""
        known = self.items > 0
        before = np.concatenate([[0], np.cumsum(known)])
        ends, starts = before[events], before[self.offsets[rows]]
        if max_length is not None:
            starts = np.maximum(starts, ends - max_length)
        lengths = ends - starts
        places = starts[:, None] + np.arange(max(int(lengths.max(initial=0)), 1))
        items = np.append(self.items[known], 0)
        return np.where(places < ends[:, None], items[np.minimum(places, len(items) - 1)], 0)

    def take(self, rows: np.ndarray) -> Sessions:
        """The sessions of these rows, in that order."""
        rows = np.asarray(rows, np.int64)
        counts = self.lengths[rows]
        events = _ranges(self.offsets[rows], counts)
        return Sessions(
            self.items[events],
            _offsets(counts),
            None if self.times is None else self.times[events],
            self.names[rows],
            None if self.first_target is None else self.first_target[rows],
        )

    def where(self, kept: np.ndarray) -> Sessions:
        """All sessions, of which some may be empty then, with only the events where `kept`, bool [events], is true."""
        if kept.all():
            return self
        before = np.concatenate([[0], np.cumsum(kept)])
        first = self.first_target
        if first is not None:
            starts = self.offsets[:-1]
            first = before[starts + np.minimum(first, self.lengths)] - before[starts]
        times = None if self.times is None else self.times[kept]
        return Sessions(self.items[kept], before[self.offsets], times, self.names, first)

    def usable(self) -> Sessions:
        """The sessions that have a target and an item before it."""
        good = self.lengths > (1 if self.first_target is None else np.maximum(self.first_target, 1))
        return self if good.all() else self.take(np.flatnonzero(good))


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """start, start + 1, ..., `count` of them, for each start, one behind another: int64."""
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)


def concatenated(parts: Sequence[Sessions]) -> Sessions:
    """Sessions one behind another."""

    def whole(name: str) -> Any:
        columns = [getattr(part, name) for part in parts]
        return None if any(column is None for column in columns) else np.concatenate(columns)

    lengths = np.concatenate([part.lengths for part in parts])
    return Sessions(whole("items"), _offsets(lengths), whole("times"), whole("names"), whole("first_target"))


#: rules that cut what cannot be dealt out again, and why
UNFOLDABLE = {
    "holdout": "they are cut in time (holdout), and a fold would learn from what came later",
    "leave_one_out": "each session is in every split, with one item more (leave_one_out)",
}


@dataclass(frozen=True)
class Origin:
    """What is known of the file that sessions were cut from, for `pdl check`.

    sessions, events  in the whole file
    short             sessions that were left out for their length
    back              events that stood behind a later one of their session; they were put in order
    together          whether the events of a session stand together in the file
    rule              what cuts the file: "ratios", "holdout", "leave_one_out" or nothing
    named             whether sessions have names of their own, and not the numbers of lines
    """

    sessions: int
    events: int
    short: int = 0
    back: int = 0
    together: bool = True
    rule: str | None = None
    named: bool = True


class SessionData(Dataset):
    """Base of the data sets whose samples are sessions: sample i is {"items": int64 [T]}.

    A data set knows items by their names until `bind` gives them the numbers of a vocabulary. Binding changes neither
    the length nor the order of samples: sessions that lose their items to `unseen="drop"` stay, and `sessions_of`
    leaves out those that have nothing to predict any more.

    raw         sessions whose item k stands for `known[k - 1]`; int32 will do
    known       names of items, each once, of which some may not occur
    unseen      of items that the vocabulary does not have: "drop" the events, or "keep" them as item 0
    source      the file they are from
    origin      what that file was
    """

    def __init__(self, raw: Sessions, known: list[str], *, unseen: Unseen, source: str, origin: Origin) -> None:
        if unseen not in ("drop", "keep"):
            raise ConfigError(f"{type(self).__name__}: unseen={unseen!r} is neither drop nor keep")
        if origin.short == origin.sessions:
            what = f"none of its {origin.sessions} sessions is long enough to tell what comes next"
            raise fault(source, what, "see that session= names the column of sessions, or lower min_length")
        self.raw, self.known, self.unseen, self.source, self.origin = raw, known, unseen, source, origin
        self._bound: Sessions | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> Sample:
        return {"items": self.sessions.session(index)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of names, items, borders, times and first targets."""
        raw = self.raw
        extra = [part for part in (raw.times, raw.first_target) if part is not None]
        return digest(type(self).__name__, "\n".join(self.known), raw.items, raw.offsets, str(raw.names.dtype), *extra)

    def path_of(self, index: int) -> str | None:
        return self.source

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        """Session by session, where nothing or a rule by session (`ratios`) cuts them."""
        if self.origin.rule in UNFOLDABLE:
            raise not_dealt(self, f"{UNFOLDABLE[self.origin.rule]}; cut the file by session: ratios")
        return Dealing("cut at random, session by session")

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        """The sessions of the splits of one file."""
        first, raws = datasets[0], [each.raw for each in datasets]
        if any(each.known != first.known for each in datasets):
            files = ", ".join(dict.fromkeys(each.source for each in datasets))
            raise UsageError(f"the splits are files of their own ({files}), not cut from one: give ratios")
        names = np.concatenate([raw.names for raw in raws])
        if len(np.unique(names)) < len(names):
            raise UsageError(f"some sessions of {first.source} are in two splits of the recipe")
        made: Dataset = first._with(concatenated(raws))
        return made

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        """These sessions as a data set of their own."""
        return self._with(self.raw.take(rows))

    def _with(self, raw: Sessions) -> SessionData:
        made = copy.copy(self)
        made.raw, made._bound = raw, None
        made.__dict__.pop("fingerprint", None)
        return made

    def counts(self, kind: str = "items", rows: np.ndarray | None = None) -> tuple[list[str], np.ndarray]:
        """(names of the items, int64 how often each occurs), in the sessions of these rows."""
        if kind != "items":
            raise ConfigError(f"{type(self).__name__} knows items only, no {kind}")
        items = self.raw.items if rows is None else self.raw.take(rows).items
        return self.known, np.bincount(items, minlength=len(self.known) + 1)[1:]

    def item_names(self) -> list[str]:
        """The names of the items that occur."""
        return [self.known[i] for i in np.flatnonzero(self.counts()[1])]

    def bind(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        """Number the items as vocabularies["items"] does."""
        table = np.concatenate([[0], vocabularies["items"].encode(self.known)]).astype(np.int64)
        numbered = replace(self.raw, items=table[self.raw.items])
        self._bound = numbered if self.unseen == "keep" else numbered.where(numbered.items > 0)

    @property
    def sessions(self) -> Sessions:
        """The sessions by number, as many as there are samples. UsageError before `bind`."""
        if self._bound is None:
            raise UsageError(f"{type(self).__name__} has names and no numbers yet; call bind({{'items': vocabulary}})")
        return self._bound


def unwrap(dataset: Any) -> tuple[Any, np.ndarray | None]:
    """The data set under `pdl.data.Subset`s and `Few`s, and which of its samples they leave (None: all)."""
    rows = None
    while isinstance(dataset, Subset):
        rows = dataset.indices if rows is None else dataset.indices[rows]
        dataset = dataset.dataset
    return dataset, rows


def sessions_of(dataset: Any) -> Sessions:
    """The sessions of a bound data set, or of a `pdl.data.Few` or `Subset` of one, without those that have nothing to
    predict."""
    base, rows = unwrap(dataset)
    if not isinstance(base, SessionData):
        raise ConfigError(f"{type(base).__name__} gives no sessions; use a data set such as pdl_rec.data.SessionFile")
    held = base.sessions if rows is None else base.sessions.take(rows)
    return held.usable()


def bind(dataset: Any, vocabularies: Mapping[str, Vocabulary]) -> None:
    """`dataset.bind(vocabularies)`, seeing through `pdl.data.Few` and `Subset`."""
    base, _ = unwrap(dataset)
    if not hasattr(base, "bind"):
        raise ConfigError(f"{type(base).__name__} has no bind; use one of the data sets of pdl_rec.data")
    base.bind(vocabularies)


def vocabulary_of(dataset: Any, kind: str = "items", *, min_count: int = 1) -> Vocabulary:
    """The items that occur at least `min_count` times in a data set, in the order of its file; of one of interactions
    (`InteractionData`) also its "users", and the names of a field."""
    base, rows = unwrap(dataset)
    if not hasattr(base, "counts"):
        raise ConfigError(f"{type(base).__name__} counts no {kind}; use one of the data sets of pdl_rec.data")
    names, counts = base.counts(kind, rows)
    return Vocabulary([names[i] for i in np.flatnonzero(counts >= max(min_count, 1))])

"""Checks of recommendation data before training: swapped columns, leaks, missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from pdl.data.checks import Progress, Source, open_all
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_rec.data.interactions import InteractionData
from pdl_rec.data.sessions import SessionData, Sessions, unwrap

ALONE = 0.9  # of the events: so many different sessions or items are no sessions or items
EARLY = 0.01  # of the sessions: so many may begin before training ends, where days meet
LONG, SAME = 5, 0.05  # sessions of five items hardly repeat by chance
SECONDS = 1e11  # the year 5138; larger times are in other units


def check(datasets: Mapping[str, Source], *, progress: Progress | None = None) -> list[Fault]:
    """Faults of the data sets of these splits (or of opening them): a list, empty where all is
    well. Nothing needs to be bound. Looked for are:

    in a split        no samples; columns of sessions and items mixed up; times that are none, or not in seconds;
                      sessions too short, events twice or out of order
    between splits    the same sessions or interactions in two of them; training data later than the sessions it is
                      tested on; users and items that training does not have
    """
    faults: list[Fault] = []
    opened = {split: unwrap(dataset)[0] for split, dataset in open_all(datasets, faults).items() if len(dataset)}
    for split, dataset in opened.items():
        faults += _placed(dataset, split, _alone(dataset))
        if progress is not None:
            progress(split, len(dataset), len(dataset))
    for first, second in combinations(opened, 2):
        faults += _placed(opened[second], second, _together(first, opened[first], opened[second]))
    return faults


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """`check` of the data sets that a recipe names."""
    return check({split: part.build for split, part in recipe.data.splits.items()}, progress=progress)


Finding = tuple[str, str, bool]
"""(what, advice, whether it is an error and no warning)."""


def _placed(dataset: Any, split: str, findings: Iterator[Finding]) -> list[Fault]:
    path = dataset.path_of(0)
    return [Fault(path, None, what, advice, split=split, severity="error" if hard else "warning")
            for what, advice, hard in findings]  # fmt: skip


# -- one split ---------------------------------------------------------------------------------------------------------
def _alone(dataset: Any) -> Iterator[Finding]:
    if isinstance(dataset, SessionData):
        yield from _file(dataset)
        yield from _columns(dataset)
        yield from _twice(dataset)
    elif isinstance(dataset, InteractionData):
        yield from _pairs_twice(dataset)


def _file(dataset: SessionData) -> Iterator[Finding]:
    """What the whole file shows; said once, by the split that begins it."""
    origin = dataset.origin
    if getattr(dataset, "split", None) not in (None, "train"):
        return
    if origin.sessions > ALONE * origin.events:
        what = f"{origin.sessions} sessions in {origin.events} events: almost every event is a session of its own"
        yield what, "name the column of sessions with session=; without sessions there is no next item", True
    elif origin.short:
        share = f"{origin.short} of {origin.sessions} sessions"
        yield (
            f"{share} are too short to tell what comes next, and are left out",
            "state it with the results, or lower min_length",
            False,
        )
    if origin.back and (origin.together or origin.back < origin.events / 4):  # else the file is in no order at all
        what = f"{_many(origin.back, 'event')} of {origin.events} stand behind a later one of their session"
        yield f"{what}; they are put in order", "see that time= names the column of times, or sort the file", False


def _many(n: int, thing: str) -> str:
    return f"{n} {thing if n == 1 else thing + 's'}"


def _columns(dataset: SessionData) -> Iterator[Finding]:
    raw = dataset.raw
    different = len(np.unique(raw.items))
    if different > ALONE * len(raw.items) and len(raw.items) > 100:
        what = f"{different} different items in {len(raw.items)} events: almost every event has an item of its own"
        yield what, "name the column of items with item=", True
    if raw.times is None:
        return
    if np.abs(raw.times).max(initial=0.0) > SECONDS:
        yield f"times up to {raw.times.max():.6g} are not in seconds", "say unit: ms, us or ns", True
    session, item = _span(raw.rows(), raw.times), _span(raw.items, raw.times)
    if item < session:
        what = f"an item is seen for {item:.6g} s, a session lasts {session:.6g} s (medians): the columns seem swapped"
        yield what, "see that session= and item= name what they should", True


def _span(keys: np.ndarray, times: np.ndarray) -> float:
    """The median, over the keys that occur more than once, of the time from their first to their last event."""
    order = np.lexsort((times, keys))
    keys, times = keys[order], times[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    ends = np.append(starts[1:], len(keys))
    several = ends - starts > 1
    return float(np.median(times[ends[several] - 1] - times[starts[several]])) if several.any() else 0.0


def _twice(dataset: SessionData) -> Iterator[Finding]:
    raw = dataset.raw
    if raw.times is None:
        return
    order = np.lexsort((raw.items, raw.times, raw.rows()))
    columns = np.stack([raw.rows(), raw.times, raw.items])[:, order]
    again = np.flatnonzero((np.diff(columns) == 0).all(axis=0))
    if len(again):
        name = raw.names[int(columns[0, again[0]])]
        what = (
            f"{_many(len(again), 'event')} too many: same session, item and time as another (first in session {name})"
        )
        yield what, "remove them, unless they are meant", False


def _pairs_twice(dataset: InteractionData) -> Iterator[Finding]:
    raw = dataset.raw
    pairs, first, counts = np.unique(_pair_keys(dataset, dataset), return_index=True, return_counts=True)
    if (counts > 1).any():
        row = first[counts > 1][0]
        user, item = dataset.names["users"][raw.users[row] - 1], dataset.names["items"][raw.items[row] - 1]
        what = f"{_many(len(raw) - len(pairs), 'interaction')} too many: same user and item (first: {user}, {item})"
        yield what, "keep one of each, unless they are meant", False


# -- two splits --------------------------------------------------------------------------------------------------------
def _together(first: str, a: Any, b: Any) -> Iterator[Finding]:
    if isinstance(a, SessionData) and isinstance(b, SessionData):
        yield from _same_sessions(first, a, b)
        if first == "train":
            yield from _future(a, b)
            yield from _unseen("items", a, b)
    elif isinstance(a, InteractionData) and isinstance(b, InteractionData):
        yield from _same_pairs(first, a, b)
        if first == "train":
            yield from _unseen("users", a, b)
            yield from _unseen("items", a, b)


def _same_sessions(first: str, a: SessionData, b: SessionData) -> Iterator[Finding]:
    if a.origin.rule == b.origin.rule == "leave_one_out":
        return
    timed = a.raw.times is not None and b.raw.times is not None
    if a.origin.named and b.origin.named:
        both, rows_a, rows_b = np.intersect1d(a.raw.names.astype(str), b.raw.names.astype(str), return_indices=True)
        if len(both):
            left, right = (_contents(d, d.raw.take(rows), timed) for d, rows in ((a, rows_a), (b, rows_b)))
            same = [name for name, x, y in zip(both, left, right, strict=True) if x == y]
            if same:
                what = f"{len(same)} of {len(b)} sessions are in {first} too, event by event (first: {same[0]})"
                yield what, "take them out of one of the two, or the measured numbers are memory", True
            elif timed:
                what = f"{len(both)} of {len(b)} sessions have the name of another one in {first} (first: {both[0]})"
                yield what, "see that no session was cut in two", False
            return
    long = [d.raw.take(np.flatnonzero(d.raw.lengths >= LONG)) for d in (a, b)]
    known = set(_contents(a, long[0], timed))
    same_items = sum(content in known for content in _contents(b, long[1], timed))
    if same_items > SAME * max(len(long[1]), 20):
        what = f"{same_items} of {len(long[1])} sessions of {LONG} items or more are in {first} too, item by item"
        yield what, "take them out of one of the two, or the measured numbers are memory", True


def _contents(dataset: SessionData, sessions: Sessions, timed: bool) -> list[tuple[Any, ...]]:
    """What makes each session the same as another: its items, and its times where both data sets have them."""
    names, times = dataset.known, sessions.times
    bounds = zip(sessions.offsets[:-1].tolist(), sessions.offsets[1:].tolist(), strict=True)
    items = [names[k - 1] for k in sessions.items.tolist()]
    if not timed or times is None:
        return [tuple(items[low:high]) for low, high in bounds]
    when = times.tolist()
    return [(*items[low:high], *when[low:high]) for low, high in bounds]


def _future(train: SessionData, later: SessionData) -> Iterator[Finding]:
    """Only where the splits are cut by time: sessions that begin before the last event of training."""
    if train.raw.times is None or later.raw.times is None or train.origin.rule in ("ratios", "leave_one_out"):
        return
    end = train.raw.times.max()
    begins = later.raw.times[later.raw.offsets[:-1]]
    early = int((begins < end).sum())
    if early > EARLY * len(later):
        what = f"{early} of {len(later)} sessions begin before the last event of train: training knows their future"
        yield what, "cut by time (holdout), or say in the results that the split is not by time", False


def _unseen(kind: str, train: Any, later: Any) -> Iterator[Finding]:
    names, counts = train.counts(kind)
    known = {names[i] for i in np.flatnonzero(counts)}
    names, counts = later.counts(kind)
    strange = np.array([name not in known for name in names]) & (counts > 0)
    if strange.any():
        total, events = int(counts.sum()), int(counts[strange].sum())
        what = f"{int(strange.sum())} of {int((counts > 0).sum())} {kind} are not in train: {events} of {total} events"
        fate = "are left out (unseen: drop)" if later.unseen == "drop" else "stay in, as misses (unseen: keep)"
        yield f"{what}, which {fate}", "state it with the results, or train on more data", False


def _pair_keys(dataset: InteractionData, like: InteractionData) -> np.ndarray:
    """A number for user and item of each interaction, by the names of `like`; -1 where it lacks one of them."""
    columns = []
    for kind, codes in (("users", dataset.raw.users), ("items", dataset.raw.items)):
        place = {name: k for k, name in enumerate(like.names[kind])}
        columns.append(np.array([-1] + [place.get(name, -1) for name in dataset.names[kind]], np.int64)[codes])
    keys = columns[0] * len(like.names["items"]) + columns[1]
    return np.where((columns[0] < 0) | (columns[1] < 0), -1, keys)


def _same_pairs(first: str, a: InteractionData, b: InteractionData) -> Iterator[Finding]:
    keys = _pair_keys(b, a)
    same = int((np.isin(keys, _pair_keys(a, a)) & (keys >= 0)).sum())
    if same:
        what = f"{same} of {len(b)} interactions repeat a user and an item of {first}"
        yield what, "keep one of each; or repeats are no news to a model that has seen the first", False

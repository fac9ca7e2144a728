"""Which sessions, or which of their items, belong to train, val and test: rules that cut one file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pdl.data.randomness import BatchRandom
from pdl.data.splits import check_ratios, stable_split
from pdl.errors import ConfigError
from pdl_rec.data.sessions import Origin, Sessions, _ranges

Order = Literal["random", "time"]
SPLITS = ("train", "val", "test")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def cut(
    owner: str,
    sessions: Sessions,
    split: str | None,
    *,
    ratios: Mapping[str, float] | None = None,
    holdout: Mapping[str, Any] | None = None,
    leave_one_out: bool = False,
    seed: int = 0,
) -> Sessions:
    """The part of `sessions` that is `split`, by the one rule that is given; all of them where there is none.

    ratios         {train: 0.9, val: 0.1}: a session falls where the hash of its name and the seed says (see
                   `pdl.data.splits.stable_split`)
    holdout        {val: 1d, test: 1d}: counted back from the last event of all, the sessions whose last event is in the
                   last day are test, those of the day before val, the others train. Units: s, m, h, d, w
    leave_one_out  of every session the last item is test and the one before val; train is the rest. The items before
                   the one to be predicted are known
    """
    rules = [name for name, on in (("ratios", ratios), ("holdout", holdout), ("leave_one_out", leave_one_out)) if on]
    if len(rules) > 1:
        raise ConfigError(f"{owner}: {' and '.join(rules)} are two rules for one file; give one")
    if split is None and rules:
        raise ConfigError(f"{owner}: {rules[0]} cuts the file up; say which part with split=")
    if split is None or not rules:
        return sessions
    if ratios:
        return _by_ratio(owner, sessions, split, ratios, seed)
    return _by_time(owner, sessions, split, holdout) if holdout else _leave_one_out(owner, sessions, split)


def parted(
    owner: str,
    raw: Sessions,
    split: str | None,
    *,
    min_length: int,
    back: int = 0,
    together: bool = True,
    named: bool = True,
    seed: int,
    **rules: Any,
) -> tuple[Sessions, Origin]:
    """(what `cut` leaves of the sessions of a file that have at least `min_length` events, what the file was)."""
    short = raw.lengths < min_length
    kept = cut(owner, raw.take(np.flatnonzero(~short)) if short.any() else raw, split, seed=seed, **rules)
    rule = next((name for name, on in rules.items() if on), None)
    return kept, Origin(len(raw), len(raw.items), int(short.sum()), back, together, rule if split else None, named)


def _check_split(owner: str, split: str, names: Any) -> None:
    if split not in names:
        raise ConfigError(f"{owner}: split={split!r} is none of {', '.join(names)}")


def _by_ratio(owner: str, sessions: Sessions, split: str, ratios: Mapping[str, float], seed: int) -> Sessions:
    ratios = check_ratios(owner, ratios)
    _check_split(owner, split, ratios)
    return sessions.take(stable_split([str(name) for name in sessions.names.tolist()], ratios, split, seed=seed))


def _by_time(owner: str, sessions: Sessions, split: str, holdout: Mapping[str, Any]) -> Sessions:
    if sessions.times is None:
        raise ConfigError(f"{owner}: holdout needs times; name their column with time=")
    spans = {str(name): seconds(owner, span) for name, span in holdout.items()}
    others = [name for name in spans if name not in ("val", "test")]
    if others:
        raise ConfigError(f"{owner}: holdout names {others[0]!r}; it takes val and test, and train is the rest")
    _check_split(owner, split, ("train", *spans))
    ends = sessions.times[sessions.offsets[1:] - 1]
    test_from = ends.max(initial=0.0) - spans.get("test", 0.0)
    val_from = test_from - spans.get("val", 0.0)
    low, high = {"train": (-np.inf, val_from), "val": (val_from, test_from), "test": (test_from, np.inf)}[split]
    if split == "val" and "test" not in spans:
        high = np.inf
    if split == "train" and not spans:
        high = np.inf
    return sessions.take(np.flatnonzero((ends >= low) & (ends < high)))


def seconds(owner: str, span: Any) -> float:
    """A span of time in seconds: a number of them, or a text such as 1d, 12h, 30m."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", str(span).strip())
    if not found or float(found.group(1)) <= 0:
        raise ConfigError(f"{owner}: {span!r} is no span of time; write 1d, 12h, 30m or a number of seconds")
    return float(found.group(1)) * _UNITS[found.group(2) or "s"]


def _leave_one_out(owner: str, sessions: Sessions, split: str) -> Sessions:
    _check_split(owner, split, SPLITS)
    without = SPLITS[::-1].index(split)
    lengths = np.maximum(sessions.lengths - without, 0)
    events = _ranges(sessions.offsets[:-1], lengths)
    kept = np.zeros(len(sessions.items), bool)
    kept[events] = True
    shorter = sessions.where(kept)
    return shorter if split == "train" else replace(shorter, first_target=np.maximum(lengths - 1, 0))


def part_of(
    owner: str,
    users: np.ndarray,
    times: np.ndarray | None,
    *,
    ratios: Mapping[str, float] | None,
    order: Order,
    by_user: bool,
    seed: int,
) -> tuple[list[str], np.ndarray]:
    """(names of the parts, the number of the part of every event): events of `users` cut up as RecBole does.

    Events are put in order, at random or by time (those of one time as they come). Then each user's (all of them
    without `by_user`) are cut: of n events part k > 0 has floor(n r_k), and one where that is 0 as long as train keeps
    more than one; the first has the rest. Without `ratios` the last event of a user is test and the one before it val,
    of two events one is test.
    """
    if (order == "time" or ratios is None) and times is None:
        raise ConfigError(f"{owner}: order={order} needs times, and there is no column of them")
    by_time = order == "time" or ratios is None
    keys = times if by_time and times is not None else _shuffled(len(users), seed)
    ordered = np.lexsort((keys, users)) if by_user else np.argsort(keys, kind="stable")
    group = np.unique(users[ordered], return_inverse=True)[1] if by_user else np.zeros(len(users), np.int64)
    totals = np.bincount(group)
    place = np.arange(len(users)) - np.repeat(np.cumsum(totals) - totals, totals)
    names, counts = (list(SPLITS), _last_two(totals)) if ratios is None else _shares(owner, totals, ratios)
    ends = np.cumsum(counts, axis=0)
    part = np.empty(len(users), np.int64)
    part[ordered] = (place[None] >= ends[:-1, group]).sum(axis=0)
    return names, part


def _shuffled(n: int, seed: int) -> np.ndarray:
    keys: np.ndarray = BatchRandom(seed, 0, np.arange(n)).fork("split").uniform()
    return keys


def _shares(owner: str, totals: np.ndarray, ratios: Mapping[str, float]) -> tuple[list[str], np.ndarray]:
    ratios = check_ratios(owner, ratios)
    shares = np.array(list(ratios.values())) / sum(ratios.values())
    counts = np.floor(shares[:, None] * totals).astype(np.int64)
    counts[0] = totals - counts[1:].sum(axis=0)
    for k in range(len(shares) - 1, 0, -1):
        one = (counts[0] > 1) & (counts[k] == 0)
        counts[k] += one
        counts[0] -= one
    return list(ratios), counts


def _last_two(totals: np.ndarray) -> np.ndarray:
    counts = np.stack([totals, totals > 2, totals > 1]).astype(np.int64)
    counts[0] -= counts[1] + counts[2]
    return counts

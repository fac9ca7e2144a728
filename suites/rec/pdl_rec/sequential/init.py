"""A recipe for a file of clicks, as `pdl init rec.next_item --data clicks.csv` writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl_rec.data.session_file import grouped
from pdl_rec.data.sessions import Sessions
from pdl_rec.data.tables import header_of, read, source

# names that columns go by, letters and digits only, likeliest first
SESSION = (
    "sessionid", "session", "visitid", "visit", "visitorid", "visitor", "basketid", "orderid", "userid", "user",
    "customerid", "clientid",
)  # fmt: skip
ITEM = ("itemid", "item", "productid", "product", "articleid", "article", "sku", "movieid", "trackid", "songid", "asin")
TIME = ("timestamp", "time", "ts", "eventtime", "datetime", "createdat", "date", "unixtime")
UNITS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11))
DAY = 86400.0
SEEN = 1_500_000  # events to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that trains GRU4Rec on a csv or tsv file (gzipped or not) with a line for each event.

    The columns are found by their names. The newest sessions, about a tenth of the time each, are val and test; without
    times a tenth of the sessions is drawn for each. Raises UsageError where the columns cannot be told.
    """
    if data.is_dir():
        raise UsageError(f"{data}: a folder; name the file of clicks itself: --data {data}/clicks.csv")
    session, item, time = columns(data)
    unit, sessions = _read(data, session, item, time)
    if len(sessions) < 20:
        raise fault(data, f"{len(sessions)} sessions of two events or more; at least 20 are needed", "give more events")
    rule = _rule(sessions)
    about = f"{len(sessions):,} sessions of {len(sessions.items) / len(sessions):.1f} events"
    named = f"session: {quoted(session)}, item: {quoted(item)}, "
    named += f"time: {'null' if time is None else quoted(time)}" + (f", unit: {unit}" if unit != "s" else "")
    paths = {"train": quoted(data.resolve()), "val": '"${data.train.path}"', "test": '"${data.train.path}"'}
    lines = [
        f"# {about}, {len(np.unique(sessions.items)):,} items.",
        "defaults:",
        "  - /rec/next_item",
        "  - _self_",
        "model: {_target_: pdl_rec.GRU4Rec}",
        "data:",
        *(
            f"  {split}: {{_target_: pdl_rec.data.SessionFile, path: {path}, {named}, split: {split}, {rule}}}"
            for split, path in paths.items()
        ),
        f"train: {{epochs: {int(np.clip(SEEN // max(len(sessions.items), 1), 3, 30))}}}",
    ]
    return "\n".join(lines) + "\n"


def columns(data: Path) -> tuple[str, str, str | None]:
    """The columns of sessions, items and times of a file, by their names."""
    have = header_of(source(data))
    session, item, time = _named(have, SESSION), _named(have, ITEM), _named(have, TIME)
    if session is None or item is None:
        lacks = " and ".join(what for what, found in (("sessions", session), ("items", item)) if found is None)
        raise UsageError(
            f"{data}: which column holds {lacks}? its first line says {', '.join(have[:12])}; name columns such as "
            "session_id, item_id and timestamp there, or write the recipe by hand (session=, item=, time= of "
            "pdl_rec.data.SessionFile)"
        )
    return session, item, time


def _named(have: Sequence[str], known: Sequence[str]) -> str | None:
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in have}
    return next((plain[name] for name in known if name in plain), None)


def _read(data: Path, session: str, item: str, time: str | None) -> tuple[str, Sessions]:
    """The unit of the times, and the sessions with two events or more, their times in seconds."""
    wanted = {session: "token", item: "token", **({time: "time"} if time else {})}
    table = read(source(data), wanted)  # type: ignore[arg-type]
    times, unit = None if time is None else table[time], "s"
    if times is not None:
        unit = next((name for name, least in UNITS if np.median(np.abs(times)) >= least), "s")
        times = times / {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    found, _ = grouped(table[session], table[item], times)
    return unit, found.take(np.flatnonzero(found.lengths >= 2))


def _rule(sessions: Sessions) -> str:
    """How the file is cut: by time where a tenth of it holds some sessions, else by ratio."""
    if sessions.times is not None:
        ends = sessions.times[sessions.offsets[1:] - 1]
        span = (ends.max() - ends.min()) / 10
        text = f"{round(span / DAY)}d" if span >= 2 * DAY else f"{max(round(span / 60), 1)}m"
        newest = [int((ends >= ends.max() - n * span).sum()) for n in (1, 2)]
        if min(newest[0], newest[1] - newest[0]) >= max(len(sessions) // 100, 2) and newest[1] <= len(sessions) // 2:
            return f"holdout: {{val: {text}, test: {text}}}"
    return "ratios: {train: 0.8, val: 0.1, test: 0.1}"


__all__ = ["columns", "write_recipe"]

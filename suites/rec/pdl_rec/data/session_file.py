"""Sessions out of a table of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import StandIn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_rec.data import standin
from pdl_rec.data.sessions import SessionData, Sessions, Unseen
from pdl_rec.data.splits import parted
from pdl_rec.data.tables import Coded, read, source

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class SessionFile(SessionData):
    """Sessions from a csv or tsv file with a line for each event, gzipped or not.

    path           a relative one is also looked for under PDL_DATA
    session, item  names of these columns
    time           the column of times: numbers, or ISO 8601; None where the file is in order and has no times
    unit           of times that are numbers: s, ms, us or ns
    separator      tab, comma, semicolon or bar; by default found from the first line
    header         the names of all columns, for a file without a first line that names them
    split          train, val or test, where one of the following rules cuts the file:
    ratios         {train: 0.9, val: 0.1}: sessions by a hash of their name and `seed`
    holdout        {val: 1d, test: 1d}: the last sessions in time (see `pdl_rec.data.splits.cut`)
    leave_one_out  the last item of each session is test, the one before it val
    min_length     sessions with fewer events are left out
    unseen         events of items that training does not have: "drop" them, or "keep" them as item 0, which no model
                   can hit
    address        where a missing file can be had, as `pdl.data.to_get` takes it

    Sessions are ordered by name (whole numbers by value), their events by time; events of the same time stay as in the
    file.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        session: str = "session_id",
        item: str = "item_id",
        time: str | None = "timestamp",
        unit: Literal["s", "ms", "us", "ns"] = "s",
        separator: str | None = None,
        header: Sequence[str] | None = None,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        holdout: Mapping[str, Any] | None = None,
        leave_one_out: bool = False,
        seed: int = 0,
        min_length: Annotated[int, Range(1)] = 2,
        unseen: Unseen = "drop",
        address: str | None = None,
    ) -> None:
        if separator is not None and len(separator) != 1:
            raise ConfigError(f"SessionFile: separator={separator!r} must be one character")
        file = source(path, address)
        columns = {session: "token", item: "token", **({time: "time"} if time is not None else {})}
        if len(columns) < 3 - (time is None):
            raise ConfigError(f"SessionFile: session={session}, item={item}, time={time} must be different columns")
        table = read(file, columns, separator=separator, header=header)  # type: ignore[arg-type]
        times = None if time is None else in_seconds(table[time], unit)
        raw, facts = grouped(table[session], table[item], times)
        rules: dict[str, Any] = {"ratios": ratios, "holdout": holdout, "leave_one_out": leave_one_out, "seed": seed}
        kept, origin = parted("SessionFile", raw, split, min_length=min_length, **facts, **rules)
        super().__init__(kept, table[item].names, unseen=unseen, source=file.name, origin=origin)
        self.split = split

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_events(folder, settings)
        return StandIn({"path": str(path)}, standin.WHAT)


def in_seconds(times: np.ndarray, unit: str) -> np.ndarray:
    """Times of a unit (s, ms, us, ns) in seconds."""
    return times if unit == "s" else times / _PER_SECOND[unit]


def grouped(session: Coded, item: Coded, times: np.ndarray | None) -> tuple[Sessions, dict[str, Any]]:
    """Events as sessions: ordered by the session's name, then by time, then as they came; and what is to be told of it
    (`Origin.back`, `Origin.together`)."""
    rank = session.order[session.codes]
    codes, back = item.codes, 0
    together = int((np.diff(rank) != 0).sum()) < len(session.order)
    if (np.diff(rank) < 0).any():
        order = np.argsort(rank, kind="stable")
        rank, codes, times = rank[order], codes[order], None if times is None else times[order]
    if times is not None:
        back = int(((np.diff(times) < 0) & (np.diff(rank) == 0)).sum())
    if back:
        assert times is not None
        order = np.lexsort((times, rank))
        codes, times = codes[order], times[order]
    counts = np.bincount(rank, minlength=len(session.order))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Sessions(codes + 1, offsets, times, session.sorted_names), {"back": back, "together": together}

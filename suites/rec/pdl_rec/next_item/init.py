"""A recipe for a file of clicks, as `pdl init rec.next_item --data clicks.csv` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl_rec.data.guessing import ITEM, SESSION, missing, named, sample, time_column, unit_of
from pdl_rec.data.pair_file import PairFile
from pdl_rec.data.session_file import grouped
from pdl_rec.data.sessions import Sessions
from pdl_rec.data.tables import read, source

DAY = 86400.0
SEEN = 700_000  # events to learn from, over all epochs
RATIOS = "ratios: {train: 0.8, val: 0.1, test: 0.1}"
FEWEST = 20  # sessions
FEW, LONG = 20_000, 10  # events that small batches are for; events of a session that longer ones are read for


def write_recipe(data: Path) -> str:
    """The text of a recipe that trains SASRec on a csv or tsv file (gzipped or not) with a line for each event, or on a
    text with a line for each session (`pdl_rec.data.PairFile`).

    Columns are found by their names, times also by what they hold. The newest sessions, about a tenth of the time each,
    are val and test; without times a tenth of the sessions is drawn for each. Raises UsageError where the columns
    cannot be told.

    Model and settings are those that did best on the newest day of yoochoose100k's training data (pairs, full softmax,
    seed 0, recall@20 / mrr@20): SASRec with scores by cosine, label smoothing and one cycle 0.673 / 0.372, VS-kNN 0.643
    / 0.335, GRU4Rec with dropout, label smoothing and one cycle 0.646 / 0.345, GRU4Rec without them 0.624 / 0.327.
    """
    if data.is_dir():
        raise UsageError(f"{data}: a folder; name the file of clicks itself: --data {data}/clicks.csv")
    if one_session_a_line(data):
        return _recipe(data, _enough(data, PairFile(data).raw), "PairFile", "", RATIOS, "a line for each")
    session, item, time = columns(data)
    unit, sessions = _read(data, session, item, time)
    said = f"sessions are {session}, items {item}, times {'none' if time is None else f'{time} ({unit})'}"
    given = f"session: {quoted(session)}, item: {quoted(item)}, "
    given += f"time: {'null' if time is None else quoted(time)}" + (f", unit: {unit}" if unit != "s" else "")
    return _recipe(data, _enough(data, sessions), "SessionFile", f"{given}, ", _rule(sessions), said)


def _enough(data: Path, sessions: Sessions) -> Sessions:
    if len(sessions) < FEWEST:
        shortage = f"{len(sessions)} sessions of two events or more; at least {FEWEST} are needed"
        raise fault(data, shortage, "give more events")
    return sessions


def _recipe(data: Path, sessions: Sessions, kind: str, columns: str, rule: str, said: str) -> str:
    """The text: the data set by its class, its columns, and the rule of the split."""
    events, mean = len(sessions.items), len(sessions.items) / max(len(sessions), 1)
    length = 20 if mean < LONG else 50
    paths = {"train": quoted(data.resolve()), "val": '"${data.train.path}"', "test": '"${data.train.path}"'}
    lines = [
        f"# {len(sessions):,} sessions of {mean:.1f} events, {len(np.unique(sessions.items)):,} items: {said}.",
        "defaults:",
        "  - /rec/next_item",
        "  - _self_",
        f"task: {{max_length: {length}, loss: {{_target_: pdl_rec.CrossEntropy, label_smoothing: 0.1}}}}",
        f"model: {{_target_: pdl_rec.SASRec, width: 100, max_length: {length}, dropout: 0.3, cosine: 12}}",
        "data:",
        *(
            f"  {split}: {{_target_: pdl_rec.data.{kind}, path: {path}, {columns}split: {split}, {rule}}}"
            for split, path in paths.items()
        ),
        f"  batch_size: {256 if events >= FEW else 32}",
        "optim: {lr: 4.0e-3, weight_decay: 1.0e-5}",
        "schedule: {_target_: pdl.optim.OneCycle, pct_start: 0.1}",
        f"train: {{epochs: {int(np.clip(SEEN // max(events, 1), 3, 30))}}}",
    ]
    return "\n".join(lines) + "\n"


def one_session_a_line(data: Path) -> bool:
    """Whether the first lines are sessions, items separated by spaces and by nothing else, as `PairFile` reads
    them. (Lines of prefixes and targets are not recognised: cut by line, prefixes of one session would be in two
    splits.)"""
    lines = [line for line in source(data).first_lines() if line.strip()]
    if any(mark in line for line in lines for mark in ",;\t"):
        return False
    return sum(len(line.split()) >= 2 for line in lines) > len(lines) // 2


def columns(data: Path) -> tuple[str, str, str | None]:
    """The columns of sessions, items and times of a file: by their names, times also by what they hold."""
    held = sample(source(data))
    have = list(held)
    session, item = named(have, SESSION), named(have, ITEM)
    if session is None or item is None:
        raise UsageError(
            f"{missing(data, have, sessions=session, items=item)}; name columns such as session_id, item_id and "
            "timestamp there, or write the recipe by hand (session=, item=, time= of pdl_rec.data.SessionFile)"
        )
    return session, item, time_column(held, (session, item))


def _read(data: Path, session: str, item: str, time: str | None) -> tuple[str, Sessions]:
    """The unit of the times, and the sessions with two events or more, their times in seconds."""
    wanted = {session: "token", item: "token", **({time: "time"} if time else {})}
    table = read(source(data), wanted)  # type: ignore[arg-type]
    times, unit = None if time is None else table[time], "s"
    if times is not None:
        unit = unit_of(times)
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
    return RATIOS

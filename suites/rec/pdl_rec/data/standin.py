"""Stand-ins: sessions drawn from a small chain of items, written in the formats of other data sets, so that recipes and
readers can be tried where those are not (`pdl selftest`).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ITEMS, SESSIONS = 60, 480
LENGTHS = (3, 9)
USERS, HISTORY = 300, (8, 17)
FOLLOW = (0.6, 0.25, 0.1)  # how probable the three followers of an item are; otherwise any item comes next
DAYS, FIRST_TIME = 8, 1_396_310_400  # 1 April 2014
WHAT = f"sessions drawn from a seeded Markov chain over {ITEMS} items"


def draw(
    name: str, sessions: int = SESSIONS, lengths: tuple[int, int] = LENGTHS
) -> Iterator[tuple[int, list[int], list[int]]]:
    """(number, items from 1 on, times in seconds) of each session; the same for the same name. Every item has three
    followers, the same for all names. Where "test" is in the name the sessions are those of the last day."""
    test = "test" in name
    chain = np.random.default_rng(0).permuted(np.tile(np.arange(1, ITEMS + 1), (ITEMS + 1, 1)), axis=1)
    rng = np.random.default_rng(list(name.encode()))
    days = (DAYS - 1, DAYS) if test else (0, DAYS - 1)
    starts = np.sort(rng.integers(days[0] * 86400, days[1] * 86400 - 3600, sessions)) + FIRST_TIME
    for number, start in enumerate(starts.tolist(), 1 + 10**6 * test):
        items = [int(rng.integers(1, ITEMS + 1))]
        for _ in range(int(rng.integers(*lengths)) - 1):
            which = int(np.searchsorted(np.cumsum(FOLLOW), rng.random(), side="right"))
            items.append(int(chain[items[-1], which] if which < len(FOLLOW) else rng.integers(1, ITEMS + 1)))
        yield number, items, (start + np.cumsum(rng.integers(5, 300, len(items)))).tolist()


def write_events(folder: Path, settings: Mapping[str, Any]) -> Path:
    """A file for `SessionFile` with these settings: its columns, its separator, a line for each event."""
    separator = settings.get("separator") or "\t"
    wanted = {key: settings.get(key, default) for key, default in _COLUMNS.items()}
    header = settings.get("header")
    names = list(header) if header is not None else [name for name in wanted.values() if name is not None]
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[settings.get("unit", "s")]
    lines = [] if header is not None else [separator.join(names)]
    name = Path(settings["path"]).name if "path" in settings else "events.tsv"
    for number, items, times in draw(name):
        for item, time in zip(items, times, strict=True):
            row = {wanted["session"]: number, wanted["item"]: 1000 + item, wanted["time"]: time * scale}
            lines.append(separator.join(str(row.get(column, 0)) for column in names))
    return write_lines(folder / name, lines)


_COLUMNS = {"session": "session_id", "item": "item_id", "time": "timestamp"}


def write_pairs(folder: Path, settings: Mapping[str, Any]) -> Path:
    """A file for `PairFile`: every session a line, or every prefix of it with its target where its name has "test"."""
    name = Path(settings["path"]).name if "path" in settings else "pairs.txt"
    lines: list[str] = []
    for _, items, _ in draw(name):
        if "test" in name:
            lines += [f"{_line(items[:end])}\t{items[end]}" for end in range(len(items) - 1, 0, -1)]
        else:
            lines.append(_line(items))
    return write_lines(folder / name, lines)


def write_atomic(folder: Path, name: str, user_fields: Sequence[str], item_fields: Sequence[str]) -> None:
    """NAME.inter, NAME.user and NAME.item with these fields; every user is a session. A field of items tells in which
    group of ten an item is, one of users nothing."""
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    users = range(1, USERS + 1)
    for user, items, times in draw(name, USERS, HISTORY):
        lines += [f"{user}\t{item}\t{1 + (item + user) % 5}\t{at}" for item, at in zip(items, times, strict=True)]
    write_lines(folder / f"{name}.inter", lines)
    for kind, fields, rows in (("user", user_fields, users), ("item", item_fields, range(1, ITEMS + 1))):
        values = [[f"{row}", *(f"{(row // 10 if kind == 'item' else row * 7) % 6}" for _ in fields)] for row in rows]
        titles = [f"{kind}_id:token", *(f"{each}:token" for each in fields)]
        write_lines(folder / f"{name}.{kind}", ["\t".join(each) for each in (titles, *values)])


def _line(items: Sequence[int]) -> str:
    return " ".join(map(str, items))


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """The lines as a text file, gzipped where its name says so; a file that is there already stays."""
    content = "".join(line + "\n" for line in lines).encode()
    if not path.exists():
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path

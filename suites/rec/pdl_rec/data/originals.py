"""What `pdl data get` makes of the original files: the files that the data sets of this package read.

A function takes the originals by name and the folder to write to.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pdl.data.faults import fault

Originals = Mapping[str, Path]
MAX_MEMBER = 1 << 28  # bytes of a table inside an archive
DAY = 86_400
MIN_CLICKS = 5  # of an item that SR-GNN keeps
_AGAIN = "get it again from its source"


def packed(originals: Originals, out: Path, *, names: Mapping[str, str]) -> None:
    """Files as they are, under other names and gzipped: {their name: that of the data set}."""
    for name, path in originals.items():
        with gzip.GzipFile(out / names[name], "wb", mtime=0) as file:
            file.write(path.read_bytes())


# -- MovieLens ---------------------------------------------------------------------------------------------------------
def movielens(originals: Originals, out: Path) -> None:
    """The archive ml-100k.zip of GroupLens as RecBole's atomic files (the README in it names the columns)."""
    (path,) = originals.values()
    genres = [line.partition("|")[0] for line in _member(path, "u.genre")]
    ratings = [line.split("\t") for line in _member(path, "u.data")]
    users = [line.split("|") for line in _member(path, "u.user")]
    items = [line.split("|") for line in _member(path, "u.item")]
    for name, rows, columns in (("u.data", ratings, 4), ("u.user", users, 5), ("u.item", items, 5 + len(genres))):
        wrong = next((number for number, row in enumerate(rows, 1) if len(row) != columns), None)
        if wrong or not rows:
            raise fault(f"{path}/{name}", f"{columns} columns are expected in each line", _AGAIN, line=wrong)
    _atomic(out / "ml-100k.inter", ["user_id:token", "item_id:token", "rating:float", "timestamp:float"], ratings)
    _atomic(out / "ml-100k.user", ["user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"],
            users)  # fmt: skip
    header = ["item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"]
    films = ([row[0], *_title(row[1]), _genres(row[5:], genres)] for row in items)
    _atomic(out / "ml-100k.item", header, films)


def _member(path: Path, name: str) -> list[str]:
    """The lines of a file in the archive that are not empty."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"ml-100k/{name}")
            if info.file_size > MAX_MEMBER:
                raise fault(path, f"{name} has {info.file_size} bytes, more than the limit of {MAX_MEMBER}", _AGAIN)
            text = archive.read(info).decode("latin-1")
    except (KeyError, zipfile.BadZipFile) as error:
        raise fault(path, f"has no readable ml-100k/{name}: {error}", _AGAIN) from error
    return [line for line in text.replace("\r", "").split("\n") if line]


def _title(text: str) -> tuple[str, str]:
    """("Toy Story", "1995") of "Toy Story (1995)"; what has no year is unknown."""
    title, bracket, year = text.rpartition("(")
    return (title.strip(), year.rstrip(") ")) if bracket else ("unknown", "unknown")


def _genres(flags: Sequence[str], genres: Sequence[str]) -> str:
    return " ".join(genre for flag, genre in zip(flags, genres, strict=True) if flag == "1")


def _atomic(path: Path, header: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> None:
    lines = ["\t".join(row) for row in (header, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# -- Yoochoose ---------------------------------------------------------------------------------------------------------
def yoochoose(originals: Originals, out: Path, *, fraction: int) -> None:
    """yoochoose1_<fraction>_{train,test}.txt.gz of yoochoose-clicks.dat (session, time, item, category), as SR-GNN's
    preprocess.py prepares them (Wu et al., arXiv 1811.00855, section 4.1).

    Sessions of one click go, then items with fewer than five clicks, then sessions that are left with one. Sessions
    that end in the last day are the test, without items that no other session has: a line `items TAB next item` for
    each click behind the first. The others are sorted by their end, and the last ones are for training, a line each: as
    many as the last 1/fraction of all clicks behind a first one come from. Items are numbered from 1 on in the order in
    which the sessions before the last day show them.
    """
    (path,) = originals.values()
    session, item, end = _clicks(path)
    train, test = _split(session, item, end)
    number = _numbers([item for items in train for item in items])
    pairs = sum(len(items) - 1 for items in train)
    kept = pairs // fraction
    if not kept:
        raise fault(path, f"{pairs} clicks to predict are too few for 1/{fraction} of them", "get the whole file")
    coded = [[number[each] for each in items] for items in _last(train, kept)]
    _write_lines(out / f"yoochoose1_{fraction}_train.txt.gz", [" ".join(map(str, items)) for items in coded])
    known = [[number[each] for each in items if each in number] for items in test]
    _write_lines(out / f"yoochoose1_{fraction}_test.txt.gz", [line for items in known for line in _pairs(items)])


def _clicks(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(session, item, second of the click), int64, in the order of the file."""
    import pyarrow as pa
    from pyarrow import csv

    columns = ["session", "time", "item", "category"]
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=columns),
            convert_options=csv.ConvertOptions(
                include_columns=columns[:3],
                column_types={"session": pa.int64(), "time": pa.timestamp("ms", tz="UTC"), "item": pa.int64()},
            ),
        )
    except pa.ArrowInvalid as error:
        raise fault(path, f"is no list of clicks: {error}", "expected lines `session,time,item,category`") from error
    session, item = (table[name].to_numpy() for name in ("session", "item"))
    second = table["time"].cast(pa.int64()).to_numpy() // 1000
    return session, item, second


def _split(session: np.ndarray, item: np.ndarray, second: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """The items of the sessions for training and of those for the test, each sorted by the end of the session."""
    _, first, code, count = np.unique(session, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    end = second[order[np.cumsum(count) - 1]]  # of each session: the time of its last line
    several = (count > 1)[code]
    _, which, clicks = np.unique(item[several], return_inverse=True, return_counts=True)
    kept = np.zeros(len(item), bool)
    kept[np.flatnonzero(several)[clicks[which] >= MIN_CLICKS]] = True
    left = np.bincount(code[kept], minlength=len(count))
    good = left > 1
    last = end[good].max(initial=0) - DAY
    where = np.cumsum(left)
    chosen = order[kept[order]]  # lines, session by session
    held: list[list[list[int]]] = []
    for sessions in (good & (end < last), good & (end > last)):
        rows = np.flatnonzero(sessions)
        rows = rows[np.lexsort((first[rows], end[rows]))]
        held.append([item[chosen[where[row] - left[row] : where[row]]].tolist() for row in rows])
    return held[0], held[1]


def _numbers(items: Sequence[int]) -> dict[int, int]:
    number: dict[int, int] = {}
    for each in items:
        number.setdefault(each, len(number) + 1)
    return number


def _last(sessions: Sequence[list[int]], pairs: int) -> Sequence[list[int]]:
    """The last sessions, as many as the last `pairs` of all pairs come from."""
    for begin in range(len(sessions) - 1, -1, -1):
        pairs -= len(sessions[begin]) - 1
        if pairs <= 0:
            return sessions[begin:]
    return sessions


def _pairs(items: Sequence[int]) -> list[str]:
    """A line for every item behind the first, the last item first."""
    return [f"{' '.join(map(str, items[:-back]))}\t{items[-back]}" for back in range(1, len(items))]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())

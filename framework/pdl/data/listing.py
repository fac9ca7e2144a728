"""Files named by a list, with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.data.folders import Labelled
from pdl.data.splits import check_ratios, stratified_split
from pdl.data.store import locate
from pdl.errors import ConfigError
from pdl.files import read_bytes

MAX_BYTES = 1 << 30


class Entry(NamedTuple):
    """A line of the list: its number, a file, the file's label and its split ("": the line names none)."""

    line: int
    path: str
    label: str
    split: str


def listed_files(
    owner: str,
    file: Path,
    *,
    what: str,
    split: str | None = None,
    ratios: Mapping[str, float] | None = None,
    seed: int = 0,
    root: str | Path | None = None,
    classes: Sequence[str] | str | Path | None = None,
) -> tuple[Labelled, list[int]]:
    """The files of a split of a list, and the line of each: a line for each file, `path<TAB>label` or `path label`, or,
    where the list also tells the splits, `path<TAB>label<TAB>split`; empty lines are skipped. `what` the files are
    ("images"), for messages of the data set `owner`.

    split    only the lines of this split; or, where `ratios` name it, it is cut out of those of train (of all lines, if
             they name no splits)
    ratios   such as {train: 0.9, val: 0.1}: every class is cut at these shares, in the order of a hash of the paths and
             `seed`
    root     what the paths are relative to; by default the list's folder
    classes  the class names: a list, or the path of a file with one name a line. A label is a number 0..n-1 or a
             name. Without it, the numbers in the file (of all splits) give the classes 0..largest, names give their
             sorted list
    """
    names = _read_lines(locate(classes)) if isinstance(classes, str | Path) else classes
    lines = enumerate(_read_lines(file), 1)
    entries = [_entry(file, number, line) for number, line in lines if line.strip()]
    if not entries:
        raise fault(file, "the list is empty", f"write a line `path label` for each of the {what}")
    found = _classes([entry.label for entry in entries]) if names is None else names
    known = [str(name) for name in found if str(name).strip()]
    index = {name: i for i, name in enumerate(known)}
    labels = np.array([_label(file, entry, index, len(known)) for entry in entries], np.int64)
    rows = _rows(owner, what, file, entries, labels, split, ratios, seed)
    base, paths = file.parent if root is None else locate(root), [entries[row].path for row in rows]
    return Labelled(base, paths, labels[rows], known), [entries[row].line for row in rows]


def _read_lines(path: Path) -> list[str]:
    try:
        data = read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fault(path, "not UTF-8 text", "save the list as UTF-8", line=line) from error


def _entry(file: Path, number: int, line: str) -> Entry:
    text = line.strip()
    parts = [part.strip() for part in (text.split("\t") if "\t" in text else text.rsplit(None, 1))]
    if len(parts) not in (2, 3) or not all(parts) or "\0" in line:
        advice = "write a path, a tab or space, and a label (and a tab and the split, where the list tells it)"
        raise fault(file, f"{text[:60]!r} is not `path label`", advice, line=number)
    return Entry(number, *parts, *[""] * (3 - len(parts)))


def _rows(
    owner: str,
    what: str,
    file: Path,
    entries: list[Entry],
    labels: np.ndarray,
    split: str | None,
    ratios: Mapping[str, float] | None,
    seed: int,
) -> np.ndarray:
    """int64: which entries are of the split."""
    told = np.array([entry.split for entry in entries])
    if "" in told and told.any():
        row = int(np.flatnonzero(told == "")[0])
        raise fault(file, "it names no split, other lines do", "name the split of every line", line=entries[row].line)
    have = sorted(set(told.tolist()) - {""})
    if split is None:
        if ratios is not None:
            raise ConfigError(f"{owner}: ratios are given but no split; add split=train (or val, test)")
        return np.arange(len(entries))
    if ratios is not None and split in check_ratios(owner, ratios):
        rows = np.flatnonzero(told == "train") if have else np.arange(len(entries))
        keys = [Path(entries[row].path).as_posix() for row in rows]
        rows = rows[stratified_split(labels[rows], ratios, split, seed=seed, keys=keys)]
    else:
        rows = np.flatnonzero(told == split)
    if not len(rows):
        wrong = f"has no {what} for split {split!r}, only {', '.join(have)}" if have else "its lines name no splits"
        raise fault(file, wrong, f"cut it: give every split the same ratios, such as {{train: 0.9, {split}: 0.1}}")
    return rows


def _is_number(label: str) -> bool:
    return label.isascii() and label.removeprefix("-").isdigit() and len(label) < 10


def _classes(labels: list[str]) -> list[str]:
    if all(map(_is_number, labels)):
        top = max(int(label) for label in labels)
        if top < max(10_000, 10 * len(labels)):  # a typo must not ask for billions of names; _label reports it
            return [str(i) for i in range(top + 1)]
        return [str(i) for i in range(len(labels))]
    return sorted(set(labels))


def _label(file: Path, entry: Entry, index: dict[str, int], count: int) -> int:
    label = entry.label
    if label in index:
        return index[label]
    if _is_number(label) and 0 <= int(label) < count:
        return int(label)
    known = ", ".join(list(index)[:5]) + (", ..." if count > 5 else "")
    raise fault(
        file,
        f"label {label!r} is outside of 0..{count - 1} and no name of the class list ({known})",
        "correct the label, or the class list (classes=)",
        line=entry.line,
    )

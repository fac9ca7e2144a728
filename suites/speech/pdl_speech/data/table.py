"""Recordings named by a table, with their labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.data.splits import check_ratios, stratified_split
from pdl.data.store import locate
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Inherited, Range
from pdl.runtime.tables import rows as table_rows
from pdl_speech.data import standin
from pdl_speech.data.recordings import AudioFiles

FILES = ("file", "path", "filename", "file_name", "slice_file_name", "audio", "recording", "clip", "wav")
LABELS = ("label", "class", "category", "keyword", "word", "command", "target")
SPLITS = ("split", "set", "subset")
_COLUMN = re.compile(r"\{([^{}]*)\}")


class AudioTable(AudioFiles):
    """Recordings and labels from a csv or tsv file with a header, as of ESC-50 or UrbanSound8K: a row for each.

    path     the table; a relative one is also looked for under PDL_DATA
    file     how the name of a recording's file follows from its row: the name of a column, or a pattern such as
             "audio/fold{fold}/{slice_file_name}". By default the first column called file, path, filename, clip or the
             like
    label    the column of the class; by default the first called label, class, category or the like
    split    only the rows of this split, which the column `splits` names; or, where `ratios` name it, it is cut out of
             those of train (of all rows, where no column names splits)
    splits   that column; by default one called split, set or subset, if there is one
    values   what the splits are called there, such as {train: [1, 2, 3], val: [4], test: [5]} of folds
    ratios   such as {train: 0.9, val: 0.1}: every class is cut at these shares, in the order of a hash of the names of
             the files and `seed`; give all splits the same ratios
    root     what the names of files are relative to; by default the table's folder
    classes  the class list; by default the labels of the whole table, sorted
    All else is as in `AudioFiles`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        file: str | None = None,
        label: str | None = None,
        split: str | None = None,
        splits: str | None = None,
        values: Mapping[str, Sequence[Any]] | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        root: str | Path | None = None,
        classes: Sequence[str] | None = None,
        **options: Inherited,
    ) -> None:
        owner, self.table = type(self).__name__, locate(path)
        lines, table = read_table(self.table)
        columns = list(table[0])
        pattern = file or f"{{{named_column(self.table, columns, FILES, 'file')}}}"
        pattern = pattern if _COLUMN.search(pattern) else f"{{{pattern}}}"
        label = label or named_column(self.table, columns, LABELS, "label")
        _require(self.table, columns, [label, *_COLUMN.findall(pattern), *([splits] if splits else ())])
        splits = splits or next((name for name in SPLITS if name in columns), None)
        paths = [_COLUMN.sub(lambda found, row=row: row[found[1]].strip(), pattern) for row in table]  # type: ignore[misc]
        said = [row[label].strip() for row in table]
        names = [str(name) for name in classes] if classes is not None else sorted(set(said))
        index = {name: number for number, name in enumerate(names)}
        for line, path_, name in zip(lines, paths, said, strict=True):
            if name not in index:
                raise fault(
                    self.table, f"label {name!r} is none of {listed(names)}", "correct it, or classes", line=line
                )
            if not path_:
                raise fault(self.table, "it names no file", "name the file of the recording", line=line)
        labels = np.array([index[name] for name in said], np.int64)
        told = None if splits is None else [row[splits].strip() for row in table]
        rows = _of_split(owner, self.table, told, paths, labels, split, values, ratios, seed)
        base = self.table.parent if root is None else locate(root)
        super().__init__(base, [paths[i] for i in rows], labels[rows], names, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        names = list(settings.get("classes") or standin.NAMES)
        if len(names) > len(standin.NAMES):
            return None
        path = standin.write_table(folder, names)
        kept = {"path": str(path), "file": None, "label": None, "splits": None, "values": None, "ratios": None,
                "root": None, "per_class": None}  # fmt: skip
        return StandIn(kept, "spoken digits in a table")


def read_table(path: Path) -> tuple[list[int], list[dict[str, str]]]:
    """The numbers of the lines of a table, and its rows."""
    try:
        found = [(int(line), row) for line, row in table_rows(path)]
    except DataError as error:
        raise fault(path, str(error).removeprefix(f"{path}: "), "write a csv or tsv file with a header") from error
    if path.suffix.lower() not in (".csv", ".tsv"):
        raise fault(path, "not a table", "write a csv or tsv file with a header")
    if not found:
        raise fault(path, "the table is empty", "write a row for each recording")
    return [line for line, _ in found], [row for _, row in found]


def named_column(path: Path, columns: Sequence[str], usual: Sequence[str], what: str) -> str:
    """The column with one of the usual names."""
    found = next((column for name in usual for column in columns if column.lower() == name), None)
    if found is None:
        raise fault(path, f"none of its columns {listed(columns)} is called {listed(usual)}", f"name it: {what}=COLUMN")
    return found


def _require(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> None:
    absent = [name for name in wanted if name not in columns]
    if absent:
        raise fault(path, f"it has no column {absent[0]!r}", f"name one of {listed(columns, 20)}")


def _of_split(
    owner: str,
    path: Path,
    told: Sequence[str] | None,
    paths: Sequence[str],
    labels: np.ndarray,
    split: str | None,
    values: Mapping[str, Sequence[Any]] | None,
    ratios: Mapping[str, float] | None,
    seed: int,
) -> np.ndarray:
    """int64: the rows of the split."""
    every = np.arange(len(paths))
    if split is None:
        if ratios is not None:
            raise ConfigError(f"{owner}: ratios are given but no split; add split=train (or val, test)")
        return every
    own = {name: [str(each) for each in found] for name, found in (values or {}).items()}

    def rows_of(name: str) -> np.ndarray:
        wanted = own.get(name, [name])
        return every if told is None else np.flatnonzero(np.isin(np.array(told, object), wanted))

    if ratios is not None and split in check_ratios(owner, ratios):
        rows = rows_of("train")
        return rows[stratified_split(labels[rows], ratios, split, seed=seed, keys=[paths[row] for row in rows])]
    if told is None:
        advice = f"cut it: give every split the same ratios, such as {{train: 0.9, {split}: 0.1}}, or name the column"
        raise fault(path, "no column names the split of a row", f"{advice} (splits=COLUMN)")
    rows = rows_of(split)
    if not len(rows):
        have = listed(sorted(set(told)))
        raise fault(
            path, f"it has no recordings for split {split!r}, only for {have}", "say what it is called: values="
        )
    return rows

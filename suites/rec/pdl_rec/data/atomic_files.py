"""RecBole's atomic files: tables whose first line names and types the columns, `user_id:token`, `rating:float`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.data.store import data_root, to_get, under_roots
from pdl.files import DAMAGED, open_file
from pdl.suites import suggest
from pdl_rec.data.interactions import Field
from pdl_rec.data.tables import Coded, Kind, Source, read, words

TYPES: dict[str, Kind] = {"token": "token", "float": "float", "token_seq": "text", "float_seq": "text"}
KINDS = (".inter", ".user", ".item")
MAX_MEMBERS, MAX_MEMBER_BYTES = 100_000, 2 << 30
PUBLIC = {"ml-100k": "rec/ml100k"}  # names for `pdl data get`
_ELSEWHERE = "https://recbole.io/dataset_list.html"


class AtomicFiles:
    """The files NAME.inter, NAME.user, ... of a folder, or of a zip or wheel."""

    def __init__(self, root: str | Path | None, name: str) -> None:
        self.name = name
        self._sources: dict[str, Source] = {}
        self.root = _find(name) if root is None else _given(Path(root).expanduser(), name)

    def path(self, kind: str) -> str:
        """Where the file of this kind is, for people."""
        return self.source(kind).name

    def read(self, kind: str, needed: Mapping[str, Kind], wanted: Mapping[str, Kind] | None = None) -> dict[str, Any]:
        """Columns of a file by their names without types (see `pdl_rec.data.tables.read`): those `needed`, and those
        `wanted` that it has."""
        table, types = self.source(kind), self.types(kind)
        columns: dict[str, Kind] = {}
        for field, want in {**needed, **(wanted or {})}.items():
            if field not in types:
                if field in needed:
                    what = f"no column {field!r}; there are {', '.join(types)}{suggest(field, types)}"
                    raise fault(table.name, what, "give it one, or leave the field out of the recipe", line=1)
                continue
            if TYPES[types[field]] != ("float" if want == "time" else want):
                what = f"column {field!r} is {types[field]}, expected {'float' if want == 'time' else want}"
                raise fault(table.name, what, "correct the type in the first line", line=1)
            columns[field] = want
        found = read(table, {f"{field}:{types[field]}": want for field, want in columns.items()}, separator="\t")
        return {name.rpartition(":")[0]: column for name, column in found.items()}

    def types(self, kind: str) -> dict[str, str]:
        """The columns of a file and their types."""
        table, found = self.source(kind), {}
        for column in table.first_lines()[0].split("\t"):
            field, _, typed = column.strip().rpartition(":")
            if not field or typed not in TYPES:
                what = f"column {column.strip()!r} of the first line has no type of {', '.join(TYPES)}"
                raise fault(table.name, what, "write it as name:type, and a tab between columns", line=1)
            found[field] = typed
        return found

    def field(self, side: str, name: str, those: Coded) -> Field:
        """A field of `those` users or items, who need not all be in its file; the first line of each counts."""
        key, types = f"{side}_id", self.types(side)
        kind = TYPES[types[name]] if name in types else "token"
        table = self.read(side, {key: "token", name: kind})
        place = {known: row for row, known in enumerate(those.names, 1)}
        rows = np.array([place.get(other, 0) for other in table[key].names], np.int64)[table[key].codes]
        filled, names = _matrix(table[name], types[name], self.path(side), name)
        values = np.zeros((len(those.names) + 1, filled.shape[1]), filled.dtype)
        values[rows[::-1]] = filled[::-1]
        values[0] = 0
        return Field(f"{side}s", values, names)

    def source(self, kind: str) -> Source:
        """The file of this kind; one in a zip is unpacked once, in memory."""
        if kind not in self._sources:
            self._sources[kind] = self._open(kind)
        return self._sources[kind]

    def _open(self, kind: str) -> Source:
        file = f"{self.name}.{kind}"
        if self.root.is_dir():
            path = self.root / file
            if not path.is_file():
                raise fault(path, "no such file", f"give the folder a {file}, or leave its fields out of the recipe")
            return Source(str(path), path)
        return Source(f"{self.root}/{file}", _member(self.root, file))


def place_of(file: str) -> Path:
    """Where `ml-100k.inter` and the like are below PDL_DATA; the path goes on inside a zip or wheel."""
    root = _find(file.rpartition(".")[0])
    if root.is_dir():
        return root / file
    try:
        with open_file(root) as held, zipfile.ZipFile(held) as archive:
            inner = next((name for name in archive.namelist() if PurePosixPath(name).name == file), file)
    except DAMAGED as error:
        raise fault(root, f"the zip is damaged or cut off: {error}", "get the file again from its source") from error
    except OSError as error:
        raise unreadable(root, error) from error
    return root / inner


def from_one(column: Coded) -> np.ndarray:
    """The codes of a column as numbers from 1 on, int64."""
    return column.codes.astype(np.int64) + 1


def _matrix(column: Any, kind: str, path: str, name: str) -> tuple[np.ndarray, list[str] | None]:
    """([rows, L], names): a column of an atomic file with its values side by side, zeros behind the last."""
    if kind == "float":
        return column[:, None], None
    if kind == "token":
        return from_one(column)[:, None], column.names
    coded, offsets = words(column)
    counts = np.diff(offsets)
    there = np.arange(max(int(counts.max(initial=0)), 1)) < counts[:, None]
    if kind == "token_seq":
        filled = np.zeros(there.shape, np.int64)
        filled[there] = from_one(coded)
        return filled, coded.names
    numbers = np.zeros(there.shape)
    try:
        numbers[there] = np.array(coded.names, np.float64)[coded.codes]
    except ValueError as error:
        raise fault(path, f"column {name!r}: {error}", "a float_seq is numbers with spaces between") from error
    return numbers, None


# -- where the files are -----------------------------------------------------------------------------------------------
def _places(name: str) -> Iterator[Path]:
    for folder in (*under_roots(""), *under_roots("rec")):
        yield from (folder / name, folder / f"{name}.zip", folder / f"{name}_atomic.zip")
        yield from sorted(folder.glob("recbole-*.whl"))


def _find(name: str) -> Path:
    for place in _places(name):
        if place.is_dir() and (place / f"{name}.inter").is_file():
            return place
        if place.is_file() and (place.suffix != ".whl" or name in PUBLIC):
            return place
    at = data_root() / "rec"
    few = f"{name}, {name}.zip, {name}_atomic.zip"
    what = f"{name} is not there; looked in {data_root()} and {at} for {few}"
    raise fault(at / name, what, to_get(PUBLIC.get(name, _ELSEWHERE)))


def _given(root: Path, name: str) -> Path:
    found = next((place for place in (root, *under_roots(root)) if place.exists()), None)
    if found is None:
        raise fault(root, "no such folder or zip", to_get(PUBLIC.get(name, _ELSEWHERE)))
    inner = found / name
    return inner if (inner / f"{name}.inter").is_file() else found


def _member(path: Path, file: str) -> bytes:
    """The one member of a zip that has this name, in whichever folder."""
    again = "get the file again from its source"
    try:
        with open_file(path) as held, zipfile.ZipFile(held) as archive:
            members = archive.infolist()
            found = [each for each in members if PurePosixPath(each.filename).name == file]
            if len(members) > MAX_MEMBERS or any(each.file_size > MAX_MEMBER_BYTES for each in found):
                limits = f"{MAX_MEMBERS} members, {MAX_MEMBER_BYTES} bytes of {file}"
                raise fault(path, f"the zip passes the limits ({limits})", "unpack it yourself and name the folder")
            if len(found) != 1:
                have = ", ".join(each.filename for each in found) or "none"
                raise fault(path, f"expected one member {file}, found {have}", "name another root, or another name=")
            return archive.read(found[0])
    except DAMAGED as error:
        raise fault(path, f"the zip is damaged or cut off: {error}", again) from error
    except OSError as error:
        raise unreadable(path, error) from error

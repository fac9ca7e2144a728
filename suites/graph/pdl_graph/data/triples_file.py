"""Files of facts: a line names a head, a relation and a tail. Folders, tar and zip archives of such files, and single
ones; archives are read member by member, and nothing is unpacked."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from pdl.data.faults import DataFault, fault, unreadable
from pdl.files import DAMAGED, open_file, read_bytes
from pdl.runtime.tables import cells as csv_cells
from pdl.suites import suggest
from pdl_graph.data.store import locate, shared

STEMS = {"train": ("train",), "val": ("valid", "val", "validation", "dev"), "test": ("test",)}
ENDINGS = (".txt", ".tsv", ".csv")
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress
}  # fmt: skip
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.xz", ".tar.bz2", ".zip")
MAX_MEMBERS, MAX_BYTES = 10_000, 8 << 30
PUBLIC = {"WN18RR": "graph/wn18rr", "FB15k-237": "graph/fb15k237"}


@dataclass(frozen=True)
class TripleFile:
    """All facts of a file or folder, by number.

    path       of it
    entities   their names, each once, in the order of appearance (train, val, test); number k is entities[k - 1]
    relations  likewise
    parts      split -> int32 [T, 3]: head, relation, tail, from 1 on; {"": ...} for a single file
    """

    path: str
    entities: list[str]
    relations: list[str]
    parts: Mapping[str, np.ndarray]


def read_triples(path: str | Path, *, columns: Sequence[str] | None = None, separator: str | None = None) -> TripleFile:
    """The facts of a folder, an archive or a file (see `pdl_graph.data.Triples`); read once while unchanged."""
    public = (where for name, where in PUBLIC.items() if Path(path).name in {name + each for each in ("", *ARCHIVES)})
    found = locate(path, next(public, "the place you have it from"), endings=ARCHIVES)
    named = None if columns is None else (columns[0], columns[1], columns[2])
    return shared(found, ("triples", named, separator), lambda: _read(found, named, separator))


def _read(path: Path, columns: tuple[str, str, str] | None, separator: str | None) -> TripleFile:
    entities, relations = _Numbers(), _Numbers()
    parts: dict[str, np.ndarray] = {}
    for split, name, content in sorted(_texts(path), key=lambda each: list(STEMS).index(each[0] or "train")):
        if split in parts:
            raise fault(path, f"two files of {split}; the second is {name}", "leave one of them")
        rows = list(_rows(name, content, columns, separator))
        if not rows:
            raise fault(name, "the file has no facts", "give it lines of head, relation and tail")
        heads, tails = entities.of([row[0] for row in rows]), entities.of([row[2] for row in rows])
        parts[split] = np.stack([heads, relations.of([row[1] for row in rows]), tails], axis=1)
    return TripleFile(str(path), list(entities.number), list(relations.number), parts)


class _Numbers:
    """Names by number, from 1 on, in the order of appearance."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, names: list[str]) -> np.ndarray:
        number = self.number
        return np.array([number.setdefault(name, len(number) + 1) for name in names], np.int32)


# -- files and archives ------------------------------------------------------------------------------------------------
def _split_of(name: str) -> str | None:
    file = PurePosixPath(name).name
    if PurePosixPath(file).suffix in PACKED:
        file = PurePosixPath(file).stem
    stem, ending = PurePosixPath(file).stem.lower(), PurePosixPath(file).suffix
    found = [split for split, stems in STEMS.items() if stem in stems and ending in ENDINGS]
    return found[0] if found else None


def _texts(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """(split, name for people, plain bytes) of each file of facts; split is "" for a file that stands alone."""
    try:
        if path.is_dir():
            held = [(split, str(each), read_bytes(each, MAX_BYTES)) for each in sorted(path.iterdir())
                    if (split := _split_of(each.name)) is not None]  # fmt: skip
        elif path.name.endswith(".zip"):
            held = list(_zip_members(path))
        elif path.name.endswith(ARCHIVES):
            held = list(_tar_members(path))
        else:
            held = [("", str(path), read_bytes(path, MAX_BYTES))]
        if not held:
            wanted = "train, valid and test, each .txt, .tsv or .csv"
            raise fault(path, "no files of facts in it", f"expected {wanted}; or name a single file")
        for split, name, content in held:
            packed = PACKED.get(PurePosixPath(name).suffix)
            yield split, name, content if packed is None else packed(content)
    except (*DAMAGED, UnicodeDecodeError) as error:  # of names of members
        raise fault(path, f"damaged or cut off: {error}", "get it again from its source") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _tar_members(path: Path) -> Iterator[tuple[str, str, bytes]]:
    with open_file(path) as file, tarfile.open(fileobj=file) as archive:
        for count, member in enumerate(archive):
            split = _split_of(member.name)
            _check_size(path, count, member.size if split else 0)
            stream = archive.extractfile(member) if split and member.isreg() else None
            if split and stream is not None:
                yield split, f"{path}/{member.name}", stream.read()


def _zip_members(path: Path) -> Iterator[tuple[str, str, bytes]]:
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        for count, member in enumerate(archive.infolist()):
            split = _split_of(member.filename)
            _check_size(path, count, member.file_size if split else 0)
            if split:
                yield split, f"{path}/{member.filename}", archive.read(member)


def _check_size(path: Path, count: int, size: int) -> None:
    if count >= MAX_MEMBERS or size > MAX_BYTES:
        what = f"the archive passes the limits ({MAX_MEMBERS} members, {MAX_BYTES} bytes each)"
        raise fault(path, what, "unpack it yourself and name the folder")


# -- lines -------------------------------------------------------------------------------------------------------------
def _rows(
    name: str, content: bytes, columns: tuple[str, str, str] | None, separator: str | None
) -> Iterator[tuple[str, str, str]]:
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        bad = content.count(b"\n", 0, error.start) + 1
        raise fault(name, f"not UTF-8: {error.reason}", "save it as UTF-8 text", line=bad) from error
    first = next((line for line in lines if line.strip()), "")
    mark = separator or next((each for each in ("\t", ",", ";", "|") if each in first), None)
    order, skip = (0, 1, 2), 0
    if columns is not None:
        order, skip = _order(name, _cells(first, mark, name), columns), 1
    width = len(_cells(first, mark, name)) if columns is not None else 3
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if skip:
            skip = 0
            continue
        cells = _cells(line, mark, f"{name}:{number}")
        if len(cells) != width:
            raise _wrong(name, number, f"{len(cells)} columns, expected {width}")
        row = (cells[order[0]].strip(), cells[order[1]].strip(), cells[order[2]].strip())
        if not all(row):
            raise _wrong(name, number, "a name is empty")
        yield row


def _cells(line: str, mark: str | None, where: str) -> list[str]:
    if mark is None:
        return line.split()
    return csv_cells(line, where, mark) if mark != "\t" and '"' in line else line.split(mark)


def _order(name: str, header: list[str], columns: tuple[str, str, str]) -> tuple[int, int, int]:
    have = [cell.strip() for cell in header]
    for column in columns:
        if column not in have:
            what = f"no column {column!r}; there are {', '.join(have)}{suggest(column, have)}"
            raise fault(name, what, "name the columns of head, relation and tail in columns=", line=1)
    head, relation, tail = (have.index(column) for column in columns)
    return head, relation, tail


def _wrong(name: str, line: int, what: str) -> DataFault:
    advice = "write head, relation and tail with tabs (or commas) between; a first line of names is read with columns="
    return fault(name, what, advice, line=line)

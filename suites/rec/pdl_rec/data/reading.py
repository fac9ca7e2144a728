"""Tables out of files, block by block: csv, tsv, Criteo's form, slot files; plain, .gz, or inside a .zip."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from pdl.data.faults import DataFault, fault, unreadable
from pdl.data.store import find, under_roots
from pdl.files import open_file
from pdl_rec.data.atomic_files import KINDS, place_of
from pdl_rec.data.columns import Columns, Text

Form = Literal["csv", "criteo", "slots"]
CRITEO = ("label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27)))
MISSING = ("", "NULL", "null", "NA", "N/A", "nan", "NaN", "?")
TYPES = re.compile(r":(token|token_seq|float|float_seq)$")
BLOCK = 1 << 22  # bytes of text that are read at once


@dataclass(frozen=True)
class Source:
    """A file and its form.

    form       "csv" (a header, or `names`), "criteo" (tab-separated without header: label, I1..I13, C1..C26), or
               "slots" (`label slot:id slot:id ...`, a slot with any number of ids)
    names      of the columns, where the file has no header
    separator  between columns; by default a tab for .tsv, .inter, .user, .item and Criteo's form, else a comma
    """

    path: Path
    form: Form = "csv"
    names: tuple[str, ...] | None = None
    separator: str | None = None

    def blocks(
        self,
        numeric: Collection[str] = (),
        only: Collection[str] | None = None,
        tell: Callable[[int, int], object] = lambda done, total: None,
        data: Any = None,
    ) -> Iterator[Columns]:
        """The table in blocks, in the file's order: the `numeric` columns as numbers, all others as text; with `only`,
        these columns. `tell` is called with the bytes that are read and those of the whole file. `data`: a stream of
        some of its lines, with its header, that is read instead."""
        read = _slots if self.form == "slots" else _csv
        if data is not None:
            with _explained(self.path):
                yield from read(self, data, frozenset(numeric), only)
            return
        with opened(self.path) as (file, outer), _explained(self.path):
            total = os.fstat(outer.fileno()).st_size
            for block in read(self, file, frozenset(numeric), only):
                tell(outer.tell(), total)
                yield block

    @property
    def headed(self) -> bool:
        """Whether its first line names the columns."""
        return self.form == "csv" and self.names is None

    def columns(self) -> list[str]:
        """The names of the columns; of a slot file those that its first block has."""
        if self.form == "slots":
            return sorted({name for block in next_or(self.blocks()) for name in block}, key=_slot_order)
        with opened(self.path) as (file, _), _explained(self.path):
            return [TYPES.sub("", name) for name in _reader(self, file, {}, None).schema.names]


def next_or(blocks: Iterator[Columns]) -> list[Columns]:
    """The first block in a list, or an empty list."""
    first = next(blocks, None)
    return [] if first is None else [first]


def locate(path: str | Path, address: str = "the place you have it from") -> Path:
    """A file as given, or below PDL_DATA; a path may go on inside a .zip file. An atomic file is also found in the
    folder, zip or wheel of its data set (`pdl_rec.data.atomic_files`). DataFault where it is not there."""
    given = Path(path).expanduser()
    for place in (given, *under_roots(given)):
        for outer in (place, *place.parents):
            if outer.is_file() and (outer == place or outer.suffix == ".zip"):
                return place
    if given.suffix in KINDS:
        return place_of(given.name)
    return find(given.name, [str(path)], address=address)


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """(a stream of the plain bytes, the file below it, whose `tell` says how far reading is)."""
    import pyarrow as pa

    outer = next((each for each in (path, *path.parents) if each.is_file()), path)
    try:
        with open_file(outer) as file:
            if outer == path:
                packed = path.suffix in (".gz", ".bz2", ".zst")
                yield pa.input_stream(file, compression="detect") if not packed else _unpacked(file, path), file
                return
            with zipfile.ZipFile(file) as archive, archive.open(str(path.relative_to(outer))) as member:
                yield member, file
    except OSError as error:
        raise unreadable(path, error) from error
    except (KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise fault(path, f"cannot be read: {error}", "check the archive and the name inside it") from error


def _unpacked(file: IO[bytes], path: Path) -> Any:
    import pyarrow as pa

    kind = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}[path.suffix]
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), kind)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Arrow's complaints as faults of the file."""
    import pyarrow as pa

    try:
        yield
    except DataFault:
        raise
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError) as error:
        what = str(error).removeprefix("CSV parse error: ").splitlines()[0]
        advice = "correct the file, or the recipe's form, names, separator and fields"
        raise fault(path, f"cannot be read as a table: {what}", advice) from error


# -- csv ---------------------------------------------------------------------------------------------------------------
def _csv(source: Source, file: Any, numeric: frozenset[str], only: Collection[str] | None) -> Iterator[Columns]:
    import pyarrow as pa

    names = source.columns()
    chosen = names if only is None else [name for name in names if name in only]
    absent = [] if only is None else sorted(set(only) - set(names))
    if absent:
        have = ", ".join(names[:40])
        raise fault(source.path, f"has no column {absent[0]!r}", f"it has {have}; correct the recipe's fields")
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {name: pa.float64() if name in numeric else text for name in chosen}
    for batch in _reader(source, file, kinds, chosen):
        yield {
            TYPES.sub("", name): column.to_numpy(zero_copy_only=False) if kind == pa.float64() else _text(column)
            for name, column, kind in zip(batch.schema.names, batch.columns, batch.schema.types, strict=True)
        }


def _reader(source: Source, file: Any, kinds: dict[str, Any], chosen: Sequence[str] | None) -> Any:
    """Arrow's reader of the file, with columns of these kinds."""
    from pyarrow import csv

    typed = source.path.name.endswith((".inter", ".user", ".item", ".inter.gz"))
    names = source.names or (CRITEO if source.form == "criteo" else None)
    tabbed = typed or source.form == "criteo" or ".tsv" in source.path.suffixes
    parse = csv.ParseOptions(
        delimiter=source.separator or ("\t" if tabbed else ","), quote_char=False if tabbed else '"'
    )
    if typed and kinds:  # the header says name:type, and columns are chosen by it
        with opened(source.path) as (again, _):
            whole = {TYPES.sub("", name): name for name in _reader(source, again, {}, None).schema.names}
        kinds, chosen = {whole[name]: kind for name, kind in kinds.items()}, [whole[name] for name in chosen or ()]
    return csv.open_csv(
        file,
        read_options=csv.ReadOptions(block_size=BLOCK, column_names=names),
        parse_options=parse,
        convert_options=csv.ConvertOptions(
            column_types=kinds, include_columns=chosen or None, null_values=list(MISSING), strings_can_be_null=True
        ),
    )


def _text(column: Any) -> Text:
    """A dictionary array as text; missing values are empty."""
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Text(codes, column.dictionary.to_pylist())


# -- slots -------------------------------------------------------------------------------------------------------------
def _slots(source: Source, file: Any, numeric: frozenset[str], only: Collection[str] | None) -> Iterator[Columns]:
    """Lines `label slot:id slot:id ...`."""
    first = 1
    for lines in _lines(file):
        yield _slot_block(source.path, lines, first, numeric, only)
        first += len(lines)


def _lines(file: Any) -> Iterator[list[str]]:
    """The lines of a stream, some megabytes at once, empty ones left out."""
    rest = b""
    while piece := file.read(BLOCK):
        whole, _, rest = (rest + bytes(piece)).rpartition(b"\n")
        if lines := [line for line in whole.decode().split("\n") if line.strip()]:
            yield lines
    if rest.strip():
        yield [rest.decode()]


def _slot_block(
    path: Path, lines: list[str], first: int, numeric: frozenset[str], only: Collection[str] | None
) -> Columns:
    """One block of a slot file: the column "label", and one for each slot."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(pa.array(lines)))
    counts, flat = np.asarray(pc.list_value_length(words)), pc.list_flatten(words)
    row = np.repeat(np.arange(len(lines)), counts)
    leading = np.zeros(len(flat), bool)
    leading[np.concatenate([[0], np.cumsum(counts)[:-1]])] = True
    pairs = flat.filter(pa.array(~leading))
    row = row[~leading]
    cut = np.asarray(pc.find_substring(pairs, ":"))
    if (cut < 1).any():
        bad = int(np.flatnonzero(cut < 1)[0])
        what = f"{pairs[bad].as_py()!r} is not slot:id"
        raise fault(path, what, "write lines as: label slot:id slot:id ...", line=first + int(row[bad]))
    parts = pc.split_pattern(pairs, ":", max_splits=1)
    slots, ids = pc.list_element(parts, 0).dictionary_encode(), pc.list_element(parts, 1)
    labels = flat.filter(pa.array(leading)).dictionary_encode()
    found: Columns = {"label": _text(labels)}
    for number, slot in enumerate(slots.dictionary.to_pylist()):
        if only is None or slot in only:
            mine = np.asarray(slots.indices) == number
            values = ids.filter(pa.array(mine)).dictionary_encode()
            sizes = np.bincount(row[mine], minlength=len(lines))
            whole = _text(values)
            found[slot] = Text(whole.codes, whole.values, np.concatenate([[0], np.cumsum(sizes)]))
    nothing = Text(np.empty(0, np.int64), [], np.zeros(len(lines) + 1, np.int64))
    found |= {name: nothing for name in only or () if name not in found}
    for name in numeric & found.keys():
        text = found[name]
        found[name] = text.numbers() if isinstance(text, Text) else text
    return found


def _slot_order(name: str) -> tuple[bool, int, str]:
    return name != "label", int(name) if name.isdigit() else 0, name

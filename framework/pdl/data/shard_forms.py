"""How samples lie in one file of a data set of many: what an index of the file holds, and how one sample is read."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.faults import fault
from pdl.errors import PackageError
from pdl.files import open_file
from pdl.runtime.arrays import array_in, read_arrays

Index = Mapping[str, np.ndarray]
MOST = 1 << 30
"""Bytes of a sample, or of an array in a file of arrays."""
IMAGES = ("jpg", "jpeg", "png", "bmp", "webp", "tif", "tiff", "ppm", "pgm")
HELD = 1 << 30
"""Bytes of row groups or whole files that are held."""
_PIECE = 1 << 20
_QUOTE, _NEWLINE = ord('"'), ord("\n")


class Bytes(Protocol):
    """Reads a file at a place."""

    def __call__(self, begin: int, size: int) -> bytes:
        """So many bytes from `begin` on."""


class Form:
    """How the samples of a file are found and read; one object for all files of a data set."""

    names: tuple[str, ...] = ("begins",)  # of the arrays of an index
    block = 256  # neighbours that are read together, where samples are shuffled

    def index(self, path: Path) -> dict[str, np.ndarray]:
        """What must be known of a file to find its samples; made by reading it once."""
        raise NotImplementedError

    def count(self, index: Index) -> int:
        """Samples of a file."""
        return len(index["begins"])

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        """Sample `number`; with `only`, at least these of its keys."""
        raise NotImplementedError

    def block_of(self, index: Index) -> int:
        """Neighbours that are read together in files such as this one."""
        return self.block


class Lines(Form):
    """A sample a line, those of white space left out: {"text": str}. UTF-8."""

    names = ("begins", "sizes")
    quoted = False  # whether a record goes on over line ends within quotes

    def index(self, path: Path) -> dict[str, np.ndarray]:
        ends, printed, quotes = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], 0
        at = seen = 0
        with open_file(path) as file:
            if (mark := file.peek(3)[:3])[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise fault(path, "UTF-16 text", "save it as UTF-8")
            first = 3 if mark == b"\xef\xbb\xbf" else 0
            while piece := file.read(_PIECE):
                data = np.frombuffer(piece, np.uint8)
                breaks = np.flatnonzero(data == _NEWLINE)
                if self.quoted:
                    open_quotes = quotes + np.cumsum(data == _QUOTE)
                    quotes = int(open_quotes[-1])
                    breaks = breaks[open_quotes[breaks] % 2 == 0]
                shown = np.cumsum(data > 32)
                ends.append(at + breaks + 1)
                printed.append(seen + shown[breaks])
                at, seen = at + len(data), seen + int(shown[-1])
        ends.append(np.array([at]))
        printed.append(np.array([seen]))
        borders, letters = np.concatenate(ends), np.concatenate(printed)
        kept = np.diff(letters) > 0
        begins, sizes = borders[:-1][kept], np.diff(borders)[kept]
        if first and len(begins):
            begins[0], sizes[0] = begins[0] + first, sizes[0] - first
        if sizes.max(initial=0) > MOST:
            raise fault(path, f"a line of {sizes.max():,} bytes", f"a sample has at most {MOST:,}")
        return {"begins": begins, "sizes": sizes}

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        return {"text": self._text(path, index, number, read).strip()}

    def _text(self, path: Path, index: Index, number: int, read: Bytes) -> str:
        data = read(int(index["begins"][number]), int(index["sizes"][number]))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            what = f"sample {number} of this file is not UTF-8 ({error.reason})"
            raise fault(path, what, "save it as UTF-8") from None


class JSONLines(Lines):
    """A JSON object a line: its keys and values."""

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        text = self._text(path, index, number, read)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise fault(path, f"sample {number} of this file is not JSON: {error}", "correct it") from None
        if not isinstance(found, dict):
            what = f"sample {number} of this file is {text.strip()[:40]}, no object"
            raise fault(path, what, "write {...} on each line")
        return found


class Table(Lines):
    """A row of a table with a header: {column: text}. Quotes count where `separator` is a comma."""

    def __init__(self, separator: str) -> None:
        self.separator, self.quoted = separator, separator == ","
        self._headers: dict[Path, list[str]] = {}

    def count(self, index: Index) -> int:
        return max(0, len(index["begins"]) - 1)

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        if path not in self._headers:
            self._headers[path] = [name.strip() for name in self._cells(path, index, 0, read)]
        header, cells = self._headers[path], self._cells(path, index, number + 1, read)
        if len(cells) != len(header):
            what = f"row {number} of this file has {len(cells)} columns, its header {len(header)}"
            raise fault(path, what, "correct the row, or its quotes")
        return dict(zip(header, cells, strict=True))

    def _cells(self, path: Path, index: Index, number: int, read: Bytes) -> list[str]:
        text = self._text(path, index, number, read).rstrip("\r\n")
        if not self.quoted:
            return text.split(self.separator)
        try:
            return next(csv.reader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise fault(path, f"row {number} of this file is no csv: {error}", "correct its quotes") from None


class Tar(Form):
    """Files that stand one behind the other and have one name up to its first dot are a sample (WebDataset): 7.jpg and
    7.cls.

    Keys are "image" (uint8 [H, W, C] of a .jpg, .png, ...), "label" (of .cls, a whole number or a name), "text" (.txt),
    else what stands behind the dot: .json as it is, .npy as an array, others as bytes. Nothing is unpacked to a file.
    """

    names = ("begins", "sizes", "samples", "words")
    mode: Literal["rgb", "gray"] = "rgb"  # of images

    def index(self, path: Path) -> dict[str, np.ndarray]:
        begins, sizes, samples, words = list[int](), list[int](), list[int](), list[str]()
        seen, last = set[str](), ""
        with open_file(path) as file:
            total = file.seek(0, io.SEEK_END)
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:") as archive:
                for member in archive:
                    if not member.isreg():
                        if member.isdir():
                            continue
                        raise fault(path, f"{member.name!r} in it is a link or device", "pack plain files")
                    self._check(path, member, total)
                    folder, _, name = member.name.rpartition("/")
                    stem, dot, ending = name.partition(".")
                    if not dot or not stem:
                        continue
                    key = f"{folder}/{stem}"
                    if key != last:
                        if key in seen:
                            raise fault(path, f"the files of {key!r} do not stand together", "pack them sorted by name")
                        seen.add(key)
                        samples.append(len(begins))
                        last = key
                    begins.append(member.offset_data)
                    sizes.append(member.size)
                    words.append(ending.lower())
                    archive.members.clear()  # type: ignore[attr-defined]  # it keeps all that it has read
                file.seek(archive.offset)  # where no further file begins: the end is a block of zeros
                if len(rest := file.read(1 << 20)) < tarfile.BLOCKSIZE or any(rest):
                    raise fault(path, f"damaged at byte {archive.offset:,}", "get it again, or pack it anew")
        text = "\n".join(words).encode()
        return {
            "begins": np.array(begins, np.int64),
            "sizes": np.array(sizes, np.int64),
            "samples": np.array([*samples, len(begins)], np.int64),
            "words": np.frombuffer(text, np.uint8),
        }

    def _check(self, path: Path, member: tarfile.TarInfo, total: int) -> None:
        if member.name.startswith("/") or ".." in member.name.split("/") or "\n" in member.name:
            raise fault(path, f"{member.name!r} in it is no name below its folder", "pack it with relative names")
        if member.size > MOST or member.sparse is not None:
            raise fault(path, f"{member.name!r} in it has {member.size:,} bytes", f"a file in it has at most {MOST:,}")
        if member.offset_data + member.size > total:
            raise fault(path, f"ends within {member.name!r}", "get it again, or pack it anew")

    def count(self, index: Index) -> int:
        return len(index["samples"]) - 1

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        first, last = index["samples"][number : number + 2].tolist()
        words = self._words(index)
        found: Sample = {}
        for at in range(first, last):
            key = key_of(words[at])
            if key in found:
                raise fault(path, f"sample {number} of this file has two of {key!r}", "keep one of them")
            if only is None or key in only:
                data = read(int(index["begins"][at]), int(index["sizes"][at]))
                found[key] = decoded(data, words[at], path, self.mode)
        return found

    def _words(self, index: Index) -> list[str]:
        held = self._held.get(id(index))
        if held is None or held[0] is not index:
            self._held[id(index)] = held = index, index["words"].tobytes().decode().split("\n")
        return held[1]

    def __init__(self) -> None:
        self._held: dict[int, tuple[Index, list[str]]] = {}


def key_of(ending: str) -> str:
    """The key of a sample that a file in a tar with this ending stands under."""
    return "image" if ending in IMAGES else {"cls": "label", "txt": "text"}.get(ending, ending)


def decoded(data: bytes, ending: str, path: Path, mode: Literal["rgb", "gray"]) -> Any:
    """The content of a file with this ending."""
    last = ending.rpartition(".")[2]
    if last in IMAGES:
        from pdl.data.image import decode_image  # needs OpenCV

        return decode_image(data, mode=mode, path=path)
    try:
        if last in ("txt", "cls"):
            text = data.decode().strip()
            return int(text) if last == "cls" and text.lstrip("-").isdigit() else text
        if last == "json":
            return json.loads(data)
        if last == "npy":
            return array_in(io.BytesIO(data), MOST)
    except (ValueError, RecursionError, OSError, EOFError) as error:
        raise fault(path, f"a .{ending} in it cannot be read: {error}", "pack it anew") from error
    return data


class Npz(Form):
    """Rows of the arrays of an .npz file, which is read whole: row i of each."""

    names = ("rows",)
    block = 1 << 40

    def __init__(self) -> None:
        self.held = Held()

    def index(self, path: Path) -> dict[str, np.ndarray]:
        shapes = self.shapes(path)
        lengths = {name: shape[0] if shape else -1 for name, shape in shapes.items()}
        if len(set(lengths.values())) != 1 or -1 in lengths.values():
            raise fault(path, f"arrays of different lengths {lengths}", "give each a row a sample")
        return {"rows": np.array([next(iter(lengths.values()))], np.int64)}

    def count(self, index: Index) -> int:
        return int(index["rows"][0])

    def shapes(self, path: Path) -> dict[str, tuple[int, ...]]:
        """Of all arrays."""
        return {name: array.shape for name, array in self._whole(path).items()}

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        arrays = self.held.get(path, lambda: self._whole(path), lambda found: sum(x.nbytes for x in found.values()))
        return {name: array[number] for name, array in arrays.items()}

    def _whole(self, path: Path) -> dict[str, np.ndarray]:
        try:
            return read_arrays(path, most=MOST)
        except ValueError as error:
            raise fault(path, str(error), "get it again, or write it anew") from error


class SafeTensors(Npz):
    """Rows of the arrays of a .safetensors file: row i of each; nothing else is read."""

    block = 256

    def shapes(self, path: Path) -> dict[str, tuple[int, ...]]:
        file = self._open(path)
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        file = self.held.get(path, lambda: self._open(path), lambda found: 1 << 24)
        names = [name for name in file.keys() if only is None or name in only]  # noqa: SIM118
        return {name: file.get_slice(name)[number : number + 1][0] for name in names}

    def _open(self, path: Path) -> Any:
        from safetensors import SafetensorError, safe_open

        try:
            return safe_open(path, framework="numpy")
        except SafetensorError as error:
            raise fault(path, f"damaged: {error}", "get it again, or write it anew") from error


class Parquet(Form):
    """Rows of a Parquet file: {column: value}, lists of numbers as arrays. Row groups are read whole."""

    names = ("begins",)

    def __init__(self) -> None:
        self.held = Held()

    def index(self, path: Path) -> dict[str, np.ndarray]:
        about = self._file(path).metadata
        rows = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
        return {"begins": np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)}

    def count(self, index: Index) -> int:
        return int(index["begins"][-1])

    def block_of(self, index: Index) -> int:
        return max(1, int(np.diff(index["begins"]).max(initial=1)))

    def read(self, path: Path, index: Index, number: int, read: Bytes, only: Collection[str] | None) -> Sample:
        group = int(np.searchsorted(index["begins"], number, side="right")) - 1
        table = self.held.get((path, group), lambda: self._group(path, group), lambda found: int(found.nbytes))
        row = number - int(index["begins"][group])
        return {name: _plain(table.column(name)[row].as_py()) for name in table.column_names}

    def _group(self, path: Path, group: int) -> Any:
        import pyarrow as pa

        try:
            return self._file(path).read_row_group(group)
        except (pa.ArrowException, OSError) as error:
            raise fault(path, f"damaged: {str(error).splitlines()[0]}", "get it again, or write it anew") from error

    def _file(self, path: Path) -> Any:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise PackageError(f"{path}: Parquet needs pyarrow: pip install pyarrow") from error
        try:
            return parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            what = f"no Parquet file: {str(error).splitlines()[0]}"
            raise fault(path, what, "get it again, or write it anew") from error


def _plain(value: Any) -> Any:
    numbers = isinstance(value, list) and value and isinstance(value[0], int | float)
    return np.asarray(value) if numbers else value


class Held:
    """What was read last, of `HELD` bytes at most (and what is in use)."""

    def __init__(self) -> None:
        self._things: dict[Any, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """What stands under a key; `make` makes it where it is not there. From any thread: two may make the same."""
        with self._lock:
            found = self._things.pop(key, None)
        if found is None:
            thing = make()
            found = thing, size(thing)
        with self._lock:
            self._things[key] = found
            while len(self._things) > 1 and sum(bytes for _, bytes in self._things.values()) > HELD:
                del self._things[next(iter(self._things))]
        return found[0]


FORMS: dict[str, Any] = {
    "txt": Lines,
    "jsonl": JSONLines,
    "ndjson": JSONLines,
    "csv": lambda: Table(","),
    "tsv": lambda: Table("\t"),
    "tar": Tar,
    "npz": Npz,
    "safetensors": SafeTensors,
    "parquet": Parquet,
}

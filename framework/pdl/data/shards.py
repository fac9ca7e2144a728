"""A data set of many files: any sample without reading the others, shuffled without reading all, files over ranks."""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data import addresses
from pdl.data.dataset import Dataset, Sample, digest
from pdl.data.faults import fault, unreadable
from pdl.data.sampler import Sampler
from pdl.data.shard_forms import FORMS, Form, Index, Tar
from pdl.data.shuffling import ShardSampler
from pdl.data.store import cached_arrays
from pdl.errors import ConfigError, DataError, listed
from pdl.files import DAMAGED, PACKED, cache_root, locked, open_file, plain_name, write_atomic
from pdl.hints import Range
from pdl.runtime.arrays import map_array
from pdl.suites import suggest

ENDINGS = tuple(f".{each}{packed}" for each in FORMS for packed in ("", *PACKED))
COUNTS = "shards.json"
"""The file beside others that says how many samples each of them has, so that none is read before it is needed."""
OPEN = 64  # files that are open at a time
_LAYOUT = "1"


class Shards(Dataset):
    """Samples of many files, one after another. What the name of a file ends in says its form: .txt, .jsonl, .csv and
    .tsv (a sample a line or row: {"text"}, or its keys), .tar (files 7.jpg, 7.cls, ... of one name are a sample:
    {"image", "label"}), .parquet, .npz and .safetensors (row i of each array).

    A file is read once to find where its samples begin; that is kept in the cache, or its number of samples is known
    from shards.json (`write_counts`). Shuffled, files, blocks within them and samples within a window are in a new
    order each epoch, which is read in `lanes`: of W processes, each opens the files of its lanes alone (where W divides
    these and the batch), and the order is the same for any number of processes.

    path     a file, a folder, a pattern ("shards/*.jsonl"), a range ("part-{000..099}.tar") or a list of these; also
             below PDL_DATA. Or an address (https://, s3://, gs://, zip://*.csv::all.zip, ...), which is copied into the
             cache, file by file as they are needed, by way of fsspec. Packed files (.gz, .bz2, .xz) are unpacked there
    form     of files whose names do not say it
    keys     {label: cls}: what keys of samples are called in the files; others stay as they are
    only     the keys of samples that are wanted (as samples call them); by default all
    classes  names of the classes in the order of their numbers, where "label" is a class: a name, or a number
    mode     of images in .tar files
    window   samples that are shuffled together; memory is bounded by them
    lanes    parts that are read side by side
    """

    foldable = True

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        form: Literal["txt", "jsonl", "csv", "tsv", "tar", "npz", "safetensors", "parquet"] | None = None,
        keys: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] = "rgb",
        window: Annotated[int, Range(1)] = 1 << 14,
        lanes: Annotated[int, Range(1)] = 16,
    ) -> None:
        self.files = addresses.files_at(path, ENDINGS if form is None else ("",))
        self.form = _form(self.files, form)
        if isinstance(self.form, Tar):
            self.form.mode = mode
        self.keys = {str(theirs): str(ours) for ours, theirs in (keys or {}).items()}
        wanted = {ours: theirs for theirs, ours in self.keys.items()}
        self.only = None if only is None else {wanted.get(name, name) for name in only}
        self.classes = list(map(str, classes or ()))
        self._numbers = {name: number for number, name in enumerate(self.classes)}
        self.window, self.lanes, self.mode = window, lanes, mode
        self._store = _Store(self.form)
        self._said = _counts(self.files)
        self.sizes = np.array([self._size(file) for file in self.files], np.int64)
        self.ends: list[int] = np.cumsum(self.sizes).tolist()

    def _size(self, file: str) -> int:
        said = self._said.get(file)
        return int(said["samples"]) if said is not None else self.form.count(self._store.index(file))

    def __repr__(self) -> str:
        return f"Shards({len(self):,} samples in {len(self.files):,} files)"

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, index: int) -> Sample:
        found = self._sample(index, self.only)
        if "label" in found and self.classes:
            found["label"] = self._class(found["label"], index)
        return found

    def _sample(self, index: int, only: Collection[str] | None) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        at = bisect_right(self.ends, index)
        size = int(self.sizes[at])
        found = self._store.sample(self.files[at], index - self.ends[at] + size, only, size)
        named = {self.keys.get(name, name): value for name, value in found.items() if only is None or name in only}
        missing = sorted(set(only or ()) - found.keys())
        if missing:
            advice = f"it has {listed(list(found), 20)}; correct keys and only"
            raise fault(self.path_of(index), f"has no {missing[0]!r}", advice, index=index)
        return named

    def _class(self, value: Any, index: int) -> int:
        if isinstance(value, str) and value.strip() in self._numbers:
            return self._numbers[value.strip()]
        text = str(value).strip()
        if not isinstance(value, float) and text.isdigit() and int(text) < len(self.classes):
            return int(text)
        advice = f"correct it, or classes{suggest(text, self.classes)}"
        raise fault(self.path_of(index), f"class {value!r:.40} is none of {listed(self.classes)}", advice, index=index)

    @cached_property
    def labels(self) -> np.ndarray | None:  # type: ignore[override]
        """The class of every sample, where there are classes; of all files, read once and kept in the cache."""
        if not self.classes:
            return None
        key = digest("labels", self.fingerprint)
        wanted = {ours: theirs for theirs, ours in self.keys.items()}.get("label", "label")

        def read() -> dict[str, np.ndarray]:
            found = (self._class(self._sample(index, {wanted})["label"], index) for index in range(len(self)))
            return {"labels": np.fromiter(found, np.int64, len(self))}

        return cached_arrays(key, ["labels"], read)["labels"]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of the files' names, sizes and versions; their content is not read."""
        said = self._said
        about = [f"{each} {said[each]['bytes']}" if each in said else self._store.stamp(each) for each in self.files]
        return digest(type(self).__name__, *about, *self.classes, repr((self.keys, self.only, self.mode)), self.sizes)

    def path_of(self, index: int) -> str | None:
        return self.files[bisect_right(self.ends, index)]

    def shuffled(self, seed: int) -> Sampler:
        """The order in which samples come in training."""
        first = self._said.get(self.files[0])
        block = int(first["block"]) if first is not None else self.form.block_of(self._store.index(self.files[0]))
        return ShardSampler(self.sizes, block=block, lanes=self.lanes, window=self.window, seed=seed)


def write_counts(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """Write shards.json, {"shards": {name: {"samples", "bytes", "block"}}}, into each folder of files on this machine;
    to be put beside them where others read them. DataError for an address."""
    files = addresses.files_at(path, ENDINGS)
    if there := next((file for file in files if addresses.is_address(file)), None):
        raise DataError(f"{there}: shards.json is written beside files on this machine; copy it with them")
    form = _form(files, None)
    store = _Store(form)
    folders: dict[Path, dict[str, dict[str, int]]] = {}
    for file in files:
        index = store.index(file)
        about = {"samples": form.count(index), "bytes": Path(file).stat().st_size, "block": form.block_of(index)}
        folders.setdefault(Path(file).parent, {})[Path(file).name] = about
    for folder, found in folders.items():
        write_atomic(folder / COUNTS, json.dumps({"shards": found}, indent=1) + "\n")
    return [folder / COUNTS for folder in folders]


def _form(files: Sequence[str], form: str | None) -> Form:
    kinds = sorted({Path(plain_name(addresses.name_of(file))).suffix.lower().lstrip(".") for file in files})
    if form is None and len(kinds) > 1:
        raise ConfigError(f"path: files of several forms ({listed(kinds)}); give those of one, or say which (form=)")
    make = FORMS.get(form or kinds[0])
    if make is None:
        raise ConfigError(f"path: {files[0]} does not end in {listed(list(FORMS), 20)}; say what it is (form=)")
    found: Form = make()
    return found


def _counts(files: Sequence[str]) -> dict[str, dict[str, int]]:
    """What shards.json beside the files says of them; of files that have changed since, nothing."""
    found: dict[str, dict[str, int]] = {}
    for folder in dict.fromkeys(addresses.folder_of(file) for file in files):
        here = [file for file in files if addresses.folder_of(file) == folder]
        data = addresses.beside(here[0], COUNTS)
        try:
            shards = json.loads(data or b"{}").get("shards", {})
            for file in here:
                about = shards.get(addresses.name_of(file))
                if about is None:
                    continue
                said = {key: int(about[key]) for key in ("samples", "bytes", "block")}
                if min(said.values()) < 0 or said["block"] < 1:
                    raise ValueError("a number is too small")
                if addresses.is_address(file) or Path(file).stat().st_size == said["bytes"]:
                    found[file] = said
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            advice = "write it anew (pdl.data.write_counts)"
            raise fault(f"{folder}{COUNTS}", f"cannot be read: {error}", advice) from error
    return found


class _Store:
    """The files of a data set as they are read: their indices, and the last ones open."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self._paths: dict[str, Path] = {}
        self._stamps: dict[str, tuple[int, int]] = {}  # size and time when it was first seen
        self._indices: dict[str, Index] = {}
        self._open: OrderedDict[str, tuple[BufferedReader, threading.Lock]] = OrderedDict()
        self._lock = threading.RLock()

    def sample(self, file: str, number: int, only: Collection[str] | None, samples: int) -> Sample:
        """A sample of a file, which should have so many."""
        index = self.index(file)
        if (there := self.form.count(index)) != samples:
            advice = "write it anew (pdl.data.write_counts)"
            raise fault(file, f"has {there:,} samples and not {samples:,}, as {COUNTS} says", advice)
        path = self._paths[file]
        try:
            return self.form.read(path, index, number, partial(self._read, file), only)
        except OSError as error:
            raise unreadable(path, error) from error

    def stamp(self, file: str) -> str:
        """Name, size and time."""
        self.path(file)
        return f"{file} {self._stamps[file]}"

    def path(self, file: str) -> Path:
        """Where its bytes are on this machine."""
        with self._lock:
            if file not in self._paths:
                path = addresses.local(file)
                self._stamps[file] = _stamp(path)
                self._paths[file] = path
            return self._paths[file]

    def index(self, file: str) -> Index:
        """Where its samples are; from the cache, where it has been made before."""
        with self._lock:
            if file not in self._indices:
                path = self.path(file)
                key = digest("shard", _LAYOUT, type(self.form).__name__, str(path.absolute()), repr(self._stamps[file]))
                with locked(cache_root() / "decoded" / f"{key}.lock", lambda: None):
                    made = cached_arrays(key, self.form.names, partial(self._indexed, path))
                self._indices[file] = {name: _mapped(key, name, array) for name, array in made.items()}
            return self._indices[file]

    def _indexed(self, path: Path) -> dict[str, np.ndarray]:
        try:
            return self.form.index(path)
        except DAMAGED as error:
            raise fault(path, f"damaged: {error}", "get it again, or write it anew") from error
        except OSError as error:
            raise unreadable(path, error) from error

    def _read(self, file: str, begin: int, size: int) -> bytes:
        while True:
            handle, lock = self._handle(file)
            with lock:
                if handle.closed:  # another thread needed room
                    continue
                handle.seek(begin)
                data = handle.read(size)
            if len(data) != size:
                raise fault(self._paths[file], f"ends before byte {begin + size:,}", "it has changed: start again")
            return data

    def _handle(self, file: str) -> tuple[BufferedReader, threading.Lock]:
        with self._lock:
            if file in self._open:
                self._open.move_to_end(file)
                return self._open[file]
            path = self._paths[file]
            handle = open_file(path)
            if _stamp(path) != self._stamps[file]:
                handle.close()
                raise fault(path, "has changed since it was opened", "leave files alone while they are read")
            self._open[file] = handle, threading.Lock()
            if len(self._open) > OPEN:
                old, lock = self._open.popitem(last=False)[1]
                with lock:
                    old.close()
            return self._open[file]

    def __del__(self) -> None:
        for handle, _ in self._open.values():
            handle.close()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    return about.st_size, about.st_mtime_ns


def _mapped(key: str, name: str, array: np.ndarray) -> np.ndarray:
    """The array as it lies in the cache, where it is large: then it takes no memory."""
    if array.nbytes < 1 << 16:
        return array
    try:
        return map_array(cache_root() / "decoded" / f"{key}.{name}.npy")
    except (OSError, ValueError):
        return array

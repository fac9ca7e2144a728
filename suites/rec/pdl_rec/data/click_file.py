"""Rows with a label: clicks and what was shown, out of files that fit into memory (`ClickFile`) or do not
(`ClickStream`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from pdl import watch
from pdl.data import Batch, Dataset, IterableDataset, Sample, addresses, check_ratios, digest
from pdl.data.dataset import Dealing
from pdl.data.faults import fault
from pdl.data.randomness import BatchRandom
from pdl.errors import ConfigError, UsageError
from pdl.hints import Inherited, Range
from pdl_rec.data.columns import Columns, Text, joined, length, take
from pdl_rec.data.readers import blocks_over
from pdl_rec.data.reading import Form, Source, locate

MOST_CLASSES = 100  # values of a column whose shares folds keep
PROGRESS_FROM = 32 << 20  # bytes of a file from which on reading it is told of


class Encoding(Protocol):
    """What turns columns into the arrays of a batch (`pdl_rec.click_through.fields.Encoding`)."""

    @property
    def text(self) -> Sequence[str]:
        """Columns that are read as text."""

    @property
    def numeric(self) -> Sequence[str]:
        """Columns that are read as numbers."""

    def __call__(self, columns: Columns) -> dict[str, np.ndarray]:
        """The arrays of these rows."""


class Clicks:
    """What both forms share: the file, the rows of a split, and what turns them into arrays.

    path       of a file, absolute or below PDL_DATA: csv, tsv, .inter, each also .gz, or inside a .zip; a pattern
               ("day_*.gz"), a range ("day_{0..23}") or an address (s3://, https://, ...: `pdl.data.addresses`); or a
               list of these. Several files are read one after another as if they were one
    split      which part of the rows, where `ratios` cut them
    form       "csv" (a header, or `names`), "criteo" (tab-separated without header: label, I1..I13, C1..C26), or
               "slots" (`label slot:id slot:id ...`, a slot with any number of ids)
    names      of the columns, where the file has no header
    separator  between columns; by default a tab for .tsv, RecBole's atomic files and Criteo's form, else a comma
    ratios     {train: 0.8, val: 0.1, test: 0.1}: each row belongs to a split by a hash of its number and `seed`;
               without them the whole file is one split
    seed       of that hash
    join       {column: path}: the columns of another table, found by the value of this one that both have
    rows       only so many first rows of the file
    """

    readers = 1  # threads that read

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        split: str | None = None,
        form: Form = "csv",
        names: Sequence[str] | None = None,
        separator: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        join: Mapping[str, str | Path] | None = None,
        rows: Annotated[int, Range(1)] | None = None,
    ) -> None:
        owner = type(self).__name__
        self.sources = _sources(path, form, names, separator)
        self.source = self.sources[0]
        self.split, self.seed, self.limit = split, seed, rows
        self.ratios = None if ratios is None else check_ratios(owner, ratios)
        if self.ratios is not None and split not in self.ratios:
            raise ConfigError(f"{owner}: split={split!r} is none of {', '.join(self.ratios)}")
        self.others = {key: _Other(locate(path), key) for key, path in (join or {}).items()}
        self.encoding: Encoding | None = None

    @cached_property
    def columns(self) -> list[str]:
        """The names of all columns, those of joined tables behind the file's own."""
        names = self.source.columns()
        for key, other in self.others.items():
            if key not in names:
                raise fault(
                    self.source.path,
                    f"has no column {key!r}",
                    f"join names a column that both have; it has {', '.join(names)}",
                )
            names += [name for name in other.names if name not in names]
        return names

    def blocks(self, text: Sequence[str] | None = None, numeric: Sequence[str] = ()) -> Iterator[Columns]:
        """The rows of the split, in order, block by block: all columns as text, or these, and these as numbers."""
        only = None if text is None else {*text, *numeric}
        if only is not None:
            self._require_columns(only)
        joined_to = {key: o for key, o in self.others.items() if only is None or only & set(o.names) - {key}}
        own = (
            None
            if only is None
            else {*only, *joined_to} - {n for o in joined_to.values() for n in o.names} | joined_to.keys()
        )
        first = 0
        tell = self._report_progress if text is not None else _silent
        columns = {n for n in numeric if n not in joined_to}
        for block in blocks_over(self.sources, columns, own, tell, self.readers):
            count = length(block)
            rows = np.arange(first, first + count)
            if self.limit is not None:
                rows = rows[rows < self.limit]
            kept = self.chosen(rows) - first
            first += count
            part = take(block, kept) if len(kept) < count else block
            for other in joined_to.values():
                part |= other.beside(part, only)
            if length(part):
                yield part
            if self.limit is not None and first >= self.limit:
                return

    def _report_progress(self, done: int, total: int) -> None:
        if total >= PROGRESS_FROM:
            watch.progress(f"reading {self.source.path.name}", done, total)

    def _require_columns(self, only: set[str]) -> None:
        if self.source.form == "slots":
            return
        absent = sorted(only - set(self.columns))
        if absent:
            raise fault(
                self.source.path,
                f"has no column {absent[0]!r}",
                f"it has {', '.join(self.columns[:40])}; correct the recipe's fields",
            )

    def chosen(self, rows: np.ndarray) -> np.ndarray:
        """Those of these rows of the file that belong to the split: by a hash of the row's number and the seed."""
        if self.ratios is None:
            return rows
        at = list(self.ratios).index(str(self.split))
        low, high = np.cumsum([0.0, *self.ratios.values()])[at : at + 2]
        u = BatchRandom(self.seed, 0, rows).fork("split").uniform()
        return rows[(u >= low) & (u < high)]

    def bind(self, encoding: Encoding) -> None:
        """From now on samples are what `encoding` makes of the rows."""
        self.encoding = encoding

    def _encoding(self) -> Encoding:
        if self.encoding is None:
            raise UsageError(f"{type(self).__name__}: its rows are text until bind() says what to make of them")
        return self.encoding

    @property
    def fingerprint(self) -> str:
        """Of the file's path, size and time, and of what is taken from it."""
        about = [repr((self.split, self.ratios, self.seed, self.limit, self.sources))]
        for path in (source.path for source in self.sources):
            stat = next(each for each in (path, *path.parents) if each.is_file()).stat()
            about.append(f"{stat.st_size} {stat.st_mtime_ns}")
        return digest(*about)


class ClickFile(Clicks, Dataset):
    """Rows of a table that fits into memory, with random access.

    Its arguments are those of `Clicks`. What the columns mean is said by the task's fields; it binds them.
    """

    _arrays: dict[str, np.ndarray] | None = None
    _fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        return super().fingerprint if self._fingerprint is None else self._fingerprint

    @cached_property
    def table(self) -> Columns:
        """All columns of the split, as text."""
        return joined(list(super().blocks()) or [{name: Text(np.empty(0, np.int64), []) for name in self.columns}])

    def blocks(self, text: Sequence[str] | None = None, numeric: Sequence[str] = ()) -> Iterator[Columns]:
        """The whole split as one block."""
        only = None if text is None else {*text, *numeric}
        if only is None:
            yield self.table
            return
        self._require_columns(only)
        if not len(self):
            return
        found: Columns = {}
        for name in only:
            column = self.table.get(name)
            column = _nothing(len(self)) if column is None else column
            found[name] = column.numbers() if name in numeric and isinstance(column, Text) else column
        yield found

    def bind(self, encoding: Encoding) -> None:
        super().bind(encoding)
        self._arrays, self.classes = None, list(getattr(encoding, "classes", ()))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What the samples are rows of."""
        if self._arrays is None:
            encoding = self._encoding()
            (columns,) = self.blocks(encoding.text, encoding.numeric)
            self._arrays = encoding(columns)
        return self._arrays

    def __len__(self) -> int:
        return length(self.table)

    def __getitem__(self, index: int) -> Sample:
        return {name: array[index] for name, array in self.arrays.items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The rows of every array."""
        return {name: array.take(indices, axis=0) for name, array in self.arrays.items()}

    @property
    def labels(self) -> np.ndarray | None:
        """The class of each row, where the rows are bound to classes."""
        return self.arrays["label"] if self.classes else None

    def path_of(self, index: int) -> str | None:
        return str(self.source.path)

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        """Row by row, each value of the column `by` in equal shares where these are few."""
        column = self.table.get(by) if by is not None else None
        codes = column.first().codes if isinstance(column, Text) else None
        count = 0 if codes is None else len(np.unique(codes))
        few = 1 < count <= MOST_CLASSES
        how = f"stratified by the {count} values of {by}" if few else "cut at random"
        return Dealing(how, codes if few else None)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        """The rows of all of them; their columns must have the same names."""
        first = datasets[0]
        for other in datasets[1:]:
            if other.table.keys() != first.table.keys():
                raise UsageError(f"{other.source.path} has other columns than {first.source.path}")
        seen = [(each.split, [str(source.path) for source in each.sources]) for each in datasets]
        if any(each in seen[:number] for number, each in enumerate(seen)):
            raise UsageError(f"two splits of the recipe are the same rows of {first.source.path}")
        names = [each.fingerprint for each in datasets]
        made: Dataset = first._with(joined([each.table for each in datasets]), digest(*names))
        return made

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        """These rows as a table of their own."""
        return self._with(take(self.table, rows), digest(self.fingerprint, rows))

    def _with(self, table: Columns, fingerprint: str) -> ClickFile:
        """This data set with other rows."""
        made = copy.copy(self)
        made.__dict__["table"] = table
        made._fingerprint = fingerprint
        return made

    def record(self, index: int) -> dict[str, Any]:
        """The row as people would give it: {column: text}."""
        one = np.array([index])
        return {n: (c.take(one).texts()[0] if isinstance(c, Text) else float(c[index])) for n, c in self.table.items()}


class ClickStream(Clicks, IterableDataset):
    """Rows of a file of any size, read block by block in every epoch; of the arguments of `Clicks`, and

    buffer   rows that are shuffled together, in training; memory is bounded by them
    readers  threads that read, each some megabytes of a file that is not packed, or a file; the rows are those of one

    Rows are shuffled within consecutive buffers by (seed of the run, epoch, number of the buffer), so an epoch can be
    gone on with in its middle.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        buffer: Annotated[int, Range(1)] = 1 << 17,
        readers: Annotated[int, Range(1)] = 1,
        **options: Inherited,
    ) -> None:
        super().__init__(path, **options)
        self.buffer, self.readers = buffer, readers

    def buffers(
        self, skip: int = 0, chosen: Callable[[int, int], np.ndarray] | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """The arrays of `buffer` rows each, the last with what is left; the first `skip` are passed over, not encoded.
        `chosen(number, rows)` says which rows of a buffer are wanted, in which order; by default all, as they are. One
        of which none are is passed over, too."""
        encoding = self._encoding()
        for number, rows in self._held():
            if number >= skip:
                wanted = rows if chosen is None else take(rows, chosen(number, length(rows)))
                if length(wanted):
                    yield encoding(wanted)

    def _held(self) -> Iterator[tuple[int, Columns]]:
        """The rows, `buffer` of them at a time, with the number of each such part."""
        encoding = self._encoding()
        waiting: list[Columns] = []
        count = number = 0
        for block in self.blocks(encoding.text, encoding.numeric):
            waiting.append(block)
            count += length(block)
            while count >= self.buffer:
                whole = joined(waiting)
                yield number, take(whole, np.arange(self.buffer))
                number, count = number + 1, count - self.buffer
                waiting = [take(whole, np.arange(self.buffer, self.buffer + count))] if count else []
        if count:
            yield number, joined(waiting)

    def __iter__(self) -> Iterator[Sample]:
        for arrays in self.buffers():
            for row in range(len(next(iter(arrays.values())))):
                yield {name: array[row] for name, array in arrays.items()}


class _Other:
    """A table that is joined: one row for each value of its key."""

    def __init__(self, path: Path, key: str) -> None:
        self.source, self.key = Source(path), key
        self.names = self.source.columns()
        if key not in self.names:
            raise fault(
                path,
                f"has no column {key!r}",
                f"join names a column that both tables have; it has {', '.join(self.names)}",
            )

    @cached_property
    def table(self) -> Columns:
        return joined(list(self.source.blocks()))

    @cached_property
    def places(self) -> dict[str, int]:
        column = self.table[self.key]
        assert isinstance(column, Text)
        return {value: row for row, value in enumerate(column.texts())}

    def beside(self, part: Columns, only: set[str] | None) -> Columns:
        """This table's columns for the rows of `part`; empty where the key is not there."""
        key = part[self.key]
        assert isinstance(key, Text)
        place = np.array([self.places.get(value, -1) for value in [*key.values, ""]], np.int64)[key.codes]
        found: Columns = {}
        for name, column in self.table.items():
            if name != self.key and (only is None or name in only) and isinstance(column, Text):
                found[name] = Text(np.append(column.codes, -1)[place], column.values)
        return found


def _sources(
    path: str | Path | Sequence[str | Path], form: Form, names: Sequence[str] | None, separator: str | None
) -> list[Source]:
    given = [path] if isinstance(path, str | Path) else list(path)
    paths = [file for each in given for file in _files(each)]
    if not paths:
        raise ConfigError("path: the list of files is empty")
    return [Source(locate(each), form, None if names is None else tuple(names), separator) for each in paths]


def _files(path: str | Path) -> list[str | Path]:
    """The files that a pattern, a range or an address names; of addresses their copies."""
    if not (addresses.is_address(path) or set(str(path)) & set("*?[{")):
        return [path]
    found = addresses.files_at(path, (".csv", ".tsv", ".inter", ".gz", ".zst"))
    return [addresses.copied(each) if addresses.is_address(each) else each for each in found]


def _silent(done: int, total: int) -> None:
    """Nothing."""


def _nothing(rows: int) -> Text:
    return Text(np.full(rows, -1, np.int64), [])

"""Data sets: things with a length that hand out samples, each a dict of arrays and numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from pdl.data.faults import Fault
from pdl.errors import UsageError
from pdl.hints import Range, part

Sample = dict[str, Any]
"""One sample: for an image {"image": uint8 [H, W, C] RGB, "label": int}; the loader adds "index"."""

Batch = dict[str, Any]
"""The same keys, each holding N samples: arrays [N, ...], or lists where values do not stack."""


@dataclass(frozen=True)
class Dealing:
    """How the samples of a data set may be dealt out to folds (`pdl.data.Fold`).

    how       in words
    strata    int64 [N]: every fold has its share of the samples of each number; None: cut at random
    groups    int64 [N]: samples of one number stay in one fold; None: each stands alone
    """

    how: str
    strata: np.ndarray | None = None
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class StandIn:
    """A small data set that takes the place of an absent one: the constructor's arguments that read it, and what it
    is, in a few words.
    """

    settings: dict[str, Any]
    what: str


@part
class Dataset:
    """A data set with random access. Subclasses define `__len__` and `__getitem__(i) -> dict`.

    Optional, found by name:
      `get_batch(indices: int64 [N]) -> dict` of stacked arrays, equal to collating the single samples (fast path);
      `labels: int64 [len]` and `classes` (names), known without reading the samples;
      `annotation(i) -> dict`, sample i without its image, which is not read;
      `path_of(i) -> str | None`, the file that sample i comes from;
      `fingerprint: str`, which changes when the content does;
      `set_epoch(epoch)`, called by the loader before an epoch;
      `shuffled(seed) -> Sampler`, the order in which it is best read at random, where that is not any;
      `reduced(i, factor) -> dict` with `size_of(i) -> (height, width)`: the sample with its image, and what is
      annotated on it, at 1/2, 1/4 or 1/8 of its size, where reading that is faster (`read_image(reduce=2)`).

    For k-fold cross-validation (`pdl.data.Fold`) `foldable = True` will do where samples are independent and tasks read
    nothing else of the data set. Others define `dealing`, and `pooled` and `dealt` where tasks read more of them.
    """

    classes: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    """What was found wrong when it was opened, and did not end that: what was left out, and warnings."""
    foldable: ClassVar[bool] = False
    """Whether its samples are independent of each other and it is used by nothing but what this class defines, so that
    they may be dealt out again (`pdl.data.Fold`)."""
    unfoldable: ClassVar[str] = (
        "they belong together, or the task reads more of it than samples. A data set of your own whose samples are "
        "independent says `foldable = True` in its class"
    )
    """Why not, where they may not."""
    generated: ClassVar[bool] = False
    """Whether samples are made by number, as many as are wanted: `pdl check` looks at the first ones."""

    def __repr__(self) -> str:
        classes = f", {len(self.classes)} classes" if len(self.classes) else ""
        return f"{type(self).__name__}({len(self)} samples{classes})"

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def __getitem__(self, index: int) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    @property
    def labels(self) -> np.ndarray | None:
        """The class of every sample, int64 [len], or None where samples have no class."""
        return None

    @property
    def fingerprint(self) -> str:
        """A short hash that names the content; by default the type, the length, the class list and the labels."""
        labels = self.labels
        return digest(type(self).__name__, str(len(self)), *self.classes, b"" if labels is None else labels)

    def path_of(self, index: int) -> str | None:
        """The file that holds sample `index`, where there is one."""
        return None

    def fault_of(self, index: int) -> Fault | None:
        """What is wrong with the file of sample `index`, as far as a quick look shows that decodes nothing; None if it
        looks whole, or samples have no files of their own. Training looks at all files before it begins."""
        return None

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        """How its samples may be dealt out to folds; `by` is the column of a table that the task learns to tell.
        UsageError with the reason where they may not."""
        if not self.foldable:
            raise not_dealt(self, self.unfoldable)
        return by_labels(self)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        """The samples of several data sets of this class, such as the splits of one file, as one."""
        return ConcatDataset(datasets)

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        """The samples `rows` as a data set of their own; those of `before` are in the splits that come first."""
        return Subset(self, rows)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """Write a small data set in this class's own format below `folder`, for tests on machines without the real one
        (`pdl selftest`); None where there is no such thing.

        `settings` are the arguments a recipe gives. Called once for every split; the splits share the folder. The
        samples should be real ones that ship with the suite, and opening them must need no network.
        """
        return None


def not_dealt(data: Any, reason: str) -> UsageError:
    """The error about samples that cannot be dealt out to folds."""
    return UsageError(f"the samples of {type(data).__name__} cannot be dealt out to folds: {reason}")


def by_labels(data: Dataset) -> Dealing:
    """Each class in equal shares, where samples have classes."""
    labels = data.labels
    how = "cut at random" if labels is None else f"stratified by its {len(data.classes)} classes"
    return Dealing(how, labels)


@part
class IterableDataset:
    """A stream of samples without random access. Subclasses define `__iter__`; `set_epoch(epoch)` is optional.

    The stream must give the same samples again when it is iterated again in the same epoch: a run resumes inside
    an epoch by skipping what it has seen.
    """

    classes: Sequence[str] = ()

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """As that of `Dataset`."""
        return None

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class ArrayDataset(Dataset):
    """Samples in arrays: `ArrayDataset(image=x, label=y)`; row i of each array is sample i."""

    foldable = True

    def __init__(self, *, classes: Sequence[str] = (), **arrays: np.ndarray) -> None:
        if not arrays:
            raise UsageError("ArrayDataset: no arrays given; write ArrayDataset(image=x, label=y)")
        self.arrays = {name: np.asarray(array) for name, array in arrays.items()}
        lengths = {name: len(array) for name, array in self.arrays.items()}
        if len(set(lengths.values())) > 1:
            raise UsageError(f"ArrayDataset: arrays of different lengths {lengths}; each needs one row a sample")
        self.classes = list(classes)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={array.dtype.name}{list(array.shape)}" for name, array in self.arrays.items())
        return f"ArrayDataset({shapes})"

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, index: int) -> Sample:
        return {name: array[index] for name, array in self.arrays.items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The rows of every array: dict of arrays [N, ...]."""
        return {name: array.take(indices, axis=0) for name, array in self.arrays.items()}

    @property
    def labels(self) -> np.ndarray | None:
        label = self.arrays.get("label")
        return label if label is not None and label.ndim == 1 and label.dtype.kind in "iu" else None

    @property
    def fingerprint(self) -> str:
        parts: list[str | bytes | np.ndarray] = [*self.classes]
        for name, array in self.arrays.items():
            parts += [name, str(array.dtype), str(array.shape), array]
        return digest(*parts)


class TupleDataset(Dataset):
    """Samples that are tuples (x, y), or single arrays, of anything with a length and samples by index, such as a data
    set of PyTorch. A loader over it gives tuples, too.

    Inside of pdl they are dicts, whose keys are `names`: x and y; x0, x1, ..., y for more than two; x for one.

    samples  anything with a length and samples by index
    """

    def __init__(self, samples: Any) -> None:
        self.samples = samples
        first = samples[0] if len(samples) else ()
        count = len(first) if isinstance(first, tuple | list) else 1
        self.single = not isinstance(first, tuple | list)
        self.names = ["x"] if count < 2 else ["x", "y"] if count == 2 else [*(f"x{i}" for i in range(count - 1)), "y"]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        sample = (self.samples[index],) if self.single else self.samples[index]
        if len(sample) != len(self.names):
            raise UsageError(f"sample {index} has {len(sample)} items, sample 0 has {len(self.names)}")
        return {name: _plain(value) for name, value in zip(self.names, sample, strict=True)}


def as_dataset(data: Any) -> Any:
    """`data` itself if it is a data set, which gives dicts; else a `TupleDataset` of anything with `__len__` and
    `__getitem__` (from 0), whose samples are tuples or arrays. UsageError for what has neither."""
    if isinstance(data, Dataset | IterableDataset) or hasattr(data, "get_batch"):
        return data
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or isinstance(data, dict | str | bytes):
        raise UsageError(f"{type(data).__name__} is no data set: that has __len__ and __getitem__, or is a Dataset")
    return data if len(data) and isinstance(data[0], dict) else TupleDataset(data)


def _plain(value: Any) -> Any:
    """Tensors, also those of other libraries, as arrays; numbers and the rest as they are."""
    return value if isinstance(value, np.ndarray) or not hasattr(value, "__array__") else np.asarray(value)


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order."""

    def __init__(self, dataset: Dataset, indices: Sequence[int] | np.ndarray) -> None:
        self.dataset = dataset
        self.indices = np.asarray(indices, np.int64)
        if self.indices.ndim != 1:
            raise UsageError(f"Subset: indices have shape {self.indices.shape}, expected one dimension")
        outside = self.indices[(self.indices < 0) | (self.indices >= len(dataset))]
        if len(outside):
            raise UsageError(f"Subset: index {outside[0]} is outside of a data set of {len(dataset)} samples")
        self.classes, self.faults = dataset.classes, dataset.faults
        batch: Callable[[np.ndarray], Batch] | None = getattr(dataset, "get_batch", None)
        if batch is not None:
            self.get_batch = lambda rows: batch(self.indices[rows])
        annotation: Callable[[int], Sample] | None = getattr(dataset, "annotation", None)
        if annotation is not None:
            self.annotation = lambda index: annotation(int(self.indices[index]))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        return self.dataset[int(self.indices[index])]

    @property
    def labels(self) -> np.ndarray | None:
        labels = self.dataset.labels
        return None if labels is None else labels[self.indices]

    @property
    def fingerprint(self) -> str:
        return digest(self.dataset.fingerprint, self.indices)

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(int(self.indices[index]))

    def fault_of(self, index: int) -> Fault | None:
        return self.dataset.fault_of(int(self.indices[index]))


class Few(Subset):
    """At most `n` samples of `dataset`, in its order: of each class the first ones, as many of one as of another; where
    samples have no class, n that are spread evenly.
    """

    def __init__(self, dataset: Dataset, n: Annotated[int, Range(1)]) -> None:
        labels = dataset.labels
        n = min(n, len(dataset))
        super().__init__(dataset, np.arange(n) * len(dataset) // max(n, 1) if labels is None else _balanced(labels, n))


def _balanced(labels: np.ndarray, n: int) -> np.ndarray:
    """Ascending rows of n samples: the first of every class, then the second of every class, and so on."""
    by_class = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[by_class], return_index=True, return_counts=True)
    rank = np.arange(len(labels)) - np.repeat(starts, counts)
    return np.sort(by_class[np.argsort(rank, kind="stable")[:n]])


class ConcatDataset(Dataset):
    """Data sets one after another, with one class list between them.

    datasets  in this order
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        if not datasets:
            raise UsageError("ConcatDataset: the list of data sets is empty")
        self.datasets = list(datasets)
        self.classes = self.datasets[0].classes
        self.faults = [fault for each in self.datasets for fault in each.faults]
        for number, other in enumerate(self.datasets):
            if list(other.classes) != list(self.classes):
                raise UsageError(f"ConcatDataset: data set {number} has classes {other.classes}, "
                                 f"data set 0 has {self.classes}; map them to one list first")
        self._ends = np.cumsum([len(d) for d in self.datasets])
        if all(hasattr(d, "get_batch") for d in self.datasets):
            self.get_batch = self._get_batch
        if all(hasattr(d, "annotation") for d in self.datasets):
            self.annotation = self._annotation

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _find(self, index: int) -> tuple[Dataset, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is outside of a data set of {len(self)} samples")
        part = int(np.searchsorted(self._ends, index, side="right"))
        return self.datasets[part], index - (int(self._ends[part - 1]) if part else 0)

    def __getitem__(self, index: int) -> Sample:
        dataset, local = self._find(index)
        return dataset[local]

    def _annotation(self, index: int) -> Sample:
        dataset, local = self._find(index)
        annotation: Callable[[int], Sample] = getattr(dataset, "annotation")  # noqa: B009
        return annotation(local)

    def _get_batch(self, indices: np.ndarray) -> Batch:
        parts = np.searchsorted(self._ends, indices, side="right")
        starts = np.concatenate([[0], self._ends[:-1]])
        out: Batch = {}
        for number in np.unique(parts):
            rows = np.flatnonzero(parts == number)
            get_batch: Callable[[np.ndarray], Batch] = getattr(self.datasets[number], "get_batch")  # noqa: B009
            piece = get_batch(indices[rows] - starts[number])
            for name, values in piece.items():
                if name not in out:
                    out[name] = np.empty((len(indices), *values.shape[1:]), values.dtype)
                out[name][rows] = values
        return out

    @property
    def labels(self) -> np.ndarray | None:
        labels = [d.labels for d in self.datasets]
        known = [part for part in labels if part is not None]
        return np.concatenate(known) if len(known) == len(labels) else None

    @property
    def fingerprint(self) -> str:
        return digest(*(d.fingerprint for d in self.datasets))

    def dealing(self, by: str | None = None) -> Dealing:
        """By the classes of all."""
        return by_labels(self)

    def path_of(self, index: int) -> str | None:
        dataset, local = self._find(index)
        return dataset.path_of(local)

    def fault_of(self, index: int) -> Fault | None:
        dataset, local = self._find(index)
        return dataset.fault_of(local)


def sample_name(dataset: Dataset, index: int) -> str:
    """What people know a sample by: its file, relative to the data set's folder; "sample 17" where samples have no
    files of their own."""
    path = dataset.path_of(index)
    if path is None or path == dataset.path_of(0 if index else len(dataset) - 1):
        return f"sample {index}"
    inner: Any = dataset
    while hasattr(inner, "dataset") and not hasattr(inner, "root"):
        inner = inner.dataset
    root = getattr(inner, "root", None)
    if root is not None and Path(path).is_relative_to(root):
        return Path(path).relative_to(root).as_posix()
    return "/".join(Path(path).parts[-2:])


def digest(*parts: str | bytes | np.ndarray) -> str:
    """32 hex digits (BLAKE2b) of strings, bytes and arrays, each with its length, so that borders count."""
    h = hashlib.blake2b(digest_size=16)
    for each in parts:
        if isinstance(each, np.ndarray):
            raw = np.ascontiguousarray(each).reshape(-1).view(np.uint8).data
        else:
            raw = memoryview(each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each)
        h.update(len(raw).to_bytes(8, "little"))
        h.update(raw)
    return h.hexdigest()

"""Look a whole data set over before training: what cannot be read, what does not fit, what leaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.data.dataset import Dataset, Sample, digest
from pdl.data.faults import LEAVE_OUT, DataFault, Fault
from pdl.data.pipeline import one_opencv_thread
from pdl.errors import DataError

Progress = Callable[[str, int, int], None]
"""Called as progress(split, samples done, samples in all)."""

Inspect = Callable[[str, Dataset, int, Sample], Iterable[tuple[str, Fault]]]
"""Called as inspect(split, dataset, index, sample) for every sample that can be read, from several threads: faults,
each with its kind, by which `check` counts them."""

_CHUNK = 256
NAMES = {"image": "image", "audio": "recording", "clip": "clip", "skeleton": "sequence"}  # what samples hold, by key
GENERATED = 256  # samples of a generated data set that are looked at

Source = Dataset | Callable[[], Dataset]


def check(datasets: Mapping[str, Source], *, num_classes: int | None = None, progress: Progress | None = None,
          limit: int = 20, workers: int = 2, inspect: Inspect | None = None) -> list[Fault]:
    """Read every sample of the named data sets (train, val, test) and return the faults found: an empty list if all is
    well.

    A value may be a data set, or a function without arguments that makes one (so that one which cannot even be
    opened is one fault among others). Faults are: splits that cannot be opened or are empty, samples that cannot be
    read, or with nothing in them, class lists that differ, labels outside of 0..classes-1 (or num_classes-1), classes
    without samples, and the same image or recording (by hash of its values) in train and in val or test. Of one kind of
    fault in one split the first `limit` are listed and the rest is counted in one more fault. `workers` threads read.
    `inspect` finds what else is wrong with a sample. Of data sets that are generated the first 256 samples are read.
    """
    faults: list[Fault] = []
    opened = open_all(datasets, faults)
    faults += _class_lists(opened, num_classes)
    seen: dict[str, dict[str, list[int]]] = {}
    with one_opencv_thread():
        for split, dataset in opened.items():
            faults += _labels(split, dataset, num_classes)
            seen[split], kinds = _contents(split, dataset, progress, workers, inspect)
            for found in kinds.values():
                faults += shorten(found, limit, split)
    for split in list(seen)[1:]:
        for earlier in list(seen)[:list(seen).index(split)]:
            leaks = _leaks(earlier, opened[earlier], seen[earlier], split, opened[split], seen[split])
            faults += shorten(leaks, limit, split)
    return faults


def check_files(datasets: Mapping[str, Any], limit: int = 5) -> None:
    """Look at the file of every sample of the named data sets, without decoding it (`Dataset.fault_of`). DataError
    where some cannot be used: how many, the first `limit`, and what to do; DataFault where it is one."""
    looked = {split: data for split, data in datasets.items() if isinstance(data, Dataset)}
    found = [_in_split(fault, split) for split, data in looked.items() for index in range(len(data))
             if (fault := data.fault_of(index)) is not None]
    raise_faults(found, sum(map(len, looked.values())), LEAVE_OUT, limit)


def raise_faults(found: Sequence[Fault], total: int, way_on: str, limit: int = 5) -> None:
    """DataError where there are faults of some of `total` samples: the first `limit`, and what to do."""
    if len(found) == 1:
        raise DataFault(found[0])
    if found:
        lines = "\n".join(f"  {str(each).removesuffix(f'; {each.advice}')}" for each in found[:limit])
        more = f"\n  and {len(found) - limit:,} more" if len(found) > limit else ""
        raise DataError(f"{len(found):,} of {total:,} samples cannot be used:\n{lines}{more}\n"
                        f"repair or remove them, or {way_on}")


def open_all(datasets: Mapping[str, Source], faults: list[Fault]) -> dict[str, Dataset]:
    """The data sets that can be opened; faults of the others, and of those that are empty, are added to `faults`."""
    return {split: dataset for split, source in datasets.items()
            if (dataset := _open(split, source, faults)) is not None}


def _open(split: str, source: Source, faults: list[Fault]) -> Dataset | None:
    try:
        dataset = source if isinstance(source, Dataset) else source()
    except DataFault as error:
        faults.append(_in_split(error.fault, split))
        return None
    except DataError as error:
        faults.append(Fault(None, None, str(error), "see above", split=split))
        return None
    if len(dataset) == 0:
        faults.append(Fault(None, None, f"the split is empty ({type(dataset).__name__} with 0 samples)",
                            "give it samples, or another split or ratio", split=split))
    return dataset


def _in_split(fault: Fault, split: str) -> Fault:
    return replace(fault, split=split)


def _class_lists(datasets: Mapping[str, Dataset], num_classes: int | None) -> list[Fault]:
    faults = []
    named = [(split, list(d.classes)) for split, d in datasets.items() if d.classes]
    for split, classes in named:
        if num_classes is not None and len(classes) != num_classes:
            faults.append(Fault(None, None, f"{len(classes)} classes, the model is built for {num_classes}",
                                "set num_classes to the length of the class list", split=split))
    for split, classes in named[1:]:
        first, expected = named[0]
        if classes != expected:
            extra, missing = sorted(set(classes) - set(expected)), sorted(set(expected) - set(classes))
            detail = f"more: {extra[:5]}, missing: {missing[:5]}" if extra or missing else "same names, another order"
            faults.append(Fault(None, None, f"{len(classes)} classes, {first} has {len(expected)} ({detail})",
                                "give all splits one class list (classes=...)", split=split))
    return faults


def _labels(split: str, dataset: Dataset, num_classes: int | None) -> list[Fault]:
    labels, classes = dataset.labels, dataset.classes
    count = num_classes if num_classes is not None else len(classes)
    if labels is None or not count or not len(labels):
        return []
    faults = []
    if len(labels) != len(dataset):
        faults.append(Fault(None, None, f"{len(labels)} labels for {len(dataset)} samples",
                            "give each sample one label", split=split))
    outside = np.flatnonzero((labels < 0) | (labels >= count))
    if len(outside):
        i = int(outside[0])
        faults.append(Fault(dataset.path_of(i), i, f"label {labels[i]} is outside of 0..{count - 1} "
                            f"({len(outside)} such labels)", "correct the label or the class list", split=split))
    inside = labels[(labels >= 0) & (labels < count)]
    absent = np.flatnonzero(np.bincount(inside, minlength=count)[:count] == 0)
    if len(absent):
        names = [classes[i] if i < len(classes) else str(i) for i in absent[:5].tolist()]
        faults.append(Fault(None, None, f"{len(absent)} of {count} classes have no samples: {', '.join(names)}",
                            "add samples, or take the class out of the list", split=split,
                            severity="error" if split == "train" else "warning"))
    return faults


def _contents(split: str, dataset: Dataset, progress: Progress | None, workers: int,
              inspect: Inspect | None) -> tuple[dict[str, list[int]], dict[str, list[Fault]]]:
    """Read every sample: the indices of each content hash, and the faults of samples by their kind."""
    seen: dict[str, list[int]] = {}
    faults: dict[str, list[Fault]] = {}
    total = min(len(dataset), GENERATED) if dataset.generated else len(dataset)

    def look(i: int) -> tuple[str | None, list[tuple[str, Fault]]]:
        return _content(split, dataset, i, inspect)

    with ThreadPoolExecutor(workers, thread_name_prefix="pdl-check") as pool:
        for start in range(0, total, _CHUNK):
            rows = range(start, min(start + _CHUNK, total))
            for i, (content, found) in zip(rows, pool.map(look, rows), strict=True):
                for kind, each in found:
                    faults.setdefault(kind, []).append(_in_split(each, split))
                if content is not None:
                    seen.setdefault(content, []).append(i)
                if progress is not None:
                    progress(split, i + 1, total)
    return seen, faults


def _content(split: str, dataset: Dataset, i: int,
             inspect: Inspect | None) -> tuple[str | None, list[tuple[str, Fault]]]:
    """The hash of a sample's image or sound (None if it has none), and what is wrong with the sample."""
    try:
        sample = dataset[i]
        held = next((sample[key] for key in NAMES if isinstance(sample.get(key), np.ndarray)), None)
        if held is not None and held.size == 0:
            what = f"there is nothing in it, shape {held.shape}"
            return None, [("unread", Fault(dataset.path_of(i), i, what, "remove it"))]
        found = [] if inspect is None else list(inspect(split, dataset, i, sample))
        return None if held is None else digest(str(held.shape), held), found
    except DataFault as error:
        return None, [("unread", error.at(path=dataset.path_of(i), index=i).fault)]
    except Exception as error:
        what = f"reading the sample failed: {type(error).__name__}: {error}"
        return None, [("unread", Fault(dataset.path_of(i), i, what, "repair or remove it"))]


def _leaks(first: str, a: Dataset, seen_a: dict[str, list[int]], second: str, b: Dataset,
           seen_b: dict[str, list[int]]) -> list[Fault]:
    faults = []
    for content in (c for c in seen_b if c in seen_a):
        i = seen_a[content][0]
        for j in seen_b[content]:
            twin = a.path_of(i) or f"{first} index {i}"
            faults.append(Fault(b.path_of(j), j, f"the same {_held_by(b, j)} is in {first}: {twin}",
                                f"remove it from one of the two, or {second} measures memory", split=second))
    return faults


def _held_by(dataset: Dataset, index: int) -> str:
    """What a sample is, in a word."""
    sample = dataset[index]
    return next(word for key, word in NAMES.items() if key in sample)


def shorten(faults: list[Fault], limit: int, split: str) -> list[Fault]:
    """The first `limit` faults of a kind, and one that counts the others."""
    if len(faults) <= limit:
        return faults
    what, severity = f"{len(faults) - limit} more of the same kind", faults[0].severity
    return [*faults[:limit], Fault(None, None, what, "see the ones above", split=split, severity=severity)]

"""How a loader reads samples: what is wrong with the data is told with path and index, and what was decoded is kept as
far as it may be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pdl.data.dataset import IterableDataset, Sample
from pdl.data.faults import LEAVE_OUT, DataFault, Fault
from pdl.data.randomness import SampleRandom
from pdl.errors import DataError, PdlError, UsageError

MAX_REDUCTION = 8
_ADVICE = f"repair or remove it, or {LEAVE_OUT}"
_TRIES = 100


class Reader:
    """Reads samples of a data set by index, from any thread.

    limit  bytes of samples that are kept; the first that are read are, until it is reached. Their arrays cannot be
           written to. A data set that changes from epoch to epoch (`set_epoch`) is read anew in each.
    """

    def __init__(self, dataset: Any, limit: int = 0) -> None:
        self.dataset, self.limit = dataset, limit
        self._kept: dict[tuple[int, int], Sample] = {}
        self._used, self._lock = 0, threading.Lock()

    def set_epoch(self, epoch: int) -> None:
        """To be called before an epoch."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
            with self._lock:
                self._kept, self._used = {}, 0

    def __call__(self, index: int, side: float | None = None) -> Sample:
        """Sample `index`, with its index. Where its longer side need have no more than `side` pixels, and the data set
        reads smaller images faster (`reduced`), it may have 1/2, 1/4 or 1/8 of its size. DataFault if it cannot be
        read."""
        factor = self._factor(index, side)
        kept = self._kept.get((index, factor))
        if kept is None:
            kept = self.guard(lambda at: self._read(at, factor), index)
            self._keep(index, factor, kept)
        return {**kept, "index": index}

    def guard(self, read: Callable[[Any], Any], key: Any) -> Any:
        """Call the data set for one sample, or several; whatever is wrong with the data becomes a DataFault, with path
        and index where it is one sample's."""
        numbers = np.atleast_1d(key).tolist()
        index = numbers[0] if len(numbers) == 1 else None
        path = None if index is None else self._path(index)
        try:
            return read(key)
        except DataFault as error:
            raise error.at(path=path, index=index) from error.__cause__
        except DataError as error:
            raise DataFault(Fault(path, index, str(error), _ADVICE)) from error
        except PdlError:
            raise
        except Exception as error:
            which = "sample" if index is not None else f"samples {', '.join(map(str, numbers))}"
            what = f"{type(self.dataset).__name__} failed to read the {which}: {type(error).__name__}: {error}"
            raise DataFault(Fault(path, index, what, _ADVICE)) from error

    def _path(self, index: int) -> str | None:
        path_of = getattr(self.dataset, "path_of", None)
        return path_of(index) if path_of is not None else None

    def _read(self, index: int, factor: int) -> Sample:
        if isinstance(self.dataset, IterableDataset):
            raise UsageError("DataLoader: a stream has no sample by index")
        found: Sample = self.dataset[index] if factor == 1 else self.dataset.reduced(index, factor)
        return found

    def _factor(self, index: int, side: float | None) -> int:
        """1, 2, 4 or 8: how many times smaller the image may be."""
        if side is None or not hasattr(self.dataset, "reduced"):
            return 1
        longer, factor = max(self.guard(self.dataset.size_of, index)), 1
        while factor < MAX_REDUCTION and longer >= 2 * factor * side:
            factor *= 2
        return factor

    def _keep(self, index: int, factor: int, sample: Sample) -> None:
        if not self.limit:
            return
        arrays = [value for value in sample.values() if isinstance(value, np.ndarray)]
        size = sum(array.nbytes for array in arrays)
        with self._lock:
            if self._used + size > self.limit or (index, factor) in self._kept:
                return
            self._kept[index, factor], self._used = sample, self._used + size
        for array in arrays:
            array.flags.writeable = False


class Partners:
    """Other samples of the data set, for transforms that join several (Mosaic, MixUpDetection, CopyPaste): what the
    loader gives them as `sample["partners"]`. Which ones is a function of seed, epoch and index alone.

    count  of samples there are
    skip   whether others are drawn in place of those that cannot be read
    """

    def __init__(self, read: Reader, count: int, *, skip: bool) -> None:
        self.read, self.count, self.skip = read, count, skip

    def draw(self, rng: SampleRandom, side: float | None = None) -> Sample:
        """One of all samples, drawn uniformly; `side` as for `Reader`."""
        for _ in range(_TRIES):
            try:
                return self.read(rng.integers(0, self.count), side)
            except DataFault as error:
                if not self.skip:
                    raise
                fault = error
        raise fault


def partners_of(sample: Sample, owner: str) -> Partners:
    """The partners of a sample; UsageError where it comes from no loader."""
    found: Partners | None = sample.get("partners")
    if found is None:
        raise UsageError(f"{owner} joins several samples of a data set, which only a DataLoader hands over: give it to "
                         "one as a transform")
    return found

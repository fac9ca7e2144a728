"""`Previewer`: what a task shows of its data as training and evaluation get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.errors import DataError
from pdl.report import Section, image_table, table
from pdl.tensor import Tensor

if TYPE_CHECKING:
    from pdl.train.recipe import Recipe

Array = np.ndarray
Cell = tuple[Array, str] | None  # an image and its caption
VALUES = 8  # of a row of an array
MOST = 4  # samples beside each other, and rows of an array
TEXT = 100  # letters of what is neither a number nor an array


@dataclass(frozen=True)
class Look:
    """What is to be shown.

    split      train, val or test
    samples    how many
    versions   epochs, from the first on, as which each is shown where training changes samples
    seed       of the randomness of training
    """

    split: str = "train"
    samples: int = 8
    versions: int = 6
    seed: int = 0

    @property
    def training(self) -> bool:
        """Whether a training reads this split."""
        return self.split == "train"


class Previewer:
    """Sections of a page (`pdl preview`) on the data of a recipe: by default the fields of the first batches, as the
    task's loaders give them. A subclass declares `task: ItsTask`, and shows samples as people of its field know them.
    """

    task: Any
    recipe: Recipe
    needs_model: ClassVar[bool] = True
    """Whether the task's loaders can be made only once the model is built."""

    def __init__(self, task: Any, recipe: Recipe) -> None:
        self.task, self.recipe = task, recipe

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        """On the data set of the split `look` names, as the task's `prepare` left it."""
        samples = [self._samples(dataset, look)] if isinstance(dataset, Dataset) else []
        uses = (True, False) if look.training else (False,)
        batches = (self._batch(dataset, look, training=training) for training in uses)
        return [*samples, *batches, *self._names()]

    def loader(self, dataset: Any, look: Look, *, training: bool) -> Any:
        """The task's batches of the data set, read in this thread."""
        loader = self.task.loader(dataset, self.recipe, training=training, seed=look.seed)
        if isinstance(loader, DataLoader):
            loader.workers = 0
        return loader

    def loaders(self, dataset: Any, look: Look) -> tuple[Any | None, Any]:
        """Those of training, where one reads the split, and of evaluation."""
        training = self.loader(dataset, look, training=True) if look.training else None
        return training, self.loader(dataset, look, training=False)

    def versions(
        self,
        look: Look,
        rows: Sequence[int] | Array,
        loaders: tuple[Any | None, Any],
        original: Callable[[int], Cell],
        shown: Callable[[Any, Sequence[int] | Array, int], Mapping[int, Cell]],
    ) -> str:
        """A table with a row for each sample: as it is, `original(index)`, and as the first epochs and evaluation see
        it, which `shown(loader, rows, epoch)` gives by index."""
        training, evaluation = loaders
        seen = [] if training is None else [shown(training, rows, epoch) for epoch in range(look.versions)]
        columns = [*seen, shown(evaluation, rows, 0)]
        head = ["original", *(f"epoch {epoch}" for epoch in range(len(seen))), "evaluation"]
        return image_table([[original(i), *(each[i] for each in columns)] for i in sorted(columns[-1])], head=head)

    def _samples(self, dataset: Dataset, look: Look) -> Section:
        """A column for each of a few samples."""
        found = {
            sample_name(dataset, index): {name: row for name, *row in described(dataset[index], look.samples)}
            for index in Few(dataset, min(look.samples, MOST)).indices.tolist()
        }
        kinds = {name: kind for rows in found.values() for name, (kind, *_) in rows.items()}
        cells = ([rows.get(name, [""] * 4) for rows in found.values()] for name in kinds)
        lines = [
            [name, kind, *(f"{shape} {first}".strip() for _, shape, _, first in row)]
            for (name, kind), row in zip(kinds.items(), cells, strict=True)
        ]
        return Section("Samples of the data set", table(lines, head=("field", "dtype", *found)))

    def _names(self) -> list[Section]:
        """The vocabularies, by which numbers are read."""
        rows = [
            (kind, len(known), ", ".join(f"{i} {name}" for i, name in enumerate(known[:VALUES], 1)))
            for kind, known in self.task.vocabularies.items()
        ]
        return [Section("Names by number", table(rows, head=("of", "names", "first")))] if rows else []

    def _batch(self, dataset: Any, look: Look, *, training: bool) -> Section:
        loader = self.loader(dataset, look, training=training)
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(0)
        batch = next(iter(loader), None)
        use = "training" if training else "evaluation"
        if batch is None:
            raise DataError(f"data.{look.split}: the loader gives no batch for {use}")
        rows = described(batch, look.samples)
        head = ("field", "dtype", "shape", "range", "first values")
        return Section(f"The first batch of {use}", table(rows, head=head))


def described(batch: Any, count: int, name: str = "") -> Iterator[tuple[str, str, str, str, str]]:
    """The arrays and values of a batch of dicts, lists, tuples and dataclasses: name, dtype, shape, range, and what
    comes first, `count` rows of it."""
    if isinstance(batch, Tensor):
        batch = batch.numpy()
    if isinstance(batch, np.ndarray):
        yield name, batch.dtype.name, str(list(batch.shape)), _range(batch), _first(batch, count)
    elif isinstance(batch, Mapping) or hasattr(batch, "_asdict"):
        for key, value in (batch if isinstance(batch, Mapping) else batch._asdict()).items():
            yield from described(value, count, f"{name}.{key}" if name else str(key))
    elif is_dataclass(batch) and not isinstance(batch, type):
        for each in fields(batch):
            yield from described(getattr(batch, each.name), count, f"{name}.{each.name}" if name else each.name)
    elif isinstance(batch, list | tuple) and any(isinstance(each, np.ndarray | Tensor | Mapping) for each in batch):
        yield name, "list", str([len(batch)]), "", ""
        for number, each in enumerate(batch[:count]):
            yield from described(each, count, f"{name}[{number}]")
    elif isinstance(batch, list | tuple):
        yield name, "list", str([len(batch)]), "", _joined([str(each) for each in batch[:count]], len(batch))[:TEXT]
    elif batch is not None:
        silent = type(batch).__repr__ is object.__repr__  # which says no more than an address
        yield name, type(batch).__name__, "", "", "" if silent else _value(batch)[:TEXT]


def _range(array: Array) -> str:
    """Of the finite numbers."""
    if array.dtype.kind not in "iuf" or not (known := array[np.isfinite(array)]).size:
        return ""
    return f"{float(known.min()):.4g} to {float(known.max()):.4g}"


def _first(array: Array, count: int) -> str:
    """The first `count` rows, of each at most `VALUES` values; of arrays without rows that many values."""
    if array.ndim < 2:
        flat = array.reshape(-1)
        return _joined([_value(each) for each in flat[:count].tolist()], flat.size)
    rows = array[: min(count, MOST)]
    rows = rows.reshape(len(rows), int(np.prod(array.shape[1:])))
    shown = [f"[{_joined([_value(each) for each in row[:VALUES].tolist()], row.size)}]" for row in rows]
    return _joined(shown, len(array))


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | complex) else str(value)


def _joined(shown: list[str], total: int) -> str:
    return ", ".join(shown) + (", ..." if total > len(shown) else "")

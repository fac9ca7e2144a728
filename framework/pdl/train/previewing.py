"""`Previewer`: what a task shows of its data as training and evaluation get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pdl.data import DataLoader, Dataset, Few, Sample, sample_name
from pdl.data.faults import DataFault
from pdl.data.pipeline import Pipeline
from pdl.errors import DataError
from pdl.report import Cell, Image, Section, escape, image_table, table
from pdl.tensor import Tensor

if TYPE_CHECKING:
    from pdl.train.recipe import Recipe

Array = np.ndarray
VALUES = 8  # of a row of an array
MOST = 4  # samples beside each other, and rows of an array
TEXT = 100  # letters of what is neither a number nor an array
FOLLOWED = 2  # samples that are shown after each transform


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


class SamplePreviewer(Previewer):
    """Samples that can be seen: each as it is, as the first epochs see it and as evaluation sees it; then some of them
    after each transform. A subclass draws a sample, and may say what it is (`about`)."""

    needs_model = False
    title: ClassVar[str] = "Samples"
    note: ClassVar[str] = "Normalize and ToFloat are undone."
    """How to read the pictures."""
    exact: ClassVar[str] = "Epoch by epoch, a training with this seed sees what is shown."
    """What the versions are to a training."""

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> Image:
        """A picture of a sample of the data set that `steps` have changed, alone or as a row of a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define drawn")

    def about(self, sample: Sample, dataset: Any) -> str:
        """What a sample of the data set shows, in a few words."""
        return ""

    def extent(self, sample: Sample, dataset: Any) -> str:
        """How large a sample is."""
        height, width = sample["image"].shape[:2]
        return f"{width}x{height}"

    def name(self, dataset: Any, index: int) -> str:
        """What people know a sample by."""
        return sample_name(dataset, index)

    def opened(self, dataset: Any, look: Look) -> tuple[Any, DataLoader | None, DataLoader]:
        """What has the samples, by their numbers for the loaders; the loader of training, where one reads the split,
        and that of evaluation."""
        training = self.loader(dataset, look, training=True) if look.training else None
        return dataset, training, self.loader(dataset, look, training=False)

    def arranged(self, rows: Sequence[tuple[str, Mapping[str, Image]]], versions: Sequence[str]) -> str:
        """HTML of samples: what is said of each, and its pictures by the name of the version."""
        first = versions[0]
        cells: list[list[Cell]] = [
            [(seen[each], said if each == first else "") if each in seen else None for each in versions]
            for said, seen in rows
        ]
        return image_table(cells, head=versions)

    def others(self, dataset: Any, training: DataLoader | None) -> list[Section]:
        """What follows the samples."""
        return []

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):  # a stream: samples have no numbers, so only batches can be shown
            return super().sections(dataset, look)
        source, training, evaluation = self.opened(dataset, look)
        indices = Few(source, look.samples).indices.tolist()
        seen = {} if training is None else {
            f"epoch {epoch}": self._seen(training, source, indices, epoch) for epoch in range(look.versions)
        }  # fmt: skip
        seen["evaluation"] = self._seen(evaluation, source, indices, 0)
        kept = list(seen["evaluation"])  # but for what cannot be read
        rows = [self._row(source, index, seen) for index in kept]
        note = f"{self.note} {self.exact if look.training else ''}".strip()
        shown = self.arranged(rows, ["original", *seen])
        return [
            Section(self.title, f"<p>{escape(note)}</p>{shown}"),
            *self.others(dataset, training),
            self._transforms(source, training, evaluation, kept[:FOLLOWED]),
        ]

    def _row(self, dataset: Any, index: int, seen: Mapping[str, Mapping[int, Image]]) -> tuple[str, dict[str, Image]]:
        sample = dataset[index]
        said = (self.about(sample, dataset), self.name(dataset, index), self.extent(sample, dataset))
        versions = {name: pictures[index] for name, pictures in seen.items() if index in pictures}
        return ", ".join(filter(None, said)), {"original": self.drawn(sample, dataset, ()), **versions}

    def _seen(self, loader: DataLoader, dataset: Any, indices: Sequence[int], epoch: int) -> dict[int, Image]:
        """Index -> the sample as an epoch sees it; without those that the loader leaves out."""
        found, fault = {}, None
        for index in indices:
            try:
                batch = loader.samples([index], epoch)
            except DataFault as error:
                if loader.on_error == "error":
                    raise
                fault = error
                continue
            row = {name: values[0] for name, values in batch.items()}
            found[index] = self.drawn(row, dataset, loader.pipeline.steps)
        if fault is not None and not found:
            raise fault
        return found

    def _transforms(
        self, dataset: Any, training: DataLoader | None, evaluation: DataLoader, indices: Sequence[int]
    ) -> Section:
        """The transforms of each stage, in order, and what each of them makes of some samples."""
        stages = [("eval", evaluation)] if training is None else [("train", training), ("eval", evaluation)]
        rows: list[list[Cell]] = []
        for name, loader in stages:
            steps = loader.pipeline.steps
            pictures = [
                [(self.drawn(sample, dataset, steps[:done]), self.extent(sample, dataset))
                 for done, sample in enumerate(loader.stages(index, 0))] for index in indices
            ]  # fmt: skip
            rows.append([name, "as it is read", *(each[0] for each in pictures)])
            for number, step in enumerate(steps):
                if not getattr(step, "internal", False):
                    changes = (each[number : number + 2] for each in pictures)
                    rows.append([name, repr(step), *(_changed(before, now) for before, now in changes)])
            rows += [[name, repr(mixer), *(None for _ in indices)] for mixer in loader.pipeline.mixers]
        head = ("", "in this order", *(self.name(dataset, index) for index in indices))
        said = "What each makes of a sample, where that changes what is seen"
        said += "." if training is None else "; in training that of epoch 0."
        return Section("Transforms", f"<p>{said}</p>{image_table(rows, head=head)}")


class TextPreviewer(SamplePreviewer):
    """Samples {"text"} of lengths that loaders look at: these are made for the few that are shown, and training, too,
    shows those that it would skip."""

    def opened(self, dataset: Any, look: Look) -> tuple[Any, DataLoader | None, DataLoader]:
        few = Few(dataset, look.samples)
        training, evaluation = (self.loader(few, look, training=False) for _ in range(2))
        training.pipeline = Pipeline(self.recipe.data.transforms(training=True))
        return few, training if look.training else None, evaluation

    def about(self, sample: Sample, dataset: Any) -> str:
        return str(sample["text"])

    def name(self, dataset: Any, index: int) -> str:
        return sample_name(dataset.dataset, int(dataset.indices[index]))


def _changed(before: tuple[Image, str], now: tuple[Image, str]) -> Cell:
    """The picture, where it is another than before."""
    return None if before[1] == now[1] and np.array_equal(before[0], now[0]) else now


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

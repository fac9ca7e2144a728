"""What the data sets of texts share: texts with classes in memory, and splits cut by what the texts are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pdl.data import Dataset, Sample, check_ratios, digest, stable_split
from pdl.data.faults import fault
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, UsageError, listed
from pdl.suites import suggest

Item = TypeVar("Item")
SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}
"""What splits are called in folders and columns."""


class Texts(Dataset):
    """Texts with classes, in memory. Sample i is {"text": str, "label": int}, with "pair": str where there are second
    texts; where texts have several classes or none, "label" is float32 [C] of 0 and 1.

    texts    [N]
    labels   [N]: the name of each text's class; or with `several` the names of all its classes
    pairs    [N]: the second text of each
    classes  the names of all classes in the order of their numbers; by default those that occur, sorted
    sources  [N] or one for all: the file of each text
    lines    [N]: the line that each begins on, where files have several
    """

    foldable = True

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[Any],
        *,
        sources: Sequence[Path] | Path,
        lines: Sequence[int] | None = None,
        pairs: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        several: bool = False,
    ) -> None:
        self.texts, self.names, self.pairs = list(texts), list(labels), None if pairs is None else list(pairs)
        self.sources, self.lines, self.several = sources, lines, several
        found = (name for each in self.names for name in (each if several else (each,)))
        self.classes = sorted_names(found) if classes is None else list(map(str, classes))
        self.bind(self.classes)

    def bind(self, classes: Sequence[str]) -> None:
        """Number the classes as in this list from now on; DataFault for a text with a class that is not in it."""
        numbers = {name: number for number, name in enumerate(classes)}
        for index, each in enumerate(self.names):
            for name in each if self.several else (each,):
                if name not in numbers:
                    what = f"class {name!r} is none of {listed(classes)}"
                    advice = f"correct it, or name all classes in the recipe{suggest(name, classes)}"
                    raise fault(self.path_of(index), what, advice, index=index, line=self.line_of(index))
        if self.several:
            self.targets = np.zeros((len(self.names), len(classes)), np.float32)
            for row, each in zip(self.targets, self.names, strict=True):
                row[[numbers[name] for name in each]] = 1
        else:
            self.targets = np.array([numbers[name] for name in self.names], np.int64)
        self.classes = list(classes)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Sample:
        pair = {} if self.pairs is None else {"pair": self.pairs[index]}
        label = self.targets[index]
        return {"text": self.texts[index], **pair, "label": label if self.several else int(label)}

    @property
    def labels(self) -> np.ndarray | None:
        return None if self.several else self.targets

    def path_of(self, index: int) -> str | None:
        return str(self.sources if isinstance(self.sources, Path) else self.sources[index])

    def line_of(self, index: int) -> int | None:
        """The line that text `index` begins on, where files hold several."""
        return None if self.lines is None else self.lines[index]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of the texts and their classes."""
        names = ("\n".join(each) if self.several else each for each in self.names)
        return digest(type(self).__name__, *self.classes, *names, *self.texts, *(self.pairs or ()))


def sorted_names(names: Iterable[str]) -> list[str]:
    """Names, each once: whole numbers by their size, otherwise by their letters."""
    found = set(names)
    return sorted(found, key=int) if all(name.isascii() and name.isdigit() for name in found) else sorted(found)


def called(owner: str, split: str | None, names: Sequence[str]) -> bool:
    """Whether `names`, of which data calls its splits, has this one under one of its usual names."""
    if split is None:
        raise ConfigError(f"{owner}: the data has splits ({listed(names)}); say which: split=train")
    return any(each in names for each in SPLITS.get(split, (split,)))


def part_of(
    owner: str, keys: Sequence[str], split: str | None, ratios: Mapping[str, float] | None, seed: int
) -> np.ndarray | None:
    """The rows of a split that is cut by ratios, given the text of each row: equal texts are in one split, wherever
    they stand. None where nothing is cut."""
    if ratios is None:
        return None
    shares = check_ratios(owner, ratios)
    if split not in shares:
        raise ConfigError(f"{owner}: split={split!r} is none of the ratios {listed(list(shares))}")
    return stable_split(keys, shares, split, seed=seed)


def require_some(path: Path, count: int, split: str | None) -> None:
    """DataFault where no text is left."""
    if not count:
        what = "has no texts" if split is None else f"has no texts for split {split!r}"
        raise fault(path, what, "add some, or choose another split or other ratios")


def unwrap(dataset: Any) -> Any:
    """The data set inside of subsets and the like."""
    while hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return dataset


def bind(dataset: Any, classes: Sequence[str]) -> None:
    """`Texts.bind` of a data set, or of those that it is made of; UsageError for one of another kind."""
    inner = unwrap(dataset)
    for each in getattr(inner, "datasets", [inner]):
        own = unwrap(each)
        if hasattr(own, "bind"):
            own.bind(classes)
        elif list(own.classes) != list(classes):
            raise UsageError(f"{type(own).__name__} has the classes {listed(own.classes)}, not {listed(classes)}")


def several(dataset: Any) -> bool:
    """Whether texts of a data set have any number of classes."""
    return bool(getattr(unwrap(dataset), "several", False))


def drawn(items: Iterable[Item], buffer: int, rng: SampleRandom) -> Iterator[Item]:
    """A stream in another order: each time one of `buffer` items is drawn, and the next one takes its place."""
    held = list[Item]()
    for item in items:
        if len(held) < buffer:
            held.append(item)
            continue
        at = rng.integers(0, buffer)
        yield held[at]
        held[at] = item
    while held:
        at = rng.integers(0, len(held))
        held[at], held[-1] = held[-1], held[at]
        yield held.pop()

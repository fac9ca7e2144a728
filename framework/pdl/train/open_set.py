"""What tasks share that learn from some classes to tell others apart: samples whose classes are numbered as in
training, batches of several samples of each class, and what is wrong with splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.data import ClassBatchSampler, Dataset, Fault, Sample, digest, labels_of
from pdl.errors import ConfigError, UsageError, listed
from pdl.train.recipe import Data


class Called(NamedTuple):
    """Words for a class, several of them, and a sample: "speaker", "speakers", "recording"."""

    one: str
    several: str
    sample: str


class OpenSet(Dataset):
    """The samples of a data set as they are for such a task: {..., "label", "name"}; `name` is that of the file, or the
    number of the sample.

    numbers  of the classes in training, by their label in the data set; by default the same
    """

    def __init__(self, dataset: Dataset, numbers: Mapping[int, int] | None = None) -> None:
        self.dataset = dataset
        self.classes = dataset.classes if numbers is None else ()
        own = labels_of(dataset, "task")
        self._labels = own if numbers is None else np.array([numbers[int(label)] for label in own], np.int64)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        name = self.dataset.path_of(index) or str(index)
        return {**self.dataset[index], "label": int(self._labels[index]), "name": name}

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.dataset.fingerprint, self._labels)

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(index)

    def fault_of(self, index: int) -> Fault | None:
        return self.dataset.fault_of(index)


def classes_there(dataset: Dataset) -> list[str]:
    """The names of the classes that a data set has samples of, in the order of its classes."""
    classes = dataset.classes
    return [classes[label] for label in np.unique(labels_of(dataset, "task")).tolist()]


def learned_classes(known: Sequence[str], datasets: Mapping[str, Any], who: str) -> list[str]:
    """The classes of training in the order of their numbers: `known`, or by default those of the data. ConfigError for
    data sets without classes, for classes of train that are not known, and for fewer than two; `who` they are is their
    key in the task ("speakers")."""
    for split, dataset in datasets.items():
        if not isinstance(dataset, Dataset) or not dataset.classes:
            raise ConfigError(f"data.{split}: {type(dataset).__name__} has no classes, which are the {who} here")
    train = datasets.get("train")
    if train is None:
        return list(known)
    names = list(known) or classes_there(train)
    strangers = sorted(set(classes_there(train)) - set(names))
    if strangers or len(names) < 2:
        what = f"{listed(strangers)} are not in task.{who}" if strangers else "at least 2 are needed"
        raise ConfigError(f"data.train: {what}; the {who} are {listed(names)}")
    return names


def numbered(dataset: Dataset, names: Sequence[str]) -> dict[int, int]:
    """Of each label of a data set that is among the classes of training, its number there."""
    place = {name: number for number, name in enumerate(names)}
    return {label: place[name] for label, name in enumerate(dataset.classes) if name in place}


def grouped(labels: np.ndarray, data: Data, each: int, seed: int, *, key: str, more: str) -> ClassBatchSampler:
    """Batches of `each` samples of every class in them. `key` says where that is set, `more` what helps classes of too
    few samples."""
    size, classes = data.size(training=True), len(np.unique(labels))
    problems = [
        (data.balanced, "data.balanced: these batches have as many samples of each class; leave it out"),
        (data.on_error != "error", "data.on_error=skip: a batch lacks no sample of its classes; use error"),
        (size % each != 0, f"data.batch_size={size} must be a multiple of {key}={each}"),
        (size < 2 * each, f"data.batch_size={size}: the loss compares 2 classes at least, {2 * each} samples"),
    ]
    if found := [text for wrong, text in problems if wrong]:
        raise ConfigError(found)
    try:
        return ClassBatchSampler(labels, classes=min(size // each, classes), samples=each, seed=seed)
    except UsageError as error:
        raise ConfigError(f"{key}={each}: {error}; {more}") from error


# -- what is wrong with splits -----------------------------------------------------------------------------------------
def shared(datasets: Mapping[str, Any], called: Called, advice: str) -> list[Fault]:
    """A fault for each split other than train that has classes of train."""
    own = {split: classes_there(data) for split, data in datasets.items() if len(data)}
    found = []
    for split in own.keys() - {"train"} if "train" in own else ():
        if both := sorted(set(own[split]) & set(own["train"])):
            what = f"{len(both)} of {len(own[split])} {called.several} are in train, too: {listed(both, 5)}"
            found.append(Fault(None, None, what, advice, split=split))
    return sorted(found, key=lambda each: str(each.split))


def without_trials(split: str, data: Dataset, called: Called, more: str) -> list[Fault]:
    """A fault of a split of which no two samples can be compared; `more` says how to have more of a class."""
    if not len(data):
        return []
    counts = np.unique(labels_of(data, "task"), return_counts=True)[1]
    one, several, sample = called
    if len(counts) < 2:
        what = f"{len(counts)} {one}: {classes_there(data)[0]}"
        return [Fault(None, None, what, "at least 2 are needed", split=split)]
    if split != "train" and counts.max() < 2:
        what = f"no {one} has two {sample}s, so there are no trials of one {one} ({len(counts)} {several})"
        return [Fault(None, None, what, f"give some two at least{more}", split=split)]
    return []

"""Look recordings of speakers over before training: speakers in two splits, splits without trials; and recordings as
all are looked over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pdl.data import Dataset, Fault, labels_of
from pdl.data import check as check_data
from pdl.data.checks import Progress, open_all
from pdl.errors import ConfigError, listed
from pdl.train import Recipe
from pdl_speech.faults import inspect
from pdl_speech.speakers.loader import Voices, speakers_of


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the recordings of a recipe, of its splits, and of the trials they allow."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    opened = open_all(sources, [])
    try:
        found = [*shared(opened), *(each for split, data in opened.items() for each in _trials(split, data))]
    except ConfigError as error:
        return [Fault(None, None, str(error), "name the column or the folders of the speakers")]
    looked: dict[str, Callable[[], Dataset]] = {split: _alone(source) for split, source in sources.items()}
    return [*found, *check_data(looked, progress=progress, inspect=inspect)]


def _alone(source: Callable[[], Dataset]) -> Callable[[], Dataset]:
    """The data set without a class list, as splits have different speakers."""

    def made() -> Dataset:
        voices = Voices(source())
        voices.classes = ()
        return voices

    return made


def shared(datasets: Mapping[str, Any]) -> list[Fault]:
    """A fault for each split other than train that has speakers of train."""
    own = {split: speakers_of(data) for split, data in datasets.items() if len(data)}
    found = []
    for split in own.keys() - {"train"} if "train" in own else ():
        if both := sorted(set(own[split]) & set(own["train"])):
            what = f"{len(both)} of {len(own[split])} speakers are in train, too: {listed(both, 5)}"
            advice = "voices that were learned measure nothing: cut splits by speakers (pdl_speech.data.Speakers)"
            found.append(Fault(None, None, what, advice, split=split))
    return sorted(found, key=lambda each: str(each.split))


def _trials(split: str, data: Dataset) -> list[Fault]:
    """What is missing for trials, or for training."""
    if not len(data):
        return []
    labels = labels_of(data, "task")
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) < 2:
        advice = "at least 2 are needed"
        return [Fault(None, None, f"{len(counts)} speaker: {speakers_of(data)[0]}", advice, split=split)]
    if split != "train" and counts.max() < 2:
        advice = "give some two at least, or cut recordings up: pdl_speech.data.Speakers(pieces=2)"
        what = f"no speaker has two recordings, so there are no trials of one speaker ({len(counts)} speakers)"
        return [Fault(None, None, what, advice, split=split)]
    return []

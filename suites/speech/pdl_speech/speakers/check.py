"""Look recordings of speakers over before training: speakers in two splits, splits without trials; and recordings as
all are looked over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pdl.data import Dataset, Fault
from pdl.data import check as check_data
from pdl.data.checks import Progress, open_all
from pdl.errors import ConfigError
from pdl.train import Recipe
from pdl.train.open_set import Called, shared, without_trials
from pdl_speech.faults import inspect
from pdl_speech.speakers.loader import Voices

CALLED = Called("speaker", "speakers", "recording")


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the recordings of a recipe, of its splits, and of the trials they allow."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    opened = open_all(sources, [])
    try:
        found = [*known(opened), *(each for split, data in opened.items() for each in _trials(split, data))]
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


def known(datasets: Mapping[str, Any]) -> list[Fault]:
    """A fault for each split other than train that has speakers of train."""
    advice = "voices that were learned measure nothing: cut splits by speakers (pdl_speech.data.Speakers)"
    return shared(datasets, CALLED, advice)


def _trials(split: str, data: Dataset) -> list[Fault]:
    more = ", or cut recordings up: pdl_speech.data.Speakers(pieces=2)"
    return without_trials(split, data, CALLED, more)

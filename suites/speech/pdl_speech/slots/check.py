"""Look recordings of orders over before training: slots that differ, values that training does not hear, speakers of
several splits; and recordings as all are looked over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pdl.data import Dataset, Fault
from pdl.data.checks import Progress, check, open_all
from pdl.errors import PdlError, listed
from pdl.train import Recipe
from pdl_speech.faults import inspect
from pdl_speech.recognition.check import shared_speakers
from pdl_speech.slots.loader import targets_of

if TYPE_CHECKING:
    from pdl_speech.slots.task import SlotFilling


def check_recipe(recipe: Recipe, task: SlotFilling, progress: Progress | None = None) -> list[Fault]:
    """Faults of the recordings of a recipe, of their slots, and of its splits."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    faults = check(sources, progress=progress, inspect=inspect)
    found = {split: data for split, data in open_all(sources, []).items() if len(data)}
    try:
        task.prepare(recipe, found)
    except PdlError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    return [*faults, *_unheard(task, found), *shared_speakers(found)]


def _unheard(task: SlotFilling, found: Mapping[str, Dataset]) -> Iterator[Fault]:
    """A warning for each slot of a split with values that training has none of, and for slots that never vary."""
    if "train" not in found:
        return
    train = targets_of(found["train"])
    for k, (name, values) in enumerate(task.slots.items()):
        own = set(train[:, k].tolist())
        if len(own) < 2:
            what = f"all of its orders have one value of {name}: {values[min(own)]!r}"
            yield Fault(None, None, what, "leave the slot out (slots)", split="train", severity="warning")
        for split, data in found.items():
            told, counts = np.unique(targets_of(data)[:, k], return_counts=True)
            if new := [values[number] for number in told.tolist() if number not in own]:
                times = int(counts[~np.isin(told, list(own))].sum())
                what = f"{times} of {len(data)} orders have a value of {name} that train has none of: {listed(new, 5)}"
                advice = "none of them can be told: record some, or cut other splits"
                yield Fault(None, None, what, advice, split=split, severity="warning")

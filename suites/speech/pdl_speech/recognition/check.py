"""Look sounds with texts over before training: characters that cannot be written, texts that do not fit their sounds,
speakers of several splits; and recordings as all are looked over."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.data.checks import Progress, check, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import PdlError, listed
from pdl.train import Recipe
from pdl_speech.faults import inspect as inspect_recording
from pdl_speech.models.speech_net import SpeechNet, too_short
from pdl_speech.recognition.loader import speakers_of, texts_of

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition

SHOWN = 5  # faults of a kind and split
MOST = 1000  # faults of a kind that are gathered


def check_recipe(recipe: Recipe, task: SpeechRecognition, progress: Progress | None = None) -> list[Fault]:
    """Faults of the sounds of a recipe: of their files, their texts, and of both together."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    faults = check(sources, progress=progress, inspect=_inspect)
    found = {split: data for split, data in open_all(sources, []).items() if len(data)}
    try:
        task.skip = True  # what cannot be learned is listed, rather than ending it
        task.prepare(recipe, found)
        if isinstance(net := task.model(recipe), SpeechNet):
            task.net = net
    except PdlError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    for split, data in found.items():
        for kind in (_empty(task, data), _unknown(task, data), _long(task, data)):
            faults += shorten(list(islice(kind, MOST)), SHOWN, split)
    return faults + shared_speakers(found)


def _inspect(split: str, dataset: Dataset, index: int, sample: Any) -> Iterator[tuple[str, Fault]]:
    if "audio" in sample:
        yield from inspect_recording(split, dataset, index, sample)
    elif not np.isfinite(sample["features"]).all():
        where = dataset.path_of(index)
        yield "finite", Fault(where, index, "features that are no finite numbers", "compute them again", split=split)


def _empty(task: SpeechRecognition, data: Dataset) -> Iterator[Fault]:
    for index, text in enumerate(texts_of(data)):
        if not task.clean(text):
            what = f"nothing is said in its text {text!r:.40}" if text.strip() else "its text is empty"
            yield Fault(data.path_of(index), index, what, "write what is said, or leave the recording out")


def _unknown(task: SpeechRecognition, data: Dataset) -> Iterator[Fault]:
    """One fault for each character that is not known, the most frequent first."""
    counts, first = Counter[str](), dict[str, int]()
    for index, text in enumerate(texts_of(data)):
        for character in task.clean(text):
            if character not in task.numbers:
                counts[character] += 1
                first.setdefault(character, index)
    for character, count in counts.most_common():
        index = first[character]
        name = unicodedata.name(character, f"U+{ord(character):04X}").lower()
        what = f"the character {character!r} ({name}) is none of those to be written, {count} times; here first"
        yield Fault(
            data.path_of(index), index, what, "write out what is said, add it (task.characters), or task.skip=true"
        )


def _long(task: SpeechRecognition, data: Dataset) -> Iterator[Fault]:
    if task.net is None:
        return
    texts = texts_of(data)
    needed, steps = task.needed(texts), task.steps(data)
    for index in np.flatnonzero(needed > steps).tolist():
        what = f"{texts[index]!r:.40} needs {needed[index]} steps, its sound gives {steps[index]}"
        yield Fault(data.path_of(index), index, what, too_short(task.net)[1])


def shared_speakers(found: Mapping[str, Dataset]) -> list[Fault]:
    """A warning for each later split with speakers of an earlier one."""
    own = {split: set(speakers_of(data)) - {""} for split, data in found.items()}
    made = []
    for place, split in enumerate(own):
        for earlier in list(own)[:place]:
            if both := sorted(own[split] & own[earlier]):
                what = f"{len(both)} of {len(own[split])} speakers are in {earlier}, too: {listed(both, 5)}"
                advice = f"{split} measures known voices; cut splits by speakers to measure new ones"
                made.append(Fault(None, None, what, advice, split=split, severity="warning"))
    return made

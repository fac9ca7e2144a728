"""Look recordings with texts over before training: texts that cannot be said, texts that do not fit their recordings,
several speakers; and recordings as all are looked over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pdl.data import Dataset
from pdl.data.checks import Progress, check, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import PdlError, listed
from pdl.train import Recipe
from pdl_speech.faults import inspect
from pdl_speech.recognition.loader import lengths_of, speakers_of, texts_of

if TYPE_CHECKING:
    from pdl_speech.synthesis.task import SpeechSynthesis

SHOWN = 5  # faults of a kind and split
MOST = 1000  # faults of a kind that are gathered


def check_recipe(recipe: Recipe, task: SpeechSynthesis, progress: Progress | None = None) -> list[Fault]:
    """Faults of the recordings of a recipe: of their files, their texts, and of both together."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    faults = check(sources, progress=progress, inspect=inspect)
    found = {split: data for split, data in open_all(sources, []).items() if len(data)}
    try:
        task.skip = True  # what cannot be learned is listed, rather than ending it
        task.prepare(recipe, found)
        task.known = None  # nothing is measured
        task.model(recipe)
    except PdlError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    for split, data in found.items():
        for kind in (_unsaid(task, data), _long(task, data)):
            faults += shorten(list(islice(kind, MOST)), SHOWN, split)
        names = Counter(name for name in speakers_of(data) if name)
        if len(names) > 1:
            what = f"{len(names)} speakers: {listed([name for name, _ in names.most_common()], 5)}"
            advice = "a net has one voice, the mean of them; keep one speaker's recordings"
            faults.append(Fault(None, None, what, advice, split=split, severity="warning"))
    return faults


def _unsaid(task: SpeechSynthesis, data: Dataset) -> Iterator[Fault]:
    for index, text in enumerate(texts_of(data)):
        said = task.clean(text)
        unknown = sorted(set(said) - set(task.characters))
        if not said:
            what = f"its text {text!r:.40} has nothing to be said"
            yield Fault(data.path_of(index), index, what, "write what is said, or leave the recording out")
        elif unknown:
            what = f"{text!r:.40} has characters that are not known: {listed(unknown)}"
            advice = "write out what is said, add them (task.characters), or task.skip=true"
            yield Fault(data.path_of(index), index, what, advice)


def _long(task: SpeechSynthesis, data: Dataset) -> Iterator[Fault]:
    texts, frames = texts_of(data), task.front.frames(lengths_of(data))
    needed = np.array([len(task.encode(text)) for text in texts], np.int64)
    for index in np.flatnonzero(needed > frames).tolist():
        what = f"{texts[index]!r:.40} has {needed[index]} characters, its recording {frames[index]} frames"
        yield Fault(data.path_of(index), index, what, "correct the text, or take a smaller model.features.hop_length")

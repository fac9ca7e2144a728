"""What the report says of a net that hears: words by what became of them, speakers, and the worst utterances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.report import Section, figure_grid, table
from pdl.train import Evaluation, Reporter
from pdl.train.texts import Read, edit_distance
from pdl_speech.data.recordings import rate_of
from pdl_speech.recognition.loader import sound_of, speakers_of
from pdl_speech.recognition.metrics import confused, edits, marked, summed
from pdl_speech.recognition.preview import drawn

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition

CONFUSED = 40  # pairs of words
BOUNDS = (1, 3, 6, 10, 20)  # words of utterances that are counted together, up to which


class RecognitionReporter(Reporter):
    """Utterances by length, speakers, words that are confused, the worst utterances with their spectrograms."""

    task: SpeechRecognition

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        pairs: list[Read] = evaluation.details["heard"]
        split = evaluation.split
        made = [Section(f"Utterances by words ({split})", table(_by_words(pairs), head=("words", *HEAD)))]
        if isinstance(dataset, Dataset) and len(people := _by_speaker(pairs, speakers_of(dataset))) > 1:
            made.append(Section(f"Speakers ({split})", table(people, head=("speaker", *HEAD), fold=20)))
        rows = [(said or "nothing", heard or "nothing", n) for said, heard, n in confused(pairs)[:CONFUSED]]
        found = table(rows, head=("said", "heard", "times"), fold=20) if rows else "<p>none</p>"
        made.append(Section(f"Most confused words ({split})", found))
        wrong = sorted((each for each in pairs if each.found != each.text), key=_badness)[: self.task.mistakes]
        if wrong and isinstance(dataset, Dataset):
            worst = figure_grid(_figure(each, dataset) for each in wrong)
            made.append(Section("Worst utterances", f"<p>[said -> heard]</p>{worst}"))
        return made


HEAD = ("utterances", "words", "WER", "substitutions", "deletions", "insertions", "heard exactly")


def _row(pairs: Sequence[Read]) -> tuple[Any, ...]:
    """The columns of `HEAD`."""
    sums = summed(pairs)
    exact = float(np.mean([each.found == each.text for each in pairs]))
    return (len(pairs), sums.words, sums.rate, sums.substitutions, sums.deletions, sums.insertions, exact)


def _by_words(pairs: Sequence[Read]) -> list[tuple[Any, ...]]:
    lengths = np.searchsorted(BOUNDS, [len(each.text.split()) for each in pairs])
    made = []
    for k in range(len(BOUNDS) + 1):
        own = [each for each, length in zip(pairs, lengths, strict=True) if length == k]
        low = 0 if k == 0 else BOUNDS[k - 1] + 1
        name = f"{low} to {BOUNDS[k]}" if k < len(BOUNDS) else f"{low} and more"
        made += [(name, *_row(own))] if own else []
    return made


def _by_speaker(pairs: Sequence[Read], speakers: Sequence[str]) -> list[tuple[Any, ...]]:
    """A row for each known speaker, the worst first."""
    own: dict[str, list[Read]] = {}
    for each in pairs:
        if speakers[each.line]:
            own.setdefault(speakers[each.line], []).append(each)
    return sorted(((name, *_row(group)) for name, group in own.items()), key=lambda row: -row[3])


def _badness(read: Read) -> tuple[float, int, int]:
    row = edits(read.text, read.found)
    return -sum(row[:3]) / max(row.words, 1), -edit_distance(read.found, read.text), read.line


def _figure(read: Read, dataset: Any) -> tuple[np.ndarray, str]:
    sound = sound_of(dataset[read.line])[1]
    return drawn(sound, rate_of(dataset)), f"{marked(read)}, {sample_name(dataset, read.line)}"

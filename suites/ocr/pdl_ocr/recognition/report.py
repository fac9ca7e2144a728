"""What the report says of a recogniser: texts by length, characters, and the worst lines with their images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.report import Section, figure_grid, table
from pdl.train import Evaluation, Reporter
from pdl.train.texts import Read, edit_distance
from pdl_ocr.recognition.metrics import by_character, by_length, named

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition

CHARACTERS = 60  # with the most mistakes
CONFUSED = 4  # others that a character is taken for
WIDE = 320  # pixels of a line that is drawn


class RecognitionReporter(Reporter):
    """Texts by length, characters and what they are taken for, the worst lines."""

    task: TextRecognition

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        pairs: list[Read] = evaluation.details["read"]
        rows = [(length, count, right, near) for length, count, right, near in by_length(pairs)]
        lengths = table(rows, head=("characters", "texts", "read exactly", "similarity"))
        made = [
            Section(f"Texts by length ({evaluation.split})", lengths),
            Section(f"Characters with the most mistakes ({evaluation.split})", _characters(pairs)),
        ]
        wrong = sorted((each for each in pairs if each.found != each.text), key=_badness)[: self.task.mistakes]
        if wrong and isinstance(dataset, Dataset):
            made.append(Section("Worst lines", figure_grid(_figure(each, dataset) for each in wrong)))
        return made


def _badness(read: Read) -> tuple[float, int]:
    longer = max(len(read.text), len(read.found), 1)
    return -edit_distance(read.found, read.text) / longer, read.line


def _characters(pairs: list[Read]) -> str:
    rows = []
    for each in by_character(pairs)[:CHARACTERS]:
        if each.right < each.times:
            others = ", ".join(f"{named(other)} ({n})" for other, n in each.taken_for[:CONFUSED])
            rows.append((named(each.character), each.times, each.right / each.times, others))
    return table(rows, head=("character", "times", "read right", "taken for")) if rows else "<p>none</p>"


def _figure(read: Read, dataset: Any) -> tuple[np.ndarray, str]:
    image = np.asarray(dataset[read.line]["image"])
    stride = max(1, -(-image.shape[1] // WIDE))
    said = f"{read.text!r} read as {read.found!r}, {sample_name(dataset, read.line)}"
    return np.ascontiguousarray(image[::stride, ::stride]), said

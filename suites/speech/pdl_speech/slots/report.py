"""What the report says of a net that tells slots: each slot, values that are confused, the worst orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.report import Section, figure_grid, table
from pdl.train import Evaluation, Reporter
from pdl_speech.data.recordings import rate_of
from pdl_speech.slots.metrics import Heard, confused, worded
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.slots.task import SlotFilling

HEAD = ("slot", "values", "said", "accuracy", "precision", "recall")
CONFUSED = 40  # pairs of values


class SlotReporter(Reporter):
    """Slots, the values that are most often taken for others, spectrograms of the orders with most mistakes."""

    task: SlotFilling

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        heard, slots, split = evaluation.details["orders"], self.task.slots, evaluation.split
        rows = [
            (name, len(values) - 1, *_rates(heard.found[:, k], heard.said[:, k]))
            for k, (name, values) in enumerate(slots.items())
        ]
        made = [Section(f"Slots ({split})", table(rows, head=HEAD))]
        pairs = [(name, said or "-", found or "-", n) for name, said, found, n in confused(heard, slots)[:CONFUSED]]
        shown = table(pairs, head=("slot", "said", "found", "times"), fold=20) if pairs else "<p>none</p>"
        made.append(Section(f"Most confused values ({split})", shown))
        wrong = (heard.found != heard.said).sum(axis=1)
        worst = [k for k in np.lexsort((heard.numbers, -wrong))[: self.task.mistakes].tolist() if wrong[k]]
        if worst and isinstance(dataset, Dataset):
            grid = figure_grid(self._figure(heard, k, dataset) for k in worst)
            made.append(Section("Worst orders", f"<p>[said -> found]</p>{grid}"))
        return made

    def _figure(self, heard: Heard, row: int, dataset: Dataset) -> tuple[np.ndarray, str]:
        index = int(heard.numbers[row])
        caption = f"{worded(heard.said[row], self.task.slots, heard.found[row])}, {sample_name(dataset, index)}"
        return picture(dataset[index]["audio"], rate_of(dataset)), caption


def _rates(found: np.ndarray, said: np.ndarray) -> tuple[int, float, float, float]:
    """How often a slot is said, accuracy, and precision and recall of what is said."""
    hits, given, told = int(((found == said) & (said > 0)).sum()), int((found > 0).sum()), int((said > 0).sum())
    precision, recall = (hits / count if count else float("nan") for count in (given, told))
    return told, float((found == said).mean()), precision, recall

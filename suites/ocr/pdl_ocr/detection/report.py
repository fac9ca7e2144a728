"""What the report says of a text detector: what other scores would give, lines by height, and the worst pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.report import Section, figure_grid, table
from pdl.train import Evaluation, Reporter
from pdl_ocr.data.polygons import short_side
from pdl_ocr.detection.drawing import GRAY, GREEN, ORANGE, RED, page
from pdl_ocr.detection.metrics import Page

if TYPE_CHECKING:
    from pdl_ocr.detection.task import TextDetection

STEPS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)  # above task.score
PARTS = 5  # of the lines by height


class DetectionReporter(Reporter):
    """Scores, heights, the worst pages."""

    task: TextDetection

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        pages: list[Page] = evaluation.details["pages"]
        made = [
            Section(f"Least scores ({evaluation.split})", _scores(pages, self.task.score)),
            Section(f"Lines by height ({evaluation.split})", _heights(pages)),
        ]
        worst = sorted((each for each in pages if _mistakes(each)), key=lambda each: (-_mistakes(each), each.index))
        worst = worst[: self.task.mistakes]
        if worst and isinstance(dataset, Dataset):
            said = "<p>Found lines are green, missed ones red, what is no line orange, what does not count gray.</p>"
            made.append(Section("Worst pages", said + figure_grid(_figure(each, dataset) for each in worst)))
        return made


def _mistakes(page: Page) -> int:
    missed = int((~page.ignored).sum()) - len(page.pairs)
    return missed + int((~page.left_out).sum()) - len(page.pairs)


def _scores(pages: list[Page], least: float) -> str:
    """Precision, recall and hmean, if lines with lower scores were left out (their pairs with them)."""
    there = sum(int((~each.ignored).sum()) for each in pages)
    rows = []
    for score in (round(least + step, 2) for step in STEPS if least + step < 1):
        found = sum(s >= score and not out for each in pages for s, out in zip(each.scores, each.left_out, strict=True))
        right = sum(each.scores[i] >= score for each in pages for i, _ in each.pairs)
        rows.append((score, right / max(found, 1), right / max(there, 1), 2 * right / max(found + there, 1)))
    return table(rows, head=("task.score", "precision", "recall", "hmean"))


def _heights(pages: list[Page]) -> str:
    """The recall of lines of a fifth each, by the shorter side."""
    found = []
    for each in pages:
        paired = {j for _, j in each.pairs}
        found += [(short_side(polygon), j in paired) for j, polygon in enumerate(each.there) if not each.ignored[j]]
    found.sort()
    rows = []
    for part in np.array_split(np.arange(len(found)), min(PARTS, max(1, len(found)))):
        if len(part):
            own = [found[i] for i in part.tolist()]
            rows.append((f"{own[0][0]:.0f} to {own[-1][0]:.0f}", len(own), float(np.mean([hit for _, hit in own]))))
    return table(rows, head=("height in pixels", "lines", "found"))


def _figure(found: Page, dataset: Any) -> tuple[np.ndarray, str]:
    ours, theirs = {i for i, _ in found.pairs}, {j for _, j in found.pairs}
    right = [found.found[i] for i in sorted(ours)]
    missed = [p for j, p in enumerate(found.there) if j not in theirs and not found.ignored[j]]
    wrong = [p for i, p in enumerate(found.found) if i not in ours and not found.left_out[i]]
    rest = [p for j, p in enumerate(found.there) if found.ignored[j]]
    image = np.asarray(dataset[found.index]["image"])
    drawn = page(image, [(rest, GRAY), (right, GREEN), (missed, RED), (wrong, ORANGE)])
    said = f"{sample_name(dataset, found.index)}: {len(right)} found, {len(missed)} missed, {len(wrong)} are none"
    return drawn, said

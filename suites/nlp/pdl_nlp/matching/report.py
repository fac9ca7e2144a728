"""What the report says of a model of pairs: classes, confusions, curves, lengths, and the worst mistakes with both
texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.report import Section, escape
from pdl.train import Evaluation, Reporter
from pdl.train.metrics import Mistake
from pdl.train.sections import of_classes
from pdl_nlp.classification.report import LETTERS, lengths
from pdl_nlp.matching.loader import Pairs
from pdl_nlp.matching.metrics import WrongQuery

if TYPE_CHECKING:
    from pdl_nlp.matching.task import Matching


class MatchingReporter(Reporter):
    """Classes, confusions, curves, calibration; how long texts are; the worst mistakes."""

    task: Matching

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        made = [] if task.ranked else of_classes(evaluation, task.classes)
        if not isinstance(dataset, Pairs):
            return made
        made.append(Section(f"Tokens of a pair ({evaluation.split})", lengths(dataset.lengths, dataset.lengths)))
        if wrong := evaluation.details["mistakes"]:
            how = "The first relevant candidate of a query, and what stands above all." if task.ranked else ""
            shown = "".join(self._mistake(each, dataset.dataset) for each in wrong)
            made.append(Section("Worst mistakes", f"<p>{how}</p>{shown}"))
        return made

    def _mistake(self, mistake: Mistake | WrongQuery, data: Any) -> str:
        if isinstance(mistake, WrongQuery):
            relevant, first = data[mistake.relevant], data[mistake.first]
            said = f"rank {mistake.rank}: {_shown(relevant['pair'])}"
            return f"<p><b>{_shown(relevant['text'])}</b><br>{said}<br>first: {_shown(first['pair'])}</p>"
        classes, sample = self.task.classes, data[mistake.index]
        said = (
            f"{classes[mistake.label]} taken for {classes[mistake.predicted]} ({mistake.p:.0%}), pair {mistake.index}"
        )
        return f"<p><b>{escape(said)}</b><br>{_shown(sample['text'])}<br>{_shown(sample['pair'])}</p>"


def _shown(text: str) -> str:
    return escape(text[:LETTERS] + (" ..." if len(text) > LETTERS else ""))

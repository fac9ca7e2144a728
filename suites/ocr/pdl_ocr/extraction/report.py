"""What the report says of a net that finds fields: each field, what other least scores would give, and mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data import Dataset, sample_name
from pdl.report import Section, table
from pdl.train import Evaluation, Reporter
from pdl_ocr.extraction.metrics import FieldAnswer, f1

if TYPE_CHECKING:
    from pdl_ocr.extraction.task import InformationExtraction

SCORES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


class ExtractionReporter(Reporter):
    """Fields, least scores, the most certain mistakes."""

    task: InformationExtraction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        answers: list[FieldAnswer] = evaluation.details["answers"]
        made = [
            Section(f"Fields ({evaluation.split})", _fields(answers, self.task.fields)),
            Section(f"Least scores ({evaluation.split})", _scores(answers)),
        ]
        wrong = sorted((each for each in answers if not each.right), key=lambda each: (-each.score, each.page))
        if wrong and isinstance(dataset, Dataset):
            rows = [
                (sample_name(dataset, each.page), each.name, each.wanted or "-", each.found or "-", each.score)
                for each in wrong[: self.task.mistakes]
            ]
            shown = table(rows, head=("page", "field", "label", "found", "score"))
            made.append(Section("Mistakes, the most certain ones first", shown))
        return made


def _counts(answers: list[FieldAnswer]) -> tuple[int, int, int]:
    """Values that are there, that were found, and that are right."""
    right = sum(bool(each.found) and each.right for each in answers)
    return sum(bool(each.wanted) for each in answers), sum(bool(each.found) for each in answers), right


def _fields(answers: list[FieldAnswer], names: list[str]) -> str:
    rows = []
    for name in names:
        own = [each for each in answers if each.name == name]
        there, found, right = _counts(own)
        rows.append((name, there, right / max(found, 1), right / max(there, 1), f1(own), f1(own, exact=True)))
    return table(rows, head=("field", "pages with it", "precision", "recall", "F1", "F1, exact"))


def _scores(answers: list[FieldAnswer]) -> str:
    """Precision and recall, if values with lower scores were left out (`pdl predict --score`)."""
    rows = []
    for score in SCORES:
        kept = [each if each.score >= score else each._replace(found="") for each in answers]
        there, found, right = _counts(kept)
        rows.append((score, found, right / max(found, 1), right / max(there, 1), f1(kept)))
    return table(rows, head=("least score", "found", "precision", "recall", "F1"))

"""How well fields were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pdl.train.metrics import Metric
from pdl_ocr.steps.fields import squashed


class FieldAnswer(NamedTuple):
    """What a page says of a field, and what was found ("": not there)."""

    page: int
    name: str
    wanted: str
    found: str
    score: float

    @property
    def right(self) -> bool:
        """Whether the letters and digits are the same, or neither is there."""
        return bool(self.wanted) == bool(self.found) and squashed(self.wanted) == squashed(self.found)


def f1(answers: Sequence[FieldAnswer], *, exact: bool = False) -> float:
    """2 right / (found + wanted), of fields that are there; `exact`: every character counts."""
    there = sum(bool(each.wanted) for each in answers) + sum(bool(each.found) for each in answers)
    right = sum(bool(each.found) and (each.wanted == each.found if exact else each.right) for each in answers)
    return 2 * right / there if there else 1.0


class Answers(Metric):
    """All answers."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.answers = list(names), list[FieldAnswer]()

    def update(
        self, found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, str]], index: Sequence[int]
    ) -> None:
        for number, ours, theirs in zip(index, found, wanted, strict=True):
            for name in self.names:
                value = ours.get(name, {"text": "", "score": 1.0})
                self.answers.append(
                    FieldAnswer(int(number), name, theirs.get(name, ""), value["text"], float(value["score"]))
                )

    def compute(self) -> Any:
        return self.answers


class F1(Answers):
    """The F1 of all fields together, or of one; by letters and digits, or exact."""

    def __init__(self, names: Sequence[str], *, exact: bool = False) -> None:
        super().__init__(names)
        self.exact = exact

    def compute(self) -> float:
        return f1(self.answers, exact=self.exact)


def extraction_metrics(names: Sequence[str]) -> dict[str, Metric]:
    """`f1` of all fields together, by letters and digits; `exact`, where every character counts; `f1/NAME` of each; and
    the answers."""
    each = {f"f1/{name}": F1([name]) for name in names}
    return {"f1": F1(names), "exact": F1(names, exact=True), **each, "answers": Answers(names)}

"""The answer of a net that hears and of a decoder that judges texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.runtime.ctc import NOTHING
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import number
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.labels import Ctc
from pdl.runtime.steps.outputs import Form, PostStep

SHARE = Flag("--attention", "W", "Share of the attention decoder in the score of a text, from 0 to 1.")


class Rescored(PostStep):
    """The answer of `step` with the text of the largest (1 - attention) score + attention ln p, of (probabilities
    [T, C], texts as `Found`, ln p [B]). Its score is p of CTC to the power of 1 / the length, as with `--beam`."""

    name = "rescored"
    any_script = True

    def __init__(self, step: Ctc, attention: float) -> None:
        self.step, self.attention = step, attention

    def __call__(self, value: Any, sample: Sample) -> Any:
        probabilities, texts, log_p = value
        scores = [(1 - self.attention) * each.score + self.attention * p for each, p in zip(texts, log_p, strict=True)]
        best = texts[int(np.argmax(scores))] if scores else NOTHING
        score = float(np.exp(best.log_p / max(1, len(best.classes))))
        return self.step.answer(probabilities, best.classes, best.steps, score)

    @property
    def flags(self) -> Sequence[Flag]:
        return (SHARE,)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        return Rescored(self.step, share(values[SHARE.name][-1])) if values.get(SHARE.name) else self

    @property
    def in_time(self) -> bool:
        return self.step.in_time

    def joined_in_time(self, answers: Sequence[Any], starts: Sequence[float]) -> Any:
        return self.step.joined_in_time(answers, starts)

    @property
    def forms(self) -> Sequence[Form]:
        return self.step.forms

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return self.step.rows(answer)

    def caption(self, answer: Any) -> str:
        return self.step.caption(answer)


def share(given: str) -> float:
    """The value of `--attention`; UsageError for what is no number from 0 to 1."""
    try:
        return number(SHARE.name, float(given), 0, 1)
    except ValueError:
        raise UsageError(f"{SHARE.name} {given:.30}: expected a number from 0 to 1") from None

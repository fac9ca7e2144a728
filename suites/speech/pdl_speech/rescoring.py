"""`Rescorer`: the most probable texts of a net that hears, judged by a decoder with attention to what was heard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Annotated, Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError, listed
from pdl.hints import Range
from pdl.runtime.ctc import BEAM, Found
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import pipeline_of
from pdl.runtime.sample import Sample
from pdl.runtime.session import Session
from pdl.runtime.steps.arguments import count, number
from pdl.runtime.steps.labels import Ctc
from pdl_speech.steps.rescored import Rescored

ENCODED, TEXTS = "encoded", "texts"  # what the parts hand over
ATTENTION, MOST = 0.5, 1000


class Rescorer:
    """What is said, of a net with CTC and an attention decoder (Zhang et al., arXiv 2012.05481, "attention rescoring"):
    of the n most probable texts of prefix beam search, whose scores a language model may have a part in, that with the
    largest (Watanabe et al., IEEE JSTSP 11(8), 2017)

        (1 - attention) score(text) + attention ln p(text | heard)

    The decoder reads all n at once, in one pass. A `pdl.runtime.predict.Predictor`.

    listener   gives logits, with the step `ctc` behind them, and what it heard as "encoded"
    judge      logits of what follows each character of texts [N, B, L], given "encoded"
    attention  the share of the decoder
    texts      how many are judged
    """

    def __init__(
        self,
        listener: Session,
        judge: Session,
        *,
        attention: Annotated[float, Range(0, 1)] = ATTENTION,
        texts: Annotated[int, Range(1, MOST)] = 10,
    ) -> None:
        self.listener, self.judge, inner = listener, judge, pipeline_of(listener)
        self.texts, step = count("texts", texts, most=MOST), inner.answering(Ctc)
        if step is None or step.mark != 0:
            raise UsageError("Rescorer: listener does not answer as it should: ctc, with blank 0, behind its logits")
        self.output = next(name for name, steps in inner.post.items() if step in steps)
        self._require_fit()
        self.before = [each for each in inner.post[self.output] if each is not step]
        self.step = copy(step)
        self.step.how = {"width": max(BEAM, self.texts), **(step.how or {})}
        (name,) = inner.inputs
        answer = {"text": [Rescored(self.step, number("attention", attention, 0, 1))]}
        self.pipeline = Pipeline({name: [inner.inputs[name], *inner.pre[name]]}, answer)  # type: ignore[arg-type]

    def _require_fit(self) -> None:
        """UsageError where the judge does not read what the listener gives, or writes other classes."""
        gives = {port.name: port.shape or () for port in self.listener.outputs}
        reads, writes = {port.name for port in self.judge.inputs}, [port.shape or () for port in self.judge.outputs]
        if ENCODED not in gives or reads != {ENCODED, TEXTS} or [gives[self.output][-1:]] != [x[-1:] for x in writes]:
            raise UsageError(
                f"Rescorer: judge, which reads {listed(sorted(reads))}, does not fit a listener that gives "
                f"{listed(list(gives))}: expected {ENCODED} given by one and read by the other, with {TEXTS}, and "
                "logits of the same classes"
            )

    def __call__(self, item: Any) -> dict[str, Any]:
        """What is said in one recording."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers for several recordings, in order."""
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """Of each sound of a batch the n best texts, as `Rescored` takes them."""
        made = self.listener.run(dict(inputs))
        return {"text": [self._judged(*each) for each in zip(made[self.output], made[ENCODED], strict=True)]}

    def _judged(self, value: Any, heard: Array) -> tuple[Array, list[Found], Array]:
        """Probabilities [T, C], texts, and ln p of each by the decoder."""
        for each in self.before:
            value = each(value, Sample())
        found = list(self.step.search(value.shape[1]).best(value, self.texts))
        return value, found, self.log_p(heard, [each.classes for each in found])

    def log_p(self, heard: Array, texts: Sequence[Sequence[int]]) -> Array:
        """float64 [B]: ln p of texts, their ends among them, given what was heard [S, C]."""
        if not texts:
            return np.zeros(0)
        longest = 1 + max(map(len, texts))
        rows = np.zeros((len(texts), longest + 1), np.int64)
        for row, classes in zip(rows, texts, strict=True):
            row[1 : 1 + len(classes)] = classes
        (logits,) = self.judge.run({ENCODED: heard[None], TEXTS: rows[None, :, :-1]}).values()
        scores = logits[0].astype(np.float64)
        scores -= scores.max(axis=-1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        each = np.take_along_axis(scores, rows[:, 1:, None], axis=-1)[..., 0]
        within = np.arange(longest) <= np.array([len(classes) for classes in texts])[:, None]
        return np.where(within, each, 0.0).sum(axis=1)  # type: ignore[no-any-return]

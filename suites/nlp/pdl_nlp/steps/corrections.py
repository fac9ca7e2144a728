"""The answer step of spelling correction: characters that are to be exchanged become a text and a list of changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.runtime.steps import Resources, Sample
from pdl.runtime.steps.arguments import number, text
from pdl.runtime.steps.outputs import PostStep


class Corrections(PostStep):
    """{"corrected": the text, "changes": [{"from", "to", "start", "end", "score"}, ...]} of the numbers int [T] that
    characters should have and p [T] of each change; those from `threshold` on are made. Start and end are places in the
    text, in code points; all else stays as it is, also behind what the net reads.

    p           the name of the output with the probabilities
    threshold   p from which a change is made
    vocabulary  of the numbers, under which the step `tokens` keeps the text, too
    """

    name = "corrections"
    any_script = True

    def __init__(self, p: str, threshold: float, vocabulary: str = "tokens") -> None:
        self.p, self.vocabulary = text("p", p), text("vocabulary", vocabulary)
        self.threshold, self.beside = number("threshold", threshold), (self.p,)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        self.names = resources.vocabularies[self.vocabulary].names

    def __call__(self, value: Any, sample: Sample) -> Any:
        made = sample.memo.get(self.vocabulary)
        if made is None or value.ndim != 1:
            raise UsageError(f"corrections: {value.shape} must be [T], behind the step tokens ({self.vocabulary!r})")
        whole, ids, offsets, p = made.texts[0], made.encoding.ids, made.encoding.offsets, sample.outputs[self.p]
        changes = []
        for at in np.flatnonzero((value[: len(ids)] != ids) & (p[: len(ids)] >= self.threshold)).tolist():
            (begin, end), to = offsets[at].tolist(), self.names[int(value[at])]
            if len(to) == end - begin == 1:  # no special token
                changes.append({"from": whole[begin:end], "to": to, "start": begin, "end": end, "score": float(p[at])})
        letters = list(whole)
        for each in changes:
            letters[each["start"]] = each["to"]
        return {"corrected": "".join(letters), "changes": changes}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """One row: the corrected text, and the changes in words."""
        said = "; ".join(f"{each['start']}: {each['from']} -> {each['to']}" for each in answer["changes"])
        return [{"corrected": answer["corrected"], "changes": said}]

    def caption(self, answer: Any) -> str:
        return str(answer["corrected"])

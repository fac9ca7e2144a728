"""The values of slots, of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check, texts
from pdl.runtime.steps.outputs import PostStep


class Slots(PostStep):
    """{"slots": {"size": "small", ...}, "scores": {"size": 0.98, ...}} of logits [K], those of one slot behind those of
    another: the likeliest value of each slot that is said, and of each slot how likely its answer is, also where that
    is that it is not said.

    names   of the slots
    values  of each, "" in front: it is not said
    """

    name = "slots"

    def __init__(self, names: Sequence[str], values: Sequence[Sequence[str]]) -> None:
        self.names = texts("names", names)
        check(
            0 < len(set(self.names)) == len(self.names), f"names={self.names!r:.60} must be one name or more, each once"
        )
        good = isinstance(values, list | tuple) and len(values) == len(self.names)
        check(good, f"values={values!r:.60} must be a list for each of {len(self.names)} names")
        self.values = [texts("values", each) for each in values]
        for name, each in zip(self.names, self.values, strict=True):
            check(each[:1] == [""], f"values of {name}: {each!r:.60} must begin with ''")

    def __call__(self, value: Any, sample: Sample) -> Any:
        logits, sizes = np.asarray(value, np.float64), [len(each) for each in self.values]
        if logits.shape != (sum(sizes),):
            raise UsageError(f"slots: logits {logits.shape} are not those of {sum(sizes)} values of slots")
        slots, scores = dict[str, str](), dict[str, float]()
        for name, values, own in zip(self.names, self.values, np.split(logits, np.cumsum(sizes)[:-1]), strict=True):
            best = int(own.argmax())
            scores[name] = float(1 / np.exp(own - own[best]).sum())
            if best:
                slots[name] = values[best]
        return {"slots": slots, "scores": scores}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """A row for each slot that is said."""
        scores = answer["scores"]
        return [{"slot": name, "value": value, "score": scores[name]} for name, value in answer["slots"].items()]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The same values, but where two are as likely: then neither is above one half."""
        return all(
            abs(ours["scores"][name] - theirs["scores"][name]) <= tolerance
            and (ours["slots"].get(name) == theirs["slots"].get(name) or ours["scores"][name] <= 0.5 + tolerance)
            for name in self.names
        )

    def caption(self, answer: Any) -> str:
        return ", ".join(f"{name}: {value}" for name, value in answer["slots"].items()) or "nothing"

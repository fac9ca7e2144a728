"""Steps of encoders that find masked tokens: where the masks of a text are, and what stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.ranking import top_k
from pdl.runtime.steps import Resources, Sample
from pdl.runtime.steps.arguments import check, count, text
from pdl.runtime.steps.outputs import Ranking, ranked_alike
from pdl_nlp.steps.tokens import TokensInput


class MasksInput(TokensInput):
    """A text -> the positions int64 [M] of its masks among the tokens of the step `tokens` with the same arguments; M
    is the next power of 2, the rest is 0. A text without masks is a DataError."""

    name = "masks"

    def bind(self, resources: Resources) -> None:
        check(self.masks, "masks: it goes with masks=True, of the step tokens, too")
        super().bind(resources)

    def parse(self, item: Any, sample: Sample) -> Array:
        super().parse(item, sample)
        made = sample.memo[self.vocabulary]
        at = np.flatnonzero(made.encoding.ids == self.tokenizer.mask)
        if not len(at):
            sign = self.tokenizer.special["mask"]
            if sign in made.texts[0]:
                raise DataError(f"{sign} stands behind the first {self.max_length} tokens, which are all that is read")
            raise DataError(f"{made.texts[0]!r:.60} has no {sign}; write {sign} where tokens are to be found")
        found = np.zeros(1 << (len(at) - 1).bit_length(), np.int64)
        found[: len(at)] = at
        return found

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(0, sizes.get("t", 1), shape)


class Fill(Ranking):
    """{"masks": [{"start", "end", "found": [{"token", "score"}, ...]}, ...]} of log p [M, vocabulary] at the masks of a
    text: the k most likely tokens for each, the score is p; start and end are places in the text, in code points.

    k           tokens for each mask
    vocabulary  under which the step `tokens` keeps the text
    """

    name = "fill"
    any_script = True

    def __init__(self, k: int = 5, vocabulary: str = "tokens") -> None:
        self.k, self.vocabulary = count("k", k), text("vocabulary", vocabulary)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        self.names = resources.vocabularies[self.vocabulary].names

    def __call__(self, value: Any, sample: Sample) -> Any:
        made = sample.memo.get(self.vocabulary)
        if made is None or value.ndim != 2 or value.shape[1] > len(self.names) + 64:
            raise UsageError(f"fill: scores {value.shape} must be [M, {len(self.names)}], behind the step tokens")
        return {"masks": [self._of(*each) for each in zip(self._places(made), value, strict=False)]}

    def _places(self, made: Any) -> list[list[int]]:
        found: list[list[int]] = made.encoding.offsets[np.flatnonzero(made.encoding.ids == made.mask)].tolist()
        return found

    def _of(self, place: Sequence[int], scores: Array) -> dict[str, Any]:
        best, at = top_k(scores[None, : len(self.names)], min(self.k, len(self.names)), first=0)
        found = zip(at[0].tolist(), np.exp(best[0]).tolist(), strict=True)
        return {
            "start": place[0],
            "end": place[1],
            "found": [{"token": self.names[number], "score": score} for number, score in found],
        }

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """A row for each token of each mask."""
        return [{"start": mask["start"], **each} for mask in answer["masks"] for each in mask["found"]]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        both = list(zip(ours["masks"], theirs["masks"], strict=False))
        return len(ours["masks"]) == len(theirs["masks"]) and all(
            a["start"] == b["start"] and ranked_alike(a["found"], b["found"], "token", tolerance) for a, b in both
        )

    def caption(self, answer: Any) -> str:
        return "  ".join("/".join(each["token"] for each in mask["found"]) for mask in answer["masks"])

"""The answer steps of taggers: tags of tokens become pieces of the text, or marks put into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.steps import Sample
from pdl.runtime.steps.arguments import check, flag, one_of, text
from pdl.runtime.steps.outputs import Labelled
from pdl_nlp.schemes import Tags

DIGITS = 6  # of scores
SCHEMES = ("none", "IO", "BIO", "BIOES", "BMES")


class Spans(Labelled):
    """{"spans": [{"text", "tag", "start", "end"}, ...]} of tags int [T]: the spans that they mark, or, without a
    scheme, every token. Start and end are positions in the text, in code points; with `scores` each has a "score".

    scheme      "none", "IO", "BIO", "BIOES" or "BMES"
    vocabulary  under which the step `tokens` keeps the text
    mixed       a span goes on where an I of another kind follows; its tag is the first one's, as LAC has it
    scores      the output [T] with the probability of each tag; a span's score is the product of those of its tags
    """

    name = "spans"
    any_script = True

    def __init__(self, scheme: str, vocabulary: str = "tokens", mixed: bool = False, scores: str | None = None) -> None:
        self.scheme, self.vocabulary = one_of("scheme", scheme, SCHEMES), text("vocabulary", vocabulary)
        self.mixed, self.scores = flag("mixed", mixed), None if scores is None else text("scores", scores)

    @cached_property
    def tags(self) -> Tags:
        """The bundle's labels as tags of the scheme."""
        return Tags(self.labels, self.scheme)  # type: ignore[arg-type]

    def __call__(self, value: Any, sample: Sample) -> Any:
        whole, offsets = _read(self, value, sample)
        found = value[: len(offsets)]
        if self.scheme == "none":
            begins, names = np.arange(len(found)), [self.label(tag) for tag in found.tolist()]
            ends = begins + 1
        else:
            begins, ends, kinds = self.tags.spans(found, mixed=self.mixed).T
            names = [self.tags.kinds[kind] for kind in kinds.tolist()]
        positions = zip(offsets[begins, 0].tolist(), offsets[ends - 1, 1].tolist(), names, strict=True)
        spans: list[dict[str, Any]] = [
            {"text": whole[a:b], "tag": name, "start": a, "end": b} for a, b, name in positions
        ]
        if self.scores is not None:
            each = sample.outputs.get(self.scores)
            if each is None or each.shape != value.shape:
                raise UsageError(f"spans: scores={self.scores!r} is no output {value.shape} of the model")
            for span, begin, end in zip(spans, begins.tolist(), ends.tolist(), strict=True):
                span["score"] = round(float(each[begin:end].prod()), DIGITS)
        return {"spans": spans}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """A row for each span, whose text is called "span" beside the text that was given."""
        spans: Sequence[dict[str, Any]] = answer["spans"]
        return [{"span": each["text"], **{key: each[key] for key in each if key != "text"}} for each in spans]

    def caption(self, answer: Any) -> str:
        return "  ".join(f"{each['text']}/{each['tag']}" for each in answer["spans"]) or "nothing"


class Marks(Labelled):
    """{"marked": the text with a mark behind each token whose tag has one} of tags int [T]: punctuation put into a text
    without.

    marks       what is written behind a token, by its tag: {"COMMA": ","}
    vocabulary  under which the step `tokens` keeps the text
    """

    name = "marks"
    any_script = True

    def __init__(self, marks: Mapping[str, str], vocabulary: str = "tokens") -> None:
        good = isinstance(marks, Mapping) and all(isinstance(each, str) for each in (*marks, *marks.values()))
        check(good and len(marks) > 0, f"marks={marks!r:.60} must be a mark for each of some tags")
        self.written, self.vocabulary = dict(marks), text("vocabulary", vocabulary)

    def __call__(self, value: Any, sample: Sample) -> Any:
        whole, offsets = _read(self, value, sample)
        made, at = list[str](), 0
        for (_, end), tag in zip(offsets.tolist(), value[: len(offsets)].tolist(), strict=False):
            made += [whole[at:end], self.written.get(self.label(tag), "")]
            at = end
        return {"marked": "".join([*made, whole[at:]])}

    def caption(self, answer: Any) -> str:
        return str(answer["marked"])


def _read(step: Spans | Marks, value: Any, sample: Sample) -> tuple[str, Array]:
    """The text that tags [T] are of, and the offsets of its tokens."""
    made = sample.memo.get(step.vocabulary)
    if made is None or value.ndim != 1:
        raise UsageError(f"{step.name}: tags {value.shape} must be [T], behind the step tokens ({step.vocabulary!r})")
    return made.texts[0], made.encoding.offsets

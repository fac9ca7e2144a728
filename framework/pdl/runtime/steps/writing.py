"""Steps that turn the tokens which a decoder wrote into text, and the options of `pdl predict` for how it writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from pdl.errors import UsageError
from pdl.runtime.decoding.options import ENDED, Options, cut
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import text
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep

STREAM = Flag("--stream", "", "Print texts as they are written (with --beam 1, or --sample).")
FLAGS = (
    Flag("--max-length", "N", "Tokens of an answer, at most."),
    Flag("--min-length", "N", "Tokens before an answer may end."),
    Flag("--beam", "N", "Follow the N best hypotheses at once; 1: the best token each time."),
    Flag("--n-best", "N", "The N best answers (at most as many as beams), or N draws with --sample."),
    Flag("--length-penalty", "A", "Hypotheses of beams are compared by score / length^A; above 1 longer ones win."),
    Flag("--sample", "", "Draw tokens from their probabilities in place of the best."),
    Flag("--temperature", "T", "Of --sample: below 1 safer, above 1 more varied."),
    Flag("--top-k", "K", "Of --sample: only the K most probable tokens."),
    Flag("--top-p", "P", "Of --sample: only the most probable tokens whose probabilities sum to P."),
    Flag("--repetition-penalty", "X", "Above 1: tokens that were written become less probable."),
    Flag("--no-repeat-ngram", "N", "No N tokens follow each other twice, prompt included."),
    Flag("--seed", "N", "Of --sample: the same seed and input give the same text."),
    Flag("--stop", "TEXT", "End an answer in front of this text; may be given several times."),
    STREAM,
)
_OPTIONS: dict[str, tuple[str, type]] = {
    "--max-length": ("max_length", int), "--min-length": ("min_length", int), "--beam": ("beams", int),
    "--n-best": ("n_best", int), "--length-penalty": ("length_penalty", float), "--temperature": ("temperature", float),
    "--top-k": ("top_k", int), "--top-p": ("top_p", float), "--repetition-penalty": ("repetition_penalty", float),
    "--no-repeat-ngram": ("no_repeat_ngram", int), "--seed": ("seed", int),
}  # fmt: skip


class Writes(PostStep, ABC):
    """The last step of the output `tokens` of a decoder: {"text", "score", "ended"} of the best answer, and with more
    than one {"others": [the same of each]}. score is the log-probability; ended says why it ends: "end", "stop",
    "length" (it may be longer than --max-length) or "stuck".

    options   of the search, where `pdl predict` was given some
    """

    beside = ("scores", "ended")
    unordered = True
    any_script = True
    options: Options | None = None

    @abstractmethod
    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""

    def __call__(self, value: Any, sample: Sample) -> Any:
        stop = () if self.options is None else self.options.stop
        found = []
        for tokens, score, ended in zip(value, sample.outputs["scores"], sample.outputs["ended"], strict=True):
            if ended >= 0:
                written = cut(self.text([int(t) for t in tokens if t >= 0]), stop)
                found.append({"text": written, "score": float(score), "ended": ENDED[int(ended)]})
        best, *others = found
        return {**best, "others": others} if others else best

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return [{"text": each["text"], "score": each["score"]} for each in (answer, *answer.get("others", ()))]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The same words, and log-probabilities that differ by no more than those of their tokens together."""
        pairs = list(zip(self.rows(ours), self.rows(theirs), strict=False))
        same = len(self.rows(ours)) == len(self.rows(theirs)) and all(a["text"] == b["text"] for a, b in pairs)
        allowed = tolerance * 10 * max(1, *(len(a["text"]) + 1 for a, _ in pairs))
        return same and all(abs(a["score"] - b["score"]) <= max(allowed, 1e-4) for a, b in pairs)

    def caption(self, answer: Any) -> str:
        return str(answer["text"])

    @property
    def flags(self) -> Sequence[Flag]:
        return FLAGS

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        made = copy(self)
        made.options = given(values, predictor.writing.options)
        return made


class WrittenLabels(Writes):
    """A text whose tokens are the labels of the bundle, one behind the other, `separator` between them."""

    name = "written_labels"

    def __init__(self, separator: str = "") -> None:
        self.separator = text("separator", separator)
        self.labels: Sequence[str] = ()

    def bind(self, resources: Any) -> None:
        super().bind(resources)
        self.labels = resources.labels

    def text(self, tokens: Sequence[int]) -> str:
        return self.separator.join(self.labels[t] if t < len(self.labels) else str(t) for t in tokens)


def given(values: Mapping[str, Sequence[str]], base: Options) -> Options:
    """The options that words of a command line say, the others as in `base`."""
    changed: dict[str, Any] = {}
    for flag, (name, kind) in _OPTIONS.items():
        if values.get(flag):
            try:
                changed[name] = kind(values[flag][-1])
            except ValueError:
                what = "a whole number" if kind is int else "a number"
                raise UsageError(f"{flag} {values[flag][-1]}: expected {what}") from None
    if values.get("--stop"):
        changed["stop"] = tuple(values["--stop"])
    sampling = {"--temperature", "--top-k", "--top-p", "--seed"} & {k for k, v in values.items() if v}
    if values.get("--sample"):
        if changed.get("beams", 1) > 1:
            raise UsageError("--sample draws each token, --beam follows the likeliest texts: leave out one of them")
        changed["sample"] = True
        changed.setdefault("beams", 1)
    elif sampling and (not base.sample or changed.get("beams", 1) > 1):
        other = "add --sample" if changed.get("beams", 1) == 1 else "leave out --beam"
        raise UsageError(f"{min(sampling)} says how tokens are drawn: {other}")
    if changed.get("beams", 1) > 1 and base.sample:
        changed["sample"] = False
    if "beams" in changed and "n_best" not in changed and not changed.get("sample", base.sample):
        changed["n_best"] = min(base.n_best, changed["beams"])
    return base.but(**changed)


STEPS = (WrittenLabels,)

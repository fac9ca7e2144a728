"""What a search for words may be told: plain values, each checked, which bundles hold and `pdl predict` offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from pdl.dtype import Array
from pdl.errors import UsageError

LONGEST = 65_536
"""Tokens that an answer may have at most."""
MOST_BEAMS = 256
Penalty = Literal["gnmt", "length"]


@dataclass(frozen=True)
class Options:
    """How words are searched for: greedily, unless `beams` or `sample` say otherwise.

    max_length          tokens of an answer, at most
    min_length          tokens before it may end
    beams               hypotheses that are followed for each source
    n_best              answers for each source; of sampling as many are drawn
    length_penalty      alpha: a hypothesis of n tokens counts with its log-probability / n^alpha, or where `penalty` is
                        "gnmt" / ((5 + n) / 6)^alpha (Wu et al., arXiv 1609.08144)
    sample              draw tokens from the probabilities that follow, in place of the best
    temperature         logits are divided by it
    top_k               only the k most probable tokens, and those as probable as the last; 0: all
    top_p               only the most probable tokens whose probabilities sum to p (Holtzman et al., arXiv 1904.09751)
    repetition_penalty  logits of tokens that the row holds are divided by it, or multiplied where they are negative
                        (Keskar et al., arXiv 1909.05858)
    no_repeat_ngram     no n tokens follow each other twice in a row, prompt included (Paulus et al., arXiv 1705.04304);
                        0: they may
    seed                of the draws; the same seed and source give the same draws in any batch
    prefix              tokens that every answer begins with
    banned              tokens that no answer holds
    stop                texts that end an answer, which does not hold them
    """

    max_length: int = 200
    min_length: int = 0
    beams: int = 1
    n_best: int = 1
    length_penalty: float = 1.0
    penalty: Penalty = "length"
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    seed: int = 0
    prefix: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("prefix", "banned", "stop"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, low, high in (
            ("max_length", 1, LONGEST),
            ("min_length", 0, LONGEST),
            ("beams", 1, MOST_BEAMS),
            ("n_best", 1, MOST_BEAMS),
            ("top_k", 0, 2**31),
            ("no_repeat_ngram", 0, LONGEST),
            ("seed", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            _check(type(value) is int and low <= value <= high, name, value, f"a whole number from {low} to {high}")
        for name, least, most in (
            ("length_penalty", -10.0, 10.0),
            ("temperature", 1e-3, 1e3),
            ("top_p", 1e-6, 1.0),
            ("repetition_penalty", 1e-3, 1e3),
        ):
            value = getattr(self, name)
            good = type(value) in (int, float) and least <= value <= most
            _check(good, name, value, f"a number from {least:g} to {most:g}")
            object.__setattr__(self, name, float(value))
        for name in ("prefix", "banned"):
            value = getattr(self, name)
            _check(all(type(n) is int and n >= 0 for n in value), name, value, "numbers of tokens")
        _check(all(isinstance(s, str) and s for s in self.stop), "stop", self.stop, "texts that are not empty")
        _check(type(self.sample) is bool, "sample", self.sample, "true or false")
        _check(self.penalty in ("gnmt", "length"), "penalty", self.penalty, "gnmt or length")
        if self.sample and self.beams > 1:
            raise UsageError("decoding: sample and beams exclude each other; n_best says how many answers are drawn")
        if not self.sample and self.n_best > self.beams:
            raise UsageError(f"decoding: n_best={self.n_best} answers need as many beams, not {self.beams}, or sample")
        if len(self.prefix) > self.max_length:
            raise UsageError(f"decoding: the prefix has {len(self.prefix)} tokens, max_length is {self.max_length}")

    @property
    def rows(self) -> int:
        """Rows that the net takes for each source."""
        return self.n_best if self.sample else self.beams

    def normalised(self, score: Any, length: Any) -> Any:
        """What hypotheses with these log-probabilities and numbers of tokens are compared by."""
        if self.penalty == "gnmt":
            return score / ((5.0 + length) / 6.0) ** self.length_penalty
        return score / length**self.length_penalty

    def but(self, **values: Any) -> Options:
        """The same with other values."""
        return replace(self, **values)

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, fit for JSON."""
        defaults = asdict(Options())
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if v != defaults[k]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Options:
        """What `to_dict` wrote; UsageError for anything else."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UsageError(f"decoding: no option {unknown[0]!r:.40}; there are {', '.join(sorted(known))}")
        for name in ("prefix", "banned", "stop"):
            if name in values:
                _check(isinstance(values[name], list | tuple), name, values[name], "a list")
        return cls(**values)


def _check(good: bool, name: str, value: Any, expected: str) -> None:
    if not good:
        raise UsageError(f"decoding: {name}={value!r:.60} must be {expected}")


#: tokens so far of a source's row (int64 [n], its prompt left out) -> those that may follow, or None: all
Allowed = Callable[[int, Array], "Sequence[int] | Array | None"]


OUTPUTS = ("tokens", "scores", "ended")
"""What a writer gives for N sources with k answers each: tokens int64 [N, k, L], filled with -1; log-probabilities
float64 [N, k]; int64 [N, k]: the places among `ENDED`."""
ENDED = ("end", "stop", "length", "stuck")


@dataclass(frozen=True)
class Writing:
    """How a decoder is asked, as a bundle holds it.

    ends     tokens that end an answer
    begin    tokens that every answer follows, such as the one that begins a sentence
    prompt   the name of the input whose tokens, int64 [N, T], the answer follows behind `begin`; None: there is none.
             It is no input of `encode`
    pad      what fills prompts, and inputs of whole numbers, from behind
    options  those of the search, unless others are given
    """

    ends: tuple[int, ...]
    begin: tuple[int, ...] = ()
    prompt: str | None = None
    pad: int = 0
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        for name in ("ends", "begin"):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            good = len(values) <= LONGEST and all(type(n) is int and n >= 0 for n in values)
            if not good:
                raise UsageError(f"decoding: {name}={values!r:.60} must be numbers of tokens")
        if not self.begin and self.prompt is None:
            raise UsageError("decoding: without a prompt, begin must have a token that answers follow")
        if type(self.pad) is not int or not (self.prompt is None or isinstance(self.prompt, str)):
            raise UsageError(f"decoding: pad={self.pad!r:.40} and prompt={self.prompt!r:.40}: a number and a name")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "ends": list(self.ends),
            "begin": list(self.begin),
            "prompt": self.prompt,
            "pad": self.pad,
            "options": self.options.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Writing:
        """What `to_dict` wrote; UsageError for anything else."""
        if values.keys() != {"ends", "begin", "prompt", "pad", "options"} or not isinstance(values["options"], dict):
            raise UsageError("decoding: expected ends, begin, prompt, pad and options")
        if not all(isinstance(values[name], list) for name in ("ends", "begin")):
            raise UsageError("decoding: ends and begin must be lists")
        return cls(**{**values, "options": Options.from_dict(values["options"])})


def cut(text: str, stop: Sequence[str]) -> str:
    """A text up to the first of those that end answers."""
    return text[: min((at for each in stop if (at := text.find(each)) >= 0), default=len(text))]

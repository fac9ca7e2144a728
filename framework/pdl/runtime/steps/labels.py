"""Steps that turn the outputs of a net into answers: probabilities, the best classes, names, numbers with labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.ngram import SPACE, NGrams, read_arpa
from pdl.ranking import Lists, top_k
from pdl.runtime.ctc import ALPHA, BETA, MOST_WORDS, Search, read_words
from pdl.runtime.hearing import GAP, Hearing
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import are, check, count, flag, number, text
from pdl.runtime.steps.base import NamesOf, Resources
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import Follower, Form, Kept, Labelled, PostStep, Ranking, Thresholded, ranked_alike
from pdl.runtime.visual_order import logical, visual
from pdl.vocabulary import Vocabulary

WIDEST = 10_000  # beams
SEARCHES = (
    Flag("--words", "FILE", "Answer with words of this list alone (a text file), and the most probable of them."),
    Flag("--lm", "FILE", "Judge texts by this language model, too: an ARPA file of words or characters (pdl ngram)."),
    Flag("--alpha", "X", f"Weight of the language model; {ALPHA:g} unless the model says."),
    Flag("--beta", "X", f"What each token of the language model adds; {BETA:g} unless the model says."),
    Flag("--beam", "N", "Search the most probable text, with so many beginnings at a time."),
)
LANGUAGE_MODEL, WORDS = "language_model", "lexicon"  # what they are called in bundles
_SETTINGS: Mapping[str, tuple[str, type, float, float]] = {
    "--alpha": ("alpha", float, 0, 100),
    "--beta": ("beta", float, -100, 100),
    "--beam": ("width", int, 1, WIDEST),
}


class Identity(PostStep):
    """The array itself."""

    name = "identity"

    def __call__(self, value: Any, sample: Sample) -> Any:
        return value


class Softmax(PostStep):
    """exp(x) / sum exp(x) over the last axis, in float64."""

    name = "softmax"
    by_rows = True

    def __call__(self, value: Any, sample: Sample) -> Any:
        shifted = value.astype(np.float64) - value.max(axis=-1, keepdims=True)
        weights = np.exp(shifted)
        return weights / weights.sum(axis=-1, keepdims=True)


class Sigmoid(PostStep):
    """1 / (1 + exp(-x)), in float64."""

    name = "sigmoid"
    by_rows = True

    def __call__(self, value: Any, sample: Sample) -> Any:
        return sigmoid(value)


class _Classes(Labelled):
    """A step whose answers are classes with scores."""

    def answer(self, index: int, score: float) -> dict[str, Any]:
        """One class as plain values."""
        return {"label": self.label(index), "class": index, "score": score}


class Top(_Classes, Ranking):
    """{"label", "class", "score", "top": [the k best]} of scores [C]."""

    name = "top"

    def __init__(self, k: int = 5) -> None:
        self.k = count("k", k, most=1 << 31)

    def __call__(self, value: Any, sample: Sample) -> Any:
        check_scores(self, value)
        order = np.argsort(-value, kind="stable")[: self.k]
        top = [self.answer(int(i), float(value[i])) for i in order]
        return {**top[0], "top": top}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["top"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The best class is the same; further ones with scores that close may change places."""
        return ours["label"] == theirs["label"] and ranked_alike(ours["top"], theirs["top"], "label", tolerance)

    def caption(self, answer: Any) -> str:
        return f"{answer['label']}  {answer['score']:.1%}"


class Threshold(_Classes, Thresholded):
    """{"labels": [classes whose score is at least `score`, best first]} of scores [C]: several answers, or none."""

    name = "threshold"

    def __init__(self, score: float = 0.5) -> None:
        self.score = number("score", score)

    def __call__(self, value: Any, sample: Sample) -> Any:
        check_scores(self, value)
        order = np.argsort(-value, kind="stable")
        return {"labels": [self.answer(int(i), float(value[i])) for i in order if value[i] >= self.score]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["labels"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The same classes; one whose score is that close to the threshold may be missing."""
        left, right = ({each["label"]: each["score"] for each in answer["labels"]} for answer in (ours, theirs))
        return all(abs(score - self.score) <= tolerance for label, score in {**left, **right}.items()
                   if (label in left) != (label in right))  # fmt: skip

    def caption(self, answer: Any) -> str:
        return ", ".join(f"{each['label']} {each['score']:.0%}" for each in answer["labels"]) or "nothing"


class Text(Labelled):
    """A step whose answer is {"text", "score"} of probabilities [T, C], a row for each step of a net that writes
    characters. Labels do not count the class `mark`, which is no character; `more` are the characters of classes after
    the labels, such as the space that lists of characters leave out. `visual`: steps follow an image from left to right
    whatever its script, and the text is brought from that order into the logical one, as it is typed
    (`pdl.runtime.visual_order`).

    With `--words FILE` an answer is made of words of that list alone, with `--lm FILE` it is the best one with a
    language model, and with `--beam N` the most probable one, each by prefix beam search (`pdl.runtime.ctc.Search`);
    its score is then the probability of the text to the power of 1 / its length.

    language_model  n-grams that answers are searched with, unless `--lm` names others: a vocabulary of this name has
                    the tokens, constants NAME.first, ... are `pdl.ngram.NGrams.arrays`; `alpha` and `beta` as there
    words           a vocabulary, of whose names answers are made, unless `--words` names others; where texts are
                    `visual`, in the order of steps
    width           beginnings that a search has at a time, unless `--beam` says
    """

    any_script = True
    keeps = True
    mark: int
    more: str
    visual: bool
    mark_is: ClassVar[str]  # as `Search` calls it
    seconds: float | None = None
    how: Mapping[str, Any] | None = None  # arguments of `Search`; None: the best class of each step
    _search: Search | None = None

    def _take(
        self,
        more: str,
        visual: bool,
        language_model: str | None,
        alpha: float,
        beta: float,
        words: str | None,
        width: int | None,
    ) -> None:
        self.more, self.visual = text("more", more), flag("visual", visual)
        self.language_model = None if language_model is None else text("language_model", language_model)
        self.alpha, self.beta = number("alpha", alpha, 0, 100), number("beta", beta, -100, 100)
        self.words = None if words is None else text("words", words)
        self.width = None if width is None else count("width", width, most=WIDEST)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        how: dict[str, Any] = {} if self.width is None else {"width": self.width}
        if self.language_model is not None:
            resources.check_vocabulary(self.language_model, self.name)
            tokens = resources.vocabularies[self.language_model]
            how["model"] = NGrams.of_constants(self.language_model, tokens, resources.constants)
            how |= {"alpha": self.alpha, "beta": self.beta}
        if self.words is not None:
            resources.check_vocabulary(self.words, self.name)
            how["words"] = names = resources.vocabularies[self.words].names
            check(1 <= len(names) <= MOST_WORDS, f"{self.name}: {len(names):,} words, expected 1 to {MOST_WORDS:,}")
        self.how = how or None

    def best(self, value: Any) -> Any:
        """bool [T]: the steps whose best class is written."""
        raise NotImplementedError(f"{type(self).__name__} must define best")

    def __call__(self, value: Any, sample: Sample) -> Any:
        if value.ndim != 2:
            raise UsageError(f"{self.name}: expected scores [steps, classes], got {value.shape}")
        if self.how is not None:
            found = self.search(value.shape[1])(value)
            return self.answer(value, found.classes, found.steps, math.exp(found.log_p / max(1, len(found.classes))))
        steps = np.flatnonzero(self.best(value))
        scores = value.max(axis=1)[steps]
        mean = float(scores.mean()) if scores.size else 0.0
        return self.answer(value, value.argmax(axis=1)[steps].tolist(), steps.tolist(), mean)

    def answer(self, value: Any, classes: Sequence[int], steps: Sequence[int], score: float) -> dict[str, Any]:
        """The answer that has these classes, each at its step."""
        return {"text": self._said(classes), "score": score}

    def _said(self, classes: Iterable[int]) -> str:
        said = "".join(self.label(int(c) - (c > self.mark)) for c in classes)
        return logical(said) if self.visual else said

    def search(self, classes: int) -> Search:
        """How texts are searched in probabilities of so many classes; made at its first use."""
        if self._search is None or self._search.classes != classes:
            assert self.how is not None
            how = {self.mark_is: self.mark, "spaces": self.seconds is not None or "model" in self.how, **self.how}
            self._search = Search(classes, self._numbers, **how)
        return self._search

    @property
    def _numbers(self) -> dict[str, int]:
        return {letter: i + (i >= self.mark) for i, letter in enumerate([*self.labels, *self.more])}

    @property
    def flags(self) -> Sequence[Flag]:
        return SEARCHES

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        given = {each.name: values[each.name][-1] for each in SEARCHES if values.get(each.name)}
        if not given:
            return self
        made, how = copy(self), dict(self.how or {})
        if path := given.get("--words"):
            how["words"] = self._words_of(Path(path))
        if path := given.get("--lm"):
            if self.visual:
                raise UsageError("--lm: this model writes all scripts from left to right; leave it out")
            how = {"alpha": self.alpha, "beta": self.beta, **how, "model": self._model_of(Path(path).expanduser())}
        for name, (key, kind, least, most) in _SETTINGS.items():
            if name not in given:
                continue
            if key in ("alpha", "beta") and "model" not in how:
                raise UsageError(f"{name} is of a language model: name one with --lm FILE")
            try:
                how[key] = kind(given[name])
            except ValueError:
                how[key] = math.nan
            if not least <= how[key] <= most:
                raise UsageError(f"{name} {given[name]:.30}: expected a number from {least} to {most}")
        made.how, made._search = how, None
        return made

    def kept(self) -> Kept:
        how, made = self.how or {}, Kept()
        if model := how.get("model"):
            arrays = {f"{LANGUAGE_MODEL}.{name}": array for name, array in model.arrays().items()}
            settings = {
                "language_model": LANGUAGE_MODEL,
                "alpha": how.get("alpha", self.alpha),
                "beta": how.get("beta", self.beta),
            }
            kind = "characters" if model.characters else "words"
            gone = f", {n:,} of which it cannot write" if (n := len(self._left_out(model))) else ""
            alone = ", and no others" if model.closed else ""
            about = f"{model.order}-grams of {len(model.tokens) - 2:,} {kind}{gone}{alone}"
            made += Kept(settings, {LANGUAGE_MODEL: model.tokens}, arrays, {"language model": about})
        if words := how.get("words"):
            letters = self._numbers.keys()
            words = [word for word in words if letters >= set(word)]
            made += Kept({"words": WORDS}, {WORDS: Vocabulary(words)}, {}, {"words": f"{len(words):,}, and no others"})
        if width := how.get("width"):
            made += Kept({"width": width})
        return made

    def _left_out(self, model: NGrams) -> list[str]:
        """The tokens of a model with characters that are not written."""
        letters = self._numbers.keys() | ({SPACE} if model.characters else set())
        return [token for token in model.tokens.names[2:] if not letters >= set(token)]

    def _model_of(self, path: Path) -> NGrams:
        model = read_arpa(path)
        left_out, letters = self._left_out(model), "".join(self._numbers)
        if 0 < len(left_out) == len(model.tokens) - 2:
            foreign = "".join(sorted(set("".join(left_out)) - set(letters)))
            raise DataError(
                f"{path}: none of its {len(left_out):,} tokens, such as {left_out[0]!r:.40}, has only characters that "
                f"the model writes ({letters:.80}); it does not write {foreign:.80}. Learn n-grams from texts as the "
                "model writes them (pdl ngram --lower lowers letters)"
            )
        return model

    def _words_of(self, path: Path) -> list[str]:
        words, letters = read_words(path), self._numbers
        if self.visual:
            words = [visual(word) for word in words]
        if not any(all(letter in letters for letter in word) for word in words):
            raise DataError(f"{path}: none of its words has only characters that the model reads; give others")
        return words

    def label(self, number: int) -> str:
        after = number - len(self.labels)
        return self.more[after] if 0 <= after < len(self.more) else super().label(number)

    def caption(self, answer: Any) -> str:
        return f"{answer['text']}  {answer['score']:.1%}"


class Ctc(Text):
    """`Text` by connectionist temporal classification (Graves et al., ICML 2006): the best class of each step, repeats
    and `blank` dropped (greedy decoding); the score is the mean over the steps kept.

    `seconds`: of sounds, from one step to the next. An answer then has its "words", too: [{"word", "start", "end",
    "score"}], from the step of its first character to that of its last one, which is about when it is heard."""

    name = "ctc"
    mark_is = "blank"

    def __init__(
        self,
        blank: int = 0,
        more: str = "",
        visual: bool = False,
        seconds: float | None = None,
        language_model: str | None = None,
        alpha: float = ALPHA,
        beta: float = BETA,
        words: str | None = None,
        width: int | None = None,
    ) -> None:
        self.mark = self.blank = count("blank", blank, least=0, most=1 << 31)
        self._take(more, visual, language_model, alpha, beta, words, width)
        self.seconds = None if seconds is None else number("seconds", seconds, 0, 3600)

    def answer(self, value: Any, classes: Sequence[int], steps: Sequence[int], score: float) -> dict[str, Any]:
        answer = super().answer(value, classes, steps, score)
        if self.seconds is None:
            return answer
        letters = [(t, self._said([c]), float(value[t, c])) for c, t in zip(classes, steps, strict=True)]
        spoken = (list(group) for space, group in groupby(letters, lambda each: each[1].isspace()) if not space)
        groups = [part for group in spoken for part in self._apart(group)]
        words = [
            {
                "word": "".join(letter for _, letter, _ in group),
                "start": round(group[0][0] * self.seconds, 3),
                "end": round((group[-1][0] + 1) * self.seconds, 3),
                "score": sum(score for *_, score in group) / len(group),
            }
            for group in groups
        ]
        return {**answer, "text": " ".join(str(word["word"]) for word in words), "words": words}

    def _apart(self, group: list[tuple[int, str, float]]) -> list[list[tuple[int, str, float]]]:
        """Letters (step, character, score) without a space, cut where there is none for so long that no word can be
        one; where no spaces are written at all, nowhere."""
        assert self.seconds is not None
        if not self.spaces:
            return [group]
        cuts = [i for i in range(1, len(group)) if (group[i][0] - group[i - 1][0]) * self.seconds > GAP]
        return [group[a:b] for a, b in pairwise([0, *cuts, len(group)])]

    @property
    def spaces(self) -> list[int]:
        """The classes of spaces."""
        return [c for letter, c in self._numbers.items() if letter.isspace()]

    @property
    def in_time(self) -> bool:
        return self.seconds is not None

    def joined_in_time(self, answers: Sequence[Any], starts: Sequence[float]) -> Any:
        words = [
            {**word, "start": round(word["start"] + start, 3), "end": round(word["end"] + start, 3)}
            for answer, start in zip(answers, starts, strict=True)
            for word in answer["words"]
        ]
        lengths = [len(answer["text"]) for answer in answers]
        total = sum(answer["score"] * length for answer, length in zip(answers, lengths, strict=True))
        said = (" " if self.spaces else "").join(answer["text"] for answer in answers if answer["text"])
        return {"text": said, "score": total / max(1, sum(lengths)), "words": words}

    def follower(self) -> Follower:
        return super().follower() if self.seconds is None else Hearing(self, self.seconds)

    @property
    def forms(self) -> Sequence[Form]:
        if self.seconds is None:
            return ()
        from pdl.runtime.subtitles import FORMS

        return FORMS

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return [{name: value for name, value in answer.items() if name != "words"}]

    def best(self, value: Any) -> Any:
        best = value.argmax(axis=1)
        return (best != self.blank) & np.concatenate([[True], best[1:] != best[:-1]])


class UntilEnd(Text):
    """`Text` of a net whose steps are the characters of a text one behind the other, as those of decoders by attention:
    the best class of each step in front of the first one that is `end`; all of them where none is. The score is the
    mean over these steps."""

    name = "until_end"
    mark_is = "end"

    def __init__(
        self,
        end: int = 0,
        more: str = "",
        visual: bool = False,
        language_model: str | None = None,
        alpha: float = ALPHA,
        beta: float = BETA,
        words: str | None = None,
        width: int | None = None,
    ) -> None:
        self.mark = self.end = count("end", end, least=0, most=1 << 31)
        self._take(more, visual, language_model, alpha, beta, words, width)

    def best(self, value: Any) -> Any:
        return np.cumsum(value.argmax(axis=1) == self.end) == 0


class TopNames(NamesOf, Ranking):
    """{many: [{one, "score"}, ... the k best]} of scores [n + 1] of the n names of a vocabulary.

    Column 0 is no name and is never ranked, nor is a score that is -inf or NaN. Of equal scores the lower
    number comes first. `exclude` is the name of an input whose numbers are left out, such as a history; what the sample
    says to leave out (`Sample.excluded`) is, too. `one` and `many` are what the names are called in an answer.
    """

    name = "top_names"

    def __init__(
        self, vocabulary: str, k: int = 10, exclude: str | None = None, one: str = "name", many: str = "names"
    ) -> None:
        self.vocabulary, self.k = text("vocabulary", vocabulary), count("k", k)
        self.exclude = None if exclude is None else text("exclude", exclude)
        self.reads = () if exclude is None else (exclude,)
        self.one, self.many = text("one", one), text("many", many)

    def __call__(self, value: Any, sample: Sample) -> Any:
        size = len(self.names) + 1
        if not isinstance(value, np.ndarray) or value.shape != (size,):
            shown = f"{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise UsageError(f"{self.name}: expected scores [{size}], got {shown}")
        out = [] if self.exclude is None else [sample.inputs[self.exclude]]
        out += [] if sample.excluded is None else [sample.excluded]
        excluded = Lists.of_rows(np.concatenate(out)[None]) if out else None
        scores, numbers = top_k(value[None], min(self.k, len(self.names)), excluded=excluded)
        ranked = zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        return {self.many: [{self.one: self.names.decode(i), "score": score} for i, score in ranked if i]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer[self.many])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The same ranking; names with scores that close may change places."""
        return ranked_alike(ours[self.many], theirs[self.many], self.one, tolerance)

    def caption(self, answer: Any) -> str:
        return ", ".join(f"{each[self.one]} {each['score']:.3g}" for each in answer[self.many][:3])


class _Numbers(Labelled):
    """A step whose answer is a number for each label."""

    def caption(self, answer: Any) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in answer.items())


class Probabilities(_Numbers):
    """{label: probability, ...} of one logit for each label: 1 / (1 + exp(-x))."""

    name = "probabilities"

    def __call__(self, value: Any, sample: Sample) -> Any:
        return {self.label(i): float(p) for i, p in enumerate(sigmoid(np.asarray(value).reshape(-1)))}


class Values(_Numbers):
    """{label: number, ...} of one number for each label: x scale + shift, both one for all or one for each label."""

    name = "values"

    def __init__(self, scale: Sequence[float] = (1.0,), shift: Sequence[float] = (0.0,)) -> None:
        for name, values in (("scale", scale), ("shift", shift)):
            check(are(values, (int, float)) and len(values) > 0, f"{name}={values!r:.60} must be a list of numbers")
        self.scale, self.shift = [number("scale", x) for x in scale], [number("shift", x) for x in shift]

    def __call__(self, value: Any, sample: Sample) -> Any:
        numbers = np.asarray(value, np.float64).reshape(-1) * self.scale + self.shift
        return {self.label(i): float(x) for i, x in enumerate(numbers)}

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        return super().agrees(ours, theirs, tolerance * max(1.0, *map(abs, self.scale)), sample)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), in float64."""
    return 0.5 * (1 + np.tanh(0.5 * x.astype(np.float64)))


def check_scores(step: PostStep, value: Any) -> None:
    """UsageError unless the value is an array [classes]."""
    if not isinstance(value, np.ndarray):
        raise UsageError(f"{step.name}: expected scores [classes], got an answer; such steps come last and once")
    if value.ndim != 1 or not value.size:
        raise UsageError(f"{step.name}: expected scores [classes], got an output of shape {value.shape}")


STEPS = (Identity, Softmax, Sigmoid, Top, Threshold, Ctc, UntilEnd, TopNames, Probabilities, Values)

__all__ = ["STEPS", "Text", "check_scores", "sigmoid", *(step.__name__ for step in STEPS)]

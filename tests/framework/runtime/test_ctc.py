"""Prefix beam search against sums over all paths: plain, of words of a list, with n-grams, in pieces; and texts until
an end against all texts."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl import ngram
from pdl.errors import DataError, ShapeError, UsageError
from pdl.kernels import ctc_beam
from pdl.runtime.ctc import NOTHING, Lexicon, Search, read_words
from pdl.runtime.sample import Sample
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.labels import Ctc, UntilEnd
from pdl.vocabulary import Vocabulary

NUMBERS = {"a": 1, "b": 2, " ": 3}
LETTERS = {number: letter for letter, number in NUMBERS.items()}
WORDS = ["a", "ab", "bb"]
SPOKEN = [" ".join(each) for count in (1, 2, 3) for each in product(WORDS, repeat=count)]
WIDE: dict[str, Any] = {"width": 10_000, "likely": 0.0}
WORD_MODEL = ngram.train([text.split() for text in ("a ab a", "ab bb", "bb a ab ab", "b")], 3)
LETTER_MODEL = ngram.train([ngram.characters(text) for text in ("ab ab", "bb a", "a b")], 3)


def text_of(classes: list[int]) -> str:
    return "".join(LETTERS[c] for c in classes)


def by_all_paths(probabilities: np.ndarray, *, spaces: bool = False) -> dict[str, tuple[float, float, list[int]]]:
    """Of each text: the sum over all paths that write it, the best of them, and the steps where its characters begin
    on that one."""
    found: dict[str, tuple[float, float, list[int]]] = defaultdict(lambda: (0.0, 0.0, []))
    for path in product(range(4), repeat=len(probabilities)):
        p = float(np.prod(probabilities[np.arange(len(path)), list(path)]))
        kept = [i for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        if spaces:
            kept = [i for k, i in enumerate(kept) if path[i] != 3 or (k and path[kept[k - 1]] != 3)]
            kept = kept[:-1] if kept and path[kept[-1]] == 3 else kept
        text = text_of([path[i] for i in kept])
        total, best, steps = found[text]
        found[text] = (total + p, max(best, p), kept if p > best else steps)
    return found


def drawn(steps: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(4, 0.7), steps)


@settings(max_examples=40)
@given(steps=st.integers(1, 5), seed=st.integers(0, 10_000), cut=st.integers(0, 5))
def test_all_texts_are_found_with_their_probabilities_and_steps(steps: int, seed: int, cut: int) -> None:
    probabilities = drawn(steps, seed)
    exact = by_all_paths(probabilities)
    found = {text_of(each.classes): each for each in Search(4, NUMBERS, blank=0, **WIDE).best(probabilities, 10_000)}
    for text, (total, _, places) in exact.items():
        if total > 1e-12:
            assert found[text].probability == pytest.approx(total, rel=1e-9)
            assert found[text].steps == places
    assert len(found) <= len(exact)
    scores = [each.score for each in found.values()]
    assert scores == sorted(scores, reverse=True)
    search = Search(4, NUMBERS, blank=0, width=3, logs=True)
    logs = np.log(probabilities)
    whole, pieces = search.begin(), search.begin()
    whole.feed(logs)
    for piece in (logs[:cut], logs[cut:]):
        pieces.feed(piece)
        pieces.best(2)
    assert pieces.best(3) == whole.best(3), "in pieces as at once"


@settings(max_examples=40)
@given(steps=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_the_best_text_of_words_is_found_with_its_probability(steps: int, seed: int) -> None:
    probabilities = drawn(steps, seed)
    exact = by_all_paths(probabilities)
    likeliest = max(exact[text][0] for text in ("", *SPOKEN) if text in exact)
    found = Search(4, NUMBERS, blank=0, words=WORDS, width=10_000)(probabilities)
    assert exact[text_of(found.classes)][0] == pytest.approx(likeliest, rel=2e-4, abs=1e-9)
    assert found.probability == pytest.approx(likeliest, rel=1e-3, abs=1e-6)


def judged(text: str, model: ngram.NGrams, alpha: float, beta: float, unknown: float) -> float:
    tokens = model.split(text)
    lacks = sum(token not in model.tokens for token in tokens)
    return alpha * (float(model.log_probabilities(tokens).sum()) + unknown * lacks) + beta * len(tokens)


@pytest.mark.parametrize("model", [WORD_MODEL, LETTER_MODEL], ids=["words", "characters"])
@pytest.mark.parametrize("words", [None, WORDS], ids=["any", "listed"])
@settings(max_examples=25)
@given(steps=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_a_language_model_joins_in(model: ngram.NGrams, words: list[str] | None, steps: int, seed: int) -> None:
    """The score of every text is ln of its probability with the model's, whichever way it is reached."""
    probabilities, (alpha, beta) = drawn(steps, seed), [(0.3, -1.0), (1.5, 2.0)][seed % 2]
    how: dict[str, Any] = {"alpha": alpha, "beta": beta, "unknown": -2.0}
    search = Search(4, NUMBERS, blank=0, spaces=True, model=model, words=words, **how, **WIDE)
    expected = {
        text: math.log(total) + judged(text, model, **how)
        for text, (total, *_) in by_all_paths(probabilities, spaces=True).items()
        if total > 1e-12 and (words is None or text in ("", *SPOKEN))
    }
    found = {text_of(each.classes): each for each in search.best(probabilities, 10_000)}
    assert expected.keys() <= found.keys()
    for text, score in expected.items():
        assert found[text].score == pytest.approx(score, rel=1e-6, abs=1e-6)
    if expected:
        assert search(probabilities).score == pytest.approx(max(expected.values()), rel=1e-6, abs=1e-6)


def test_a_narrow_beam_finds_what_is_clear_and_says_when_it_finds_nothing() -> None:
    clear = np.array([[0.05, 0.9, 0.03, 0.02], [0.05, 0.03, 0.9, 0.02], [0.9, 0.04, 0.04, 0.02]])
    assert Search(4, NUMBERS, blank=0, words=["ab", "b"], width=2)(clear).classes == [1, 2]
    none = np.array([[0.0, 1.0, 0.0, 0.0]])
    assert Search(4, NUMBERS, blank=0, words=["bb"])(none) == NOTHING
    assert Search(4, NUMBERS, blank=0, words=["ab"])(none) == NOTHING, "a word that is cut"
    search = Search(4, NUMBERS, blank=0, words=["ab"]).begin()
    search.feed(none)
    assert search.best(1, whole=False)[0][0] == [1], "so far"


def test_long_inputs_lose_nothing_when_memory_is_tidied() -> None:
    """Far more prefixes than are kept at once: the texts and steps are those of the classes that were clear."""
    rng = np.random.default_rng(0)
    classes = np.repeat(rng.integers(0, 4, 4000), 3)
    probabilities = 0.001 + 0.002 * rng.random((len(classes), 4))
    probabilities[np.arange(len(classes)), classes] = 0.9
    found = Search(4, NUMBERS, blank=0, width=30)(np.float32(probabilities))
    runs = [(c, len(list(each))) for c, each in groupby(classes)]
    starts = np.cumsum([0, *(length for _, length in runs)])
    assert found.classes == [c for c, _ in runs if c]
    assert found.steps == [int(at) for (c, _), at in zip(runs, starts, strict=False) if c]
    assert 0 < found.score - len(classes) * math.log(0.9) < 50


@settings(max_examples=40)
@given(steps=st.integers(1, 5), seed=st.integers(0, 10_000), model=st.sampled_from([None, WORD_MODEL, LETTER_MODEL]))
def test_the_best_text_until_an_end_is_found_with_its_probability(
    steps: int, seed: int, model: ngram.NGrams | None
) -> None:
    probabilities = drawn(steps, seed)
    numbers = [[*(NUMBERS[c] for c in text), 0] for text in ["", *SPOKEN] if len(text) < steps]
    exact = [float(np.prod(probabilities[np.arange(len(text)), text])) for text in numbers]
    how: dict[str, Any] = {"alpha": 0.7, "beta": 0.5, "unknown": -1.0}
    scores = [
        math.log(p) + (judged(text_of(text[:-1]), model, **how) if model else 0.0)
        for text, p in zip(numbers, exact, strict=True)
    ]
    found = Search(4, NUMBERS, end=0, words=WORDS, model=model, **how, **WIDE)(probabilities)
    best = int(np.argmax(scores))
    assert [*found.classes, 0] == numbers[best]
    assert found.probability == pytest.approx(exact[best])
    assert found.score == pytest.approx(scores[best])
    assert found.steps == list(range(len(found.classes)))


def test_words_that_cannot_be_written_are_left_out() -> None:
    lexicon = Lexicon(["ab", "ax", "ab", "b", "abb"], NUMBERS, number={"ab": 7})
    assert (lexicon.size, lexicon.left_out) == (3, ["ax"])
    assert lexicon.first.tolist() == [1, 3, 4, 4, 5, 5]
    assert lexicon.symbol.tolist() == [0, 1, 2, 2, 2]
    assert lexicon.word.tolist() == [-1, -1, 0, 7, 0]


def test_the_kernel_refuses_what_does_not_fit() -> None:
    good = Lexicon(["ab", "b"], NUMBERS)
    bad = ([1, 2, 2], [0, 9]), ([1, 1, 2], [0, 1]), ([1, 3, 3, 2], [0, 1, 2]), ([1, 3, 3, 3], [0, 2, 1])
    for first, symbol in bad:
        with pytest.raises(DataError, match="are no tree"):
            ctc_beam.Words(np.int32(first), np.int32(symbol), np.zeros(len(symbol), np.int32), 4)
    words = ctc_beam.Words(good.first, good.symbol, good.word, 4)
    with pytest.raises(ShapeError, match="do not fit"):
        ctc_beam.BeamSearch(5, width=2, blank=0, words=words)
    with pytest.raises(ShapeError, match="blank -1, end -1"):
        ctc_beam.BeamSearch(4, width=2)
    with pytest.raises(UsageError, match="there are no words"):
        ctc_beam.BeamSearch(4, width=2, blank=0, closed=True)
    with pytest.raises(ShapeError, match="steps of 3 classes, not 4"):
        ctc_beam.BeamSearch(4, width=2, blank=0).feed(np.zeros((2, 3)))
    search = ctc_beam.BeamSearch(4, width=2, blank=0)
    search.feed(np.full((2, 4), np.nan))
    assert search.best() == []
    arrays = {**LETTER_MODEL.arrays(), "backoff": np.full(len(LETTER_MODEL.symbol), 1e30)}
    wild = ngram.NGrams(LETTER_MODEL.tokens, **arrays)
    found = Search(4, NUMBERS, blank=0, model=wild, width=5)(drawn(200, 0))
    assert np.isfinite([found.score, found.log_p]).all(), "even of a model that is none"


def test_a_closed_model_writes_its_words_alone() -> None:
    """Among all texts of the words of a grammar the one with the largest p(text) p_model(text)^alpha e^(beta words)."""
    model = ngram.train([], 1, WORDS)
    for seed in range(5):
        probabilities = drawn(5, seed)
        paths = by_all_paths(probabilities, spaces=True)
        wanted = max(
            (text for text in ("", *SPOKEN) if text in paths),
            key=lambda text: math.log(paths[text][0]) + judged(text, model, alpha=0.7, beta=0.5, unknown=-23.0),
        )
        search = Search(4, NUMBERS, blank=0, spaces=True, model=model, alpha=0.7, beta=0.5, **WIDE)
        assert text_of(search(probabilities).classes) == wanted


def test_lists_of_words(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("one Two\none\n", encoding="utf-8")
    assert read_words(file) == ["one", "One", "ONE", "Two", "TWO"]
    file.write_text(" \n")
    with pytest.raises(DataError, match="0 words; give 1 to"):
        read_words(file)
    with pytest.raises(DataError, match="cannot be read as UTF-8 text"):
        read_words(tmp_path / "none.txt")


UNCLEAR = np.array([[0.1, 0.5, 0.4], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]])


def test_an_option_of_pdl_predict_answers_with_words(tmp_path: Path) -> None:
    step = Ctc()
    step.bind(Resources(labels=["a", "b"]))
    words = tmp_path / "words.txt"
    words.write_text("bb")
    assert step(UNCLEAR, Sample())["text"] == "ab"
    chosen = step.configured({"--words": [str(words)]}, None)
    answer = chosen(UNCLEAR, Sample())
    assert answer["text"] == "bb"
    assert answer["score"] == pytest.approx((0.4 * 0.9 * 0.8) ** 0.5, rel=0.1)
    assert step.configured({}, None) is step
    words.write_text("xyz")
    with pytest.raises(DataError, match="none of its words has only characters that the model reads"):
        step.configured({"--words": [str(words)]}, None)


def test_the_same_option_of_nets_that_write_until_an_end(tmp_path: Path) -> None:
    step = UntilEnd()
    step.bind(Resources(labels=["a", "b"]))
    words = tmp_path / "words.txt"
    words.write_text("bb a")
    unclear = np.array([[0.1, 0.5, 0.4], [0.05, 0.05, 0.9], [0.8, 0.1, 0.1]])
    assert step(unclear, Sample())["text"] == "ab"
    answer = step.configured({"--words": [str(words)]}, None)(unclear, Sample())
    assert answer["text"] == "bb"
    assert answer["score"] == pytest.approx((0.4 * 0.9 * 0.8) ** 0.5)


def test_options_of_pdl_predict_search_with_a_language_model(tmp_path: Path) -> None:
    step = Ctc(seconds=0.1)
    step.bind(Resources(labels=["a", "b", " "]))
    LETTER_MODEL.write(tmp_path / "letters.arpa")
    ngram.train([["ba"], ["ba", "ba"]], 2).write(tmp_path / "words.arpa")
    value = np.full((7, 4), 0.02)
    value[np.arange(7), [1, 0, 2, 3, 1, 0, 2]] = 0.5
    value[0, 2] = value[2, 1] = value[4, 2] = value[6, 1] = 0.4
    assert step(value, Sample())["text"] == "ab ab"
    words = {"--lm": [str(tmp_path / "words.arpa")]}
    answer = step.configured(words, None)(value, Sample())
    assert answer["text"] == "ba ba"
    assert [(each["word"], each["start"], each["end"]) for each in answer["words"]] == [
        ("ba", 0.0, 0.3),
        ("ba", 0.4, 0.7),
    ]
    assert [each["score"] for each in answer["words"]] == pytest.approx([0.4, 0.4])
    assert 0 < answer["score"] < 1
    for options, text in (
        ({**words, "--alpha": ["0"]}, "ab ab"),
        ({"--lm": [str(tmp_path / "letters.arpa")]}, "ab ab"),
        ({"--beam": ["20"]}, "ab ab"),
    ):
        assert step.configured(options, None)(value, Sample())["text"] == text
    for options, message in (
        ({"--alpha": ["1"]}, "--alpha is of a language model: name one with --lm FILE"),
        ({**words, "--alpha": ["-1"]}, "--alpha -1: expected a number from 0 to 100"),
        ({**words, "--beta": ["x"]}, "--beta x: expected a number from -100 to 100"),
        ({"--beam": ["0"]}, "--beam 0: expected a number from 1 to 10000"),
        ({"--beam": ["1.5"]}, "--beam 1.5: expected"),
    ):
        with pytest.raises(UsageError, match=message):
            step.configured(options, None)
    visual = Ctc(visual=True)
    visual.bind(Resources(labels=["a", "b"]))
    with pytest.raises(UsageError, match="--lm: this model writes all scripts from left to right"):
        visual.configured(words, None)


@pytest.mark.parametrize("kind", [Ctc, UntilEnd])
def test_a_language_model_in_a_bundle(kind: type[Ctc | UntilEnd]) -> None:
    model = ngram.train([ngram.characters("bb")] * 3, 2)
    constants = {f"lm.{name}": array for name, array in model.arrays().items()}
    step = kind(language_model="lm", alpha=2.0, beta=0.0)
    step.bind(Resources(["a", "b"], {"lm": model.tokens}, constants))
    value = np.array([[0.05, 0.5, 0.45], [0.1, 0.45, 0.45], [0.9, 0.05, 0.05], [0.05, 0.5, 0.45], [0.9, 0.05, 0.05]])
    if kind is UntilEnd:
        value = value[[0, 3, 2]]
    assert step(value, Sample())["text"] == "bb"
    assert step.configured({"--alpha": ["0"]}, None)(value, Sample())["text"][0] == "a"
    with pytest.raises(UsageError, match="no vocabulary 'lm'"):
        kind(language_model="lm").bind(Resources(["a", "b"]))
    with pytest.raises(DataError, match="'lm' among the constants is damaged"):
        kind(language_model="lm").bind(Resources(["a", "b"], {"lm": model.tokens}))


def test_what_a_bundle_keeps_of_options(tmp_path: Path) -> None:
    """The step that pipeline.json describes answers as the one with options does."""
    step = Ctc(seconds=0.1, alpha=0.7)
    step.bind(Resources(labels=["a", "b", " "]))
    WORD_MODEL.write(tmp_path / "words.arpa")
    (tmp_path / "words.txt").write_text("ab bb")
    values = {"--lm": [str(tmp_path / "words.arpa")], "--words": [str(tmp_path / "words.txt")], "--beam": ["30"]}
    chosen = step.configured(values, None)
    kept = chosen.kept()
    assert {key: kept.arguments[key] for key in ("alpha", "beta", "width")} == {"alpha": 0.7, "beta": 1.0, "width": 30}
    resources = Resources(["a", "b", " "], kept.vocabularies, kept.constants)
    again = Ctc(seconds=0.1, **kept.arguments)
    again.bind(resources)
    for seed in range(4):
        value = drawn(9, seed)
        assert again(value, Sample()) == chosen(value, Sample())
    more = again.configured({"--alpha": ["2"]}, None).kept()
    assert (more.arguments, more.about) == ({**kept.arguments, "alpha": 2.0}, kept.about)
    assert kept.about == {"language model": "3-grams of 4 words", "words": "2, and no others"}
    with pytest.raises(UsageError, match="width=100000 must be"):
        Ctc(width=100_000)
    with pytest.raises(UsageError, match="ctc: 0 words"):
        Ctc(words="lexicon").bind(Resources(["a"], {"lexicon": Vocabulary([])}))
    ngram.train([["AB"], ["A", "B"]], 1).write(tmp_path / "upper.arpa")
    with pytest.raises(DataError, match=r"none of its 3 tokens, such as 'AB', .* \(ab \); it does not write AB\."):
        step.configured({"--lm": [str(tmp_path / "upper.arpa")]}, None)

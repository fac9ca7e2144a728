"""Words of a list: prefix beam search against sums over all paths, and texts until an end against all texts."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import DataError
from pdl.runtime.ctc import Lexicon, beam_search, read_words, search_until_end
from pdl.runtime.sample import Sample
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.labels import Ctc, UntilEnd

NUMBERS = {"a": 1, "b": 2, " ": 3}


def by_all_paths(probabilities: np.ndarray, texts: set[str]) -> dict[str, float]:
    """The probability of each text, summed over every path that writes it."""
    letters = {number: letter for letter, number in NUMBERS.items()}
    found = dict.fromkeys(texts, 0.0)
    for path in product(range(4), repeat=len(probabilities)):
        kept = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        text = "".join(letters[c] for c in kept)
        if text in found:
            found[text] += float(np.prod(probabilities[np.arange(len(path)), list(path)]))
    return found


@given(steps=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_the_best_text_of_words_is_found_with_its_probability(steps: int, seed: int) -> None:
    probabilities = np.random.default_rng(seed).dirichlet(np.full(4, 0.7), steps)
    words = ["a", "ab", "bb"]
    texts = {
        "",
        *words,
        *(f"{x} {y}" for x in words for y in words),
        *(" ".join(each) for each in product(words, repeat=3)),
    }
    exact = by_all_paths(probabilities, texts)
    found = beam_search(probabilities, Lexicon(words, NUMBERS, 3), width=10_000)
    text = "".join({1: "a", 2: "b", 3: " "}[c] for c in found.classes)
    assert exact[text] == pytest.approx(max(exact.values()), rel=2e-4, abs=1e-9)
    assert found.probability == pytest.approx(exact[text], rel=1e-3, abs=1e-6)


def test_a_narrow_beam_finds_what_is_clear_and_says_when_it_finds_nothing() -> None:
    clear = np.array([[0.05, 0.9, 0.03, 0.02], [0.05, 0.03, 0.9, 0.02], [0.9, 0.04, 0.04, 0.02]])
    lexicon = Lexicon(["ab", "b"], NUMBERS)
    assert beam_search(clear, lexicon, width=2).classes == [1, 2]
    assert beam_search(np.array([[0.0, 1.0, 0.0, 0.0]]), Lexicon(["bb"], NUMBERS)).classes == []
    assert beam_search(np.array([[0.0, 1.0, 0.0, 0.0]]), Lexicon(["ab"], NUMBERS)).classes == [], "a word that is cut"


@given(steps=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_the_best_text_until_an_end_is_found_with_its_probability(steps: int, seed: int) -> None:
    probabilities = np.random.default_rng(seed).dirichlet(np.full(4, 0.7), steps)
    words = ["a", "ab", "bb"]
    spoken = [" ".join(each) for count in (1, 2, 3) for each in product(words, repeat=count)]
    numbers = [[*(NUMBERS[c] for c in text), 0] for text in ["", *spoken] if len(text) < steps]
    exact = [float(np.prod(probabilities[np.arange(len(text)), text])) for text in numbers]
    found = search_until_end(probabilities, Lexicon(words, NUMBERS, 3), width=10_000)
    assert found.probability == pytest.approx(max(exact))
    assert [*found.classes, 0] == numbers[int(np.argmax(exact))]
    assert search_until_end(probabilities, Lexicon(words, NUMBERS), end=4) == ([], 0.0), "no class is the end"


def test_words_that_cannot_be_written_are_left_out() -> None:
    lexicon = Lexicon(["ab", "ax", "ab", "b"], NUMBERS)
    assert (lexicon.size, lexicon.left_out) == (2, ["ax"])
    assert lexicon.after(0, 3) is None, "no space before a word"


def test_lists_of_words(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("one Two\none\n", encoding="utf-8")
    assert read_words(file) == ["one", "One", "ONE", "Two", "TWO"]
    file.write_text(" \n")
    with pytest.raises(DataError, match="0 words; give 1 to"):
        read_words(file)
    with pytest.raises(DataError, match="cannot be read as UTF-8 text"):
        read_words(tmp_path / "none.txt")


def test_an_option_of_pdl_predict_answers_with_words(tmp_path: Path) -> None:
    step = Ctc()
    step.bind(Resources(labels=["a", "b"]))
    words = tmp_path / "words.txt"
    words.write_text("bb")
    unclear = np.array([[0.1, 0.5, 0.4], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]])
    assert step(unclear, Sample())["text"] == "ab"
    chosen = step.configured({"--words": [str(words)]}, None)
    answer = chosen(unclear, Sample())
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

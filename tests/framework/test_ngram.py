"""N-gram models by hand and against sums over all tokens; ARPA files there and back, and those that are none."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from pdl import ngram
from pdl.errors import DataError, UsageError
from pdl.kernels import ctc_beam
from pdl.vocabulary import Vocabulary

TEXTS = [text.split() for text in ("a b a", "a b c", "b c d a b", "a a a b", "d")]


def p(model: ngram.NGrams, *tokens: str) -> float:
    """p of the last token behind those before it, at the begin of a text."""
    return float(np.exp(model.log_probabilities(tokens)[len(tokens) - 1]))


def test_kneser_ney_by_hand() -> None:
    """Two texts, `a b` and `a c`: counts of counts vanish, so the discounts are 1/2, 1 and 3/2.

    Unigrams count what they follow: a 1 (<s>), b 1 (a), c 1 (a), </s> 2 (b, c), of 5 in all. The discounts take
    3 (1/2) + 1 = 5/2, half of which is left for 5 tokens alike, <unk> among them: 1/10 each. Bigrams: <s> a 2 of 2, a b
    and a c 1 of 2, b </s> and c </s> 1 of 1.
    """
    model = ngram.train([["a", "b"], ["a", "c"]], 2)
    assert model.counts == [6, 5]
    a, b, end, unknown = 0.5 / 5 + 0.1, 0.5 / 5 + 0.1, 1 / 5 + 0.1, 0.1
    assert p(model, "a") == pytest.approx((2 - 1) / 2 + 0.5 * a, rel=1e-6)
    assert p(model, "b") == pytest.approx(0.5 * b, rel=1e-6)
    assert p(model, "x") == pytest.approx(0.5 * unknown, rel=1e-6)
    assert p(model, "a", "b") == pytest.approx((1 - 0.5) / 2 + 0.5 * b, rel=1e-6)
    assert p(model, "a", "a") == pytest.approx(0.5 * a, rel=1e-6)
    assert p(model, "x", "a") == pytest.approx(a, rel=1e-6), "of an unknown context nothing is known"
    found = np.exp(model.log_probabilities(["a", "b"]))
    assert found[2] == pytest.approx((1 - 0.5) / 1 + 0.5 * end, rel=1e-6)
    perplexity, count, lacks = model.perplexity([["a", "b"], ["x"]])
    logs = [*model.log_probabilities(["a", "b"]), *model.log_probabilities(["x"])]
    assert (count, lacks) == (5, 1)
    assert perplexity == pytest.approx(math.exp(-np.mean(logs)))


def test_a_model_of_words_alone(tmp_path: Path) -> None:
    """Of words without texts all are alike, and so is the end; with texts there is nothing left for other words."""
    words = ["b", "a", "c"]
    model = ngram.train([], 3, words)
    assert (model.order, model.closed) == (1, True)
    assert [p(model, w) for w in "abc"] == pytest.approx([0.25] * 3)
    assert np.exp(model.log_probabilities([])) == pytest.approx([0.25])
    assert p(model, "x") < 1e-90
    learned = ngram.train([["a", "b"], ["b", "a", "a"]], 2, words)
    for before in ([], ["a"], ["c"], ["b", "a"]):
        ends = float(np.exp(learned.log_probabilities(before)[-1]))
        assert sum(p(learned, *before, w) for w in words) + ends == pytest.approx(1)
    learned.write(tmp_path / "x.arpa")
    assert ngram.read_arpa(tmp_path / "x.arpa").closed
    assert not ngram.train([["a"]], 1).closed
    for texts, given, message in (
        ([["a", "x"]], words, "text 1: 'x' is none of the words"),
        ([], ["<s>"], "<s> is no word"),
        ([], [], "there is no word"),
    ):
        with pytest.raises(DataError, match=message):
            ngram.train(texts, 2, given)


def test_discounts_of_counts_of_counts() -> None:
    """Equation 26 of Chen & Goodman for n1, n2, n3, n4 = 8, 4, 2, 1: Y = 1/2."""
    counts = np.repeat([1, 2, 3, 4, 9], [8, 4, 2, 1, 3])
    assert ngram._discounts(counts) == pytest.approx([1 - 0.5, 2 - 1.5 * 2 / 4, 3 - 2 * 1 / 2])
    assert ngram._discounts(np.repeat([1, 2, 3], [8, 4, 0])) == ngram.FALLBACK
    assert ngram._discounts(np.repeat([1, 2, 3], [1, 1, 9])) == ngram.FALLBACK, "2 - 3 Y 9 is below 0"


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_of_all_contexts_sum_to_one(order: int) -> None:
    rng = np.random.default_rng(order)
    drawn = [rng.choice([*"abcdefgh"], rng.integers(1, 20), p=np.arange(1, 9) / 36).tolist() for _ in range(60)]
    model = ngram.train(drawn, order)
    assert model.order == order
    out, tokens = np.empty(1), np.array([i for i in range(model.kernel.tokens) if i != 1])
    for node in range(len(model.symbol)):
        total = 0.0
        for token in tokens:
            model.kernel.read(out, np.array([token]), node)
            total += 10 ** out[0]
        assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_arpa_there_and_back(name: str, tmp_path: Path) -> None:
    model = ngram.train(TEXTS, 3)
    model.write(tmp_path / "model.arpa")
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "model.arpa").read_bytes()))
    found = ngram.read_arpa(tmp_path / name)
    assert found.tokens.names == model.tokens.names
    for each, array in model.arrays().items():
        assert np.array_equal(found.arrays()[each], array)
    constants = {f"lm.{each}": array for each, array in model.arrays().items()}
    again = ngram.NGrams.of_constants("lm", found.tokens, constants)
    assert np.array_equal(again.log_probabilities(["a", "x"]), model.log_probabilities(["a", "x"]))


ARPA = """made by hand
\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1 </s>
-99 <s> -0.5
-0.5\tb\t-0.25
-0.7 a

\\2-grams:
-0.125 b a
-0.3 <s> b

\\end\\
"""


def test_arpa_of_others(tmp_path: Path) -> None:
    """In any order, without <unk> and without weights."""
    (tmp_path / "a.arpa").write_text(ARPA)
    model = ngram.read_arpa(tmp_path / "a.arpa")
    assert (model.tokens.names, model.counts) == (["<s>", "</s>", "b", "a"], [5, 2])
    found = model.log_probabilities(["b", "a", "x", "b"]) / math.log(10)
    assert found == pytest.approx([-0.3, -0.125, -100, -0.5, -0.25 - 1])
    assert model.characters
    assert model.split("ab  b") == ["a", "b", "▁", "b"]


FAULTS = [
    (("\\data\\", "data"), r"17: the file ends before \\end\\"),
    (("ngram 2=2", "ngram 3=2"), r"4: expected `ngram 2=COUNT`, got b'ngram 3=2'"),
    (("ngram 2=2", "ngram 2=-2"), r"4: expected `ngram 2=COUNT`"),
    (("ngram 2=2", "ngram 2=999999999999"), r"6: 2 orders with 1,000,000,000,003 n-grams; 1 to 10 with at most"),
    (("ngram 1=4", "ngram 1=5"), r"11: 4 1-grams, but \\data\\ says 5"),
    (("ngram 1=4", "ngram 1=3"), r"10: more 1-grams than the 3 of \\data\\"),
    (("\\2-grams:", "\\3-grams:"), r"12: expected \\2-grams:, got b'\\\\3-grams:'"),
    (("-0.7 a", "-0.7 a b c"), r"10: expected log10 p and 1 tokens, and a weight if any, got 4 fields: b'-0.7 a b c'"),
    (("-0.3 <s> b", "-0.3 <s> b 0"), r"14: expected log10 p and 2 tokens, got 4 fields"),
    (("-0.7 a", "0.7 a"), r"10: log10 p and the weight must be finite numbers, and p at most 1, got b'0.7 a'"),
    (("-0.7 a", "nan a"), r"10: log10 p and the weight must be finite"),
    (("-0.25", "inf"), r"9: log10 p and the weight must be finite"),
    (("-0.25", "x"), r"9: log10 p and the weight must be finite"),
    (("-0.125 b a", "-0.125 b c"), r"13: 'c' is no 1-gram"),
    (("-0.7 a", "-0.7 b"), r"10: 'b' is there twice"),
    (("-0.3 <s> b", "-0.3 b a"), r"14: 'b a' is there twice"),
    (("-1 </s>", "-1 <unk>"), r"7: </s> is no 1-gram; models of texts with begin and end are read"),
    (("\\end\\", "\\3-grams:"), r"16: expected \\end\\, got b'\\\\3-grams:'"),
    (("\n\\end\\\n", ""), r"15: the file ends before \\end\\; is it cut off\?"),
    (("-0.7 a", "-0.7 " + "a" * 70_000), r"10: a line of more than 65536 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), FAULTS, ids=[said[:30] for _, said in FAULTS])
def test_files_that_are_no_models(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.arpa").write_text(ARPA.replace(*change))
    with pytest.raises(DataError, match=rf"bad\.arpa:{said}"):
        ngram.read_arpa(tmp_path / "bad.arpa")


def test_a_trigram_needs_its_bigram(tmp_path: Path) -> None:
    more = ARPA.replace("ngram 2=2", "ngram 2=2\nngram 3=1").replace("\\end", "\\3-grams:\n-1 a b a\n\n\\end")
    (tmp_path / "bad.arpa").write_text(more)
    with pytest.raises(DataError, match=r"bad\.arpa:18: 'a b', with which this 3-gram begins, is no 2-gram"):
        ngram.read_arpa(tmp_path / "bad.arpa")
    with pytest.raises(DataError, match=r"none\.arpa: cannot be read: .*give an ARPA file"):
        ngram.read_arpa(tmp_path / "none.arpa")
    (tmp_path / "a.arpa.gz").write_bytes(gzip.compress(ARPA.encode())[:-20])
    with pytest.raises(DataError, match=r"a\.arpa\.gz: cannot be read"):
        ngram.read_arpa(tmp_path / "a.arpa.gz")


def test_what_cannot_be_learned() -> None:
    with pytest.raises(DataError, match=r"text 2: </s> is no token of texts"):
        ngram.train([["a"], ["b", "</s>"]])
    with pytest.raises(DataError, match="there is no token in the texts"):
        ngram.train([[], []])
    with pytest.raises(UsageError, match="order=11: n-grams of 1 to 10 tokens"):
        ngram.train(TEXTS, 11)


def test_arrays_that_are_no_model() -> None:
    good = ngram.train(TEXTS, 2)
    arrays = good.arrays()
    for name, value, said in (
        ("first", arrays["first"][:-1], "are no tree"),
        ("symbol", arrays["symbol"][::-1], "are no tree"),
        ("backoff", arrays["backoff"] * np.nan, "no numbers"),
        ("log_p", arrays["log_p"][1:], "for .* nodes"),
    ):
        with pytest.raises((DataError, ValueError), match=said):
            ngram.NGrams(good.tokens, **{**arrays, name: value})
    with pytest.raises(DataError, match="do not begin with <s> and </s>"):
        ngram.NGrams(Vocabulary(good.tokens.names[1:]), **arrays)
    with pytest.raises(DataError, match="of order 2, with 7 of 8 tokens"):
        ngram.NGrams(Vocabulary([*good.tokens, "x"]), **arrays)
    with pytest.raises(DataError, match="'lm' among the constants is damaged"):
        ngram.NGrams.of_constants("lm", good.tokens, {})
    suffix = np.arange(len(good.symbol), dtype=np.int32)
    with pytest.raises(DataError, match="which is none before it"):
        ctc_beam.NGrams(good.first, good.symbol, suffix, good.log_p, good.backoff, 7)

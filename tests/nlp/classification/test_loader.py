"""Batches of texts, and metrics of several labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.data import bucket_sizes
from pdl_nlp.classification.loader import Tokens
from pdl_nlp.classification.metrics import ExactMatch, LabelCounts, MacroF1, MicroF1, WrongSets
from pdl_nlp.data import Texts
from pdl_nlp.fitting import counted, tokenizer_of, unknown_share, vocabulary_of


def data(*texts: str) -> Texts:
    return Texts(texts, [str(i % 2) for i in range(len(texts))], sources=Path("made-up"))


def test_a_vocabulary_is_what_is_frequent_in_training() -> None:
    counts = counted(["b a B", "a c !"], "words", lower=True)
    assert vocabulary_of(counts).names == ["[PAD]", "[UNK]", "a", "b", "!", "c"]
    assert vocabulary_of(counts, min_count=2).names == ["[PAD]", "[UNK]", "a", "b"]
    assert vocabulary_of(counts, most=3).names == ["[PAD]", "[UNK]", "a"]
    assert counted(["İa A b"], "characters", lower=True) == {"İ": 1, "a": 2, "b": 1}
    for kind in ("words", "characters"):
        texts = ["The İstanbul café, 2 nights", "酒店 不错。"]
        known = tokenizer_of(vocabulary_of(counted(texts, kind, lower=True)), kind, lower=True)
        assert unknown_share(known, texts) == 0, "a tokenizer finds the tokens that were counted"
        assert unknown_share(known, ["zzz ω"]) > 0


def test_batches_are_as_long_as_the_next_size() -> None:
    texts = data("a b c", "", "b", "a b c c c c c")
    tokenizer = tokenizer_of(vocabulary_of(counted(texts.texts, "words", lower=False)), "words", lower=False)
    tokens = Tokens(texts, tokenizer, max_length=5, sizes=[1, 4, 7])
    assert tokens.sizes.tolist() == [1, 4, 5]
    assert tokens.lengths.tolist() == [3, 1, 1, 5]
    batch = tokens.get_batch(np.array([0, 1]))
    a, b, c = (tokenizer.number(each) for each in "abc")
    assert batch["tokens"].tolist() == [[a, b, c, 0], [0, 0, 0, 0]]
    assert batch["label"].tolist() == [0, 1]
    assert tokens.get_batch(np.array([1, 2]))["tokens"].tolist() == [[0], [b]]
    assert tokens[3]["tokens"].tolist() == [a, b, c, c, c]


def test_padding_is_below_a_tenth() -> None:
    rng = np.random.default_rng(0)
    texts = data(*(" ".join("w" * n) for n in rng.geometric(0.02, 2000)))
    tokenizer = tokenizer_of(vocabulary_of({"w": 1}), "words", lower=False)
    tokens = Tokens(texts, tokenizer, max_length=200)
    assert tokens.sizes.tolist() == bucket_sizes(tokens.lengths)
    made = [tokens.get_batch(rows)["tokens"] for rows in np.split(np.argsort(tokens.lengths), range(32, 2000, 32))]
    assert np.mean(np.concatenate([each.ravel() for each in made]) == 0) < 0.1


def test_several_labels_by_hand() -> None:
    scores = np.array([[1.0, -1.0], [2.0, 3.0], [-1.0, -2.0]])
    targets = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = {}
    for metric in (MicroF1(), MacroF1(), ExactMatch(), LabelCounts()):
        metric.update(scores[:2], targets[:2])
        metric.update(scores[2:], targets[2:])
        found[type(metric)] = metric.compute()
    assert np.array_equal(found[LabelCounts], [[1, 2, 1], [2, 1, 1]])
    assert found[MicroF1] == 2 * 2 / (3 + 3)
    assert found[MacroF1] == np.mean([2 / 3, 2 / 3])
    assert found[ExactMatch] == 1 / 3
    wrong = WrongSets(1)
    wrong.update(scores, targets, np.array([7, 8, 9]))
    ((loss, index),) = wrong.compute()
    assert index == 9
    np.testing.assert_allclose(loss, np.log1p(np.exp(2)) + np.log1p(np.exp(-1)))

"""Windows ask for every token once; n-grams are smoothed as Kneser and Ney do; texts are cut by their length."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import ConfigError, DataError
from pdl_nlp.data import Corpus
from pdl_nlp.language_modelling.baselines import baselines, kneser_ney
from pdl_nlp.language_modelling.loader import Windows, numbered
from pdl_nlp.language_modelling.metrics import BitsPerCharacter, CharacterPerplexity, Perplexity
from pdl_nlp.tokenizers import Characters

IDS = np.random.default_rng(0).choice(4, 300, p=[0.5, 0.3, 0.15, 0.05]).astype(np.int32)
IDS[2::3] = IDS[1::3]  # so that contexts say something


@pytest.mark.parametrize(("length", "stride"), [(7, None), (7, 3), (400, None), (299, 1)])
def test_every_token_but_the_first_is_a_target_once(length: int, stride: int | None) -> None:
    windows = Windows(IDS, 600, length, stride=stride)
    found, seen = np.full(len(IDS), -1), np.zeros(len(IDS), int)
    batch = windows.get_batch(np.arange(len(windows)))
    step = stride or length
    for number, (tokens, targets) in enumerate(zip(batch["tokens"], batch["targets"], strict=True)):
        for at in np.flatnonzero(targets >= 0):
            place = number * step + at + 1
            found[place], seen[place] = targets[at], seen[place] + 1
            assert tokens[at] == IDS[place - 1]
            assert number == 0 or at >= length - step  # what stands before it
    np.testing.assert_array_equal(found[1:], IDS[1:])
    assert (seen[1:] == 1).all()
    assert batch["characters"].sum() == pytest.approx(600 * 299 / 300, rel=1e-5)


def test_windows_of_training_begin_elsewhere_in_every_epoch() -> None:
    windows, begins = Windows(IDS, 300, 16, training=True, seed=3), set()
    for epoch in range(20):
        windows.set_epoch(epoch)
        batch = windows.get_batch(np.arange(len(windows)))
        assert len(windows) == 17
        assert (batch["targets"] >= 0).all()
        np.testing.assert_array_equal(batch["tokens"].reshape(-1)[1:], batch["targets"].reshape(-1)[:-1])
        np.testing.assert_array_equal(batch["tokens"].reshape(-1), IDS[windows.begin : windows.begin + 17 * 16])
        begins.add(windows.begin)
    assert len(begins) > 8
    short = Windows(IDS[:5], 5, 16, training=True).get_batch(np.array([0]))
    assert (short["targets"][0] >= 0).sum() == 4
    with pytest.raises(DataError, match="at least two tokens"):
        Windows(IDS[:1], 1, 16)


def modified_kneser_ney(train: list[int], size: int, order: int, context: list[int], word: int) -> float:
    """Chen & Goodman, section 4.1.6, by dictionaries."""
    if order == 0:
        return 1 / size
    grams = {n: Counter(tuple(train[i : i + n]) for i in range(len(train) - n + 1)) for n in range(1, 8)}

    def p(n: int, history: tuple[int, ...], w: int) -> float:
        if n == 0:
            return 1 / size
        counts: dict[tuple[int, ...], int]
        if n == order:
            counts = grams[n]
        else:
            before: dict[tuple[int, ...], set[int]] = defaultdict(set)
            for gram in grams[n + 1]:
                before[gram[1:]].add(gram[0])
            counts = {gram: len(found) for gram, found in before.items()}
        n1, n2, n3, n4 = (sum(c == i for c in counts.values()) for i in range(1, 5))
        d = [0.0, 0.5, 1.0, 1.5]
        if n1 and n2 and n3:
            y = n1 / (n1 + 2 * n2)
            given = [0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
            d = given if all(0 <= x <= i for i, x in enumerate(given)) else d
        own = {gram[-1]: c for gram, c in counts.items() if gram[:-1] == history}
        total = sum(own.values())
        lower = p(n - 1, history[1:], w)
        if not total:
            return lower
        left = sum(d[min(c, 3)] for c in own.values())
        c = own.get(w, 0)
        return (c - d[min(c, 3)] + left * lower) / total

    return p(order, tuple(context[len(context) - order + 1 :]), word)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_kneser_ney_by_dictionaries(order: int) -> None:
    train, test = IDS[:200], IDS[200:]
    found = kneser_ney(train, test, 4, order)
    for at in (2, 3, 17, 42, 99):
        context = test[at - 2 : at].tolist()
        expected = modified_kneser_ney(train.tolist(), 4, order, context, int(test[at]))
        assert found[at - 1] == pytest.approx(-math.log(expected), rel=1e-6)


def test_kneser_ney_sums_to_one() -> None:
    for context in ([0, 1, 1], [3, 3, 3], [4, 0, 1], [2, 4, 4]):
        texts = [np.array([*context, word]) for word in range(5)]  # of token 4 nothing is known
        total = sum(math.exp(-kneser_ney(IDS, text, 5, 4)[-1]) for text in texts)
        assert total == pytest.approx(1, abs=1e-6)


def test_baselines_are_in_the_models_units() -> None:
    found = baselines(IDS[:200], IDS[200:], 4, 2.0)
    assert list(found) == ["unigram", "3-gram (Kneser-Ney)", "6-gram (Kneser-Ney)"]
    counts = np.bincount(IDS[:200], minlength=4) + 1
    loss = -np.log(counts / counts.sum())[IDS[201:]].mean()
    assert found["unigram"]["loss"] == pytest.approx(loss)
    assert found["unigram"]["perplexity"] == pytest.approx(math.exp(loss))
    assert found["unigram"]["bits_per_character"] == pytest.approx(loss / 2 / math.log(2))
    assert found["3-gram (Kneser-Ney)"]["loss"] < loss


def test_metrics_by_hand() -> None:
    metrics = [Perplexity(), CharacterPerplexity(), BitsPerCharacter()]
    for metric in metrics:
        metric.update(np.array([3.0, 5.0]), np.array([2, 2]), np.array([8.0, 8.0]))
    assert [m.compute() for m in metrics] == pytest.approx([math.exp(2), math.exp(0.5), 0.5 / math.log(2)])
    assert math.isnan(Perplexity().compute())


def test_texts_are_joined_by_the_end() -> None:
    tokenizer = Characters(["[UNK]", "a", "b", "\n"], special={"unknown": "[UNK]"}, spaces=True)
    ids, characters = numbered(["ab\n", "", "b"], tokenizer, 0)
    assert (ids.tolist(), characters) == ([1, 2, 3, 0, 0, 2], 4)
    assert numbered(["ab", "b"], tokenizer, None)[0].tolist() == [1, 2, 2]


def test_corpus_is_cut_by_characters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo  \n")
    (tmp_path / "b.jsonl").write_text('{"text": "thr\\nee"}\n{"text": "four"}\n')
    assert Corpus(tmp_path).texts == ["one\n\ntwo  \n", "thr\nee", "four"]
    ratios = {"train": 0.5, "val": 0.25, "test": 0.25}
    parts = {split: Corpus(tmp_path, split=split, ratios=ratios).texts for split in ratios}
    assert parts == {"train": ["one\n\ntwo  "], "val": ["\n", "thr\n"], "test": ["ee", "four"]}
    assert Corpus(tmp_path).fingerprint != Corpus(tmp_path, split="val", ratios=ratios).fingerprint
    assert Corpus(tmp_path, most=14).texts == ["one\n\ntwo  \n", "thr"]
    with pytest.raises(ConfigError, match="split='dev' is none of the ratios train, val, test"):
        Corpus(tmp_path, split="dev", ratios=ratios)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DataError, match="has no texts"):
        Corpus(tmp_path / "empty.txt")

"""The models of texts: what stands behind a text changes nothing; parameters; what they are defined as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl.config.parts import variants
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import ConfigError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl_nlp.models import DPCNN, BERTClassifier, BoW, TextCNN, TextModel, TextRNN


def spread(model: TextModel) -> TextModel:
    """The same with larger weights than those that training begins with, so that tokens make a difference."""
    for weight in model.parameters():
        weight.data *= 20 if weight.ndim == 2 else 1
    return model


MADE: dict[str, Any] = {
    "bow": lambda: BoW(50, 3, dim=8),
    "bow of trigrams, hidden": lambda: BoW(50, 3, dim=8, ngrams=3, buckets=97, hidden=6),
    "text_cnn": lambda: TextCNN(50, 3, dim=8, windows=(2, 3), filters=5),
    "text_cnn, hidden": lambda: TextCNN(50, 3, dim=8, filters=5, hidden=4),
    "text_cnn, n-grams": lambda: TextCNN(50, 3, dim=8, filters=5, ngrams=3, buckets=97),
    "bilstm": lambda: TextRNN(50, 3, dim=8, hidden=5),
    "bigru, max": lambda: TextRNN(50, 3, dim=8, hidden=5, cell="gru", pool="max", layers=2),
    "bilstm, n-grams": lambda: TextRNN(50, 3, dim=8, hidden=5, ngrams=2, buckets=97),
    "bilstm, mean": lambda: TextRNN(50, 3, dim=8, hidden=5, pool="mean"),
    "dpcnn": lambda: DPCNN(50, 3, dim=8, filters=6, blocks=4),
    "bert": lambda: spread(BERTClassifier(50, 3, dim=8, layers=2, heads=2, segments=0, dropout=0.0)),
}
TOKENS = np.random.default_rng(0).integers(1, 50, (4, 9))
TOKENS[1, 5:] = TOKENS[2, 1:] = TOKENS[3] = 0


def logits(model: TextModel, tokens: np.ndarray) -> np.ndarray:
    with pdl.no_grad():
        return np.asarray(model.eval()(pdl.as_tensor(tokens)).numpy())


@pytest.mark.parametrize("name", MADE)
def test_padding_changes_nothing(name: str) -> None:
    pdl.seed(0)
    model = MADE[name]()
    whole = logits(model, TOKENS)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(logits(model, np.pad(TOKENS, ((0, 0), (0, 7)))), whole, atol=1e-6)
    np.testing.assert_allclose(logits(model, TOKENS[1:2, :5]), whole[1:2], atol=1e-6)
    assert np.abs(logits(model, np.where(TOKENS[0, 4] == TOKENS, 7, TOKENS))[0] - whole[0]).max() > 1e-5


@pytest.mark.parametrize("name", MADE)
def test_every_weight_has_a_gradient(name: str) -> None:
    pdl.seed(0)
    model = MADE[name]()
    loss = pdl.cross_entropy(model.train()(pdl.as_tensor(TOKENS)), pdl.as_tensor(np.array([0, 1, 2, 0])))
    loss.backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", MADE)
def test_one_program_for_all_sizes(name: str) -> None:
    inputs = {"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)}
    assert trace_symbolic(MADE[name]().eval(), inputs)[1] == []


def test_parameters_are_those_of_the_definitions() -> None:
    def count(model: TextModel) -> int:
        return sum(weight.size for weight in model.parameters())

    v, d, c, f, h = 50, 8, 3, 5, 6
    assert count(TextCNN(v, c, dim=d, windows=(3, 4, 5), filters=f)) == v * d + 12 * d * f + 3 * f + 3 * f * c + c
    assert count(TextRNN(v, c, dim=d, hidden=h)) == v * d + 2 * 4 * h * (d + h + 2) + 2 * h + 2 * h * c + c
    assert count(TextRNN(v, c, dim=d, hidden=h, cell="gru", pool="max")) == v * d + 6 * h * (d + h + 2) + 2 * h * c + c
    assert count(BoW(v, c, dim=d, ngrams=2, buckets=97)) == v * d + 97 * d + d * c + c
    assert count(DPCNN(v, c, dim=d, filters=f, blocks=7)) == v * d + 3 * d * f + f + 14 * (3 * f * f + f) + f * c + c


def test_text_cnn_is_the_highest_response_of_each_filter() -> None:
    """A window of one token: max over tokens of relu(w . x + b)."""
    pdl.seed(0)
    model = TextCNN(50, 3, dim=8, windows=(1,), filters=5).eval()
    x = model.embed.weight.data[TOKENS[1, :5]]
    responses = np.maximum(x @ model.convs[0].weight.data[0] + model.convs[0].bias.data, 0).max(axis=0)
    expected = responses @ model.head.weight.data + model.head.bias.data
    np.testing.assert_allclose(logits(model, TOKENS[1:2])[0], expected, atol=1e-5)


def test_a_bag_is_the_mean_of_tokens_and_pairs() -> None:
    pdl.seed(0)
    model = BoW(50, 3, dim=8, ngrams=2, buckets=97).eval()
    a, b = 7, 11
    pair = 1 + (1_000_003 * a + b) % 96
    rows = [*model.embed.weight.data[[a, b]], model.grams[0].weight.data[pair]]
    expected = np.mean(rows, axis=0) @ model.head.weight.data + model.head.bias.data
    np.testing.assert_allclose(logits(model, np.array([[a, b, 0, 0]]))[0], expected, atol=1e-6)


def test_what_only_the_data_knows() -> None:
    with pytest.raises(ConfigError, match="TextCNN needs vocab_size, which the task takes from the data"):
        TextCNN()
    listed = {each.name for each in variants() if each.target.startswith("pdl_nlp.")}
    assert {"bow", "bow_bigrams", "text_cnn", "text_bilstm", "text_bigru", "dpcnn", "bert_tiny"} <= listed

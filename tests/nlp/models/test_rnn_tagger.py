"""Taggers: what stands behind a text changes nothing; n-grams and letters; the loss with and without a CRF."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.config.parts import variants
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import ConfigError, ShapeError
from pdl.export.symbolic import trace_symbolic
from pdl.hub.pretrained import collected
from pdl.ops.base import Spec
from pdl.runtime.weights import to_bytes
from pdl_nlp.models import RNNTagger
from pdl_nlp.models.base import NGrams
from pdl_nlp.models.rnn_tagger import LAC_LAYERS, Decoded, remap
from pdl_nlp.schemes import Tags

MADE: dict[str, Any] = {
    "bilstm_crf": lambda: RNNTagger(50, 5, 0, dim=8, hidden=6),
    "letters": lambda: RNNTagger(50, 5, 30, dim=8, hidden=6, letter_dim=4, letter_filters=7, unknown=0.2),
    "lac, n-grams": lambda: RNNTagger(50, 5, 0, dim=8, hidden=6, layers=2, cell="gru", ngrams=3, buckets=97),
    "n-grams unknown": lambda: RNNTagger(50, 5, 0, dim=8, hidden=6, ngrams=2, buckets=97, ngram_unknown=0.3),
    "softmax, pairs": lambda: RNNTagger(50, 5, 0, dim=8, hidden=6, crf=False, ngrams=2, buckets=97),
}
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(2, 50, (4, 9))
LETTERS = RNG.integers(1, 30, (4, 9, 6))
LENGTHS = np.array([9, 5, 1, 3])
for row, length in enumerate(LENGTHS):
    TOKENS[row, length:] = LETTERS[row, length:] = 0
LETTERS[:, :, 4:] = 0
TAGS = np.where(np.arange(9) < LENGTHS[:, None], RNG.integers(0, 5, (4, 9)), -1)


def inputs_of(model: RNNTagger, tokens: np.ndarray, letters: np.ndarray) -> list[pdl.Tensor]:
    return [pdl.as_tensor(each) for each in (tokens, *([letters] if model.letters else []))]


def emissions(model: RNNTagger, tokens: np.ndarray = TOKENS, letters: np.ndarray = LETTERS) -> np.ndarray:
    with pdl.no_grad():
        return np.asarray(model.eval()(*inputs_of(model, tokens, letters)).numpy())


@pytest.mark.parametrize("name", MADE)
def test_padding_changes_nothing(name: str) -> None:
    pdl.seed(0)
    model = MADE[name]()
    whole = emissions(model)
    wider = emissions(model, np.pad(TOKENS, ((0, 0), (0, 7))), np.pad(LETTERS, ((0, 0), (0, 7), (0, 3))))
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(wider[row, :length], whole[row, :length], atol=1e-6)
    alone = emissions(model, TOKENS[1:2, :5], LETTERS[1:2, :5])
    np.testing.assert_allclose(alone[0], whole[1, :5], atol=1e-6)


@pytest.mark.parametrize("name", MADE)
def test_every_weight_has_a_gradient(name: str) -> None:
    pdl.seed(0)
    model = MADE[name]().train()
    made = model(*inputs_of(model, TOKENS, LETTERS))
    model.loss(made, pdl.as_tensor(TAGS), pdl.as_tensor(LENGTHS)).mean().backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", MADE)
def test_one_program_for_all_sizes(name: str) -> None:
    model = MADE[name]().eval()
    n, t = Dim.symbol("n", 3), Dim.symbol("t", 7)
    inputs = {"tokens": Spec((n, t), int64), **({"letters": Spec((n, t, 6), int64)} if model.letters else {})}
    forbidden = Tags(["O", "B-A", "I-A", "B-B", "I-B"]).forbidden
    assert trace_symbolic(Decoded(model, forbidden).eval(), inputs)[1] == []


def test_the_loss_without_transitions_is_that_of_each_token() -> None:
    pdl.seed(0)
    crf, plain = MADE["bilstm_crf"](), MADE["bilstm_crf"]()
    plain.crf = False
    scores = pdl.as_tensor(RNG.standard_normal((4, 9, 5)).astype(np.float32))
    found = [each.loss(scores, pdl.as_tensor(TAGS), pdl.as_tensor(LENGTHS)).detach().numpy() for each in (crf, plain)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    log_p = scores.numpy() - np.log(np.exp(scores.numpy()).sum(axis=-1, keepdims=True))
    assert found[0][2] == pytest.approx(-log_p[2, 0, TAGS[2, 0]], rel=1e-5)


def test_answers_hold_to_the_scheme() -> None:
    tags = Tags(["O", "B-A", "I-A", "B-B", "I-B"])
    for name in ("bilstm_crf", "softmax, pairs"):
        model = MADE[name]()
        scores = pdl.as_tensor(RNG.standard_normal((64, 9, 5)).astype(np.float32))
        found = model.decode(scores, pdl.as_tensor(np.full(64, 9)), tags.forbidden).detach().numpy()
        assert not [row for row in found if len(tags.wrong(row))]


def test_neighbours_and_letters_are_seen() -> None:
    """Without a recurrent state to carry it, n-grams see the neighbours; a letter in the middle of a word counts."""
    pdl.seed(0)
    model = MADE["lac, n-grams"]().eval()
    grams = np.split(model.gram_embed(pdl.as_tensor(TOKENS)).detach().numpy(), 3, axis=-1)
    a, b, c = TOKENS[0, :3].tolist()
    table = model.gram_embed.weight.data
    left = a * 1_000_003 + b
    np.testing.assert_array_equal(grams[0][0, 1], table[left % 96 + 1])
    np.testing.assert_array_equal(grams[1][0, 1], table[(b * 1_000_003 + c) % 96 + 1])
    np.testing.assert_array_equal(grams[2][0, 1], table[((left % 96) * 1_000_003 + c + 1) % 96 + 1])
    assert (grams[0][1, 5:] == 0).all()
    spelled = MADE["letters"]()
    other = LETTERS.copy()
    other[0, 4, 2] = 1 + other[0, 4, 2] % 29
    assert np.abs(emissions(spelled, letters=other) - emissions(spelled))[0, 4].max() > 1e-5


def test_what_only_the_data_knows() -> None:
    with pytest.raises(ConfigError, match="RNNTagger needs vocab_size, which the task takes from the data"):
        RNNTagger()
    listed = {each.name for each in variants() if each.target.startswith("pdl_nlp.")}
    assert {"bilstm_crf", "bilstm", "lac"} <= listed


def test_unknown_ngrams_have_no_vector_in_training() -> None:
    pdl.seed(0)
    model = NGrams(97, 4, 2, unknown=0.4)
    tokens = pdl.as_tensor(RNG.integers(2, 50, (40, 50)))
    with pdl.no_grad():
        none = (model.train()(tokens).numpy().reshape(40, 50, 2, 4) == 0).all(axis=-1)
        assert none.mean(axis=(0, 1)) == pytest.approx([0.4, 0.4], abs=0.05)
        assert (model.eval()(tokens).numpy() != 0).any(axis=-1).all()


def test_it_begins_with_the_weights_of_another(tmp_path: Path) -> None:
    """Tags and n-grams begin anew, all else is as it was."""
    before, file = RNNTagger(50, 5, 0, dim=8, hidden=6), tmp_path / "before.safetensors"
    given = {name: np.array(value.data) for name, value in before.state_dict().items()}
    file.write_bytes(to_bytes(given))
    with collected() as reports:
        after = RNNTagger(50, 7, 0, dim=8, hidden=6, ngrams=2, buckets=97, ngram_dim=3, pretrained=str(file))
    made = {name: value.data for name, value in after.state_dict().items()}
    anew = {"head.weight", "head.bias", "transitions", "starts", "ends", "gram_embed.weight"}
    assert made.keys() == given.keys() | {"gram_embed.weight"}
    for name in made.keys() - anew:
        np.testing.assert_array_equal(made[name][: len(given[name])], given[name])
    assert made["rnn.weight_ih_l0"].shape == (8 + 2 * 3, 4 * 6)
    assert made["rnn.weight_ih_l0"][8:].any()
    (found,) = reports
    assert set(found.fresh) == {"head.weight", "head.bias"}
    assert found.adapted["transitions"] == "tags begin anew"
    same = RNNTagger(50, 5, 0, dim=8, hidden=6, pretrained=str(file))
    np.testing.assert_array_equal(emissions(same), emissions(before))
    with pytest.raises(ShapeError, match=r"embed\.weight"):
        RNNTagger(51, 5, 0, dim=8, hidden=6, pretrained=str(file))


def gru(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One direction of ONNX's GRU with linear_before_reset=1: gates update, reset, new; x [T, C] -> [T, H]."""
    h, found = np.zeros(r.shape[1]), []
    for row in x:
        (wz, wr, wn), (rz, rr, rn) = np.split(w @ row + b[: len(w)], 3), np.split(r @ h + b[len(w) :], 3)
        z, reset = (1 / (1 + np.exp(-each)) for each in (wz + rz, wr + rr))
        h = (1 - z) * np.tanh(wn + reset * rn) + z * h
        found.append(h)
    return np.array(found)


def test_weights_of_lac_in_their_places() -> None:
    """Rows by characters, gates in another order, tags that are never given left out."""
    width, hidden, tags, rows = 4, 3, 5, np.array([7, 2, 2, 0], np.int32)
    drawn = {"embedding_0.w_0": (8, width), "linear_0.w_0": (2 * hidden, tags + 2), "linear_0.b_0": (tags + 2,)}
    for layer, names in enumerate(LAC_LAYERS):
        sizes = (2, 3 * hidden, 2 * hidden if layer else width), (2, 3 * hidden, hidden), (2, 6 * hidden)
        drawn |= dict(zip(names, sizes, strict=True))
    arrays: dict[str, np.ndarray] = {name: RNG.normal(size=n).astype(np.float32) for name, n in drawn.items()}
    arrays |= {"rows": rows, "transitions": RNG.normal(size=(tags, tags)).astype(np.float32)}
    net = RNNTagger(5, tags, 0, dim=width, hidden=hidden, layers=2, cell="gru")
    model = Decoded(net)
    model.load_state_dict(remap(model, arrays))
    tokens = np.array([[1, 2, 4, 3]])
    x = arrays["embedding_0.w_0"][rows[tokens[0] - 1]].astype(float)
    for names in LAC_LAYERS:
        there, back = zip(*(arrays[name] for name in names), strict=True)
        x = np.concatenate([gru(x, *there), gru(x[::-1], *back)[::-1]], axis=1)
    expected = x @ arrays["linear_0.w_0"][:, :tags] + arrays["linear_0.b_0"][:tags]
    with pdl.no_grad():
        np.testing.assert_allclose(net.eval()(pdl.as_tensor(tokens)).numpy()[0], expected, atol=1e-5)
        best = model(pdl.as_tensor(tokens)).numpy()[0]
    moves = arrays["transitions"]
    scores = {
        row: sum(expected[t, tag] for t, tag in enumerate(row)) + sum(moves[a, b] for a, b in pairwise(row))
        for row in product(range(tags), repeat=4)
    }
    assert tuple(best) == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("crf", [True, False])
def test_probabilities_are_of_what_is_allowed(crf: bool) -> None:
    """Against all sequences, each with its score: those of best tags, and 0 where the scheme allows none."""
    pdl.seed(0)
    tags = Tags(["O", "B-X", "I-X"], "BIO")
    net = RNNTagger(50, 3, 0, dim=8, hidden=6, crf=crf).eval()
    if crf:
        for each in (net.transitions, net.starts, net.ends):
            each.data[:] = RNG.normal(size=each.shape)
    tokens = pdl.as_tensor(np.array([[5, 6, 7, 0]]))
    with pdl.no_grad():
        best, found = (each.numpy()[0] for each in Decoded(net, tags.forbidden, scores=True)(tokens))
        emitted = net(tokens).numpy()[0].astype(float)
    moves, starts, ends = tags.forbidden
    if crf:
        moves, starts, ends = (
            a + b.data for a, b in zip((moves, starts, ends), (net.transitions, net.starts, net.ends), strict=True)
        )
    weights = {
        row: np.exp(
            starts[row[0]] + ends[row[-1]] + sum(emitted[t, tag] for t, tag in enumerate(row))
            + sum(moves[a, b] for a, b in pairwise(row))
        )
        for row in product(range(3), repeat=3)
    }  # fmt: skip
    assert tuple(best) == (*max(weights, key=weights.__getitem__), -1)
    total = sum(weights.values())
    expected = [sum(w for row, w in weights.items() if row[t] == best[t]) / total for t in range(3)]
    np.testing.assert_allclose(found, [*expected, 0], rtol=1e-5)

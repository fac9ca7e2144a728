"""Models that write: against replicas in NumPy, and their steps against all tokens at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pdl
from pdl.autograd.gradcheck import gradcheck
from pdl.errors import ConfigError, ShapeError
from pdl.export.decoder import Eager
from pdl.runtime.decoding import Options, search
from pdl_nlp.models.ernie_gen import ERNIEGen
from pdl_nlp.models.rnn_seq2seq import FLOOR, RNNSeq2Seq
from pdl_nlp.models.transformer import Transformer, sinusoid

VOCABULARY = 30
MODELS = {
    "post-norm": lambda: Transformer(VOCABULARY, dim=16, layers=2, heads=2, hidden=24),
    "pre-norm, learned positions": lambda: Transformer(
        VOCABULARY, dim=16, layers=1, decoder_layers=2, heads=4, norm_first=True, positions="learned", shared=False
    ),
    "lstm": lambda: RNNSeq2Seq(VOCABULARY, dim=12, hidden=16, layers=2),
    "gru, dot": lambda: RNNSeq2Seq(VOCABULARY, dim=16, hidden=16, cell="gru", scoring="dot", shared=False),
    "lstm, additive": lambda: RNNSeq2Seq(VOCABULARY, dim=12, hidden=16, scoring="additive"),
    "lstm, copies": lambda: RNNSeq2Seq(VOCABULARY, dim=12, hidden=16, layers=2, copies=True),
    "gru, additive, copies": lambda: RNNSeq2Seq(
        VOCABULARY, dim=12, hidden=16, cell="gru", scoring="additive", copies=True
    ),
    "ernie-gen": lambda: ERNIEGen(VOCABULARY, dim=16, layers=2, heads=2, hidden=24, max_length=32, attn=4),
    "ernie-gen, rotary": lambda: ERNIEGen(
        VOCABULARY, dim=16, layers=2, heads=4, hidden=24, positions="rotary", segments=0, attn=4
    ),
}


@pytest.fixture(params=MODELS)
def model(request):
    pdl.seed(0)
    return MODELS[request.param]().eval()


def texts(rows=3, source=5, target=6):
    """Two kinds of texts with padding behind the later rows."""
    rng = np.random.default_rng(1)
    made = [rng.integers(1, VOCABULARY, (rows, length)) for length in (source, target)]
    made[0][1, -2:] = 0
    made[1][2:, -1:] = 0
    return made


@pdl.no_grad()
def test_what_stands_behind_changes_nothing(model):
    tokens, given = texts()
    whole = model(pdl.tensor(tokens), pdl.tensor(given)).numpy()
    wide = [np.pad(each, ((0, 0), (0, 3))) for each in (tokens, given)]
    assert np.allclose(model(*map(pdl.tensor, wide)).numpy()[:, :6], whole, atol=1e-5)
    alone = model(pdl.tensor(tokens[1:2, :3]), pdl.tensor(given[1:2])).numpy()
    assert np.allclose(alone[0], whole[1], atol=1e-5)


@pdl.no_grad()
@pytest.mark.parametrize("beams", [1, 2])
def test_steps_are_the_whole(model, beams):
    """Two tokens at first, of one row only one; then one at a time. Rows of a source are side by side."""
    tokens, given = texts(rows=2)
    rows = np.repeat(np.arange(2), beams)
    written = given[rows]
    written[1:] = (written[1:] + np.arange(1, len(rows))[:, None]) % (VOCABULARY - 1) + 1
    whole = model(pdl.tensor(tokens[rows]), pdl.tensor(written)).numpy()
    memory = model.encode(pdl.tensor(tokens))
    state, first = model.start(len(rows), 16, *memory)
    counts, lengths, before = np.full(len(rows), 2), first.numpy(), first.numpy()
    counts[-1] = 1
    at = pdl.tensor(written[:, :2])
    while True:
        scores, state = model.step(at, pdl.tensor(counts), pdl.tensor(lengths), state, *memory)
        lengths = lengths + counts
        done = lengths - before
        assert np.allclose(scores.numpy(), whole[np.arange(len(rows)), done - 1], atol=1e-4)
        if done.max() == written.shape[1]:
            break
        counts = np.ones(len(rows), np.int64)
        at = pdl.tensor(written[np.arange(len(rows)), done][:, None])


@pdl.no_grad()
def test_attention_sums_to_one(model):
    tokens, given = texts()
    weights = model.attention(pdl.tensor(tokens), pdl.tensor(given)).numpy()
    assert weights.shape == (3, 6, 5)
    assert np.allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert not weights[1, :, -2:].any()


@pdl.no_grad()
def test_loss(model):
    tokens, given = texts()
    labels = np.where(given > 0, np.roll(given, -1, axis=1), -1)
    logits = model(pdl.tensor(tokens), pdl.tensor(given)).numpy()[labels >= 0].astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    right = -log_p[np.arange(len(log_p)), labels[labels >= 0]].mean()
    for smoothing in (0.0, 0.1):
        expected = (1 - smoothing) * right - smoothing * log_p.mean()
        found = model.loss(*map(pdl.tensor, (tokens, given, labels)), label_smoothing=smoothing)
        assert float(found) == pytest.approx(expected, abs=1e-5)


@pdl.no_grad()
def test_transformer_is_that_of_the_paper():
    pdl.seed(0)
    model = MODELS["post-norm"]().eval()
    tokens, given = texts()
    weights = {name: value.numpy().astype(np.float64) for name, value in model.state_dict().items()}

    def norm(x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attention(q, k, v, mask):
        heads = [np.stack(np.split(each, 2, axis=-1), axis=1) for each in (q, k, v)]
        scores = heads[0] @ heads[1].swapaxes(2, 3) / math.sqrt(8)
        scores = np.where(mask, scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        y = p / p.sum(axis=-1, keepdims=True) @ heads[2]
        return np.concatenate(list(y.swapaxes(0, 1)), axis=-1)

    def itself(x, name, mask):
        made = x @ weights[f"{name}.in_proj_weight"] + weights[f"{name}.in_proj_bias"]
        return linear(attention(*np.split(made, 3, axis=-1), mask), f"{name}.out_proj")

    def embedded(numbers):
        place = np.arange(numbers.shape[1])[:, None] / 10000 ** (np.arange(8) / 8)
        return weights["embed.weight"][numbers] * 4 + np.concatenate([np.sin(place), np.cos(place)], axis=1)

    def feed(x, name):
        return linear(np.maximum(linear(x, f"{name}.linear1"), 0), f"{name}.linear2")

    there = (tokens > 0)[:, None, None]
    x = embedded(tokens)
    for name in ("encoder.layers.0", "encoder.layers.1"):
        x = norm(x + itself(x, f"{name}.self_attn", there), f"{name}.norm1")
        x = norm(x + feed(x, name), f"{name}.norm2")
    y, past = embedded(given), np.tri(given.shape[1], dtype=bool)
    for name in ("decoder.0", "decoder.1"):
        y = norm(y + itself(y, f"{name}.self_attn", past), f"{name}.norm1")
        k, v = np.split(linear(x, f"{name}.cross_attn.kv_proj"), 2, axis=-1)
        other = attention(linear(y, f"{name}.cross_attn.q_proj"), k, v, there)
        y = norm(y + linear(other, f"{name}.cross_attn.out_proj"), f"{name}.norm2")
        y = norm(y + feed(y, name), f"{name}.norm3")
    scores = y @ weights["embed.weight"].T
    assert np.allclose(model(pdl.tensor(tokens), pdl.tensor(given)).numpy(), scores, atol=1e-4)


@pdl.no_grad()
def test_general_attention_of_luong():
    pdl.seed(0)
    model = RNNSeq2Seq(VOCABULARY, dim=12, hidden=16).eval()
    tokens, given = texts()
    there, memory, _, *first = model.encode(pdl.tensor(tokens))
    h = model.writer(model.embed(pdl.tensor(given)), tuple(each.swapaxes(0, 1) for each in first))[0].numpy()
    m, w = memory.numpy(), model.query.weight.data
    scores = np.where(there.numpy()[:, None], h @ w @ m.swapaxes(1, 2), -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    made = np.tanh(np.concatenate([p @ m, h], axis=-1) @ model.combine.weight.data + model.combine.bias.data)
    expected = made @ model.embed.weight.data.T + model.bias.data
    assert np.allclose(model(pdl.tensor(tokens), pdl.tensor(given)).numpy(), expected, atol=1e-5)
    assert np.allclose(model.attention(pdl.tensor(tokens), pdl.tensor(given)).numpy(), p, atol=1e-5)


@pdl.no_grad()
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("ernie-gen")])
def test_ernie_gen_is_an_encoder_that_sees_what_stands_before(name):
    """Of each prefix apart: source, prefix and [ATTN] as one text through the encoder's own layers, by UniLM's mask."""
    pdl.seed(0)
    model = MODELS[name]().eval()
    tokens, given = texts()
    whole = model(pdl.tensor(tokens), pdl.tensor(given)).numpy()[0]
    read, kinds = tokens.shape[1], model.embeddings.segments
    for length in range(1, given.shape[1] + 1):
        ids = np.concatenate([tokens[0], given[0, :length], [4]])
        sees = np.tri(len(ids), dtype=bool)
        sees[:read, :read] = True
        segments = None if kinds is None else pdl.tensor((np.arange(len(ids)) >= read)[None].astype(np.int64))
        x = model.embeddings(pdl.tensor(ids[None]), segments, 0)
        for layer in model.layers:
            x = layer(x, mask=pdl.tensor(sees[None, None]))
        scores = model.masked(x)[0, -1] @ model.embeddings.words.weight.swapaxes(0, 1) + model.masked.bias
        assert np.allclose(scores.numpy(), whole[length - 1], atol=1e-5)


COPYING = [name for name in MODELS if "copies" in name]


@pytest.fixture(params=COPYING)
def copying(request):
    pdl.seed(0)
    return MODELS[request.param]().eval()


@pdl.no_grad()
def test_copying_is_the_formula_of_see(copying):
    """Equations 8 and 9 in float64, of the attention that the model says and of a token that stands twice."""
    tokens, given = texts()
    tokens[0, 3] = tokens[0, 0]
    memory = copying.encode(pdl.tensor(tokens))
    h, y, _ = copying._written(pdl.tensor(given), memory[3:-1], None)
    a = copying.attention(pdl.tensor(tokens), pdl.tensor(given)).numpy().astype(np.float64)
    seen = np.concatenate([a @ memory[1].numpy(), h.numpy(), y.numpy()], axis=-1)
    made = np.tanh(seen[..., :32] @ copying.combine.weight.data + copying.combine.bias.data)
    e = np.exp(made @ copying.embed.weight.data.T + copying.bias.data)
    p = 1 / (1 + np.exp(-seen @ copying.gate.weight.data - copying.gate.bias.data))
    expected = p * e / e.sum(axis=-1, keepdims=True)
    for n, t, i in np.ndindex(a.shape):
        expected[n, t, tokens[n, i]] += (1 - p[n, t, 0]) * a[n, t, i]
    log_p = copying(pdl.tensor(tokens), pdl.tensor(given)).numpy()
    assert np.allclose(log_p, np.log(expected), atol=1e-5)
    assert np.allclose(np.exp(log_p.astype(np.float64)).sum(axis=-1), 1, atol=1e-5)


def test_gradients_of_copying(copying):
    """Those of all weights, in float64, with label smoothing, along random directions."""
    tokens, given = map(pdl.tensor, texts())
    weights = list(copying.to(pdl.float64).parameters())
    gradcheck(lambda *_: copying.loss(tokens, given, given, label_smoothing=0.1), weights, fast_mode=True)


@pytest.mark.parametrize("bias", [-300.0, 300.0])
def test_a_gate_that_is_shut_leaves_finite_scores_and_gradients(copying, bias):
    """Where p is 0 in float32, tokens that are not read have P = FLOOR at least; where it is 1, P is P_vocab."""
    tokens, given = map(pdl.tensor, texts())
    copying.gate.bias.data[:] = bias
    with pdl.no_grad():
        log_p = copying(tokens, given).numpy()
        vocabulary = pdl.log_softmax(copying.scores(copying.states(tokens, given))).numpy()
    if bias > 0:
        assert np.allclose(log_p, vocabulary, atol=1e-5)
    else:
        unread = np.array([[token not in row for token in range(VOCABULARY)] for row in tokens.numpy()])
        assert np.allclose(log_p.swapaxes(1, 2)[unread], math.log(FLOOR), atol=1e-4)
    copying.loss(tokens, given, given).backward()
    assert all(np.isfinite(p.grad.numpy()).all() for p in copying.parameters())


def test_copying_in_bfloat16(copying):
    tokens, given = map(pdl.tensor, texts())
    with pdl.no_grad():
        exact = copying(tokens, given).numpy()
        with pdl.autocast():
            rough = copying(tokens, given)
    assert rough.dtype == pdl.float32
    assert np.allclose(rough.numpy(), exact, atol=0.05)
    assert np.allclose(np.exp(rough.numpy()).sum(axis=-1), 1, atol=1e-5)  # the last sums are in float32


def test_tokens_never_seen_are_copied():
    """Rows of six tokens are to be repeated; 20 tokens of the test are in no row of training."""
    right = {}
    for copies in (False, True):
        pdl.seed(0)
        rng = np.random.default_rng(0)
        net = RNNSeq2Seq(60, dim=16, hidden=32, dropout=0.0, copies=copies)
        optimizer = pdl.optim.Adam(net.parameters(), lr=0.01)

        for _ in range(200):
            tokens = rng.integers(3, 40, (32, 6))
            loss = net.loss(*map(pdl.tensor, (tokens, np.insert(tokens, 0, 2, axis=1)[:, :-1], tokens)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        tokens = rng.integers(40, 60, (50, 6))
        found = search(Eager(net.eval()), [tokens], [[2]] * 50, Options(max_length=6), ends=[1])
        written = np.array([[*answers[0].tokens, *[0] * 6][:6] for answers in found])
        right[copies] = (written == tokens).mean()
    assert right[False] < 0.05
    assert right[True] > 0.7


def test_gradients_reach_every_weight(model):
    model.train()
    tokens, given = texts()
    model.loss(*map(pdl.tensor, (tokens, given, given))).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_sinusoid():
    assert sinusoid(3, 4)[2] == pytest.approx([math.sin(2), math.sin(0.02), math.cos(2), math.cos(0.02)])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="heads=3 must divide dim=16"):
        Transformer(VOCABULARY, dim=16, heads=3)
    with pytest.raises(ConfigError, match="needs vocab_size"):
        RNNSeq2Seq()
    with pytest.raises(ConfigError, match="ERNIEGen needs attn"):
        ERNIEGen(VOCABULARY, dim=16, heads=2)
    with pytest.raises(ShapeError, match="9 tokens read and 7 written, there are vectors for 16 positions"):
        ERNIEGen(VOCABULARY, dim=16, heads=2, max_length=16, attn=4)(pdl.tensor([[1] * 9]), pdl.tensor([[1] * 7]))
    with pytest.raises(ShapeError, match="9 tokens, there are vectors for 8 positions"):
        Transformer(VOCABULARY, dim=16, heads=2, max_length=8)(pdl.tensor([[1] * 9]), pdl.tensor([[1]]))

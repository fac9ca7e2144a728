"""The models of pairs: what stands behind a text changes nothing; ESIM beside PyTorch; what SimNet compares."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import ConfigError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl_nlp.models import ESIM, MatchingModel, SimNet

SMALL: dict[str, Any] = {"dim": 8, "hidden": 6}
MADE: dict[str, Any] = {
    "bow": lambda: SimNet(50, 3, **SMALL),
    "bow of trigrams, cosine": lambda: SimNet(50, 2, ngrams=3, buckets=97, compare="cosine", **SMALL),
    "cnn": lambda: SimNet(50, 3, encoder="cnn", windows=(2, 3), **SMALL),
    "gru": lambda: SimNet(50, 3, encoder="gru", **SMALL),
    "lstm, a score": lambda: SimNet(50, 1, encoder="lstm", compare="cosine", **SMALL),
    "esim": lambda: ESIM(50, 3, **SMALL),
    "esim, a score": lambda: ESIM(50, 1, **SMALL),
}
RNG = np.random.default_rng(0)
TOKENS, PAIR = RNG.integers(1, 50, (4, 9)), RNG.integers(1, 50, (4, 6))
TOKENS[1, 5:] = TOKENS[2, 1:] = TOKENS[3] = 0
PAIR[0, 2:] = PAIR[3] = 0


def logits(model: MatchingModel, tokens: np.ndarray, pair: np.ndarray) -> np.ndarray:
    with pdl.no_grad():
        return np.asarray(model.eval()(pdl.as_tensor(tokens), pdl.as_tensor(pair)).numpy())


def made(name: str) -> MatchingModel:
    pdl.seed(0)
    model: MatchingModel = MADE[name]()
    for weight in model.parameters():
        weight.data *= 2 if weight.ndim == 2 else 1
    return model


@pytest.mark.parametrize("name", MADE)
def test_padding_changes_nothing(name: str) -> None:
    model = made(name)
    whole = logits(model, TOKENS, PAIR)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(logits(model, np.pad(TOKENS, ((0, 0), (0, 7))), PAIR), whole, atol=1e-6)
    np.testing.assert_allclose(logits(model, TOKENS, np.pad(PAIR, ((0, 0), (0, 3)))), whole, atol=1e-6)
    np.testing.assert_allclose(logits(model, TOKENS[1:2, :5], PAIR[1:2]), whole[1:2], atol=1e-6)
    np.testing.assert_allclose(logits(model, TOKENS[:1], PAIR[:1, :2]), whole[:1], atol=1e-6)
    for other in (logits(model, np.where(TOKENS[1, 4] == TOKENS, 7, TOKENS), PAIR),
                  logits(model, TOKENS, np.where(PAIR[1, 5] == PAIR, 7, PAIR))):  # fmt: skip
        assert np.abs(other[1] - whole[1]).max() > 1e-5


@pytest.mark.parametrize("name", MADE)
def test_every_weight_has_a_gradient(name: str) -> None:
    model = made(name)
    model.train()(pdl.as_tensor(TOKENS), pdl.as_tensor(PAIR)).sum().backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", MADE)
def test_one_program_for_all_sizes(name: str) -> None:
    n = Dim.symbol("n", 3)
    inputs = {"tokens": Spec((n, Dim.symbol("t", 7)), int64), "pair": Spec((n, Dim.symbol("u", 5)), int64)}
    assert trace_symbolic(MADE[name]().eval(), inputs)[1] == []


def test_a_cosine_is_the_score() -> None:
    model: Any = made("lstm, a score")
    score = logits(model, TOKENS, PAIR)
    assert score.shape == (4, 1)
    with pdl.no_grad():
        u, v = (model.vectors(pdl.as_tensor(each)).numpy() for each in (TOKENS, PAIR))
    cosine = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    np.testing.assert_allclose(score[:, 0], cosine, atol=1e-6)
    np.testing.assert_allclose(logits(model, TOKENS, TOKENS)[:, 0], 1, atol=1e-6)
    with pytest.raises(ConfigError, match="a cosine tells two classes apart, not 3"):
        SimNet(50, 3, compare="cosine")


def test_parameters_are_those_of_the_definition() -> None:
    v, c, d, h = 50, 3, 8, 6
    lstm = 2 * 4 * h * (d + h + 2)
    count = v * d + lstm + (8 * h * h + h) + 2 * 4 * h * (2 * h + 2) + (8 * h * h + h) + (h * c + c)
    assert sum(weight.size for weight in ESIM(v, c, dim=d, hidden=h).parameters()) == count


PEER = r"""
import json, sys, torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
class ESIM(nn.Module):
    def __init__(self, v, c, d, h):
        super().__init__()
        self.embed = nn.Embedding(v, d)
        self.encoder = nn.LSTM(d, h, bidirectional=True, batch_first=True)
        self.project = nn.Linear(8 * h, h)
        self.composition = nn.LSTM(h, h, bidirectional=True, batch_first=True)
        self.hidden, self.head = nn.Linear(8 * h, h), nn.Linear(h, c)
    def forward(self, pairs):  # one by one, without any padding
        out = []
        for a, b in pairs:
            a, b = (self.encoder(self.embed(torch.tensor([x])))[0][0] for x in (a, b))
            e = a @ b.T
            found = []
            for own, other, fits in ((a, b, e), (b, a, e.T)):
                aligned = fits.softmax(1) @ other
                m = torch.cat([own, aligned, own - aligned, own * aligned], 1).matmul(self.project.weight.T)
                v = self.composition(torch.relu(m + self.project.bias)[None])[0][0]
                found += [v.mean(0), v.max(0).values]
            out.append(self.head(torch.tanh(self.hidden(torch.cat(found)))))
        return torch.stack(out)
given = json.load(sys.stdin)
torch.manual_seed(0)
model = ESIM(*given["sizes"])
with torch.no_grad():
    y = model([tuple(each) for each in given["pairs"]])
print(json.dumps([y.tolist(), {name: value.tolist() for name, value in model.state_dict().items()}]))
"""


@pytest.mark.skipif("PDL_TORCH_PYTHON" not in os.environ, reason="PDL_TORCH_PYTHON names no Python with PyTorch")
def test_esim_gives_what_pytorch_gives() -> None:
    """Texts of different lengths, padded here and not there; the same weights."""
    pairs = [[row[row > 0].tolist() for row in both] for both in zip(TOKENS[:3], PAIR[:3], strict=True)]
    given = json.dumps({"sizes": [50, 3, 8, 6], "pairs": pairs})
    python = Path(os.environ["PDL_TORCH_PYTHON"])
    ran = subprocess.run([python, "-c", PEER], input=given, capture_output=True, text=True, check=True)
    theirs, state = json.loads(ran.stdout)
    model = ESIM(50, 3, dim=8, hidden=6)
    arrays = {name: np.array(value, np.float32) for name, value in state.items()}
    model.load_state_dict(pdl.nn.from_torch(model, arrays))
    np.testing.assert_allclose(logits(model, TOKENS[:3], PAIR[:3]), theirs, atol=2e-6)

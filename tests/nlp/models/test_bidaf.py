"""Nets that find answers: what stands behind a window changes nothing; BiDAF is that of its paper, written again in
PyTorch with the same weights."""

from __future__ import annotations

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
from pdl_nlp.models import BERTReader, BiDAF, ReadingModel
from pdl_nlp.span_extraction.deploy import OfWindows
from tests.cv.models.test_torch import torch_python

MADE: dict[str, Any] = {
    "bidaf": lambda: BiDAF(40, dim=7, hidden=5),
    "bidaf, matches": lambda: BiDAF(40, dim=7, hidden=5, matches=3),
    "bert": lambda: BERTReader(40, dim=8, layers=2, heads=2, max_length=32),
}
RNG = np.random.default_rng(0)
TOKENS, QUESTION = RNG.integers(2, 40, (3, 11)), RNG.integers(2, 40, (3, 6))
SEGMENTS = np.repeat([[0] * 4 + [1] * 7], 3, axis=0)
LENGTHS, ASKED = (11, 7, 1), (2, 6, 4)
for row in range(3):
    TOKENS[row, LENGTHS[row] :], QUESTION[row, ASKED[row] :] = 0, 0


def logits(model: ReadingModel, tokens: np.ndarray, other: np.ndarray) -> np.ndarray:
    with pdl.no_grad():
        return np.asarray(model.eval()(pdl.as_tensor(tokens), pdl.as_tensor(other)).numpy())


@pytest.mark.parametrize("name", MADE)
def test_padding_changes_nothing(name: str) -> None:
    pdl.seed(0)
    model = MADE[name]()
    other = SEGMENTS if model.together else QUESTION
    whole = logits(model, TOKENS, other)
    wider = logits(model, *(np.pad(each, ((0, 0), (0, 5))) for each in (TOKENS, other)))
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(wider[row, :length], whole[row, :length], atol=1e-5)
        assert (wider[row, length:] < -1000).all()
        short = other[row : row + 1, : length if model.together else ASKED[row]]
        np.testing.assert_allclose(
            logits(model, TOKENS[row : row + 1, :length], short)[0], whole[row, :length], atol=1e-5
        )


@pytest.mark.parametrize("name", MADE)
def test_any_number_of_windows_is_one_program(name: str) -> None:
    pdl.seed(0)
    model = MADE[name]().eval()
    n, w, t = Dim.symbol("n", 3), Dim.symbol("w", 2), Dim.symbol("t", 13)
    last = t if model.together else Dim.symbol("q", 7)
    inputs = {"tokens": Spec((n, w, t), int64), "other": Spec((n, w, last), int64)}
    assert trace_symbolic(OfWindows(model), inputs)[1] == []


def test_every_weight_has_a_gradient() -> None:
    pdl.seed(0)
    model = BiDAF(40, dim=7, hidden=5, dropout=0.0)
    pdl.cross_entropy(model(pdl.as_tensor(TOKENS), pdl.as_tensor(QUESTION))[..., 1], pdl.tensor([3, 2, 0])).backward()
    pdl.cross_entropy(model(pdl.as_tensor(TOKENS), pdl.as_tensor(QUESTION))[..., 0], pdl.tensor([3, 2, 0])).backward()
    none = [name for name, p in model.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).max() > 0]
    assert none == []


def test_tokens_are_marked_that_both_texts_have() -> None:
    model = BiDAF(40, dim=7, hidden=5, matches=2)
    tokens, question = np.array([[1, 5, 6, 7, 5, 0]]), np.array([[9, 5, 6, 0]])
    expected = {1: ([0, 1, 1, 0, 1, 0], [0, 1, 1, 0]), 2: ([0, 1, 1, 0, 0, 0], [0, 1, 1, 0]), 3: ([0] * 6, [0] * 4)}
    for n, (mine, theirs) in expected.items():
        found = model._marked(pdl.as_tensor(tokens), pdl.as_tensor(question), n)
        assert [each.numpy()[0, :, 0].tolist() for each in found] == [mine, theirs]


def test_faults() -> None:
    with pytest.raises(ConfigError, match="BiDAF needs vocab_size"):
        BiDAF()


TORCH = """
import sys
import numpy as np, torch
from torch import nn
from torch.nn.functional import embedding

data = np.load(sys.argv[1])
state = {name[6:]: torch.tensor(data[name]) for name in data.files if name.startswith("state/")}
tokens, question = torch.tensor(data["tokens"]), torch.tensor(data["question"])
H, D, EMBED = 5, 2, "embed.weight"

def linear(name, x):
    return nn.functional.linear(x, state[name + ".weight"], state.get(name + ".bias"))

def lstm(name, x, layers=1):
    net = nn.LSTM(x.shape[-1], H, num_layers=layers, bidirectional=True, batch_first=True)
    own = {key.removeprefix(name + "."): value for key, value in state.items() if key.startswith(name + ".")}
    net.load_state_dict(own)
    return net(x)[0]

def read(ids):
    x = embedding(ids, state[EMBED])
    for layer in range(D):
        g = torch.sigmoid(linear(f"highways.{layer}.gate", x))
        x = g * torch.relu(linear(f"highways.{layer}.change", x)) + (1 - g) * x
    return lstm("contextual", x)

answers = []
with torch.no_grad():
    for row in range(len(tokens)):  # one at a time, without padding
        h = read(tokens[row : row + 1][:, tokens[row] != 0])[0]
        u = read(question[row : row + 1][:, question[row] != 0])[0]
        w = torch.cat([state[f"of_{part}.weight"][0] for part in ("paragraph", "question", "both")])
        pairs = [[torch.cat([ht, uj, ht * uj]) @ w for uj in u] for ht in h]
        s = torch.stack([torch.stack(each) for each in pairs])
        to_question = torch.softmax(s, 1) @ u
        to_paragraph = (torch.softmax(s.max(1).values, 0) @ h).expand_as(h)
        g = torch.cat([h, to_question, h * to_question, h * to_paragraph], 1)[None]
        m = lstm("modeling", g, 2)
        m2 = lstm("ending", m)
        answers.append(torch.cat([linear("begin", torch.cat([g, m], 2)), linear("end", torch.cat([g, m2], 2))], 2)[0])
np.savez(sys.argv[2], *[each.numpy() for each in answers])
"""


@pytest.mark.slow
def test_bidaf_is_that_of_the_paper(tmp_path: Path) -> None:
    python = torch_python()
    if python is None:
        pytest.skip("no Python with torch was found (PDL_TORCH_PYTHON may name one)")
    pdl.seed(1)
    model = BiDAF(40, dim=7, hidden=5)
    state: dict[str, Any] = {f"state/{name}": value for name, value in pdl.nn.to_torch(model).items()}
    np.savez(tmp_path / "in.npz", tokens=TOKENS, question=QUESTION, **state)
    subprocess.run([python, "-c", TORCH, str(tmp_path / "in.npz"), str(tmp_path / "out.npz")], check=True)
    expected, found = np.load(tmp_path / "out.npz"), logits(model, TOKENS, QUESTION)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(found[row, :length], expected[f"arr_{row}"], atol=1e-5)

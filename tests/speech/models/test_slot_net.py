"""SlotNet: answers that no filling changes, its attention by its formula, its size by its layers."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError
from pdl.nn.module import evaluating
from pdl_speech.features import CMVN, LogMel
from pdl_speech.models import SlotNet
from pdl_speech.models.slot_net import SlotHeads
from pdl_speech.models.speech_net import Real

RATE, SIZES = 8000, [3, 2]


def made(**arguments: int) -> SlotNet:
    pdl.random.seed(0)
    front = LogMel(rate=RATE, n_mels=12, n_fft=256, hop_length=80, pad_mode="constant", floor=1e-5, then=[CMVN()])
    small = {"width": 8, "blocks": 2, "kernel": 3, "hidden": 4, "attention": 6, **arguments}
    net = SlotNet(features=front, sizes=SIZES, **small)  # type: ignore[arg-type]
    for layer in net.slots.classifiers:
        layer.weight.data[...] *= 100  # type: ignore[operator]  # large answers
    return net


@pytest.mark.parametrize("arguments", [{}, {"hidden": 0, "stride": 8}])
def test_an_answer_does_not_depend_on_what_fills_it_up(arguments: dict[str, int]) -> None:
    net, rng = made(**arguments), np.random.default_rng(0)
    waves = [0.1 * rng.standard_normal(count).astype(np.float32) for count in (4100, 2555, 7999)]
    batch = np.zeros((3, 9600), np.float32)
    for row, wave in zip(batch, waves, strict=True):
        row[: len(wave)] = wave
    with evaluating(net), pdl.no_grad():
        together = net(pdl.tensor(batch), pdl.tensor(np.array([len(wave) for wave in waves]))).numpy()
        alone = [net(pdl.tensor(wave[None])).numpy()[0] for wave in waves]
    assert together.shape == (3, sum(SIZES))
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert np.abs(together[0] - together[1]).max() > 1e-2


def test_each_slot_listens_to_its_own_steps() -> None:
    pdl.random.seed(0)
    heads, rng = SlotHeads(5, 4, SIZES), np.random.default_rng(1)
    x, counts = rng.standard_normal((2, 6, 5)).astype(np.float32), np.array([6, 4])
    found = heads(pdl.tensor(x), Real(pdl.tensor(counts))).detach().numpy()
    keys, queries = heads.keys, heads.queries.weight.detach().numpy()
    for row, own, count in zip(x, found, counts, strict=True):
        scores = np.tanh(row[:count] @ keys.weight.detach().numpy() + keys.bias.detach().numpy()) @ queries  # type: ignore[union-attr]
        shares = np.exp(scores) / np.exp(scores).sum(axis=0)
        wanted = [
            (share @ row[:count]) @ layer.weight.detach().numpy() + layer.bias.detach().numpy()  # type: ignore[operator]
            for share, layer in zip(shares.T, heads.classifiers, strict=True)
        ]
        np.testing.assert_allclose(own, np.concatenate(wanted), atol=1e-5)


def test_its_size() -> None:
    width, hidden, attention = 8, 4, 6
    strided = 5 * 12 * width + 5 * width * width + 2 * 2 * width
    blocks = 2 * (3 * width + width * width + 2 * width)
    gru = 2 * 3 * (hidden * (width + hidden) + 2 * hidden)
    heads = 2 * hidden * attention + attention + attention * 2 + sum(2 * hidden * size + size for size in SIZES)
    assert sum(p.size for p in made().parameters()) == strided + blocks + gru + heads


def test_arguments_are_checked() -> None:
    with pytest.raises(ConfigError, match="must be an odd number"):
        made(kernel=4)
    with pytest.raises(ConfigError, match="sizes is empty"):
        SlotNet(features=LogMel(), sizes=[])

"""Nets that hear what is said: sizes as published, answers that no filling changes, attention against its formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import ConfigError, ShapeError
from pdl.export.bundle import traced, write
from pdl.export.deployment import Deployment
from pdl.nn.module import evaluating
from pdl.ops.base import Spec
from pdl.program.step import CompiledStep
from pdl.runtime import load
from pdl_speech.features import CMVN, Given, GlobalCMVN, LogMel
from pdl_speech.models import Conformer, DeepSpeech2, QuartzNet, SpeechNet, conformer
from pdl_speech.recognition.deploy import Alone

CHANNELS = 12
LSTM = {"cell": "lstm"}
#: small ones of all kinds
NETS: dict[str, tuple[type[SpeechNet], dict[str, Any]]] = {
    "quartz_net": (QuartzNet, {"width": 0.05, "layers": 2}),
    "quartz_net_by_4": (QuartzNet, {"width": 0.05, "layers": 1, "stride": 4}),
    "deep_speech_2": (DeepSpeech2, {"channels": 4, "hidden": 12, "layers": 2}),
    "deep_speech_2_1d": (DeepSpeech2, {"conv": "1d", "channels": 8, "hidden": 12, "layers": 2, "stride": 4, **LSTM}),
    "deep_speech_2_forward": (DeepSpeech2, {"channels": 4, "hidden": 12, "layers": 2, "direction": "forward"}),
    "conformer": (Conformer, {"dim": 16, "heads": 2, "layers": 2, "kernel": 7}),
    "conformer_in_chunks": (Conformer, {"dim": 16, "heads": 2, "layers": 2, "kernel": 7, "chunk": 4, "left": 2}),
}


def made(name: str, **arguments: Any) -> SpeechNet:
    kind, settings = NETS[name]
    pdl.random.seed(0)
    streams = settings.keys() & {"chunk", "direction"}
    front = Given(channels=CHANNELS, then=[GlobalCMVN(CHANNELS, mean=3.0, std=2.0) if streams else CMVN()])
    net = kind(features=front, num_classes=9, **settings, **arguments)
    net.classifier.weight.data[...] *= 30  # large answers
    return net


def sounds(*frames: int) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.normal(3, 2, (count, CHANNELS)).astype(np.float32) for count in frames]


def together(parts: list[Array], frames: int) -> tuple[pdl.Tensor, pdl.Tensor]:
    batch = np.zeros((len(parts), frames, CHANNELS), np.float32)
    for row, part in zip(batch, parts, strict=True):
        row[: len(part)] = part
    return pdl.as_tensor(batch), pdl.as_tensor(np.array([len(part) for part in parts], np.int64))


def count(net: nn.Module) -> int:
    return sum(p.size for p in net.parameters())


@pytest.mark.parametrize(("repeats", "millions"), [(1, 6.7), (2, 12.8), (3, 18.9)])
def test_quartz_net_has_the_parameters_of_the_paper(repeats: int, millions: float) -> None:
    """Table 3 of arXiv 1910.10261, for 28 characters."""
    with nn.init.skipped():
        net = QuartzNet(features=LogMel(n_mels=64), repeats=repeats)
    assert round(count(net) / 1e6, 1) == millions


def test_conformer_s_is_the_encoder_of_the_paper() -> None:
    """10.3 M parameters with the decoder (arXiv 2005.08100, table 1); the encoder's by the sizes of its layers."""
    with nn.init.skipped():
        net = Conformer(features=LogMel(n_mels=80))
    d = 144
    feed, attention = 8 * d * d + 5 * d + 2 * d, 5 * d * d + 4 * d + 2 * d + 2 * d
    convolution = 2 * d + 2 * d * d + 2 * d + 31 * d + 2 * d + d * d + d
    front = 10 * d + 9 * d * d + d + 20 * d * d + d
    assert count(net) == front + 16 * (2 * feed + attention + convolution + 2 * d) + 29 * (d + 1)
    assert 8.5e6 < count(net) < 10.3e6


@pytest.mark.parametrize("name", NETS)
def test_what_fills_a_sound_up_changes_nothing(name: str) -> None:
    net = made(name)
    parts = sounds(90, 41, 120)
    net(*together(parts, 120))  # statistics of norms that are none of evaluation's
    with evaluating(net):
        logits, steps = net(*together(parts, 150))
        for row, size, part in zip(logits.numpy(), steps.numpy().tolist(), parts, strict=True):
            alone, none = net(pdl.as_tensor(part[None]))
            assert none is None
            assert alone.shape == (1, size, 9)
            assert size == net.steps(len(part))
            assert np.abs(row[:size] - alone.numpy()[0]).max() < 1e-5 * max(1.0, np.abs(alone.numpy()).max())
            assert np.abs(alone.numpy()).max() > 0.05


def test_nor_does_it_of_waveforms() -> None:
    front = LogMel(rate=8000, n_mels=20, n_fft=256, hop_length=80, pad_mode="constant", then=[CMVN()])
    pdl.random.seed(0)
    net = DeepSpeech2(features=front, num_classes=9, channels=4, hidden=12, layers=1).eval()
    net.classifier.weight.data[...] *= 30
    rng = np.random.default_rng(0)
    waves, batch = (
        [rng.normal(0, 0.1, size).astype(np.float32) for size in (4000, 2555)],
        np.zeros((2, 6000), np.float32),
    )
    for row, wave in zip(batch, waves, strict=True):
        row[: len(wave)] = wave
    with pdl.no_grad():
        logits, steps = net(pdl.as_tensor(batch), pdl.as_tensor(np.array([4000, 2555])))
        for row, size, wave in zip(logits.numpy(), steps.numpy().tolist(), waves, strict=True):
            alone = net(pdl.as_tensor(wave[None]))[0].numpy()[0]
            assert len(alone) == size == net.steps(len(wave))
            assert np.abs(row[:size] - alone).max() < 1e-5 * max(1.0, np.abs(alone).max())
    assert net.seconds == 0.02


@pytest.mark.parametrize("name", NETS)
def test_a_training_program_holds_it(name: str) -> None:
    """What one step of training gives in a program is what it gives without."""
    net = made(name)

    def loss(x: pdl.Tensor, lengths: pdl.Tensor, targets: pdl.Tensor, sizes: pdl.Tensor) -> pdl.Tensor:
        logits, steps = net(x, lengths)
        return pdl.ctc_loss(pdl.log_softmax(logits), targets, steps, sizes)

    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    words = pdl.as_tensor(np.array([[1, 2, 2], [3, 4, 0]])), pdl.as_tensor(np.array([3, 2]))
    batch = (*together(sounds(60, 44), 64), *words)
    loss(*batch).backward()
    expected = {key: p.grad.numpy().copy() for key, p in net.named_parameters() if p.grad is not None}
    assert len(expected) == len(dict(net.named_parameters()))
    for p in net.parameters():
        p.grad = None
    step = CompiledStep(loss, net)
    step(*batch)
    assert step.misses == 1
    assert step.stopped is None
    for key, p in net.named_parameters():
        assert p.grad is not None
        assert np.allclose(p.grad.numpy(), expected[key], atol=1e-4 * max(1.0, np.abs(expected[key]).max())), key


@pytest.mark.parametrize("name", NETS)
def test_a_bundle_takes_sounds_of_any_length(name: str, tmp_path: Path) -> None:
    net, parts = made(name), sounds(90, 41, 121)
    deployment = Deployment(
        module=Alone(net.eval()),
        inputs={"features": Spec((Dim.symbol("n", 3), Dim.symbol("t", 90), CHANNELS), np.dtype(np.float32))},
        outputs=("logits",),
        pre={"features": [{"step": "frames", "channels": CHANNELS}]},
        post={"logits": [{"step": "softmax"}, {"step": "ctc", "seconds": net.seconds}]},
        samples=parts,
        labels=list("abcdefg "),
    )
    assert traced(deployment)[1] == []  # no size is fixed
    write(tmp_path / "model.pdl", deployment)
    answers = load(tmp_path / "model.pdl").batch(parts)
    for part, answer in zip(parts, answers, strict=True):
        (row,) = pdl.ctc_greedy_decode(net(pdl.as_tensor(part[None]))[0])
        assert answer["text"] == " ".join("".join("abcdefg "[c - 1] for c in row).split())


def test_attention_knows_distances() -> None:
    """Equation 1 of section 3.3 of arXiv 1901.02860, one score at a time."""
    pdl.random.seed(3)
    layer, steps, dim, size = conformer.RelativeAttention(8, 2, 0.0).eval(), 6, 8, 4
    for bias in (layer.u, layer.v):
        nn.init.normal_(bias)
    x = np.random.default_rng(1).normal(size=(1, steps, dim)).astype(np.float32)
    far = conformer.distances(pdl.as_tensor(x))
    assert far.shape == (2 * steps - 1, dim)
    angle = 2 / 10_000 ** (np.arange(4) / 4)  # a distance of 2
    assert np.allclose(far.numpy()[steps - 1 - 2], np.concatenate([np.sin(angle), np.cos(angle)]), atol=1e-6)
    kept = np.array([[True] * 5 + [False]])
    with pdl.no_grad():
        got = layer(pdl.as_tensor(x), far, pdl.as_tensor(kept)).numpy()[0]
    q, k, v = (part(pdl.as_tensor(x)).detach().numpy()[0] for part in (layer.query, layer.key, layer.value))
    p = layer.position(far).detach().numpy()
    made = np.zeros((steps, dim))
    for h in range(2):
        own = slice(h * size, (h + 1) * size)
        u, w = layer.u.detach().numpy()[own], layer.v.detach().numpy()[own]
        for i in range(steps):
            scores = [
                ((q[i, own] + u) @ k[j, own] + (q[i, own] + w) @ p[steps - 1 - (i - j), own]) / 2 for j in range(5)
            ]
            weights = np.exp(scores - np.max(scores))
            made[i, own] = weights / weights.sum() @ v[:5, own]
    assert np.allclose(got, layer.last(pdl.as_tensor(made.astype(np.float32))).detach().numpy(), atol=1e-5)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="dim=18 must be even, and a multiple of heads=4"):
        Conformer(features=Given(channels=8), dim=18)
    with pytest.raises(ConfigError, match="kernel=32 must be odd"):
        Conformer(features=Given(channels=8), kernel=32)
    with pytest.raises(ShapeError, match=r"features \(2, 30, 5\) must be \[N, frames, 12\]"):
        made("conformer")(pdl.zeros((2, 30, 5)))

"""Nets that classify recordings: published sizes, any number of frames, gradients everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
import pdl_speech
from pdl import nn
from pdl.errors import ConfigError
from pdl_speech.features import CMVN, MFCC, LogMel, Samples
from pdl_speech.models.audio_net import AudioNet

MFCC10 = {"n_mfcc": 10, "rate": 16000, "n_fft": 640, "hop_length": 320}
MFCC64 = {"n_mfcc": 64, "rate": 16000, "n_fft": 400, "hop_length": 160, "n_mels": 64}
MEL40 = {"n_mels": 40, "rate": 16000, "n_fft": 480, "hop_length": 160}
MEL64 = {"n_mels": 64, "rate": 32000, "n_fft": 1024, "hop_length": 320}

#: class, arguments, features, and parameters; those that papers round, with their digits
PUBLISHED: list[tuple[str, dict[str, Any], Any, dict[str, Any], float, float]] = [
    # MLPerf Tiny's reference has 24,908: this, a bias for each of 9 convolutions and 2 statistics for each norm, of 64
    ("DSCNN", {"num_classes": 12}, MFCC, MFCC10, 24_908 - 9 * 64 * 3, 0),
    # arXiv 1710.10361, table 2
    ("SpeechResNet", {"form": "res8"}, MFCC, {**MFCC10, "n_mfcc": 40}, 110e3, 0.5e3),
    ("SpeechResNet", {"form": "res8-narrow"}, MFCC, {**MFCC10, "n_mfcc": 40}, 19.9e3, 50),
    ("SpeechResNet", {"form": "res15"}, MFCC, {**MFCC10, "n_mfcc": 40}, 238e3, 0.5e3),
    ("SpeechResNet", {"form": "res15-narrow"}, MFCC, {**MFCC10, "n_mfcc": 40}, 42.6e3, 50),
    ("SpeechResNet", {"form": "res26"}, MFCC, {**MFCC10, "n_mfcc": 40}, 438e3, 0.5e3),
    # arXiv 2106.04140, table 3
    ("BCResNet", {"width": 1}, LogMel, MEL40, 9.2e3, 50),
    ("BCResNet", {"width": 2}, LogMel, MEL40, 27.3e3, 50),
    ("BCResNet", {"width": 3}, LogMel, MEL40, 54.2e3, 50),
    ("BCResNet", {"width": 6}, LogMel, MEL40, 188e3, 500),
    ("BCResNet", {"width": 8}, LogMel, MEL40, 321e3, 500),
    # arXiv 2004.08531, table 2
    ("MatchboxNet", {"blocks": 3, "layers": 1}, MFCC, MFCC64, 77e3, 500),
    ("MatchboxNet", {"blocks": 3, "layers": 2}, MFCC, MFCC64, 93e3, 500),
    ("MatchboxNet", {"blocks": 6, "layers": 2}, MFCC, MFCC64, 140e3, 1.5e3),
    # the authors' code of arXiv 1912.10211, without the fixed front end
    ("PANN", {"layers": 6}, LogMel, MEL64, 4_837_455, 0),
    ("PANN", {"layers": 10}, LogMel, MEL64, 5_219_279, 0),
    ("PANN", {"layers": 14}, LogMel, MEL64, 80_753_615, 0),
    # arXiv 1610.00087, table 1; and by its definition: weights of 80 and 3 steps with biases, norms, a linear layer
    ("WaveCNN", {"form": "m3"}, Samples, {"rate": 8000}, 0.2e6, 0.05e6),
    ("WaveCNN", {"form": "m5"}, Samples, {"rate": 8000}, 0.5e6, 0.07e6),
    ("WaveCNN", {"form": "m11"}, Samples, {"rate": 8000}, 1.8e6, 0.05e6),
    ("WaveCNN", {"form": "m18"}, Samples, {"rate": 8000}, 3.7e6, 0.05e6),
    ("WaveCNN", {"form": "m3"}, Samples, {"rate": 8000}, 81 * 256 + 4 * 256 + 769 * 256 + 257 * 10, 0),
    # by its definition: 9 weights for each pair of channels, 2 for each norm, and a linear layer
    ("AudioVGG", {}, LogMel, MEL40, 9 * (24 + 24 * 48 + 48 * 48 + 48 * 64 + 64 * 64) + 2 * (24 + 96 + 128) + 650, 0),
]


def made(name: str, arguments: dict[str, Any], features: Any, settings: dict[str, Any]) -> AudioNet:
    net: AudioNet = getattr(pdl_speech, name)(features=features(**settings), **arguments)
    return net


@pytest.mark.parametrize(("name", "arguments", "features", "settings", "parameters", "off"), PUBLISHED)
def test_parameters(
    name: str, arguments: dict[str, Any], features: Any, settings: dict[str, Any], parameters: float, off: float
) -> None:
    with nn.init.skipped():
        net = made(name, arguments, features, settings)
    assert sum(p.size for p in net.parameters()) == pytest.approx(parameters, abs=off)


SMALL = [
    ("DSCNN", {}, MFCC, MFCC10),
    ("SpeechResNet", {"form": "res8-narrow"}, MFCC, MFCC64),
    ("SpeechResNet", {"form": "res15-narrow"}, MFCC, MFCC64),
    ("BCResNet", {}, LogMel, MEL40),
    ("MatchboxNet", {"channels": 16}, MFCC, MFCC64),
    ("PANN", {"layers": 6, "width": 0.1}, LogMel, MEL64),
    ("PANN", {"layers": 10, "width": 0.1}, LogMel, MEL64),
    ("AudioVGG", {"widths": (4, 6, 8)}, LogMel, MEL40),
    ("WaveCNN", {"form": "m5"}, Samples, {"rate": 8000, "then": [CMVN()]}),
    ("WaveCNN", {"form": "m11"}, Samples, {"rate": 16000}),
]


@pytest.mark.parametrize(("name", "arguments", "features", "settings"), SMALL)
def test_every_parameter_has_a_gradient_and_any_length_an_answer(
    name: str, arguments: dict[str, Any], features: Any, settings: dict[str, Any]
) -> None:
    net = made(name, {**arguments, "num_classes": 5}, features, settings)
    rng = np.random.default_rng(0)
    x = pdl.tensor(rng.standard_normal((3, net.rate // 2)).astype(np.float32))
    pdl.cross_entropy(net(x), pdl.tensor(np.array([0, 3, 4]))).backward()
    silent = [key for key, p in net.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).sum() > 0]
    assert silent == []
    net.eval()
    with pdl.no_grad():
        for seconds in (0.4, 0.93):
            assert net(x[:1, : int(seconds * net.rate / 2)]).shape == (1, 5)


def test_features_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="features have 64 channels; it takes a multiple of 40"):
        made("BCResNet", {}, LogMel, MEL64)
    with pytest.raises(ConfigError, match=r"AudioVGG: widths=.* of features with 40 channels"):
        made("AudioVGG", {"widths": (4,) * 6}, LogMel, MEL40)
    with pytest.raises(ConfigError, match="WaveCNN: features have 40 channels; it reads samples"):
        made("WaveCNN", {}, LogMel, MEL40)

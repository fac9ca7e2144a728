"""Nets that tell voices apart: published sizes, lengths, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdl
from pdl_speech import ECAPATDNN, DVector, SpeakerNet, XVector
from pdl_speech.features import LogMel

RNG = np.random.default_rng(0)


def mels(count: int, rate: int = 16000) -> LogMel:
    return LogMel(rate=rate, n_mels=count)


#: net, parameters: tables of the papers (6.2 and 14.7 million; 4.2 million), Resemblyzer's file
PUBLISHED: dict[str, tuple[Callable[[], SpeakerNet], int]] = {
    "ecapa 512": (lambda: ECAPATDNN(features=mels(80)), 6_191_104),
    "ecapa 1024": (lambda: ECAPATDNN(features=mels(80), channels=1024), 14_657_472),
    "x-vector": (lambda: XVector(features=mels(24)), 4_211_604),
    "d-vector": (lambda: DVector(features=mels(40)), 1_423_616),
}
SMALL: dict[str, Callable[[], SpeakerNet]] = {
    "ecapa": lambda: ECAPATDNN(features=mels(20, 8000), channels=16, aggregated=24, embedding_size=12),
    "x-vector": lambda: XVector(features=mels(20, 8000), channels=16, last=24, embedding_size=12),
    "d-vector": lambda: DVector(features=mels(20, 8000), hidden=16, layers=2, embedding_size=12, level=-30.0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_the_published_ones(name: str) -> None:
    make, count = PUBLISHED[name]
    assert sum(p.size for p in make().parameters()) == count


@pytest.mark.parametrize("name", SMALL)
def test_embeddings_have_length_one_and_learn(name: str) -> None:
    pdl.seed(0)
    net = SMALL[name]()
    waves = pdl.tensor(0.1 * RNG.standard_normal((4, 4000)).astype(np.float32))
    made = net(waves)
    assert made.shape == (4, net.embedding_size)
    np.testing.assert_allclose(np.linalg.norm(made.data, axis=1), 1, rtol=1e-5)
    (made @ pdl.tensor(RNG.standard_normal((12, 1)).astype(np.float32))).sum().backward()
    assert [n for n, p in net.named_parameters() if p.grad is None or not np.isfinite(p.grad.data).all()] == []
    net.eval()
    for samples in (800, 4000, 12345):  # of any length, and each alone as in a batch
        some = 0.1 * RNG.standard_normal((3, samples)).astype(np.float32)
        both = [net(pdl.tensor(rows)).data for rows in (some, some[1:2])]
        np.testing.assert_allclose(both[0][1], both[1][0], atol=1e-5)


def test_quiet_recordings_are_raised() -> None:
    """Powers without a logarithm know how loud a voice is; the level takes that out below -30 dB."""
    net = DVector(features=LogMel(n_mels=20, log="none"), hidden=16, embedding_size=12, level=-30.0).eval()
    wave: Any = RNG.standard_normal((1, 8000)).astype(np.float32)
    quiet, quieter, loud = (net(pdl.tensor(gain * wave)).data for gain in (0.01, 0.001, 0.5))
    np.testing.assert_allclose(quiet, quieter, atol=1e-5)
    assert np.abs(loud - quiet).max() > 1e-4

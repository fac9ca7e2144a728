"""FastSpeech 2: lengths, alignment, gradients, and that an answer does not depend on what fills a batch up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError
from pdl_speech.features import CMVN, LogMel
from pdl_speech.models import FastSpeech2
from pdl_speech.models.fast_speech import expand, room
from pdl_speech.synthesis.loader import beta_binomial


def front(**options: Any) -> LogMel:
    return LogMel(rate=8000, n_mels=20, n_fft=256, hop_length=64, pad_mode="constant", floor=1e-6, **options)


def net(**options: Any) -> FastSpeech2:
    pdl.seed(0)
    small = {"dim": 16, "hidden": 24, "kernel": 3, "encoder": 1, "decoder": 1, "dropout": 0.0}
    return FastSpeech2(features=front(), characters=9, **small | options)


def batch(rng: np.random.Generator) -> tuple[Any, ...]:
    texts, samples = np.array([[1, 3, 2, 4, 1], [1, 5, 1, 0, 0]]), np.array([3000, 1700])
    sounds = 0.1 * rng.standard_normal((2, 3000)).astype(np.float32)
    sounds[1, 1700:] = 0
    prior, octaves = np.zeros((2, 47, 5), np.float32), np.full((2, 47), 7.5, np.float32)
    for n, (frames, characters) in enumerate(((47, 5), (27, 3))):
        prior[n, :frames, :characters] = beta_binomial(frames, characters)
    return tuple(map(pdl.as_tensor, (texts, sounds, samples, prior, octaves)))


def test_characters_are_repeated_as_often_as_they_are_long() -> None:
    x = pdl.as_tensor(np.arange(12, dtype=np.float32).reshape(2, 3, 2))
    durations = pdl.as_tensor(np.array([[2, 0, 1], [1, 3, 0]]))
    found = expand(x, durations, pdl.as_tensor(np.arange(5)[None])).numpy()
    np.testing.assert_array_equal(found[0, :, 0], [0, 0, 4, 0, 0])
    np.testing.assert_array_equal(found[1, :, 1], [7, 9, 9, 9, 0])


def test_the_size_of_the_paper() -> None:
    """Encoder and decoder of 4 blocks of width 256: 3.1 M parameters each, nearly all in convolutions 9 and 1 wide."""
    made = FastSpeech2(features=front())
    block = 4 * 256 * 256 + 4 * 256 + (9 * 256 * 1024 + 1024) + (1024 * 256 + 256) + 2 * 2 * 256
    assert sum(p.size for p in made.encoder.parameters()) == 4 * block + 2 * 256 + 1


def test_everything_learns_and_all_frames_belong_to_characters() -> None:
    made = net()
    texts, *rest = batch(np.random.default_rng(0))
    said = made.train().learn(texts, *rest)
    np.testing.assert_array_equal(said.durations.numpy().sum(axis=1), [47, 27])
    assert (said.durations.numpy()[texts.numpy() > 0] >= 1).all()
    assert not said.durations.numpy()[1, 3:].any()
    parts = (said.mel - said.heard, said.duration, said.pitch, said.energy, said.alignment)
    sum(pdl.mean(pdl.square(each)) for each in parts).backward()
    still = [name for name, p in made.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).any()]
    assert still == ["high.weight"]  # of a pitch that is the same everywhere


def test_alignments_find_tones_that_stand_for_characters() -> None:
    """Each character is a tone of its own length, which 60 steps on the alignment alone find to two frames."""
    rng, made = np.random.default_rng(1), net()
    optimiser = pdl.optim.Adam(made.parameters(), lr=5e-3)

    def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lengths, texts = rng.integers(4, 16, (8, 5)), np.stack([rng.permutation(5) + 2 for _ in range(8)])
        waves = np.zeros((8, 75 * 64), np.float32)
        for wave, text, length in zip(waves, texts, lengths, strict=True):
            tones = [np.sin(2 * np.pi * 300 * c * np.arange(64 * k) / 8000) for c, k in zip(text, length, strict=True)]
            sound = np.concatenate(tones)
            wave[: len(sound)] = sound
        return texts, waves, lengths

    found = expected = np.zeros(0)
    made.fit((wave[: 64 * n.sum()], np.full(3, 7.0), 5) for _, wave, n in zip(*drawn(), strict=True))
    for _ in range(60):
        texts, waves, lengths = drawn()
        samples = lengths.sum(axis=1) * 64
        prior = np.zeros((8, 76, 5), np.float32)
        for row, n in zip(prior, samples, strict=True):
            row[: 1 + n // 64] = beta_binomial(int(1 + n // 64), 5)
        given = (texts, waves, samples, prior, np.full((8, 76), 7.0, np.float32))
        said = made.learn(*map(pdl.as_tensor, given))
        optimiser.zero_grad()
        pdl.mean(said.alignment).backward()
        optimiser.step()
        found, expected = said.durations.numpy(), lengths
    assert np.abs(found - expected).mean() < 2
    assert np.abs(expected - found.sum(axis=1, keepdims=True) / 5).mean() > 2.5  # even pieces are not


def test_a_text_is_said_the_same_alone_and_in_a_batch_and_faster_and_higher() -> None:
    made = net().eval()
    texts = np.array([[1, 3, 2, 4, 1, 5, 6], [1, 5, 1, 0, 0, 0, 0]])
    with pdl.no_grad():
        mel, frames = (y.numpy() for y in made(pdl.as_tensor(texts)))
        alone, few = (y.numpy() for y in made(pdl.as_tensor(texts[1:, :3]), None, pdl.as_tensor(np.arange(80)[None])))
        manner = pdl.as_tensor(np.array([[2, 0], [1, 3]], np.float32))
        changed, fast = (y.numpy() for y in made(pdl.as_tensor(texts), manner))
    assert mel.shape == (2, room(7), 20)
    assert few[0] == frames[1]
    np.testing.assert_allclose(alone[0, : few[0]], mel[1, : few[0]], atol=1e-5)
    assert fast[0] < 0.65 * frames[0]
    assert fast[1] == frames[1]
    assert np.abs(changed[1] - mel[1])[: few[0]].max() > 1e-4


def test_what_it_cannot_be_is_refused() -> None:
    for features in (front(log="db"), front(then=[CMVN()]), front(center=False)):
        with pytest.raises(ConfigError, match="LogMel with log: log and center: true"):
            FastSpeech2(features=features)
    with pytest.raises(ConfigError, match="kernel=4 must be odd"):
        net(kernel=4)
    with pytest.raises(ConfigError, match="a multiple of heads=3"):
        net(heads=3)


def test_the_prior_is_a_distribution_whose_mean_is_the_diagonal() -> None:
    p = np.exp(beta_binomial(40, 10).astype(np.float64))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(p @ np.arange(10), 9 * np.arange(1, 41) / 41, rtol=1e-4)

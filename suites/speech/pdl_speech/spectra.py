"""Spectrograms in NumPy, for pictures and baselines; nets have their own front ends (`pdl_speech.features`)."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array

WINDOW, STEP = 0.032, 0.01  # seconds
FLOOR = 60.0  # dB below the loudest, from which on all is dark
#: colours of a scale that is even to the eye and in gray, from quiet to loud
COLOURS = np.array(
    [(8, 8, 30), (45, 15, 90), (110, 25, 120), (175, 45, 100), (225, 90, 60), (250, 160, 40), (252, 230, 120)], float
)


def spectrogram(wave: Array, rate: int) -> Array:
    """Power in dB, float32 [frames, bins], of a waveform [T]: Hann windows of 32 ms every 10 ms."""
    size, step = max(16, int(WINDOW * rate)), max(1, int(STEP * rate))
    padded = np.pad(wave, (0, max(0, size - len(wave))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::step]
    power = np.abs(np.fft.rfft(frames * np.hanning(size), axis=1)) ** 2
    return (10 * np.log10(power + 1e-10)).astype(np.float32)


def picture(wave: Array, rate: int, height: int = 96, most: int = 480) -> Array:
    """A spectrogram as an image uint8 [height, W, 3], low frequencies below, W at most `most`; the waveform's envelope
    stands under it."""
    found = spectrogram(wave, rate)
    found = found[:: -(-len(found) // most)]
    rows = np.linspace(0, found.shape[1] - 1, height).round().astype(int)
    image = _coloured(np.clip((found[:, rows] - found.max()) / FLOOR + 1, 0, 1).T[::-1])
    return np.concatenate([image, _envelope(wave, image.shape[1])]).round().astype(np.uint8)


def of_features(frames: Array, height: int = 96, most: int = 480) -> Array:
    """Features [frames, channels] as an image uint8 [about height, W, 3], the first channel below, each from its least
    value to its largest."""
    found = frames[:: -(-len(frames) // most)].astype(np.float64)
    low, high = found.min(axis=0), found.max(axis=0)
    level = ((found - low) / np.maximum(high - low, 1e-9)).T[::-1]
    return np.repeat(_coloured(level), max(1, height // len(level)), axis=0).round().astype(np.uint8)


def _coloured(level: Array) -> Array:
    """Numbers of 0 to 1 as colours [..., 3]."""
    place = level * (len(COLOURS) - 1)
    low = np.minimum(place.astype(int), len(COLOURS) - 2)
    return COLOURS[low] + (COLOURS[low + 1] - COLOURS[low]) * (place - low)[..., None]


def _envelope(wave: Array, width: int, height: int = 32) -> Array:
    """The largest swing of each part of a waveform, dark on white: [height, width, 3]."""
    edges = np.linspace(0, len(wave), width + 1).astype(int)
    swing = np.maximum.reduceat(np.abs(wave), np.minimum(edges[:-1], len(wave) - 1))
    reach = np.abs(np.arange(height) - (height - 1) / 2) / (height / 2)
    dark = reach[:, None] <= np.maximum(swing / max(float(np.abs(wave).max()), 1e-6), 0.02)
    return np.where(dark[..., None], (40.0, 70.0, 130.0), (255.0, 255.0, 255.0))

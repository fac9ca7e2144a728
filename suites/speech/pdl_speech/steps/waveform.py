"""Recordings as inputs of nets: waveforms of one rate, cut or filled up to one length."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count
from pdl.runtime.steps.inputs import Input, InputStep, PreStep
from pdl.runtime.steps.paths import files_of
from pdl_speech.audio.files import AUDIO_FILES, read_audio
from pdl_speech.audio.resample import resample

RATES = (1_000, 384_000)  # Hz


class Waveform(InputStep):
    """A recording of any rate -> float32 [T] in [-1, 1]: the mean of its channels, resampled to `rate` (Hz).

    An item is a file (WAV; FLAC, OGG, MP3 where soundfile is installed), the content of one as bytes, a waveform
    float [T] at `rate`, or a pair (waveform, its rate).
    On the command line, and for `predict`, also a folder or a pattern (all recordings there), or "-" (standard input).
    """

    name = "waveform"
    takes, metavar = "recording", "FILE"
    about = "a recording (WAV, FLAC, OGG, MP3), a folder, a pattern, or - for standard input"
    takes_content = True
    tolerance = 1e-4

    def __init__(self, rate: int) -> None:
        self.rate = count("rate", rate, *RATES)

    def parse(self, item: Any, sample: Sample) -> Array:
        if isinstance(item, str | Path | bytes):
            return read_audio(item, self.rate)[0]
        wave, rate = item if isinstance(item, tuple) and len(item) == 2 else (item, self.rate)
        made = np.asarray(wave, np.float32)
        if made.ndim != 1 or not made.size or not np.isfinite(made).all():
            raise DataError(f"a waveform {made.shape} must be finite numbers [T], at least one")
        if not isinstance(rate, int | np.integer) or not RATES[0] <= rate <= RATES[1]:
            raise DataError(f"a waveform at {rate!r:.60} Hz; expected a whole number from {RATES[0]} to {RATES[1]}")
        return resample(made, int(rate), self.rate)

    def title(self, item: Any) -> str:
        return str(item) if isinstance(item, str | Path) else "waveform"

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        if isinstance(given, bytes):
            yield Input(f"bytes {number}", given)
        elif not isinstance(given, str | Path):
            yield Input(f"waveform {number}", given)
        elif str(given) == "-":
            yield Input("-", sys.stdin.buffer.read())
        else:
            yield from (Input(str(path), path) for path in files_of(str(given), AUDIO_FILES, "recordings"))

    @property
    def flags(self) -> tuple[Any, ...]:
        return ()

    def from_word(self, word: str) -> Any:
        return word

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.standard_normal(shape, np.float32) * np.float32(0.1)

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Noise of two lengths."""
        return [rng.standard_normal(int(self.rate * seconds), np.float32) * 0.1 for seconds in (1.0, 1.7)]


class PadOrCrop(PreStep):
    """The middle `samples` of a longer waveform; a shorter one gets zeros, as many before it as behind it."""

    name = "pad_or_crop"

    def __init__(self, samples: int) -> None:
        self.samples = count("samples", samples, most=1 << 26)

    def __call__(self, value: Any) -> Any:
        return fitted(value, self.samples, (len(value) - self.samples) // 2)


def fitted(wave: Array, samples: int, begin: int) -> Array:
    """`samples` of a waveform [T] from `begin` on, which may be negative; zeros where it has none."""
    made = np.zeros(samples, wave.dtype)
    first, end = max(begin, 0), min(begin + samples, len(wave))
    made[first - begin : end - begin] = wave[first:end]
    return made

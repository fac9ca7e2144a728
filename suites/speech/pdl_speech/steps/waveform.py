"""Recordings as inputs of nets: waveforms of one rate, cut or filled up to one length."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count
from pdl.runtime.steps.inputs import Flag, Input, InputStep, PreStep
from pdl.runtime.steps.paths import files_of
from pdl_speech.audio.files import AUDIO_FILES, audio_info, read_audio
from pdl_speech.audio.resample import Resampler, resample

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

    # -- streams -------------------------------------------------------------------------------------------------------
    def feeder(self, *, rate: int | None = None) -> Pieces:  # type: ignore[override]
        """Pieces float [T] or int16 [T] at `rate` (Hz), by default the net's own."""
        given = self.rate if rate is None else rate
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or not RATES[0] <= given <= RATES[1]:
            raise UsageError(f"rate={given!r:.60}: expected a whole number of Hz from {RATES[0]} to {RATES[1]}")
        return Pieces(int(given), self.rate)

    def pieces_of(self, item: Any) -> tuple[dict[str, Any], Iterator[Any]]:
        """Of a second each."""
        if not isinstance(item, str | Path | bytes):
            wave = self.parse(item, Sample())
            return {"rate": self.rate}, (wave[at : at + self.rate] for at in range(0, len(wave), self.rate))
        facts = audio_info(item)
        starts = range(0, facts.frames, facts.rate)
        parts = (read_audio(item, start=at, frames=min(facts.rate, facts.frames - at))[0] for at in starts)
        return {"rate": facts.rate}, parts

    @property
    def stream_flags(self) -> tuple[Flag, ...]:
        return (
            Flag(
                "--stream", "", "Answer while a recording is read, or samples of 16 bits (- or nothing: from a pipe)."
            ),
            Flag("--rate", "HZ", f"Of --stream: the rate of the samples from a pipe; {self.rate} by default."),
        )

    def stream_pieces(
        self, words: Sequence[str], values: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, Any], Iterator[Any]]:
        if len(words) > 1:
            raise UsageError(f"--stream reads one recording, or standard input; got {len(words)}: {' '.join(words)}")
        if words and words[0] != "-":
            if values.get("--rate"):
                raise UsageError(f"--rate is of samples from a pipe; {words[0]} has a rate of its own")
            return self.pieces_of(words[0])
        said = values.get("--rate", [str(self.rate)])[-1]
        if not said.isdecimal():
            raise UsageError(f"--rate {said:.30}: expected Hz, a whole number")
        return {"rate": int(said)}, pcm(sys.stdin.buffer)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.standard_normal(shape, np.float32) * np.float32(0.1)

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Noise of two lengths."""
        return [rng.standard_normal(int(self.rate * seconds), np.float32) * 0.1 for seconds in (1.0, 1.7)]


class Pieces:
    """Pieces of a recording at one rate as a waveform at another (`pdl.runtime.steps.inputs.Feeder`)."""

    def __init__(self, rate: int, to: int) -> None:
        self._resampler = Resampler(rate, to)

    def feed(self, piece: Any) -> Array:
        """The next samples; DataError where they are none."""
        made = np.asarray(piece)
        if made.ndim != 1 or (made.dtype.kind not in "f" and made.dtype != np.int16):
            raise DataError(f"a piece of a recording is {made.dtype} {made.shape}; expected floats or int16 [T]")
        made = made * np.float32(1 / 32768) if made.dtype == np.int16 else made.astype(np.float32)
        if not np.isfinite(made).all():
            raise DataError(f"a piece of a recording, {made.shape}, must be finite numbers")
        return self._resampler.feed(made)

    def flush(self) -> Array:
        """The last ones."""
        return self._resampler.flush()


def pcm(file: BinaryIO) -> Iterator[Array]:
    """int16 [T] of a pipe of samples of 16 bits, little-endian, as they come."""
    odd = b""
    while data := file.read1(1 << 16):  # type: ignore[attr-defined]
        data = odd + data
        whole = len(data) & ~1
        odd = data[whole:]
        yield np.frombuffer(data[:whole], "<i2").astype(np.int16)


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

"""What happens to sound between a mouth and samples, as transforms of "audio" float32 [T], for training; and what of it
can be done to "features" [frames, channels].

All keep the length of a recording, but for `PadOrCrop`, `Speed` and `Tempo`. What would exceed full scale is made
quieter as a whole, so that its peak is 1; nothing but `Clip` clips. `rate` is that of the samples, in Hz.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.reading import partners_of
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl_speech.audio import wav
from pdl_speech.audio.files import audio_info, read_audio
from pdl_speech.audio.resample import resample
from pdl_speech.data import rooms
from pdl_speech.data.recordings import recordings_in
from pdl_speech.steps.waveform import fitted

Probability = Annotated[float, Range(0, 1)]
Rate = Annotated[int, Range(1000, 96_000)]
PERCENT = 100  # parts of 1 in which speeds are given
SPEEDS = (0.5, 2.0)
MOST_DB = 120.0


@dataclass(frozen=True)
class _Distortion(Transform):
    """A distortion of sample[`key`], float32 of a `shape`, applied with probability `p`."""

    p: Probability = 1.0
    key: ClassVar[str] = "audio"
    shape: ClassVar[str] = "[T]"

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise self.fault(f"p={self.p!r} must be from 0 to 1")

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if not rng.chance(self.p):
            return sample
        x = sample.get(self.key)
        if not isinstance(x, np.ndarray) or x.dtype != np.float32 or x.ndim != 1 + self.shape.count(","):
            have = f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else f"keys {sorted(sample)}"
            name = type(self).__name__
            raise UsageError(f'{name} is for samples with "{self.key}" float32 {self.shape}, not {have}')
        return {**sample, self.key: self.distorted(x, rng) if len(x) else x}

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        """The sound, distorted; x is never written to."""
        raise NotImplementedError(f"{type(self).__name__} must define distorted")

    def fault(self, what: str) -> ConfigError:
        """The error about an argument."""
        return ConfigError(f"{type(self).__name__}: {what}")

    def _span(self, name: str, low: float, high: float) -> None:
        """Make the field `name`, a number or (from, to), a pair within low..high."""
        given = getattr(self, name)
        pair = (given, given) if isinstance(given, int | float) else tuple(given)
        if len(pair) != 2 or not low <= pair[0] <= pair[1] <= high:
            raise self.fault(f"{name}={given!r} must be (from, to) within {low:g} to {high:g}")
        self._set(**{name: (float(pair[0]), float(pair[1]))})

    def _rate(self, rate: int) -> None:
        if type(rate) is not int or not 1000 <= rate <= 96_000:
            raise self.fault(f"rate={rate!r} must be a whole number of Hz from 1000 to 96000")


@dataclass(frozen=True)
class PadOrCrop(_Distortion):
    """One length for all: of longer audio a part; shorter audio gets zeros.

    samples   of the result, or instead of them
    seconds   of the result, at `rate`
    random    a random part, and a random place among the zeros, for training; otherwise the middle
    """

    samples: Annotated[int, Range(1, wav.MOST_SAMPLES)] | None = None
    seconds: Annotated[float, Range(above=0)] | None = None
    rate: Rate = 16_000
    random: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rate(self.rate)
        if (self.samples is None) == (self.seconds is None):
            raise self.fault("give samples or seconds, one of them")
        if self.p != 1:
            raise self.fault("p must be 1: audio of several lengths makes no batch")
        if not 1 <= self.length <= wav.MOST_SAMPLES:
            raise self.fault(f"{self.length} samples, expected 1 to {wav.MOST_SAMPLES}")

    @property
    def length(self) -> int:
        """Samples of the result."""
        return self.samples if self.samples is not None else round((self.seconds or 0) * self.rate)

    def deployed(self) -> list[dict[str, Any]]:
        if self.random:
            raise UsageError("PadOrCrop with random: true is for training; evaluation takes the middle")
        return [{"step": "pad_or_crop", "samples": self.length}]

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:  # also of no samples at all
        return {**sample, "audio": self.distorted(sample["audio"], rng)}

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        more = len(x) - self.length
        begin = more // 2
        if self.random:
            begin = rng.integers(min(more, 0), max(more, 0) + 1)
        return fitted(x, self.length, begin)


@dataclass(frozen=True)
class Gain(_Distortion):
    """Louder or quieter by `db` (from, to), uniformly drawn in dB; not beyond a peak of 1."""

    db: Sequence[float] = (-10.0, 10.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("db", -MOST_DB, MOST_DB)

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return bounded(x * np.float32(10 ** (rng.uniform(*self.db) / 20)))


@dataclass(frozen=True)
class Speed(_Distortion):
    """Faster or slower, and higher or lower with it: resampled by one of `factors`, hundredths from 0.5 to 2, to
    ceil(T / factor) samples (Ko et al., Audio augmentation for speech recognition, Interspeech 2015)."""

    factors: Sequence[float] = (0.9, 1.0, 1.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        factors = tuple(float(each) for each in self.factors)
        whole = all(SPEEDS[0] <= f <= SPEEDS[1] and abs(PERCENT * f - round(PERCENT * f)) < 1e-6 for f in factors)
        if not factors or not whole:
            raise self.fault(f"factors={self.factors!r} must be from 0.5 to 2, in hundredths, as 0.95 is")
        self._set(factors=factors)

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        factor = self.factors[rng.integers(0, len(self.factors))]
        return bounded(resample(x, round(PERCENT * factor), PERCENT))


@dataclass(frozen=True)
class TimeShift(_Distortion):
    """Earlier or later by up to `seconds`: what leaves is lost, zeros follow."""

    seconds: Annotated[float, Range(above=0)] = 0.1
    rate: Rate = 16_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rate(self.rate)
        if not 0 < self.seconds < math.inf:
            raise self.fault(f"seconds={self.seconds!r} must be above 0")

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        most = min(round(self.seconds * self.rate), len(x))
        return fitted(x, len(x), rng.integers(-most, most + 1))


@dataclass(frozen=True)
class Noise(_Distortion):
    """Noise at a signal-to-noise ratio, uniformly drawn in dB: y = x + g n with 10 log10(mean(x^2) / mean((g n)^2)) =
    SNR over the whole of the audio. Silence stays silence.

    snr      (from, to) in dB
    colour   white, pink (power falls as 1 / f) or brown (1 / f^2), from 20 Hz on; any: each with the same probability
    path     a folder of recordings, sub-folders included, to take in place of drawn noise: parts at random places;
             those that are too short are repeated
    """

    snr: Sequence[float] = (5.0, 30.0)
    colour: Literal["any", "white", "pink", "brown"] = "any"
    path: str | None = None
    rate: Rate = 16_000
    p: Probability = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("snr", -MOST_DB, MOST_DB)
        self._rate(self.rate)
        if self.colour not in ("any", *rooms.COLOURS):
            raise self.fault(f"colour={self.colour!r} must be any, {', '.join(rooms.COLOURS)}")

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        snr = rng.uniform(*self.snr)
        if self.path is not None:
            return mixed(x, self._recorded(len(x), self.path, rng), snr)
        colour = tuple(rooms.COLOURS)[rng.integers(0, 3)] if self.colour == "any" else self.colour
        return mixed(x, rooms.noise(len(x), colour, self.rate, rng), snr)

    def _recorded(self, count: int, path: str, rng: SampleRandom) -> np.ndarray:
        """`count` samples of a recording; only those are read."""
        files = _recordings(path)
        file = files[rng.integers(0, len(files))]
        facts = audio_info(file)
        wanted = min(math.ceil(count * facts.rate / self.rate) + 1, facts.frames)
        start = rng.integers(0, facts.frames - wanted + 1)
        return np.resize(read_audio(file, self.rate, start=start, frames=wanted)[0], count)


@lru_cache(maxsize=16)
def _recordings(path: str) -> tuple[Path, ...]:
    return tuple(recordings_in(Path(path).expanduser()))


@dataclass(frozen=True)
class Mix(_Distortion):
    """Another recording of the data set, drawn uniformly, beneath this one at `snr` (from, to) dB, defined as for
    `Noise`; what the sample is labelled with stays. A longer one is cut at a random place, a shorter one repeated."""

    joins: ClassVar[bool] = True

    snr: Sequence[float] = (5.0, 20.0)
    p: Probability = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("snr", -MOST_DB, MOST_DB)

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if not rng.chance(self.p) or not len(sample["audio"]):
            return sample
        x, other = sample["audio"], partners_of(sample, "Mix").draw(rng)["audio"]
        begin = rng.integers(0, max(0, len(other) - len(x)) + 1)
        under = np.resize(other[begin : begin + len(x)], len(x))
        return {**sample, "audio": mixed(x, under, rng.uniform(*self.snr))}


@dataclass(frozen=True)
class Reverb(_Distortion):
    """Spoken in a room: convolved with the response of an empty box by the image method (Allen and Berkley, 1979), from
    the direct sound on, and brought back to the power that it had.

    t60      (from, to) seconds in which sound falls by 60 dB, uniformly drawn for each room
    rooms    how many of 3 to 10 by 2.5 to 8 by 2.4 to 4 metres there are; each is computed once, when it is first drawn
    seed     of the rooms
    """

    t60: Sequence[float] = (0.15, 0.6)
    rooms: Annotated[int, Range(1, 512)] = 64
    rate: Rate = 16_000
    seed: Annotated[int, Range(0)] = 0
    p: Probability = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("t60", 0.05, rooms.MOST_T60)
        self._rate(self.rate)
        if type(self.rooms) is not int or not 1 <= self.rooms <= 512:
            raise self.fault(f"rooms={self.rooms!r} must be from 1 to 512")

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        number = rng.integers(0, self.rooms)
        made = rooms.convolved(x, rooms.drawn(number, tuple(self.t60), self.rate, self.seed))  # type: ignore[arg-type]
        had, has = power(x), power(made)
        return bounded(made * np.float32(math.sqrt(had / has))) if has else made


@dataclass(frozen=True)
class Clip(_Distortion):
    """An overdriven microphone: samples are clipped to `share` (from, to) of the peak, uniformly drawn."""

    share: Sequence[float] = (0.2, 0.8)
    p: Probability = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("share", 0.01, 1)

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        most = np.abs(x).max() * np.float32(rng.uniform(*self.share))
        return bounded(np.clip(x, -most, most))


@dataclass(frozen=True)
class BandLimit(_Distortion):
    """Without what lies above half of one of `rates` (Hz, all below `rate`), as of telephones (8000) and codecs of low
    rates: resampled to it and back."""

    rates: Sequence[int] = (8000,)
    rate: Rate = 16_000
    p: Probability = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rate(self.rate)
        rates = tuple(self.rates)
        if not rates or not all(type(each) is int and 1000 <= each < self.rate for each in rates):
            raise self.fault(f"rates={self.rates!r} must be whole numbers of Hz from 1000 to below rate={self.rate}")
        self._set(rates=rates)

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        low = self.rates[rng.integers(0, len(self.rates))]
        return bounded(resample(resample(x, self.rate, low), low, self.rate)[: len(x)])


@dataclass(frozen=True)
class MuLaw(_Distortion):
    """As over a telephone line: every sample becomes the nearest of the 255 levels of mu-law (ITU-T G.711)."""

    p: Probability = 0.5

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        levels, between = _levels()
        return levels[np.searchsorted(between, x)]


@lru_cache(maxsize=1)
def _levels() -> tuple[np.ndarray, np.ndarray]:
    """The levels of mu-law, ascending, and where the next one becomes the nearer."""
    levels = wav.mulaw_levels()
    return levels, (levels[1:] + levels[:-1]) / 2


@dataclass(frozen=True)
class _Features(_Distortion):
    key: ClassVar[str] = "features"
    shape: ClassVar[str] = "[frames, channels]"


@dataclass(frozen=True)
class Tempo(_Features):
    """Faster or slower by a factor, uniformly drawn: features at ceil(frames / factor) even places, between two frames
    on the line through both; at the same pitch, other than `Speed`."""

    factor: Sequence[float] = (0.85, 1.15)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("factor", *SPEEDS)

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        count = math.ceil(len(x) / rng.uniform(*self.factor))
        at = np.clip((np.arange(count) + 0.5) * (len(x) / count) - 0.5, 0, len(x) - 1)
        before = at.astype(np.int64)
        part = (at - before).astype(np.float32)[:, None]
        made: np.ndarray = x[before] * (1 - part) + x[np.minimum(before + 1, len(x) - 1)] * part
        return made


@dataclass(frozen=True)
class VocalTract(_Features):
    """Cepstra as of a longer or shorter vocal tract (Jaitly and Hinton, ICML 2013 workshop): the log spectrum
    sum_k c_k cos(k w) is read at w + 2 atan(a sin w / (1 - a cos w)), the all-pass warping, with a uniformly drawn from
    `warp`, which is linear in c (Pitz and Ney, IEEE Trans. SAP 13(5), 2005). Features are coefficients of the
    orthonormal cosine transform from 0 on, without liftering; of mel cepstra, 0.05 moves formants by about a tenth."""

    warp: Sequence[float] = (-0.08, 0.08)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._span("warp", -0.5, 0.5)

    def distorted(self, x: np.ndarray, rng: SampleRandom) -> np.ndarray:
        made: np.ndarray = x @ warping(x.shape[1], rng.uniform(*self.warp))
        return made


def warping(channels: int, a: float) -> np.ndarray:
    """float32 [channels, channels]: what orthonormal cepstra are multiplied with, to be warped by a."""
    w = (np.arange(8 * channels) + 0.5) * (np.pi / (8 * channels))
    k = np.arange(channels)[:, None]
    scale = np.where(k, 1.0, 0.5**0.5) * (2 / len(w)) ** 0.5
    read = np.cos(k * (w + 2 * np.arctan2(a * np.sin(w), 1 - a * np.cos(w))))
    return ((read * scale) @ (np.cos(k * w) * scale).T).astype(np.float32)


def power(x: np.ndarray) -> float:
    """mean(x^2), in float64."""
    return float(np.mean(np.square(x, dtype=np.float64)))


def mixed(x: np.ndarray, noise: np.ndarray, snr: float) -> np.ndarray:
    """x + g noise, both [T], with g such that 10 log10(power(x) / power(g noise)) = snr; bounded as a whole, which
    keeps the ratio. x itself where one of them is silent."""
    signal, other = power(x), power(noise)
    if not signal or not other:
        return x
    gain = math.sqrt(signal / (other * 10 ** (snr / 10)))
    return bounded(x + gain * noise.astype(np.float64))


def bounded(x: np.ndarray) -> np.ndarray:
    """float32: x, where its peak is above 1 divided by it."""
    peak = float(np.abs(x).max())
    return np.asarray(x / peak if peak > 1 else x, np.float32)

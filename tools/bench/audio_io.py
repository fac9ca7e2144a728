"""Recordings against soundfile, and resampling against soxr, torchaudio, librosa and SciPy: CPU time and errors.

    PDL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tools/bench/audio_io.py --seconds 10 --rounds 7

Sides that are not installed are left out. Every number is milliseconds of CPU time for a second of sound, the best of
`--rounds`, sides in turns. `ripple` is the largest deviation in dB of sines to 0.9 of the lower Nyquist frequency, and
`alias` the strongest of those from 1.0 to 1.9 of it, in dB below full scale.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pdl_speech.audio import read_audio, resample, wav

RATIOS = [(44_100, 16_000), (48_000, 16_000), (16_000, 8000), (8000, 16_000), (16_000, 44_100), (16_000, 17_600)]
Side = Callable[[np.ndarray, int, int], np.ndarray]


def sides() -> dict[str, Side]:
    """Resamplers by name."""
    found: dict[str, Side] = {"pdl": resample}
    try:
        import soxr

        found["soxr HQ"] = lambda x, rate, to: soxr.resample(x, rate, to, quality="HQ")
        found["soxr VHQ"] = lambda x, rate, to: soxr.resample(x, rate, to, quality="VHQ")
    except ImportError:
        pass
    try:
        import torch
        import torchaudio

        torch.set_num_threads(1)
        best: dict[str, Any] = {
            "lowpass_filter_width": 64, "rolloff": 0.9475937167399596, "resampling_method": "sinc_interp_kaiser",
            "beta": 14.769656459379492,
        }  # fmt: skip

        def torch_side(**options: Any) -> Side:
            made: dict[tuple[int, int], Any] = {}  # its kernels, as the class keeps them

            def run(x: np.ndarray, rate: int, to: int) -> np.ndarray:
                if (rate, to) not in made:
                    made[rate, to] = torchaudio.transforms.Resample(rate, to, **options)
                y: np.ndarray = made[rate, to](torch.from_numpy(x)).numpy()
                return y

            return run

        found["torchaudio"] = torch_side()
        found["torchaudio kaiser_best"] = torch_side(**best)
    except ImportError:
        pass
    try:
        import librosa

        found["librosa"] = lambda x, rate, to: librosa.resample(x, orig_sr=rate, target_sr=to)
    except ImportError:
        pass
    try:
        from scipy.signal import resample_poly

        found["scipy resample_poly"] = lambda x, rate, to: resample_poly(x, to, rate).astype(np.float32)
    except ImportError:
        pass
    return found


def quality(side: Side, rate: int, to: int) -> tuple[float, float]:
    """Ripple and alias."""
    lower, t, u = min(rate, to) / 2, np.arange(rate) / rate, np.arange(to) / to
    inside = slice(to // 4, -to // 4)
    ripple, alias = 0.0, -200.0
    for share in (0.05, 0.3, 0.6, 0.8, 0.85, 0.9):
        y = side(np.sin(2 * np.pi * share * lower * t).astype(np.float32), rate, to)[inside].astype(np.float64)
        sine = np.stack([np.sin(2 * np.pi * share * lower * u), np.cos(2 * np.pi * share * lower * u)], 1)[inside]
        level = np.linalg.norm(np.linalg.lstsq(sine, y, rcond=None)[0])
        ripple = max(ripple, abs(20 * np.log10(level)))
    for share in (1.0, 1.02, 1.05, 1.1, 1.3, 1.6, 1.9) if to < rate else ():
        y = side(np.sin(2 * np.pi * share * lower * t).astype(np.float32), rate, to)[inside].astype(np.float64)
        alias = max(alias, float(10 * np.log10(2 * np.mean(y**2) + 1e-20)))
    return ripple, alias


def cpu(call: Callable[[], Any]) -> float:
    """Milliseconds of CPU time."""
    begin = time.process_time()
    call()
    return 1000 * (time.process_time() - begin)


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The best of `rounds` for each."""
    for call in calls.values():
        call()
    times = [{name: cpu(call) for name, call in calls.items()} for _ in range(rounds)]
    return {name: min(each[name] for each in times) for name in calls}


def resampling(seconds: float, rounds: int) -> None:
    """Print speed and quality of every side."""
    for rate, to in RATIOS:
        x = np.random.default_rng(0).standard_normal(int(rate * seconds)).astype(np.float32) * np.float32(0.1)
        found = sides()
        calls = {name: partial(side, x, rate, to) for name, side in found.items()}
        best = in_turns(calls, rounds)
        print(f"{rate} -> {to} Hz")
        for name, side in found.items():
            ripple, alias = quality(side, rate, to)
            print(f"  {name:24} {best[name] / seconds:7.3f} ms   ripple {ripple:7.4f} dB   alias {alias:7.1f} dB")


def reading(seconds: float, rounds: int) -> None:
    """Print the time to read WAV files of several encodings, content in memory, to one channel float32."""
    try:
        import soundfile
    except ImportError:
        print("soundfile is not installed: reading is not compared")
        return

    def theirs(data: bytes) -> np.ndarray:
        return np.asarray(soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0])

    def mean_of(data: bytes) -> np.ndarray:
        return np.asarray(theirs(data).mean(axis=1))

    x = np.random.default_rng(0).uniform(-1, 1, (int(16_000 * seconds), 2)).astype(np.float32)
    for subtype in ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "ULAW"):
        file = io.BytesIO()
        soundfile.write(file, x, 16_000, format="WAV", subtype=subtype)
        data = file.getvalue()

        assert np.array_equal(theirs(data), wav.read(data)[0])
        calls: dict[str, Callable[[], Any]] = {
            "all": partial(wav.read, data),
            "soundfile": partial(theirs, data),
            "mono": partial(read_audio, data),
            "soundfile, mean": partial(mean_of, data),
        }
        best = in_turns(calls, rounds)
        print(f"{subtype:7}" + "".join(f"  {name} {each / seconds:.4f} ms" for name, each in best.items()))


def main() -> None:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print("reading two channels at 16 kHz, a second:")
    reading(args.seconds, args.rounds)
    resampling(args.seconds, args.rounds)


if __name__ == "__main__":
    main()

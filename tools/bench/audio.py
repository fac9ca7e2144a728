"""Front ends of speech: log-mel, MFCC and Kaldi's fbank against librosa, torchaudio and kaldi-native-fbank.

    pip install librosa torchaudio kaldi-native-fbank
    python tools/bench/audio.py                            # 60 s at 16 kHz, one thread
    python tools/bench/audio.py --batch 16 --length 4 --only log-mel

All sides compute the same numbers from the same samples: "difference" is the largest one from pdl's, over the largest
of pdl's. pdl calls the module, without gradients, as the others do. The sides are processes that take short turns
(turns.py); the ratio is the median of those of turns beside each other, "best ms" the fastest turn. On a busy machine
`--clock cpu` counts the time that a side computes. kaldi-native-fbank is given all samples of a recording at once, and
its frames are fetched one by one, which is its interface.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import turns
from infer import cpu
from train import table

RATE, MELS = 16000, 80
#: features -> sides, pdl's first
SIDES = {
    "log-mel": ("pdl", "librosa", "torchaudio"),
    "mfcc": ("pdl", "librosa", "torchaudio"),
    "fbank": ("pdl", "kaldi-native-fbank", "torchaudio"),
    "stft": ("pdl", "librosa", "torch"),
}
FRAMES: dict[str, Any] = {"n_fft": 400, "hop_length": 160}
Call = Callable[[], Any]


def ours(features: str, waves: Any) -> Call:
    """The modules of pdl-speech."""
    import pdl
    from pdl_speech import features as front

    made = {
        "log-mel": lambda: front.LogMel(log="db", top_db=80.0),
        "mfcc": lambda: front.MFCC(n_mfcc=13),
        "fbank": front.Fbank,
    }
    net = made[features]().eval() if features in made else lambda x: pdl.stft(x, **FRAMES)
    x = pdl.Tensor(waves)

    def call() -> Any:
        with pdl.no_grad():
            return net(x).numpy()

    return call


def librosa(features: str, waves: Any) -> Call:
    """The functions of librosa, with the filters of the others; their bins lie before frames."""
    import librosa as peer

    options: dict[str, Any] = {"sr": RATE, "n_mels": MELS, "htk": True, "norm": None, "pad_mode": "reflect", **FRAMES}
    if features == "stft":
        return lambda: np.swapaxes(peer.stft(waves, pad_mode="reflect", **FRAMES), 1, 2)

    def call() -> Any:
        mel = peer.feature.melspectrogram(y=waves, **options)
        log = peer.power_to_db(mel, top_db=80.0)
        return np.swapaxes(log if features == "log-mel" else peer.feature.mfcc(S=log, n_mfcc=13), 1, 2)

    return call


def torchaudio(features: str, waves: Any) -> Call:
    """The transforms of torchaudio, whose bins lie before frames, and its fbank."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_grad_enabled(False)
    x = torch.tensor(waves)
    if features == "stft":
        window = torch.hann_window(FRAMES["n_fft"])
        return lambda: torch.stft(x, window=window, return_complex=True, **FRAMES).swapaxes(1, 2)
    if features == "fbank":
        from torchaudio.compliance.kaldi import fbank

        scaled = x * 32768
        return lambda: torch.stack([fbank(each[None], num_mel_bins=MELS, dither=0.0) for each in scaled])
    from torchaudio.transforms import MFCC, AmplitudeToDB, MelSpectrogram

    if features == "mfcc":
        net = MFCC(RATE, 13, melkwargs={"n_mels": MELS, **FRAMES})
    else:
        net = torch.nn.Sequential(MelSpectrogram(RATE, n_mels=MELS, **FRAMES), AmplitudeToDB(top_db=80.0))
    return lambda: net(x).swapaxes(1, 2)


def kaldi(features: str, waves: Any) -> Call:
    """kaldi-native-fbank."""
    import kaldi_native_fbank as peer

    options = peer.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = MELS
    scaled = waves * 32768

    def call() -> Any:
        found = []
        for wave in scaled:
            made = peer.OnlineFbank(options)
            made.accept_waveform(RATE, wave)
            made.input_finished()
            found.append(np.stack([made.get_frame(i) for i in range(made.num_frames_ready)]))
        return np.stack(found)

    return call


MAKERS = {"pdl": ours, "librosa": librosa, "torchaudio": torchaudio, "torch": torchaudio, "kaldi-native-fbank": kaldi}


def waves_of(batch: int, seconds: float) -> Any:
    """Sweeps in noise, float32 [batch, samples]."""
    time = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(0).standard_normal((batch, len(time)))
    sweep = np.sin(2 * np.pi * (300 + 200 * np.sin(time)) * time)
    return (0.3 * sweep + 0.05 * noise).astype(np.float32)


def main() -> None:
    """Race, and print a table; or, as a worker, serve one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SIDES, nargs="+", default=list(SIDES))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=float, default=60.0, help="seconds of a recording")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--clock", choices=turns.CLOCKS, default="wall")
    parser.add_argument("--worker", nargs=3, metavar=("FEATURES", "SIDE", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("PDL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    if args.worker:
        features, side, file = args.worker
        call = MAKERS[side](features, waves_of(args.batch, args.length))
        made = np.asarray(call())
        np.save(file, made)
        turns.serve(call, {"shape": made.shape}, args.clock)
        return
    print(f"{args.batch} x {args.length:g} s at {RATE} Hz, {args.threads} thread(s), {cpu()}", flush=True)
    found = []
    for features in args.only:
        with tempfile.TemporaryDirectory() as folder:
            files = {side: Path(folder) / f"{side}.npy" for side in SIDES[features]}
            commands = {
                side: [sys.executable, *sys.argv, "--worker", features, side, str(files[side])] for side in files
            }
            rows = turns.race(commands, seconds=args.seconds, turns=args.turns)
            print(file=sys.stderr)
            own = np.load(files["pdl"]) if files["pdl"].exists() else None
            for side, row in rows.items():
                if "median" not in row:
                    found.append([features, side, str(row["error"])])
                    continue
                other = np.load(files[side])
                gap = f"{np.abs(other - own).max() / np.abs(own).max():.1e}" if own is not None else ""
                speed = turns.ratio(rows, "pdl", [side])
                times = [f"{1e3 * row['median']:.2f}", f"{1e3 * min(row['turns']):.2f}"]
                found.append([features, side, *times, f"{speed[1]:.2f}" if speed and side != "pdl" else "", gap])
    print(table(["features", "side", "ms", "best ms", "pdl is x times as fast", "difference"], iter(found)))


if __name__ == "__main__":
    main()

"""A recipe for recordings in folders, as `pdl init speech.classification --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdl.config.text import flow, quoted
from pdl.data.folders import ratios_for, splits_there
from pdl.errors import DataError, UsageError
from pdl_speech.audio.files import audio_info
from pdl_speech.data.folder import AudioFolder

LOOKED_AT = 200  # recordings whose lengths and rates are looked at
RATES = (8_000, 16_000, 32_000)  # Hz, of nets
LONG = 4.0  # seconds: longer recordings are sounds rather than words
SEEN = 24_000  # recordings that training sees in all
EPOCHS = (15, 120)


@dataclass(frozen=True)
class Sounds:
    """What some recordings are like: the rate to read them at (Hz), and the length that nearly all fit into (s)."""

    rate: int
    seconds: float


def write_recipe(data: Path) -> str:
    """The text of a recipe that trains on the class folders in `data`.

    Split folders are used as they are, the rest is cut by ratio. The rate is the highest of 8, 16 and 32 kHz that most
    recordings have; the length is that which nearly all fit into. Short ones are words for a small net (res8), which
    learns FSDD faster than BC-ResNet does (99.0 % and 96.7 % in 30 epochs); others are sounds for a larger one (CNN10
    of PANNs, a quarter as wide). Raises DataError for a folder that cannot be used.
    """
    have = splits_there(data)
    ratios = ratios_for(have)
    train = AudioFolder(data, split="train" if have["train"] or ratios else None, ratios=ratios or None, rate=16_000)
    if len(train.classes) < 2:
        raise UsageError(
            f"{data}: {len(train.classes)} class folder ({', '.join(train.classes)}); at least 2 are needed"
        )
    sounds = heard(train)
    words = sounds.seconds <= LONG
    n_fft, mels = 2 ** int(np.ceil(np.log2(0.03 * sounds.rate))), 40 if words else 64
    net = "SpeechResNet" if words else "PANN, layers: 10, width: 0.25"
    features = f"features: {{_target_: pdl_speech.features.LogMel, rate: {sounds.rate}, n_fft: {n_fft}, "
    features += f"hop_length: {sounds.rate // 100}, n_mels: {mels}, floor: 1.0e-3, "
    features += "then: [{_target_: pdl_speech.features.CMVN}]}"
    crop = f"_target_: pdl_speech.data.transforms.PadOrCrop, samples: {round(sounds.seconds * sounds.rate)}"
    lines = [
        f"# {len(train.classes)} classes, {len(train)} recordings for training, at {sounds.rate} Hz, nearly all within "
        f"{sounds.seconds:g} s.",
        "defaults:",
        "  - /speech/classification",
        "  - _self_",
        f"model: {{_target_: pdl_speech.{net}, {features}}}",
        "data:",
        *(line for split in have for line in _split(data, split, have, ratios)),
        "  transforms:",
        "    train:",
        *(f"      - {each}" for each in _distortions(crop)),
        "    eval:",
        f"      - {{{crop}}}",
        f"  batch_size: {next((size for size in (64, 32, 16) if len(train) >= 10 * size), 8)}",
        *(["optim: {lr: 5.0e-3}"] if words else []),
        f"train: {{epochs: {int(np.clip(round(SEEN / len(train)), *EPOCHS))}}}",
    ]
    return "\n".join(lines) + "\n"


def heard(train: AudioFolder) -> Sounds:
    """What a few recordings are like."""
    rates, seconds = [], []
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)):
        try:
            info = audio_info(train.path_of(int(index)))
        except DataError:  # `pdl check` and training report it, with its path
            continue
        rates.append(info.rate)
        seconds.append(info.seconds)
    if not rates:
        raise DataError(f"{train.root}: none of the recordings looked at can be read; see pdl check")
    usual = int(np.median(rates))
    rate = max((each for each in RATES if each <= usual), default=RATES[0])
    length = float(np.quantile(seconds, 0.98))
    return Sounds(rate, max(0.5, np.ceil(4 * length) / 4))


def _distortions(crop: str) -> Sequence[str]:
    """Transforms of training."""
    t, rate = "_target_: pdl_speech.data.transforms.", 'rate: "${model.features.rate}"'
    return (f"{{{t}Speed}}", f"{{{t}Noise, {rate}}}", f"{{{t}Gain}}", f"{{{crop}, random: true}}")


def _split(data: Path, split: str, have: dict[str, bool], ratios: dict[str, float]) -> Sequence[str]:
    cut = split in ratios
    if not cut and not have[split]:
        return ()
    root = f"root: {quoted(data.resolve())}" if split == "train" else 'root: "${data.train.root}"'
    more = f", ratios: {flow(ratios)}" if cut else ""
    rate = 'rate: "${model.features.rate}"'
    return (f"  {split}: {{_target_: pdl_speech.data.AudioFolder, {root}, split: {split}{more}, {rate}}}",)

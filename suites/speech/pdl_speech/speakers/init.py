"""A recipe for recordings of speakers in folders, as `pdl init speech.speakers --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdl.config.text import flow, quoted
from pdl.data.folders import splits_there
from pdl.errors import UsageError
from pdl_speech.audio.files import audio_info
from pdl_speech.classification.init import heard
from pdl_speech.data.folder import AudioFolder

FEWEST = 6  # speakers: two in each split
FEW = 100  # speakers: of fewer, more of them are held out
CROPS = (0.5, 3.0)  # seconds
SEEN = 60_000  # crops that training has in all
EPOCHS = (20, 300)
LOOKED_AT = 200  # recordings
PRETRAINED = (
    "# Few voices teach little; one net knows many already: pdl predict speech/resemblyzer a.wav --enrolled people"
)
#: speakers up to which a width of ECAPA-TDNN is chosen, and the width
WIDTHS = ((50, 64), (300, 128), (2000, 512), (np.inf, 1024))


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to tell the speakers in `data` apart, a folder of a folder for each.

    Folders train, val and test above them are used as they are; otherwise speakers are cut 8:1:1, of few 6:2:2.
    Crops are as long as nine in ten recordings, from 0.5 to 3 seconds; where speakers have one recording each, it is
    cut in two. DataError and UsageError for folders that cannot be used.
    """
    have = splits_there(data)
    roots = {split: data / split for split, there in have.items() if there} or {"train": data}
    if "val" not in roots and len(roots) > 1:
        raise UsageError(f"{data}: it has folders {', '.join(roots)} but none called val; add val, with other speakers")
    train = AudioFolder(roots["train"], rate=16_000)
    people = len(train.classes)
    if people < (FEWEST if len(roots) == 1 else 2):
        raise UsageError(f"{data}: {people} speakers ({', '.join(train.classes)}); at least {FEWEST} are needed")
    rate = min(16_000, heard(train).rate)
    pieces = 1 if np.median(np.bincount(train.labels)) > 1 else 2
    crop = float(np.clip(np.floor(10 * _short(train) / pieces) / 10, *CROPS))
    width = next(width for most, width in WIDTHS if people <= most)
    batch = next((size for size in (128, 64, 32) if len(train) * pieces >= 5 * size), 16)
    epochs = int(np.clip(round(SEEN / (len(train) * pieces)), *EPOCHS))
    lines = [
        f"# {people} speakers, {len(train):,} recordings, at {rate} Hz; crops of {crop:g} s.",
        *([] if people >= FEW else [PRETRAINED]),
        "defaults:",
        "  - /speech/speakers",
        "  - _self_",
        f"model: {{_target_: pdl_speech.ECAPATDNN, channels: {width}, aggregated: {min(1536, 3 * width)}, "
        f"features: {{_target_: pdl_speech.features.LogMel, rate: {rate}, n_fft: {rate // 1000 * 32}, "
        f"win_length: {rate // 1000 * 25}, hop_length: {rate // 100}, n_mels: {40 if rate < 16_000 else 80}, "
        "floor: 1.0e-6, then: [{_target_: pdl_speech.features.CMVN, variance: false}, "
        "{_target_: pdl_speech.features.SpecAugment, time_width: 10, channel_width: 8}]}}",
        "data:",
        *_splits(roots, people, pieces),
        "  transforms:",
        "    train:",
        *(f"      - {each}" for each in _distortions(round(crop * rate))),
        f"  batch_size: {batch}",
        f"train: {{epochs: {epochs}}}",
    ]
    return "\n".join(lines) + "\n"


def _short(train: AudioFolder) -> float:
    """The length (s) that nine in ten recordings have at least."""
    rows = np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)).tolist()
    return float(np.quantile([audio_info(train.path_of(row)).seconds for row in rows if not train.fault_of(row)], 0.1))


def _splits(roots: dict[str, Path], people: int, pieces: int) -> Sequence[str]:
    rate = 'rate: "${model.features.rate}"'
    whole = "_target_: pdl_speech.data.Speakers, recordings: {_target_: pdl_speech.data.AudioFolder, root: "
    if len(roots) > 1:
        return [f"  {split}: {{{whole}{quoted(root.resolve())}, {rate}}}, pieces: {pieces}}}"
                for split, root in roots.items()]  # fmt: skip
    ratios = {"train": 0.8, "val": 0.1, "test": 0.1} if people >= FEW else {"train": 0.6, "val": 0.2, "test": 0.2}
    if people < 10:
        ratios = {"train": 0.34, "val": 0.33, "test": 0.33}
    more = f"ratios: {flow(ratios)}, pieces: {pieces}"
    roots_of = {split: quoted(roots["train"].resolve()) if split == "train" else '"${data.train.recordings.root}"'
                for split in ratios}  # fmt: skip
    return [f"  {split}: {{{whole}{root}, {rate}}}, split: {split}, {more}}}" for split, root in roots_of.items()]


def _distortions(samples: int) -> Sequence[str]:
    """Transforms of training."""
    t, rate = "_target_: pdl_speech.data.transforms.", 'rate: "${model.features.rate}"'
    crop = f"{{{t}PadOrCrop, samples: {samples}, random: true}}"
    return (f"{{{t}Noise, {rate}}}", f"{{{t}Reverb, {rate}, p: 0.3}}", f"{{{t}Gain}}", crop)

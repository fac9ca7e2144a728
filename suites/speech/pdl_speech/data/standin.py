"""Stand-ins: the spoken digits that ship with pdl-speech, written in the formats of other data sets, so that recipes
and readers can be tried where those are not (`pdl selftest`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pdl_speech.audio import wav
from pdl_speech.spectra import spectrogram

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SPEAKERS = ["george", "jackson", "lucas", "nicolas", "theo", "yweweler"]
RATE = 8000
FEW = {"train": 96, "val": 16, "test": 16}  # sequences of digits
SPLITS = {0: "test", 5: "train", 6: "train", 7: "train", 8: "val"}  # of takes


def recordings() -> Iterator[tuple[np.ndarray, int, str, int]]:
    """Waveform, digit, speaker and take of all recordings."""
    from pdl_speech.data.digits import shipped

    for wave, digit, speaker, take in zip(*shipped(), strict=True):
        yield wave, int(digit), SPEAKERS[speaker], int(take)


def write_digits(folder: Path) -> None:
    """Files as those of the Free Spoken Digit Dataset are called."""
    (folder / "recordings").mkdir(exist_ok=True)
    for wave, digit, speaker, take in recordings():
        wav.write(folder / f"recordings/{digit}_{speaker}_{take}.wav", wave, RATE)


def write_folders(folder: Path, names: Sequence[str], *, splits: bool) -> None:
    """A folder for each of at most ten classes; below train, val and test with `splits`."""
    for wave, digit, speaker, take in recordings():
        if digit < len(names):
            place = folder / (SPLITS[take] if splits else "") / names[digit]
            place.mkdir(parents=True, exist_ok=True)
            wav.write(place / f"{speaker}_{take}.wav", wave, RATE)


def write_speakers(folder: Path) -> None:
    """A folder for each of six speakers."""
    for wave, digit, speaker, take in recordings():
        (folder / speaker).mkdir(exist_ok=True)
        wav.write(folder / speaker / f"{digit}_{take}.wav", wave, RATE)


def write_table(folder: Path, names: Sequence[str]) -> Path:
    """A table `recordings.csv` with the columns file, label and split, and its files in audio/."""
    (folder / "audio").mkdir(exist_ok=True)
    lines = ["file,label,split"]
    for wave, digit, speaker, take in recordings():
        if digit < len(names):
            name = f"audio/{digit}_{speaker}_{take}.wav"
            wav.write(folder / name, wave, RATE)
            lines.append(f"{name},{names[digit]},{SPLITS[take]}")
    path = folder / "recordings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def sequences(split: str) -> Iterator[tuple[np.ndarray, str, str, int]]:
    """Waveform, text, speaker and number of a few sequences of digits."""
    from pdl_speech.data.sequences import DigitSequences

    data = DigitSequences(split=split, count=FEW[split])  # type: ignore[arg-type]
    for number in range(len(data)):
        sample = data[number]
        yield sample["audio"], sample["text"], sample["speaker"], number


def write_transcripts(folder: Path) -> Path:
    """A table `utterances.tsv` with the columns path, text, speaker and split, and its files in audio/."""
    (folder / "audio").mkdir(exist_ok=True)
    lines = ["path\ttext\tspeaker\tsplit"]
    for split in FEW:
        for wave, text, speaker, number in sequences(split):
            name = f"audio/{split}_{number}.wav"
            wav.write(folder / name, wave, RATE)
            lines.append(f"{name}\t{text}\t{speaker}\t{split}")
    path = folder / "utterances.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_orders(folder: Path) -> Path:
    """A folder with labels.json, as `pdl_speech.data.SpokenOrders` reads it: a digit alone, or a second one of the same
    speaker behind it, the slots first and second. Written once for all splits."""
    if (folder / "labels.json").is_file():
        return folder
    (folder / "audio").mkdir(exist_ok=True)
    labels, lists = dict[str, Any](), {split: list[str]() for split in FEW}
    for last, (wave, digit, speaker, take) in pairwise(sorted(recordings(), key=lambda each: (each[2], each[3]))):
        split = SPLITS.get(take, "")
        if split and len(lists[split]) < FEW[split]:
            name, said = f"{speaker}_{take}_{digit}", {"first": NAMES[digit]}
            if digit % 3 and last[2:] == (speaker, take):
                wave, said = np.concatenate([wave, last[0]]), {**said, "second": NAMES[last[1]]}
            wav.write(folder / f"audio/{name}.wav", wave, RATE)
            labels[name] = {"intent": "dial", "slots": said}
            lists[split].append(name)
    for split, names in lists.items():
        (folder / f"{split}.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    (folder / "labels.json").write_text(json.dumps(labels), encoding="utf-8")
    return folder


def write_cepstra(folder: Path) -> Path:
    """`an4_mfcc.npz`, as `pdl_speech.data.AN4` reads it."""
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        found = [(cepstra(wave), text, f"an4_clstk/{speaker}/{n}") for wave, text, speaker, n in sequences(split)]
        features, texts, ids = zip(*found, strict=True)
        lengths = np.array([len(each) for each in features], np.int64)
        own = {"feat": np.concatenate(features), "len": lengths, "text": np.array(texts), "id": np.array(ids)}
        arrays |= {f"{split}_{name}": value for name, value in own.items()}
    path = folder / "an4_mfcc.npz"
    np.savez(path, **arrays)
    return path


def cepstra(wave: np.ndarray, bands: int = 24, count: int = 13) -> np.ndarray:
    """float32 [frames, 13]: the cosine transform of a spectrogram (dB) in bands that widen as hearing does."""
    found = spectrogram(wave, RATE)
    mel = np.log1p(np.arange(found.shape[1]) / found.shape[1] * 10)
    edges = np.unique(np.searchsorted(mel, np.linspace(0, mel[-1], bands + 1)))
    means = np.stack([found[:, a:b].mean(axis=1) for a, b in pairwise(edges)], axis=1)
    waves = np.cos(np.pi / len(means.T) * np.outer(np.arange(len(means.T)) + 0.5, np.arange(count)))
    return (means @ waves / 100).astype(np.float32)

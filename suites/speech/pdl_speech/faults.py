"""What is wrong with a recording: silence, clipping, an offset, a rate below the net's, channels that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl.data import Dataset
from pdl.data.faults import Fault
from pdl.dtype import Array
from pdl_speech.audio.files import audio_info
from pdl_speech.data.recordings import rate_of

QUIET = 1e-3  # of full scale, -60 dB: the loudest sample of silence
FULL, CLIPPED = 0.999, 1e-3  # of full scale; share of samples there, from which on a recording is clipped
OFFSET = 0.1  # of full scale
SHORT = 0.05  # seconds


def inspect(split: str, dataset: Dataset, index: int, sample: Any) -> Iterator[tuple[str, Fault]]:
    """Warnings about a sample {"audio": float32 [T]}, each with its kind; see `pdl.data.check`."""
    path, rate = dataset.path_of(index), rate_of(dataset)
    for kind, what, advice in (*of_wave(sample["audio"], rate), *of_file(path, rate)):
        yield kind, Fault(path, index, what, advice, split=split, severity="warning")


def of_wave(wave: Array, rate: int) -> Iterator[tuple[str, str, str]]:
    """Kind, fault and advice of a waveform [T]."""
    size = np.abs(wave)
    peak = float(size.max())
    if peak < QUIET:
        level = f"its loudest sample is at {20 * np.log10(peak):.0f} dB of full scale" if peak else "all samples are 0"
        yield "silent", f"silence: {level}", "remove it, or record it again"
        return
    share = float((size >= FULL * max(peak, 1.0)).mean())
    if share > CLIPPED and peak >= FULL:
        yield "clipped", f"clipped: {share:.1%} of its samples are at full scale", "record it at a lower level"
    offset = float(wave.mean())
    if abs(offset) > OFFSET:
        yield "offset", f"an offset: its mean is {offset:+.2f} of full scale", "take it out, or repair the recorder"
    if len(wave) < SHORT * rate:
        yield "short", f"{1000 * len(wave) / rate:.0f} ms long", "remove it, or record it again"


def of_file(path: str | None, rate: int) -> Iterator[tuple[str, str, str]]:
    """Kind, fault and advice of a recording's file, for a net that takes waveforms of this rate (Hz)."""
    info = None if path is None else audio_info(path)
    if info is None:
        return
    if info.rate < rate:
        lost = f"recorded at {info.rate} Hz, below the {rate} Hz of the net: nothing is above {info.rate // 2} Hz"
        yield "rate", lost, f"record at {rate} Hz, or set model.features.rate={info.rate}"
    if info.channels > 1:
        yield "channels", f"{info.channels} channels; their mean is taken", "choose one if they differ"

"""Recipes as `pdl init speech.synthesis` writes them, for people's own recordings of one speaker with texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.data.faults import fault
from pdl.errors import listed
from pdl.train.task import SPLITS
from pdl_speech.audio.files import audio_info
from pdl_speech.data.transcripts import Transcripts
from pdl_speech.recognition.init import splits_of, written
from pdl_speech.synthesis.task import SpeechSynthesis

FEWEST = 50  # utterances
RATES = (8_000, 16_000, 22_050)  # Hz: the front end's, the highest that the recordings have
LARGE = 5.0  # hours from which on the paper's net is taken
HEARD = 40.0  # hours to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to say texts in the voice of recordings, in any form of
    `pdl_speech.data.Transcripts`. Where nothing tells the splits they are cut 8:1:1. DataError for data that cannot be
    used."""
    splits = splits_of(data)
    first = Transcripts(**splits["train"], rate=RATES[0])
    if len(first) < FEWEST:
        raise fault(str(data), f"{len(first)} utterances for training; at least {FEWEST} are needed", "give more")
    rate = max((rate for rate in RATES if rate <= audio_info(first.path_of(0)).rate), default=RATES[0])
    hours = float(first.lengths.sum()) / RATES[0] / 3600
    task = SpeechSynthesis()
    characters = sorted({c for text in first.texts for c in task.clean(text)})
    epochs = int(np.clip(round(HEARD / max(hours, 1e-3)), 20, 400))
    people = sorted(set(first.speakers) - {""})
    long = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
    net = [] if hours >= LARGE else ["  dim: 192", "  hidden: 384", "  kernel: 5", "  encoder: 3", "  decoder: 4"]
    points = 2 ** int(np.ceil(np.log2(0.05 * rate)))
    lines = [
        f"# {len(first):,} utterances for training, {long}{f' of {listed(people, 5)}' if people else ''}, "
        f"{len(characters)} characters: {listed([c if c.strip() else 'space' for c in characters], 60)}.",
        "defaults:",
        "  - /speech/synthesis",
        "  - _self_",
        "task: {skip: true}",
        "model:",
        "  _target_: pdl_speech.FastSpeech2",
        "  features:",
        "    _target_: pdl_speech.features.LogMel",
        f"    rate: {rate}",
        "    n_mels: 80",
        f"    n_fft: {points}",
        f"    win_length: {round(0.05 * rate)}",
        f"    hop_length: {round(0.0125 * rate)}",
        "    pad_mode: constant",
        "    floor: 1.0e-6",
        *net,
        "data:",
        *(f"  {split}: {written(splits[split])}" for split in SPLITS if split in splits),
        f"  batch_size: {16 if len(first) >= 320 else 8}",
        f"train: {{epochs: {epochs}}}",
    ]
    return "\n".join(lines) + "\n"

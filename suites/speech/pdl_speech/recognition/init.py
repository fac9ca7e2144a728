"""Recipes as `pdl init speech.recognition` writes them, for people's own recordings with texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import DataError, UsageError, listed
from pdl.train.task import SPLITS
from pdl_speech.audio.files import audio_info
from pdl_speech.data.transcripts import Transcripts
from pdl_speech.recognition.task import SpeechRecognition

FEWEST = 20  # utterances
RATES = (8_000, 16_000)  # Hz: the front end's, the highest that the recordings have
SEEDS = 16
PARTS = {"train": 0.8, "val": 0.1, "test": 0.1}
#: hours of speech up to which a net is chosen, and the net
NETS = (
    (20.0, "{_target_: pdl_speech.DeepSpeech2, channels: 16, stride: 4, hidden: 192, layers: 3, dropout: 0.3}"),
    (np.inf, "{_target_: pdl_speech.QuartzNet, repeats: 1}"),
)
HEARD = 40.0  # hours to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to write what is said in recordings, in any form of
    `pdl_speech.data.Transcripts`. Where nothing tells the splits they are cut 8:1:1, by speakers where these are known.
    DataError for data that cannot be used."""
    splits = splits_of(data)
    rate = rate_for(Transcripts(**splits["train"], rate=RATES[0]).path_of(0))
    train = Transcripts(**splits["train"], rate=rate)
    if len(train) < FEWEST:
        raise fault(str(data), f"{len(train)} utterances for training; at least {FEWEST} are needed", "give more")
    task = SpeechRecognition()
    characters = sorted({c for text in train.texts for c in task.clean(text)})
    hours = float(train.lengths.sum()) / rate / 3600
    net = next(net for most, net in NETS if hours <= most)
    batch = next((size for size in (32, 16) if len(train) >= 50 * size), 8)
    epochs = int(np.clip(round(HEARD / max(hours, 1e-3)), 10, 100))
    long = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
    people = len(set(train.speakers) - {""})
    lines = [
        f"# {len(train):,} utterances for training, {long}{f' of {people} speakers' if people else ''}, "
        f"{len(characters)} characters: {listed([c if c.strip() else 'space' for c in characters], 40)}.",
        "defaults:",
        "  - /speech/recognition",
        "  - _self_",
        "task: {skip: true}",
        "model:",
        f"  _target_: {net.split(',')[0].removeprefix('{_target_: ')}",
        *(f"  {each.strip(' }')}" for each in net.split(",")[1:]),
        "  features:",
        "    _target_: pdl_speech.features.LogMel",
        f"    rate: {rate}",
        f"    n_mels: {40 if rate <= RATES[0] else 64}",
        f"    n_fft: {rate // 1000 * 32}",
        f"    win_length: {rate // 1000 * 25}",
        f"    hop_length: {rate // 100}",
        "    pad_mode: constant",
        "    then:",
        "      - {_target_: pdl_speech.features.CMVN}",
        "      - {_target_: pdl_speech.features.SpecAugment, time_width: 40, time_ratio: 0.1, channel_width: 8}",
        "data:",
        *(f"  {split}: {written(splits[split])}" for split in SPLITS if split in splits),
        f"  batch_size: {batch}",
        f"train: {{epochs: {epochs}}}",
    ]
    return "\n".join(lines) + "\n"


def rate_for(recording: str) -> int:
    """The highest of `RATES` that a recording has."""
    try:
        found = audio_info(recording).rate
    except OSError as error:
        raise fault(recording, f"it cannot be read: {error}", "repair it") from error
    return max((rate for rate in RATES if rate <= found), default=RATES[0])


def splits_of(data: Path, kind: Any = Transcripts) -> dict[str, dict[str, Any]]:
    """The arguments of a data set of a kind for each split of what lies at a path, but for the rate. Where nothing
    tells them they are cut 8:1:1 (or 9:1 beside a test), by speakers where these are known."""
    path = data.resolve()
    found = {split: {"path": path, "split": split} for split in SPLITS}
    found = {split: arguments for split, arguments in found.items() if _is_there(arguments, kind)}
    if "train" in found and "val" in found:
        return found
    ratios = {"train": 0.9, "val": 0.1} if "test" in found else PARTS
    for seed in range(SEEDS):  # of few speakers a hash may leave a split empty
        more = {"ratios": ratios, **({"seed": seed} if seed else {})}
        cut = {split: {"path": path, "split": split, **more} for split in ratios}
        if all(_is_there(arguments, kind) for arguments in cut.values()):
            return {**found, **cut}
    kind(path, rate=RATES[0])  # raises where it is no such data at all
    raise UsageError(
        f"{data}: it has too few speakers to be cut in {len(ratios)}; tell the splits (a column called split)"
    )


def _is_there(arguments: Mapping[str, Any], kind: Any) -> bool:
    try:
        return len(kind(**arguments, rate=RATES[0])) > 0
    except DataError:
        return False


def written(arguments: Mapping[str, Any], kind: type = Transcripts) -> str:
    """The node of a recipe that builds a data set of a kind, of these arguments."""
    ratios = arguments.get("ratios")
    more = "" if ratios is None else f", ratios: {{{', '.join(f'{k}: {v}' for k, v in ratios.items())}}}"
    more += f", seed: {arguments['seed']}" if arguments.get("seed") else ""
    rate = '"${model.features.rate}"'
    where = f"path: {quoted(arguments['path'])}, split: {arguments['split']}"
    return f"{{_target_: pdl_speech.data.{kind.__name__}, {where}{more}, rate: {rate}}}"

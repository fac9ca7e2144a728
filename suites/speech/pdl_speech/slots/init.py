"""Recipes as `pdl init speech.slots` writes them, for people's own recordings of orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.data.faults import fault
from pdl.train.task import SPLITS
from pdl_speech.data.orders import SpokenOrders
from pdl_speech.recognition.init import RATES, rate_for, splits_of, written

FEWEST = 20  # orders
SEEN = 24_000  # orders that training hears in all
EPOCHS = (20, 150)


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns the slots of the orders in a folder or a table, in any form of
    `pdl_speech.data.SpokenOrders`. Where nothing tells the splits they are cut 8:1:1, by speakers where these are
    known. DataError for data that cannot be used."""
    splits = splits_of(data, SpokenOrders)
    rate = rate_for(SpokenOrders(**splits["train"], rate=RATES[0]).path_of(0))
    train = SpokenOrders(**splits["train"], rate=rate)
    if len(train) < FEWEST:
        raise fault(str(data), f"{len(train)} orders for training; at least {FEWEST} are needed", "give more")
    told = ", ".join(f"{name} ({len(values) - 1})" for name, values in train.slots.items())
    lines = [
        f"# {len(train):,} orders for training, at {rate} Hz; slots, and how many values each has: {told}.",
        "defaults:",
        "  - /speech/slots",
        "  - _self_",
        "model:",
        "  _target_: pdl_speech.SlotNet",
        "  features:",
        "    _target_: pdl_speech.features.LogMel",
        f"    rate: {rate}",
        "    n_mels: 40",
        f"    n_fft: {rate // 1000 * 32}",
        f"    win_length: {rate // 1000 * 25}",
        f"    hop_length: {rate // 100}",
        "    pad_mode: constant",
        "    floor: 1.0e-5",
        "    then:",
        "      - {_target_: pdl_speech.features.CMVN}",
        "      - {_target_: pdl_speech.features.SpecAugment, time_width: 15, time_ratio: 0.1, channel_width: 6}",
        "data:",
        *(f"  {split}: {written(splits[split], SpokenOrders)}" for split in SPLITS if split in splits),
        "  transforms:",
        "    train:",
        "      - {_target_: pdl_speech.data.transforms.Speed}",
        '      - {_target_: pdl_speech.data.transforms.Noise, rate: "${model.features.rate}"}',
        "      - {_target_: pdl_speech.data.transforms.Gain}",
        f"  batch_size: {16 if len(train) < 2000 else 32}",
        f"train: {{epochs: {int(np.clip(round(SEEN / len(train)), *EPOCHS))}}}",
    ]
    return "\n".join(lines) + "\n"

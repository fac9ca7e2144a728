"""A recipe for people's own pages, as `pdl init ocr.extraction --data PATH` writes it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import listed
from pdl.train.task import SPLITS
from pdl_ocr.data.fields import PageFields
from pdl_ocr.data.splits import splits_of, written

FEWEST = 10  # pages
RARE = 3  # values of a field in training
SEEN, EPOCHS = 5_500, (10, 200)  # pages in all, and the fewest and most epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to find the fields of `data`, of any format of `pdl_ocr.data.PageFields`.
    DataError for data that cannot be used."""
    splits = splits_of(PageFields, data)
    train = PageFields(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} pages for training; at least {FEWEST} are needed", "give more")
    there = Counter(name for index in range(len(train)) for name in train[index]["fields"])
    names = [name for name in train.names if there[name] >= RARE]
    if not names:
        raise fault(
            data, f"none of its fields has {RARE} values in training", "give more pages, or fill in their fields"
        )
    rare = listed([f"{name!r:.40}" for name in train.names if name not in names])
    epochs = int(np.clip(round(SEEN / len(train)), *EPOCHS))
    lines = [
        f"# {len(train):,} pages for training; "
        + ", ".join(f"{name!r:.40} is on {there[name]}" for name in names[:8])
        + (", ..." if len(names) > 8 else "")
        + ".",
        *([f"# Left out, as they are too rare: {rare}."] if rare else []),
        "defaults:",
        "  - /ocr/extraction",
        "  - _self_",
        *([f"task: {{fields: [{', '.join(map(quoted, names))}]}}"] if rare else []),
        "data:",
        *(f"  {split}: {written(PageFields, splits[split])}" for split in SPLITS if split in splits),
        f"  batch_size: {4 if len(train) < 1000 else 8}",
        f"train: {{epochs: {epochs}, ema: {0.99 if len(train) < 1000 else 0.998}}}",
    ]
    return "\n".join(lines) + "\n"

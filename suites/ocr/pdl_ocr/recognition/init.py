"""A recipe for people's own lines of text, as `pdl init ocr.recognition --data PATH` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import DataError, listed
from pdl.train.task import SPLITS
from pdl_ocr.data.lines import TextLines

FEWEST = 20  # lines
SEEN = 100_000  # lines to learn from, over all epochs
HEIGHT, STRIDE = 32, 4
PARTS = {"train": 0.8, "val": 0.1, "test": 0.1}


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to read the lines in `data`, of any format of `pdl_ocr.data.TextLines`.

    Where there is no list or folder for each split, the lines are cut 8:1:1 by a hash of their images' paths. The
    characters are those of the lines for training; images are as wide as nearly all lines need. DataError for data that
    cannot be used.
    """
    splits = _splits(data)
    train = TextLines(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} lines for training; at least {FEWEST} are needed", "give more")
    characters = sorted({c for text in train.texts for c in text})
    longest = int(np.quantile([len(text) for text in train.texts], 0.99))
    wide = max(float(np.quantile(train.widths, 0.98)) * HEIGHT, longest * 2 * STRIDE)
    width = int(np.clip(-(-wide // 32) * 32, 64, 1600))
    batch = next((size for size in (64, 32, 16) if len(train) >= 20 * size), 8)
    epochs = int(np.clip(round(SEEN / len(train)), 5, 100))
    lines = [
        f"# {len(train):,} lines for training, {len(characters)} characters: {listed(characters, 30)}.",
        "# Few lines are learned faster by a net that reads already: model.pretrained=RUN, a run with the same net.",
        "defaults:",
        "  - /ocr/recognition",
        "  - /ocr/transforms/words",
        "  - _self_",
        "task: {skip: true}",
        "model: {_target_: pdl_ocr.CRNN, backbone: vgg, width: 0.25, hidden: 96}",
        "data:",
        *(f"  {split}: {_written(splits[split])}" for split in SPLITS if split in splits),
        f"  batch_size: {batch}",
        *_wider(width),
        f"train: {{epochs: {epochs}, ema: 0.998}}",
    ]
    return "\n".join(lines) + "\n"


def _splits(data: Path) -> dict[str, dict[str, Any]]:
    """The arguments of `TextLines` for each split."""
    found: dict[str, dict[str, Any]] = {}
    path = data.resolve()
    if data.is_dir():
        for split in SPLITS:
            try:
                own = TextLines(path, split=split)  # type: ignore[arg-type]
            except DataError:
                continue
            if split != "train" and own.lines == TextLines(path, split="train").lines:
                continue  # one list for all
            found[split] = {"path": path, "split": split}
    if "val" in found:
        return found
    ratios = {"train": 0.9, "val": 0.1} if "test" in found else PARTS
    return {**found, **{split: {"path": path, "split": split, "ratios": ratios} for split in ratios}}


def _written(arguments: dict[str, Any]) -> str:
    ratios = arguments.get("ratios")
    more = "" if ratios is None else f", ratios: {{{', '.join(f'{k}: {v}' for k, v in ratios.items())}}}"
    return f"{{_target_: pdl_ocr.data.TextLines, path: {quoted(arguments['path'])}, split: {arguments['split']}{more}}}"


def _wider(width: int) -> list[str]:
    """The transforms of evaluation with that width, which those of training follow."""
    return [
        "  transforms:",
        "    eval:",
        f"      - {{_target_: pdl.data.transforms.ResizeHeight, height: {HEIGHT}, width: {width}}}",
        "      - {_target_: pdl.data.transforms.Normalize, mean: 0.5, std: 0.5}",
        "      - {_target_: pdl.data.transforms.PadTo, size: [32, 64], multiple: [32, 32]}",
    ]

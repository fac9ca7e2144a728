"""A recipe for texts with mistakes, as `pdl init nlp.correction --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl.train.task import SPLITS
from pdl_nlp.classification.init import split_file, written
from pdl_nlp.data.correction_file import CorrectionFile

FEWEST = 20  # texts
SEEN = 300_000  # texts to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that corrects spelling: of a file of lines `wrong<TAB>right`, or of a folder of such files
    called train, dev and test. What has no splits is cut 8:1:1 by a hash of the right text."""
    files = {split: path for split in SPLITS if (path := split_file(data, split)) is not None} if data.is_dir() else {}
    if data.is_dir() and "train" not in files:
        raise fault(data, "holds no training file", "call the files train, dev and test (train.tsv, ...), or name one")
    splits: dict[str, dict[str, Any]] = {split: {"path": path.resolve()} for split, path in files.items()}
    splits = splits or {"train": {"path": data.resolve()}}
    if "val" not in splits:
        ratios = {"train": 0.9, "val": 0.1} if "test" in splits else {"train": 0.8, "val": 0.1, "test": 0.1}
        splits |= {split: {**splits["train"], "split": split, "ratios": ratios} for split in ratios}
    train = CorrectionFile(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} texts for training; at least {FEWEST} are needed", "give more")
    faulty = sum(text != right for _, text, right in train.found)
    longest = max(len(text) for _, text, _ in train.found)
    settings = f"task: {{max_length: {-(-longest // 256) * 512}}}" if longest > 256 else "task: {}"
    lines = [
        f"# {len(train):,} texts for training, {faulty:,} of them with mistakes.",
        "defaults:",
        "  - /nlp/correction",
        "  - _self_",
        settings,
        "model: {_target_: pdl_nlp.RNNCorrector}",
        "data:",
        *(f"  {split}: {written('CorrectionFile', splits[split])}" for split in SPLITS if split in splits),
        f"train: {{epochs: {int(np.clip(round(SEEN / (3 * len(train))), 3, 30))}}}",
    ]
    return "\n".join(lines) + "\n"

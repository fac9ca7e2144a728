"""A recipe for questions about paragraphs, as `pdl init nlp.span_extraction --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl.train.task import SPLITS
from pdl_nlp.classification.init import split_file, written
from pdl_nlp.data.question_file import QuestionFile
from pdl_nlp.span_extraction.metrics import mostly_chinese

FEWEST = 20  # questions
SEEN = 100_000  # questions to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that answers questions about paragraphs: of a file of SQuAD's form, or of a folder of such
    files called train, dev and test. What has no splits is cut 8:1:1 by a hash of the paragraph."""
    files = {split: path for split in SPLITS if (path := split_file(data, split)) is not None} if data.is_dir() else {}
    if data.is_dir() and "train" not in files:
        raise fault(data, "holds no training file", "call the files train, dev and test (train.json, ...), or name one")
    splits: dict[str, dict[str, Any]] = {split: {"path": path.resolve()} for split, path in files.items()}
    splits = splits or {"train": {"path": data.resolve()}}
    if "val" not in splits:
        ratios = {"train": 0.9, "val": 0.1} if "test" in splits else {"train": 0.8, "val": 0.1, "test": 0.1}
        splits |= {split: {**splits["train"], "split": split, "ratios": ratios} for split in ratios}
    train = QuestionFile(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} questions for training; at least {FEWEST} are needed", "give more")
    texts = list(dict.fromkeys(train.paragraphs))
    kind = "characters" if mostly_chinese(texts) else "words"
    longest = max((len(text) for each in train.questions for text in each.answers), default=1)
    answer = int(np.clip(longest, 10, 200)) if kind == "characters" else 30
    epochs = int(np.clip(round(SEEN / len(train)), 3, 30))
    lines = [
        f"# {len(train):,} questions about {len(texts):,} paragraphs for training.",
        "defaults:",
        "  - /nlp/span_extraction",
        "  - _self_",
        f"task: {{tokenizer: {kind}, max_answer: {answer}}}",
        "model: {_target_: pdl_nlp.BiDAF}",
        "data:",
        *(f"  {split}: {written('QuestionFile', splits[split])}" for split in SPLITS if split in splits),
        f"train: {{epochs: {epochs}}}",
    ]
    return "\n".join(lines) + "\n"

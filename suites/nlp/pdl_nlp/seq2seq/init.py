"""A recipe for texts with translations, as `pdl init nlp.seq2seq --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl.errors import UsageError, listed
from pdl.runtime import tables
from pdl.train.task import SPLITS
from pdl_nlp.classification.init import split_file, written
from pdl_nlp.data.base import SPLITS as NAMES
from pdl_nlp.data.parallel_text import ParallelText
from pdl_nlp.data.reading import kind_of, rows

FEWEST = 20  # pairs
SEEN = 600_000  # pairs to learn from, over all epochs
STEPS, BATCHES, SMALLEST, LARGEST = 600, 10, 8, 64  # steps at least; batches of an epoch, of so many pairs
COLUMNS = ("text", "target")
SIDES = (("text", "target"), ("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"),
         ("question", "answer"), ("document", "summary"), ("article", "highlights"), ("from", "to"))  # fmt: skip


def write_recipe(data: Path) -> str:
    """The text of a recipe that translates, or writes whatever else belongs to a text: of a table (*.csv, *.tsv,
    *.jsonl) with a column for each of the two, or of lines "text<TAB>target"; or of a folder of such files called
    train, dev and test, or with two files for each, such as train.en and train.de, of which the first by name is read.
    What has no splits is cut 8:1:1 by a hash of the text."""
    splits = _folder(data) if data.is_dir() else {"train": _table(data)}
    if "train" not in splits:
        advice = "call the files train, dev and test (train.tsv, or train.en and train.de)"
        raise fault(data, "holds no training file", advice)
    if "val" not in splits:
        ratios = {"train": 0.9, "val": 0.1} if "test" in splits else {"train": 0.8, "val": 0.1, "test": 0.1}
        splits |= {split: {**splits["train"], "split": split, "ratios": ratios} for split in ratios}
    train = ParallelText(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} pairs for training; at least {FEWEST} are needed", "give more")
    longest = max(len(text) for pair in train.found for text in pair[1:])
    size = int(np.clip(len(train) // 4, 400, 8000) // 100 * 100)
    small = len(train) < 20_000
    net = (
        "dim: 128, layers: 2, heads: 4, hidden: 256, dropout: 0.2" if small else "layers: 3, hidden: 512, dropout: 0.3"
    )
    length = 128 if longest < 400 else 256
    batch = int(np.clip(len(train) // BATCHES, SMALLEST, LARGEST))
    epochs = max(np.clip(round(SEEN / len(train)), 5, 60), np.ceil(STEPS * batch / len(train)))
    lines = [
        f"# {len(train):,} pairs of texts for training.",
        *_direction(splits["train"]),
        "defaults:",
        "  - /nlp/seq2seq",
        "  - _self_",
        f"task: {{vocabulary_size: {size}, max_length: {length}}}",
        f"model: {{_target_: pdl_nlp.Transformer, {net}, max_length: {length}}}",
        "data:",
        *([f"  batch_size: {batch}"] if batch < LARGEST else []),
        *(f"  {split}: {written('ParallelText', splits[split])}" for split in SPLITS if split in splits),
        f"train: {{epochs: {epochs:.0f}}}",
    ]
    return "\n".join(lines) + "\n"


def _direction(train: Mapping[str, Any]) -> list[str]:
    """Which side is read, where a pair of files does not say so."""
    if "target" not in train:
        return []
    read, write = Path(train["path"]).name, Path(train["target"]).name
    return [f"# It reads {read} and writes {write}; exchange path and target of all splits for the other direction."]


def _folder(data: Path) -> dict[str, dict[str, Any]]:
    """What each split of a folder is: two files with lines, or a table."""
    found: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        files = sorted(path for path in data.iterdir() if path.is_file() and path.name.split(".")[0] in NAMES[split])
        plain = [path for path in files if not kind_of(path)]
        if len(plain) == 2:
            found[split] = {"path": plain[0].resolve(), "target": plain[1].resolve()}
        elif (path := split_file(data, split)) is not None:
            found[split] = _table(path)
    return found


def _table(path: Path) -> dict[str, Any]:
    """How a table is read: by its columns' names, or as the first two columns of lines without a header."""
    common: dict[str, Any] = {"path": path.resolve()}
    if not kind_of(path):
        more = _columns(path) > len(COLUMNS)
        return {**common, "columns": [*COLUMNS, "more"] if more else list(COLUMNS)}
    sample = [values for _, values in islice(rows(path), 1)]
    names = list(sample[0]) if sample else []
    low = {name.lower(): name for name in names}
    pair: Sequence[str] | None = next(([low[a], low[b]] for a, b in SIDES if a in low and b in low), None)
    pair = pair or (names if len(names) == len(COLUMNS) else None)
    if pair is None:
        what = f"{path}: no two of its columns ({listed(names)}) are called text and target"
        raise UsageError(f"{what}; name them so, or write the recipe by hand (text=, to=)")
    named = zip(("text", "to"), COLUMNS, pair, strict=True)
    return {**common, **{argument: name for argument, default, name in named if name != default}}


def _columns(path: Path) -> int:
    """Columns of the first line of a file, between tabs."""
    with tables.opened(path) as file:
        return next(iter(tables.lines_of(file, str(path))), "").count("\t") + 1

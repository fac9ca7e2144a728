"""A recipe for tagged sentences, as `pdl init nlp.tagging --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl.errors import listed
from pdl.runtime import tables
from pdl.train.task import SPLITS
from pdl_nlp.classification.init import split_file, written
from pdl_nlp.data.tagged_file import TaggedFile
from pdl_nlp.schemes import scheme_of

FEWEST = 20  # sentences
SEEN = 100_000  # sentences to learn from, over all epochs
LOOKED_AT = 200  # lines of a file by which its form is understood
CONLLU, CONLLU_TAG = 10, 3  # the columns of CoNLL-U, and that of universal parts of speech


def write_recipe(data: Path) -> str:
    """The text of a recipe that tags words: of a file of columns (CoNLL, CoNLL-U), of lines of word/TAG, or of a folder
    of such files called train, dev and test, or of a folder of folders train, valid and test with seq.in and seq.out.

    What has no splits is cut 8:1:1 by a hash of the sentence. Words of texts without spaces whose tags mark no spans
    are to be found in the characters (segment).
    """
    common, splits = _found(data)
    if "val" not in splits:
        ratios = {"train": 0.9, "val": 0.1} if "test" in splits else {"train": 0.8, "val": 0.1, "test": 0.1}
        base = splits["train"]
        splits.update({split: {**base, "split": split, "ratios": ratios} for split in ratios})
    train = TaggedFile(**splits["train"], **common)
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} sentences for training; at least {FEWEST} are needed", "give more")
    words = [word for tokens in train.tokens[:2000] for word in tokens]
    scheme, wide = scheme_of(train.classes), float(np.mean([ord(max(word)) >= 0x2E80 for word in words if word]))
    segment = wide > 0.5 and scheme == "none" and max(map(len, words)) > 1
    characters = segment or (wide > 0.5 and all(len(word) == 1 for word in words))
    settings = ["segment: true"] if segment else []
    kind = "characters" if characters else "space" if "form" in common else "words"
    settings += [f"tokenizer: {kind}", *([] if characters else ["letters: 16"])]
    model = "ngrams: 2, " if characters else ""
    model += "" if segment or scheme != "none" else "crf: false, "
    batch = next((size for size in (32, 16) if len(train) >= 50 * size), 8)
    epochs = int(np.clip(round(SEEN / len(train)), 4, 30))
    monitor = "" if segment or scheme != "none" else ", monitor: val/accuracy"
    longest = max(map(len, train.tokens)) if not segment else max(sum(map(len, each)) for each in train.tokens)
    settings += [f"max_length: {-(-longest // 256) * 512}"] if longest > 256 else []
    kinds = "words with" if segment else "plain" if scheme == "none" else scheme
    order = [split for split in SPLITS if split in splits]
    lines = [
        f"# {len(train):,} sentences for training; {kinds} tags: {listed(train.classes, 8)}.",
        "defaults:",
        "  - /nlp/tagging",
        "  - _self_",
        f"task: {{{', '.join(settings)}}}",
        f"model: {{_target_: pdl_nlp.RNNTagger, {model}unknown: 0.05}}",
        "data:",
        *(f"  {split}: {written('TaggedFile', {**splits[split], **common})}" for split in order),
        f"  batch_size: {batch}",
        f"train: {{epochs: {epochs}{monitor}}}",
    ]
    return "\n".join(lines) + "\n"


def _found(data: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The arguments of `TaggedFile` that all splits share, and those of each."""
    if not data.is_dir():
        return _form(data), {"train": {"path": data.resolve()}}
    pairs = {split: _pair(data, split) for split in SPLITS}
    if pairs["train"]:
        return {"form": "lines"}, {split: found for split, found in pairs.items() if found}
    files = {split: path for split in SPLITS if (path := split_file(data, split)) is not None}
    if "train" not in files:
        advice = "call the files train, dev and test (train.conll, ...), or name one file"
        raise fault(data, "holds no training file", advice)
    return _form(files["train"]), {split: {"path": path.resolve()} for split, path in files.items()}


def _pair(data: Path, split: str) -> dict[str, Any]:
    """The two files of a split whose words and tags are in lines of their own."""
    for name in {"train": ("train",), "val": ("valid", "val", "dev"), "test": ("test",)}[split]:
        words, tags = data / name / "seq.in", data / name / "seq.out"
        if words.is_file() and tags.is_file():
            return {"path": words.resolve(), "tags": tags.resolve()}
    return {}


def _form(path: Path) -> dict[str, Any]:
    """Columns of CoNLL or CoNLL-U, or lines of word/TAG."""
    with tables.opened(path) as file:
        lines = [line.strip() for line, _ in zip(tables.lines_of(file, str(path)), range(LOOKED_AT), strict=False)]
    rows: Sequence[str] = [line for line in lines if line and not line.startswith(("#", "-DOCSTART-"))]
    if not rows:
        raise fault(path, "has no words", "give it sentences with their tags")
    if all("/" in word for line in rows for word in line.split()):
        return {"form": "words"}
    widths = [len(line.split("\t" if "\t" in line else None)) for line in rows]
    if all(width == CONLLU and line.split("\t")[0][:1].isdigit() for width, line in zip(widths, rows, strict=True)):
        return {"token": 1, "tag": CONLLU_TAG}
    if min(widths) < 2 or len(set(widths)) > 1:
        what = f"is neither columns (it has {min(widths)} to {max(widths)} in a line) nor word/TAG"
        raise fault(path, what, "write a word and its tag a line, or word/TAG word/TAG")
    return {}

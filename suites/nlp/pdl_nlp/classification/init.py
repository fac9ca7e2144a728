"""A recipe for texts with classes, as `pdl init nlp.classification --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError, listed
from pdl.runtime import tables
from pdl.train.task import SPLITS
from pdl_nlp.data.base import SPLITS as NAMES
from pdl_nlp.data.base import Texts
from pdl_nlp.data.reading import kind_of, rows
from pdl_nlp.data.text_file import TextFile
from pdl_nlp.data.text_folder import TextFolder, split_folder
from pdl_nlp.fitting import Kind, counted

TEXT = ("text", "sentence", "review", "content", "text_a", "comment", "body", "message", "query", "utterance", "title",
        "document", "tweet", "question")  # fmt: skip
LABEL = ("label", "labels", "class", "category", "target", "sentiment", "polarity", "intent", "emotion", "tag", "topic",
         "stars", "rating", "score", "similarity", "relatedness", "y")  # fmt: skip
PAIRS = (("text", "pair"), ("text_a", "text_b"), ("sentence1", "sentence2"), ("premise", "hypothesis"),
         ("question1", "question2"), ("query", "candidate"), ("query", "document"), ("query", "passage"),
         ("query", "title"), ("question", "answer"), ("question", "sentence"), ("q1", "q2"), ("s1", "s2"),
         ("text1", "text2"), ("sentence_a", "sentence_b"))  # fmt: skip
SPLIT = ("split", "fold", "set", "subset", "partition")
CUT = "{train: 0.8, val: 0.1, test: 0.1}"
LOOKED_AT = 2_000  # rows of a file by which it is understood
FEWEST = 20  # texts
SEEN = 100_000  # texts to learn from, over all epochs


@dataclass
class Found:
    """What data is: its class, the arguments all splits share, and those of each."""

    target: str
    common: dict[str, Any]
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)

    def open(self, split: str) -> Texts:
        """A split of it."""
        made: Texts = (TextFolder if self.target == "TextFolder" else TextFile)(**self.common, **self.splits[split])
        return made


def write_recipe(data: Path) -> str:
    """The text of a recipe that classifies texts: of class folders, of a table (*.csv, *.tsv, *.jsonl, also packed),
    of lines "class<TAB>text" or "text<TAB>class", or of a folder of such files called train, dev and test.

    Columns are found by their names, else by what they hold: the longest texts, and few classes. What has no splits is
    cut 8:1:1 by a hash of the text. Texts without spaces between words are read by character, and pairs of them.
    """
    found, train = understood(data)
    if len(train.classes) < 2:
        raise UsageError(f"{data}: one class ({listed(train.classes)}); at least 2 are needed")
    kind, many = reading(train.texts)
    least = 2 if len(train) >= 1000 else 1
    lines = [
        f"# {len(train):,} texts for training, about {many:.0f} {kind} each; classes: {listed(train.classes, 8)}.",
        "defaults:",
        "  - /nlp/classification",
        "  - _self_",
        f"task: {{tokenizer: {kind}, max_length: {length(train.texts, kind)}, min_count: {least}}}",
        f"model: {{_target_: pdl_nlp.TextCNN{', embed_dropout: 0.3, ngrams: 3' if kind == 'characters' else ''}}}",
        *sections(found, len(train), ", monitor: val/f1" if train.several else ""),
    ]
    return "\n".join(lines) + "\n"


def understood(data: Path, *, pairs: bool = False) -> tuple[Found, Texts]:
    """What data is, and its training texts; DataFault for too few."""
    found = _folder(data, pairs=pairs) if data.is_dir() else _file(data, pairs=pairs)
    _cut(found)
    train = found.open("train")
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} texts for training; at least {FEWEST} are needed", "give more")
    return found, train


def reading(texts: Sequence[str]) -> tuple[Kind, float]:
    """What texts are read by, and how many of these the mean text has."""
    looked = texts[:LOOKED_AT]
    kind: Kind = "characters" if _unspaced(looked) else "words"
    return kind, counted(looked, kind, lower=True).total() / len(looked)


def sections(found: Found, count: int, more: str = "") -> list[str]:
    """The lines of the sections data and train, given how many samples training has."""
    batch = next((size for size in (64, 32, 16) if count >= 20 * size), 8)
    epochs = int(np.clip(round(SEEN / count), 4, 30))
    splits = (split for split in SPLITS if split in found.splits)
    return [
        "data:",
        *(f"  {split}: {written(found.target, {**found.common, **found.splits[split]})}" for split in splits),
        f"  batch_size: {batch}",
        f"train: {{epochs: {epochs}{more}}}",
    ]


def written(target: str, arguments: Mapping[str, Any]) -> str:
    """A data set of the suite, by its class and arguments, as YAML in a line."""
    given = {"_target_": f"pdl_nlp.data.{target}", **arguments}
    return "{" + ", ".join(f"{name}: {_plain(value)}" for name, value in given.items()) + "}"


def _plain(value: Any) -> str:
    if isinstance(value, Path | str):
        return str(quoted(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_plain(each)}" for name, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return str(value)


def _cut(found: Found) -> None:
    """Cut out of train what is not there: val, and test where there is neither."""
    have = set(found.splits)
    if {"train", "val"} <= have:
        return
    ratios = {"train": 0.9, "val": 0.1} if "test" in have else {"train": 0.8, "val": 0.1, "test": 0.1}
    train = found.splits.get("train", {})
    for split in ratios:
        found.splits[split] = {**train, "split": split, "ratios": ratios}
    found.splits = {split: found.splits[split] for split in SPLITS if split in found.splits}


# -- what lies there ---------------------------------------------------------------------------------------------------
def _folder(data: Path, *, pairs: bool = False) -> Found:
    files = {split: path for split in SPLITS if (path := split_file(data, split)) is not None}
    if "train" in files:
        found = _file(files["train"], pairs=pairs)
        del found.common["path"]
        found.splits = {split: {"path": path.resolve()} for split, path in files.items()}
        return found
    if pairs:
        raise UsageError(f"{data}: holds no training file; call the files train, dev and test (train.tsv, ...)")
    found = Found("TextFolder", {"root": data.resolve()})
    for split in SPLITS:
        if split_folder(data, split) is not None:
            found.splits[split] = {"split": split}
    return found


def split_file(data: Path, split: str) -> Path | None:
    """The file of a folder that is called as this split usually is."""
    known = sorted(path for path in data.iterdir() if path.is_file() and path.name.split(".")[0] in NAMES[split])
    return known[0] if known else None


def _file(data: Path, *, pairs: bool = False) -> Found:
    common: dict[str, Any] = {"path": data.resolve()}
    kind = kind_of(data)
    sample, header = _sample(data, kind)
    names = list(sample[0])
    text, pair = _pair(names, sample, header) if pairs else (_named(names, TEXT) if header else None, None)
    text = text or max(names, key=lambda name: _mean_length(sample, name))
    others = [name for name in names if name not in (text, pair)]
    label = (_named(others, LABEL) if header else None) or _fewest(sample, others)
    if label is None:
        raise UsageError(
            f"{data}: no column of classes beside {text!r} (columns {listed(names)}); name one label, or write the "
            "recipe by hand (text=, label= of pdl_nlp.data.TextFile)"
        )
    roles = {text: "text", label: "label", **({} if pair is None else {pair: "pair"})}
    if not header:
        common["columns"] = [roles.get(name, name) for name in names]
        common |= {} if pair is None else {"pair": "pair"}
    else:
        common |= {role: name for name, role in roles.items() if name != role or role == "pair"}
    if any(isinstance(row[label], list) for row in sample):
        common["several"] = ","
    found = Found("TextFile", common)
    column = _named([name for name in others if name != label], SPLIT) if header else None
    if column is not None:
        said = {str(row[column]) for row in rows_of(data, kind)}
        for split in SPLITS:
            if any(name in said for name in NAMES[split]):
                found.splits[split] = {"split": split, "split_column": column}
    return found


def _pair(names: Sequence[str], sample: Sequence[Mapping[str, Any]], header: bool) -> tuple[str, str]:
    """The columns of the two texts of a pair: those with usual names, else the two longest, in their order."""
    if header:
        lowered = {name.lower(): name for name in reversed(names)}
        found = next((both for both in PAIRS if set(both) <= lowered.keys()), None)
        if found is not None:
            return lowered[found[0]], lowered[found[1]]
    if len(names) < 3:
        raise UsageError(f"{names}: a pair needs two columns of texts and one of labels; write the recipe by hand")
    longest = sorted(names, key=lambda name: -_mean_length(sample, name))[:2]
    return tuple(name for name in names if name in longest)  # type: ignore[return-value]


def rows_of(data: Path, kind: str) -> Sequence[Mapping[str, Any]]:
    """All rows of a file with a header."""
    return [row for _, row in rows(data)] if kind else []


def _sample(data: Path, kind: str) -> tuple[list[dict[str, Any]], bool]:
    """Some rows, and whether their columns have names: JSON has them, others where the first row holds a usual name or
    nothing that comes again."""
    if kind == "json":
        held = [row for _, row in islice(rows(data), LOOKED_AT)]
        _require(data, held)
        return held, True
    with tables.opened(data) as file:
        first = next((line for line in tables.lines_of(file, str(data)) if line.strip()), "").rstrip("\r\n")
    separator = kind or "\t"
    cells = tables.cells(first, f"{data}:1") if separator == "," else first.split(separator)
    cells = [cell.strip() for cell in cells]
    if len(cells) < 2:
        what = "its lines have no columns"
        raise fault(data, what, "write class<TAB>text, or a table *.csv, *.tsv or *.jsonl with a header", line=1)
    plain = [str(number) for number in range(len(cells))]
    held = [row for _, row in islice(rows(data, plain, separator), LOOKED_AT)]
    usual = {name.lower() for name in cells} & {*TEXT, *LABEL}
    again = any(cell in {row[name] for row in held[1:]} for cell, name in zip(cells, plain, strict=True))
    header = bool(kind) and bool(usual or not again)
    if header:
        held = [dict(zip(cells, row.values(), strict=True)) for row in held[1:]]
    _require(data, held)
    return held, header


def _require(data: Path, held: Sequence[Any]) -> None:
    if not held:
        raise fault(data, "has no rows", "give it texts with their classes")


def _named(have: Sequence[str], usual: Sequence[str]) -> str | None:
    lowered = {name.lower(): name for name in reversed(have)}
    return next((lowered[name] for name in usual if name in lowered), None)


def _mean_length(sample: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean([len(row.get(name)) if isinstance(row.get(name), str) else 0 for row in sample]))  # type: ignore[arg-type]


def _fewest(sample: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    """The column with the fewest different values, two at least and on average two rows for each."""
    counts = {name: len({json.dumps(row.get(name)) for row in sample}) for name in names}
    fit = [name for name in names if 2 <= counts[name] <= max(2, len(sample) // 2)]
    return min(fit, key=lambda name: counts[name], default=None)


def _unspaced(texts: Sequence[str]) -> bool:
    """Whether these are written without spaces between words: Chinese, Japanese, Thai, ..."""
    letters = sum(len(text) for text in texts)
    return letters > 12 * max(1, sum(len(text.split()) for text in texts))


def length(texts: Sequence[str], kind: str) -> int:
    """The tokens that 95 of 100 texts have no more than, rounded up: from 32 to 512."""
    counts = [len(text) if kind == "characters" else len(text.split()) for text in texts[:LOOKED_AT]]
    return int(np.clip(-(-int(np.quantile(counts, 0.95)) // 32) * 32, 32, 512))

"""A recipe for molecules, or graphs with classes, as `pdl init graph.graphs --data molecules.csv` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.errors import DataError, UsageError, listed
from pdl.runtime import tables
from pdl.runtime.fields import as_number
from pdl.train.task import SPLITS
from pdl_graph.data.molecules import UNKNOWN, Molecules
from pdl_graph.data.scaffold import scaffold_split
from pdl_graph.data.tu import TUGraphs
from pdl_graph.steps.molecules import parsed, rdkit

TARGETS = ("target", "label", "y", "activity", "class", "measured", "exp", "expt", "value", "property")  # fmt: skip
SAMPLE = 50  # rows whose text is read as SMILES
FEWEST = 30  # molecules
MANY = 0.9  # share of rows that must be SMILES, or numbers, for a column to be
LEAST = 0.05  # share of a split; where scaffolds leave less, the split is random
SEEN = 60_000  # molecules to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe for what molecules are: a file *.csv or *.tsv with a column of SMILES and columns of
    numbers. Other files are taken for graphs with a class each, in the text form of `pdl_graph.data.TUGraphs`.

    The column of SMILES is the one whose texts RDKit reads. Learned are the columns called target, label, y, activity
    or the like; else all columns of 0 and 1; else the last column of numbers. Answers of 0 and 1 are yes or no, others
    numbers. The split is by scaffold, where there are enough of them.
    """
    if not data.is_file():
        raise UsageError(f"{data}: no file; name a table *.csv or *.tsv with a column of SMILES")
    if not {".csv", ".tsv"} & set(data.suffixes):
        return _graphs(data)
    rdkit()
    rows = [row for _, row in tables.rows(data)]
    if len(rows) < FEWEST:
        raise UsageError(f"{data}: {len(rows)} rows; at least {FEWEST} molecules are needed")
    smiles = _smiles(data, rows)
    values = {name: [row[name].strip() for row in rows] for name in rows[0] if name != smiles}
    numbers = {name: each for name, texts in values.items() if (each := _numbers(texts)) is not None}
    targets, binary = _targets(data, numbers)
    found = Molecules(path=data, smiles=smiles, targets=targets, unreadable="skip")
    skip = ", unreadable: skip" if found.held.left_out else ""
    path = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in SPLITS}
    names = f"[{', '.join(map(quoted, targets))}]"
    lost = f", {len(found.held.left_out)} rows left out" if skip else ""
    learned = f"{'yes or no' if binary else 'the number'} in {listed(targets)}"
    parts = np.bincount(scaffold_split(found.held.scaffolds), minlength=len(SPLITS))
    apart = bool((parts >= LEAST * len(found)).all())
    skip += "" if apart else ", splitting: random"
    lines = [
        f"# {len(found):,} molecules in column {smiles}{lost}; {learned} is learned.",
        "# The test has other scaffolds (ring systems) than the training; splitting: random is easier."
        if apart
        else "# Too few scaffolds (ring systems) to part them: the split is random.",
        "defaults:",
        "  - /graph/molecules",
        "  - _self_",
        f"task: {{kind: {'binary' if binary else 'regression'}}}",
        "data:",
        *(
            f"  {split}: {{_target_: pdl_graph.data.Molecules, path: {path[split]}, smiles: {quoted(smiles)}, "
            f"targets: {names}, split: {split}{skip}}}"
            for split in SPLITS
        ),
        f"train: {{epochs: {int(np.clip(SEEN // len(found), 10, 100))}}}",
    ]
    return "\n".join(lines) + "\n"


def _graphs(data: Path) -> str:
    """Of graphs with classes: GIN, a tenth held out for the test and a tenth for val."""
    found = TUGraphs(data.stem, path=data)
    path = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in SPLITS}
    batch = 128 if len(found) >= 1_000 else 32
    lines = [
        f"# {len(found):,} graphs of {len(found.classes)} classes, {found.graphs[0].num_features} kinds of nodes.",
        "defaults:",
        "  - /graph/graphs",
        "  - _self_",
        "model:",
        "  _target_: pdl_graph.GraphNet",
        "  encoder: {_target_: pdl_graph.GIN, hidden: 32, num_layers: 4}",
        "  readout: sum",
        "data:",
        *(f"  {split}: {{_target_: pdl_graph.data.TUGraphs, name: {quoted(data.stem)}, path: {path[split]}, "
          f"split: {split}}}" for split in SPLITS),
        f"  batch_size: {batch}",
        f"train: {{epochs: {int(np.clip(SEEN // len(found), 10, 100))}, ema: 0.98}}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _smiles(data: Path, rows: Sequence[dict[str, str]]) -> str:
    """The column whose texts are SMILES; of several the one that says so, or whose texts are longest."""
    found = []
    for name in rows[0]:
        texts = [text for text in (row[name].strip() for row in islice(rows, SAMPLE)) if text]
        if texts and np.mean([as_number(text) != as_number(text) and _readable(text) for text in texts]) > MANY:
            found.append(("smiles" in name.lower(), sum(map(len, texts)), name))
    if not found:
        raise UsageError(f"{data}: RDKit reads the texts of no column as SMILES; it has {', '.join(rows[0])}")
    return max(found)[2]


def _readable(text: str) -> bool:
    try:
        parsed(text)
    except DataError:
        return False
    return True


def _numbers(texts: Sequence[str]) -> np.ndarray | None:
    """The numbers of a column, NaN where none is given; None for a column of text."""
    known = [text for text in texts if text.lower() not in UNKNOWN]
    numbers = np.array([as_number(text) for text in known])
    return numbers if len(known) and np.isfinite(numbers).all() else None


def _targets(data: Path, numbers: dict[str, np.ndarray]) -> tuple[list[str], bool]:
    """The columns to learn, and whether they hold 0 and 1."""
    varied = {name: each for name, each in numbers.items() if len(np.unique(each)) > 1}
    if not varied:
        raise UsageError(
            f"{data}: no column of numbers that differ; give what is known of the molecules, such as target"
        )
    two = [name for name, each in varied.items() if np.isin(each, (0.0, 1.0)).all()]
    named = [name for name in varied if any(word in name.lower().split() or name.lower() == word for word in TARGETS)]
    chosen = named or two or [list(varied)[-1]]
    binary = all(name in two for name in chosen)
    return ([name for name in chosen if (name in two) == binary], binary)

"""A recipe for pairs of texts, as `pdl init nlp.matching --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from pathlib import Path

from pdl.errors import UsageError, listed
from pdl_nlp.classification.init import length, reading, sections, understood
from pdl_nlp.data.base import Texts

CANDIDATES = 4  # rows for each first text, on average, that make the data queries with candidates


def write_recipe(data: Path) -> str:
    """The text of a recipe for pairs: of a table (*.csv, *.tsv, *.jsonl, also packed) or lines with two texts and a
    label, or of a folder of such files called train, dev and test.

    Columns are found by their names, else by what they hold: the two longest are the texts. Numbers as labels, and
    several rows for each first text, are relevance for a query: its candidates are ranked. What has no splits is cut
    8:1:1 by a hash of the first text.
    """
    found, train = understood(data, pairs=True)
    if len(train.classes) < 2:
        raise UsageError(f"{data}: one label ({listed(train.classes)}); at least 2 are needed")
    both = [text for pair in zip(train.texts, train.pairs or (), strict=True) for text in pair]
    kind, many = reading(both)
    ranked = _ranked(train)
    loss, model = ("loss: softmax, ", "SimNet, encoder: cnn") if ranked else ("", "ESIM")
    said = "queries with candidates, ranked by labels" if ranked else f"classes: {listed(train.classes, 8)}"
    least = 2 if len(train) >= 1000 else 1
    lines = [
        f"# {len(train):,} pairs for training, about {many:.0f} {kind} in each text; {said}.",
        "defaults:",
        "  - /nlp/matching",
        "  - _self_",
        f"task: {{{loss}tokenizer: {kind}, max_length: {length(both, kind)}, min_count: {least}}}",
        f"model: {{_target_: pdl_nlp.{model}}}",
        *sections(found, len(train)),
    ]
    return "\n".join(lines) + "\n"


def _ranked(train: Texts) -> bool:
    """Whether the data looks like queries with candidates."""
    numbers = all(name.replace(".", "", 1).isdigit() for name in train.classes)
    return numbers and len(train) >= CANDIDATES * len(set(train.texts))

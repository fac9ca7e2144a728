"""A recipe for vectors of texts, as `pdl init nlp.embedding --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl_nlp.classification.init import length, reading, sections, understood
from pdl_nlp.loader import scores_of

ALIKE = 0.8  # of the way from the lowest score to the highest, from where on two texts mean the same


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns vectors of texts from pairs with scores: of a table (*.csv, *.tsv, *.jsonl, each
    also packed) or lines with two texts and a number, or of a folder of such files called train, dev and test.

    Columns are found by their names, else by what they hold: the two longest are the texts. Pairs in the upper fifth of
    the scores mean the same. What has no splits is cut 8:1:1 by a hash of the first text.
    """
    found, train = understood(data, pairs=True)
    scores = np.unique(scores_of(train))
    positive = scores[np.searchsorted(scores, scores[0] + ALIKE * (scores[-1] - scores[0]))]
    both = [text for pair in zip(train.texts, train.pairs or (), strict=True) for text in pair]
    kind, many = reading(both)
    least = 2 if len(train) >= 1000 else 1
    lines = [
        f"# {len(train):,} pairs for training, about {many:.0f} {kind} in each text; scores from {scores[0]:g} to "
        f"{scores[-1]:g}.",
        "# To begin with an encoder, leave out tokenizer and min_count, and write pretrained: nlp/minilm (English)",
        "# or a folder of HF, in place of the sizes of the model.",
        "defaults:",
        "  - /nlp/embedding",
        "  - _self_",
        f"task: {{positive: {positive:g}, tokenizer: {kind}, max_length: {length(both, kind)}, min_count: {least}}}",
        "model: {_target_: pdl_nlp.SentenceEncoder, dim: 256, layers: 4, heads: 4}",
        *sections(found, len(train)),
    ]
    return "\n".join(lines) + "\n"

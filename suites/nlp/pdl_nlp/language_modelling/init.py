"""A recipe for a language model, as `pdl init nlp.language_modelling --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.data.faults import fault
from pdl_nlp.classification.init import written
from pdl_nlp.data.corpus import Corpus

FEWEST = 2_000  # characters
MANY = 3_000_000  # characters: of more, pieces of words are tokens
SEEN = 60_000_000  # characters to learn from, over all epochs
SIZES = ((300_000, 128, 4, 4), (3_000_000, 256, 6, 8), (1 << 62, 384, 6, 6))
"""Of fewer characters than the first number: dim, layers, heads."""


def write_recipe(data: Path) -> str:
    """The text of a recipe for a language model of a file of text, or a folder of such: *.txt as they are written, or
    *.jsonl. The last tenth is kept for validation. Of many texts or signs (Chinese) tokens are pieces of words or of
    characters, else characters.
    """
    path = data.resolve()
    corpus = Corpus(path)
    total, signs = sum(map(len, corpus.texts)), len(set("".join(corpus.texts)))
    if total < FEWEST:
        raise fault(data, f"{total:,} characters; at least {FEWEST:,} are needed", "give more text")
    pieces = total >= MANY
    _, dim, layers, heads = next(each for each in SIZES if total < each[0])
    size = int(np.clip(total // 1000, 2048, 16_384) // 256 * 256)
    task = f"{{tokenizer: bpe, vocabulary_size: {size}, max_length: 256}}" if pieces else "{max_length: 256}"
    ratios = {"train": 0.9, "val": 0.1}
    lines = [
        f"# {total:,} characters, {signs:,} different ones.",
        "defaults:",
        "  - /nlp/language_modelling",
        "  - _self_",
        f"task: {task}",
        f"model: {{_target_: pdl_nlp.GPT, dim: {dim}, layers: {layers}, heads: {heads}, positions: rotary, norm: rms,",
        "        activation: swiglu, bias: false, dropout: 0.1}",
        "data:",
        *(f"  {split}: {written('Corpus', {'path': path, 'split': split, 'ratios': ratios})}" for split in ratios),
        f"train: {{epochs: {int(np.clip(round(SEEN / total), 2, 40))}}}",
    ]
    return "\n".join(lines) + "\n"

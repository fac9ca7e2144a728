"""A recipe for vectors of words, as `pdl init nlp.word_vectors --data FILE_OR_FOLDER` writes it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from pdl.data.faults import fault
from pdl.files import PACKED
from pdl_nlp.classification.init import reading, written
from pdl_nlp.data.plain_text import PlainText
from pdl_nlp.fitting import counted

LOOKED_AT = 20_000  # texts by which a corpus is understood
FEWEST = 1_000  # tokens
SEEN = 20_000_000  # tokens to learn from, over all epochs
SPARSE = 1_000_000  # tokens: of fewer, rare ones are kept and words are read by their letters, too


def write_recipe(data: Path) -> str:
    """The text of a recipe for vectors of words: of a file of texts (*.txt, a text a line, or *.jsonl; packed, too), or
    of a folder of such files. One text in fifty is kept for validation. Texts without spaces between words are read by
    character; of a small corpus rare words are kept, and words read by their letters, too (fastText).
    """
    path = data.resolve()
    corpus = PlainText(path)
    texts = [sample["text"] for sample in islice(iter(corpus), LOOKED_AT)]
    kind, each = reading(texts) if texts else ("words", 0.0)
    total = float(counted(texts, kind, lower=True).total())
    if len(texts) == LOOKED_AT:  # there are more: as many as the files are larger, which pack to about a third
        sizes = (file.stat().st_size * (3 if file.suffix.lower() in PACKED else 1) for file in corpus.files)
        total *= max(1.0, sum(sizes) / sum(len(text.encode()) + 1 for text in texts))
    if total < FEWEST:
        raise fault(data, f"{total:,.0f} {kind}; at least {FEWEST:,} are needed", "give more texts")
    small = total < SPARSE
    by_letters = small and kind == "words"
    task = {"tokenizer": kind, "min_count": 2 if small else 5, **({"letters": 16} if by_letters else {})}
    epochs = int(np.clip(round(SEEN / total), 3, 20))
    lines = [
        f"# About {total:,.0f} {kind}, {each:.0f} a text.",
        "defaults:",
        "  - /nlp/word_vectors",
        "  - _self_",
        f"task: {{{', '.join(f'{name}: {value}' for name, value in task.items())}}}",
        f"model: {{_target_: pdl_nlp.{'FastText' if by_letters else 'Word2Vec'}}}",
        "data:",
        *(
            f"  {split}: {written('PlainText', {'path': path, 'split': split, 'ratios': {'train': 0.98, 'val': 0.02}})}"
            for split in ("train", "val")
        ),
        f"train: {{epochs: {epochs}}}",
    ]
    return "\n".join(lines) + "\n"

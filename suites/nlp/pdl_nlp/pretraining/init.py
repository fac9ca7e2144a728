"""A recipe for an encoder of one's own texts, as `pdl init nlp.pretraining --data FILE_OR_FOLDER` writes it."""

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
FEWEST = 2_000  # tokens
BATCH, LENGTH = 16, 128
EPOCHS, STEPS = 20, (300, 10_000)  # passes over the texts, within these numbers of steps
MOST = 30_000  # tokens of the vocabulary


def write_recipe(data: Path) -> str:
    """The text of a recipe for pretraining: of a file of texts (*.txt, a text a line, or *.jsonl; packed, too), or of a
    folder of such files. One text in fifty is kept for validation. Texts without spaces between words are read by
    character."""
    path = data.resolve()
    corpus = PlainText(path)
    texts = [sample["text"] for sample in islice(iter(corpus), LOOKED_AT)]
    kind, _ = reading(texts) if texts else ("words", 0.0)
    total = float(counted(texts, kind, lower=True).total())
    if len(texts) == LOOKED_AT:  # there are more: as many as the files are larger, which pack to about a third
        sizes = (file.stat().st_size * (3 if file.suffix.lower() in PACKED else 1) for file in corpus.files)
        total *= max(1.0, sum(sizes) / sum(len(text.encode()) + 1 for text in texts))
    if total < FEWEST:
        raise fault(data, f"{total:,.0f} {kind}; at least {FEWEST:,} are needed", "give more texts")
    steps = int(np.clip(round(EPOCHS * total / (BATCH * LENGTH)), *STEPS))
    places = {"path": path, "ratios": {"train": 0.98, "val": 0.02}}
    lines = [
        f"# About {total:,.0f} {kind}. Pieces of words: pdl vocab wordpiece FILE --out V, task.tokenizer=V",
        "defaults:",
        "  - /nlp/pretraining",
        "  - _self_",
        f"task: {{tokenizer: {kind}, min_count: 2, vocabulary_size: {MOST}, mask_share: 0.3, max_length: {LENGTH}}}",
        "model: {_target_: pdl_nlp.BERTForPretraining, dim: 192, layers: 3, heads: 3, positions: rotary, dropout: 0}",
        "data:",
        f"  train: {written('PlainText', {**places, 'split': 'train', 'buffer': 2048})}",
        f"  val: {written('PlainText', {**places, 'split': 'val'})}",
        f"  batch_size: {BATCH}",
        "optim: {lr: 2.0e-3}",
        f"train: {{max_steps: {steps}}}",
    ]
    return "\n".join(lines) + "\n"

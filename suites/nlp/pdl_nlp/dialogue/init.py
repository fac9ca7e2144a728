"""A recipe for dialogues, as `pdl init nlp.dialogue --data FILE` writes it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from pdl.data.faults import fault
from pdl_nlp.classification.init import length, reading, written
from pdl_nlp.data.dialogue_file import DialogueFile

FEWEST = 20  # dialogues
SEEN = 60_000  # replies to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that finds replies: of lines of turns with __eou__ behind each, JSON lines with a list of
    turns, or YAML with conversations. Dialogues are cut 8:1:1 by a hash."""
    path = data.resolve()
    dialogues = [sample["turns"] for sample in DialogueFile(path)]
    if len(dialogues) < FEWEST:
        raise fault(data, f"{len(dialogues)} dialogues; at least {FEWEST} are needed", "give more")
    turns = list(chain(*dialogues))
    kind, _ = reading(turns)
    replies = len(turns) - len(dialogues)
    ratios = {"train": 0.8, "val": 0.1, "test": 0.1}
    most = min(256, 2 * length(turns, kind))
    lines = [
        f"# {len(dialogues):,} dialogues with {replies:,} replies.",
        "defaults:",
        "  - /nlp/dialogue",
        "  - _self_",
        f"task: {{tokenizer: {kind}, max_length: {most}, min_count: {2 if replies >= 1000 else 1}}}",
        "model: {_target_: pdl_nlp.SentenceEncoder, dim: 192, layers: 2, heads: 3, positions: rotary}",
        "data:",
        *(
            f"  {split}: {written('DialogueFile', {'path': path, 'split': split, 'ratios': ratios})}"
            for split in ratios
        ),
        f"train: {{epochs: {int(np.clip(SEEN // max(replies, 1), 3, 20))}}}",
    ]
    return "\n".join(lines) + "\n"

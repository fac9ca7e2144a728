"""What a model of dialogues should beat: frequent replies, and words that turns and reply share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl_nlp.classification.baselines import tf_idf
from pdl_nlp.dialogue.loader import candidates, replies_of, turns_of
from pdl_nlp.dialogue.metrics import Places
from pdl_nlp.embedding.baselines import bm25, products

if TYPE_CHECKING:
    from pdl_nlp.dialogue.task import Dialogue


def baselines(task: Dialogue, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Among the same candidates: how often training has the reply; the cosine of TF-IDF (tokens, and pairs of
    neighbours) of turns and reply, and BM25 of the reply for the turns."""
    known = turns_of(datasets["train"])
    before, replies = replies_of(turns_of(datasets[split]), task.context)
    drawn = candidates(replies, task.candidates, task.seed)
    said = Counter(turn for turns in known for turn in turns[1:])
    texts = [replies[at] for at in drawn.reshape(-1).tolist()]
    queries = [" ".join(turns) for turns in before for _ in range(drawn.shape[1])]
    turns = [turn for dialogue in known for turn in dialogue]
    left, right = (tf_idf(task.tokenizer, turns, column)[1] for column in (queries, texts))
    found = {
        "popularity": np.array([said[text] for text in texts], np.float64),
        "TF-IDF": products(left, right),
        "BM25": bm25(task.tokenizer, turns, queries, texts),
    }
    return {name: Places(scores.reshape(drawn.shape)).measured() for name, scores in found.items()}

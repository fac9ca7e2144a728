"""What the report says of a model of dialogues: how well replies are found by what is known, and which it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, table
from pdl.train import Evaluation, Reporter
from pdl_nlp.classification.report import LETTERS, lengths
from pdl_nlp.dialogue.loader import Exchanges, candidates
from pdl_nlp.dialogue.metrics import Places

if TYPE_CHECKING:
    from pdl_nlp.dialogue.task import Dialogue

MISTAKES = 16


class DialogueReporter(Reporter):
    """Measures by how many turns are known and by the length of the reply, lengths, and wrong replies."""

    task: Dialogue

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        scores = evaluation.details["scores"]
        if not isinstance(dataset, Exchanges) or not isinstance(scores, np.ndarray):
            return []
        known = np.array([len(turns) for turns in dataset.before])
        rows = []
        for number in sorted(set(known.tolist())):
            measured = Places(scores[known == number]).measured()
            rows.append((number, int((known == number).sum()), *measured.values()))
        head = ("turns that are known", "replies", *measured)
        drawn = candidates(dataset.replies, self.task.candidates, self.task.seed)
        off = scores[:, 0] - scores.max(axis=1)
        worst = [at for at in np.argsort(off, kind="stable")[:MISTAKES].tolist() if off[at] < 0]
        wrong = [
            (
                _shown(dataset.before[at][-1]),
                _shown(dataset.replies[at]),
                _shown(dataset.replies[drawn[at, int(scores[at].argmax())]]),
            )
            for at in worst
        ]
        name = evaluation.split
        return [
            Section(f"Replies by turns that are known ({name})", table(rows, head=head)),
            Section(f"Tokens of the turns ({name})", lengths(dataset.lengths, dataset.lengths)),
            Section("Replies that are furthest off", table(wrong, head=("last turn", "reply", "taken instead"))),
        ]


def _shown(text: str) -> str:
    return text[:LETTERS] + (" ..." if len(text) > LETTERS else "")

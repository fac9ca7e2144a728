"""What a net that reads should beat: the most similar sentence, and what stands beside words that question and
paragraph share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pdl.train.classical import spread
from pdl_nlp.embedding.baselines import bm25
from pdl_nlp.span_extraction.metrics import exact_match, f1
from pdl_nlp.tokenizers import Tokenizer

if TYPE_CHECKING:
    from pdl_nlp.span_extraction.task import SpanExtraction

SENTENCE = re.compile(r"(?:[^。！？!?;；\n.]|\.(?=\d))+(?:[。！？!?;；\n]|\.(?!\d))*")  # noqa: RUF001
ROWS = 500  # training questions by which the neighbour is chosen
LONGEST = 12  # tokens of it


class Shared(NamedTuple):
    """The paragraph of a question, the offsets int [T, 2] of its tokens, and the longest run of them that the question
    has, too: [begin, end)."""

    paragraph: str
    offsets: np.ndarray
    begin: int
    end: int

    def beside(self, side: int, length: int) -> str:
        """So many tokens before that run (side 0), or behind it (1)."""
        begin, end = (self.end, self.end + length) if side else (self.begin - length, self.begin)
        kept = self.offsets[max(begin, 0) : max(end, 0)]
        return self.paragraph[kept[0, 0] : kept[-1, 1]] if len(kept) else ""


def baselines(task: SpanExtraction, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The sentence with the highest BM25 for the question, as a whole; and the tokens beside the longest run that
    question and paragraph share, how many and on which side as it is best in training."""
    train, test, scoring = datasets["train"], datasets[split], task.scoring or "squad"
    asked = [test[index] for index in range(len(test))]
    known = [train[int(row)] for row in spread(len(train), ROWS)]
    places = [shared(task.tokenizer, sample) for sample in known]

    def right(choice: tuple[int, int]) -> float:
        found = (place.beside(*choice) for place in places)
        return sum(f1(text, each["answers"], scoring) for text, each in zip(found, known, strict=True))

    best = max(((side, length) for side in (1, 0) for length in range(1, LONGEST + 1)), key=right)
    made = {
        "sentence by BM25": _sentences(task.tokenizer, known, asked),
        "beside what is shared": [shared(task.tokenizer, sample).beside(*best) for sample in asked],
    }
    scores = {"exact_match": exact_match, "f1": f1}
    return {
        name: {
            key: float(
                np.mean([score(text, each["answers"], scoring) for text, each in zip(found, asked, strict=True)])
            )
            for key, score in scores.items()
        }
        for name, found in made.items()
    }


def shared(tokenizer: Tokenizer, sample: Mapping[str, Any]) -> Shared:
    """The longest run of tokens that a question and its paragraph share, of equal ones the first."""
    made = tokenizer.encode_many([sample["question"], sample["paragraph"]])
    question, paragraph = made.text(0).ids, made.text(1)
    runs = np.zeros(len(paragraph.ids) + 1, np.int64)
    best, stop = 0, 0
    for token in question.tolist():
        runs[1:] = np.where(paragraph.ids == token, runs[:-1] + 1, 0)
        if runs.max() > best:
            best, stop = int(runs.max()), int(runs.argmax())
    return Shared(sample["paragraph"], paragraph.offsets, stop - best, stop)


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [each.strip() for each in SENTENCE.findall(text) if each.strip()] or [text]


def _sentences(tokenizer: Tokenizer, known: list[Any], asked: list[Any]) -> list[str]:
    """The sentence of each paragraph with the highest BM25 for its question."""
    parted = [sentences(sample["paragraph"]) for sample in asked]
    counts = [len(each) for each in parted]
    queries = [sample["question"] for sample, count in zip(asked, counts, strict=True) for _ in range(count)]
    texts = list(dict.fromkeys(text for sample in known for text in sentences(sample["paragraph"])))
    scores = bm25(tokenizer, texts, queries, [text for each in parted for text in each])
    return [
        each[int(part.argmax())] for each, part in zip(parted, np.split(scores, np.cumsum(counts)[:-1]), strict=True)
    ]

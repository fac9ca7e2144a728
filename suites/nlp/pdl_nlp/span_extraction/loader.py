"""From questions about paragraphs to batches of windows, windows of about one length together."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Batch
from pdl.data.faults import fault
from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.loader import ByLength
from pdl_nlp.steps.windows import Reading
from pdl_nlp.tokenizers import Tokenizer

STEP = 32  # lengths of questions are multiples of it, so that few shapes occur


class Windows(ByLength):
    """The windows of all questions as numbers: sample i is {"tokens" int64 [T], "begin", "end" int64: the answer's
    first and last token in this window, 0 where the window does not have it}; with "segments" int64 [T] where question
    and paragraph are read together, else with "question" int64 [Q].

    In evaluation also "row" int64, the number of the question; "offsets" int64 [T, 2], where the tokens of the
    paragraph are in it, in code points, (0, 0) of others; and the "paragraph" and the "answers" as texts.
    """

    def __init__(self, dataset: Any, tokenizer: Tokenizer, reading: Reading, *, training: bool) -> None:
        self.dataset, self.reading, self.training = dataset, reading, training
        self.pad = tokenizer.pad or 0
        samples = [dataset[index] for index in range(len(dataset))]
        paragraphs = list(dict.fromkeys(sample["paragraph"] for sample in samples))
        place = {text: number for number, text in enumerate(paragraphs)}
        texts, asked = tokenizer.encode_many(paragraphs), tokenizer.encode_many([each["question"] for each in samples])
        windows, rows, ends = [], [], []
        for row, sample in enumerate(samples):
            try:
                found = reading.windows(tokenizer, asked.text(row).ids, texts.text(place[sample["paragraph"]]))
            except DataError as error:
                raise fault(dataset.path_of(row), str(error), "correct it, or take it out", index=row) from None
            windows += found
            rows += [row] * len(found)
            ends += [span_of(window.offsets, sample) for window in found]
        self.paragraphs, self.answers = np.empty((2, len(samples)), object)
        self.paragraphs[:], self.answers[:] = ([each[of] for each in samples] for of in ("paragraph", "answers"))
        self.rows, self.spans = np.array(rows), np.array(ends)
        counts = np.array([len(window.tokens) for window in windows])
        self.counts, self.starts = counts, np.concatenate([[0], np.cumsum(counts)])[:-1]
        self.ids = np.concatenate([*(window.tokens for window in windows), [self.pad]])
        self.segments = np.concatenate([*(window.segments for window in windows), [0]])
        self.offsets = np.concatenate([*(window.offsets for window in windows), np.zeros((1, 2), np.int32)])
        self.questions = [window.question for window in windows]
        self._measure(counts, reading.max_length, None)

    def get_batch(self, indices: np.ndarray) -> Batch:
        at = self._at(indices, self.starts, self.counts)
        made = {"tokens": self.ids[at], "begin": self.spans[indices, 0], "end": self.spans[indices, 1]}
        if self.reading.together:
            made["segments"] = self.segments[at]
        else:
            questions = [self.questions[index] for index in indices.tolist()]
            made["question"] = np.full((len(indices), -(-max(map(len, questions)) // STEP) * STEP), self.pad, np.int64)
            for to, question in zip(made["question"], questions, strict=True):
                to[: len(question)] = question
        if not self.training:
            made["row"], made["offsets"] = self.rows[indices], self.offsets[at].astype(np.int64)
            made["paragraph"], made["answers"] = self.paragraphs[made["row"]], self.answers[made["row"]]
        return made

    def path_of(self, index: int) -> str | None:
        return super().path_of(int(self.rows[index]))


def span_of(offsets: Array, sample: Any) -> tuple[int, int]:
    """The first and the last token of a window that the first answer has a part in; (0, 0) where the window does not
    have all of it."""
    if not sample["answers"]:
        return 0, 0
    start = int(sample["starts"][0])
    stop = start + len(sample["answers"][0])
    real = offsets[:, 1] > 0
    inside = np.flatnonzero(real & (offsets[:, 1] > start) & (offsets[:, 0] < stop))
    text = sample["paragraph"]
    # white space at the edges of an answer is no token
    first, last = offsets[inside[[0, -1]]] if len(inside) else ((stop, 0), (0, 0))
    if text[start : first[0]].strip() or text[last[1] : stop].strip():
        return 0, 0
    return (int(inside[0]), int(inside[-1])) if len(inside) else (0, 0)

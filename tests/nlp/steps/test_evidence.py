"""Passages that fit a question by BM25 against the formula."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pdl_nlp.steps.evidence import TermIndex
from pdl_nlp.steps.passages import Passage
from pdl_nlp.tokenizers import BERT, Words

TEXTS = ["a b", "a c c c", "b a", "c b"]
TOKENIZER = Words([BERT["pad"], BERT["unknown"], "a", "b", "c"], special={"pad": "[PAD]", "unknown": "[UNK]"})


def terms(text: str) -> list[str]:
    words = text.split()
    return words + [" ".join(pair) for pair in pairwise(words)]


def bm25(question: str, text: str) -> float:
    mean, found = np.mean([len(each.split()) for each in TEXTS]), 0.0
    for term in set(terms(question)):
        df = sum(term in terms(each) for each in TEXTS)
        tf = terms(text).count(term)
        idf = np.log(1 + (len(TEXTS) - df + 0.5) / (df + 0.5))
        found += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text.split()) / mean)) if tf else 0
    return found


def test_passages_by_their_terms() -> None:
    index = TermIndex([Passage(text, f"x:{n}") for n, text in enumerate(TEXTS)], TOKENIZER)
    questions = ["a b", "c c", "b", "d"]
    scores, numbers = index.search(questions, 4)
    for question, row, order in zip(questions[:3], scores, numbers, strict=False):
        expected = [bm25(question, text) for text in TEXTS]
        np.testing.assert_allclose(row, [expected[n] for n in order])
        np.testing.assert_allclose(row, sorted(expected, reverse=True))
    assert numbers[0, 0] == 0  # "b a" has the same words, and not this pair
    assert index.search(questions[:1], 9)[1].shape == (1, 4)

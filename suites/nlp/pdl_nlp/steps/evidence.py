"""Answers out of documents: the passages that fit a question are found, and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.ranking import top_k
from pdl.runtime.sample import Sample
from pdl.runtime.steps.outputs import Ranking, ranked_alike
from pdl_nlp.steps.passages import Passage, TextIndex, vectors_of
from pdl_nlp.tokenizers.base import Tokenizer

K1, B = 1.2, 0.75  # of BM25
READ = 10  # passages that are read for a question
FOUND = 3  # answers, unless one asks for more
WINDOW = 384  # tokens of a passage


class TermIndex:
    """Passages by Okapi BM25 (Robertson & Zaragoza, The probabilistic relevance framework, 2009): the sum over the
    terms of a question of log(1 + (n - df + 0.5) / (df + 0.5)) tf (k1 + 1) / (tf + k1 (1 - b + b length / mean
    length)). Terms are the tokens of a text and pairs of neighbours, so that words of several characters count."""

    def __init__(self, passages: Sequence[Passage], tokenizer: Tokenizer) -> None:
        self.passages, self.tokenizer = passages, tokenizer
        rows, terms, lengths = self._terms([each.text for each in passages])
        keys, counts = np.unique(np.stack([terms, rows]), axis=1, return_counts=True)  # by term, then by passage
        self.terms, self.begins = np.unique(keys[0], return_index=True)
        self.ends = np.append(self.begins[1:], keys.shape[1])
        self.rows, df = keys[1], self.ends - self.begins
        room = K1 * (1 - B + B * lengths / max(lengths.mean(), 1e-9))
        idf = np.log1p((len(passages) - df + 0.5) / (df + 0.5))
        self.weights = np.repeat(idf, df) * counts * (K1 + 1) / (counts + room[self.rows])

    def search(self, questions: Sequence[str], k: int) -> tuple[Array, Array]:
        """Scores [Q, k] and numbers int64 [Q, k] of the best passages, best first."""
        scores = np.zeros((len(questions), len(self.passages)))
        rows, terms, _ = self._terms(questions)
        at = np.searchsorted(self.terms, terms)
        known = self.terms[np.minimum(at, len(self.terms) - 1)] == terms
        for row, place in sorted(set(zip(rows[known].tolist(), at[known].tolist(), strict=True))):
            part = slice(self.begins[place], self.ends[place])
            scores[row, self.rows[part]] += self.weights[part]
        return top_k(scores, min(k, len(self.passages)), first=0)

    def _terms(self, texts: Sequence[str]) -> tuple[Array, Array, Array]:
        """Of all terms of texts: which text each is of, and its number; and how many tokens each text has."""
        made = self.tokenizer.encode_many(texts)
        ids, lengths, size = made.ids.astype(np.int64), np.diff(made.starts), len(self.tokenizer.tokens)
        rows = np.repeat(np.arange(len(texts)), lengths)
        inside = rows[1:] == rows[:-1]
        pairs = size + ids[:-1] * size + ids[1:]
        return np.concatenate([rows, rows[1:][inside]]), np.concatenate([ids, pairs[inside]]), lengths


class NearestPassages:
    """Passages by the cosines of their vectors and those of questions, of another model that gives vectors. UsageError
    for a model without the output `vector`."""

    def __init__(self, places: Sequence[str], predictor: Any) -> None:
        given = () if predictor.pipeline is None else predictor.pipeline.post
        if "vector" not in given:
            advice = "passages are found by a model of pdl_nlp.Embedding, such as nlp/minilm"
            raise UsageError(f"the model that should find passages has no vector of a text; {advice}")
        self.index, self.predictor = TextIndex.of(places, predictor), predictor
        self.passages = self.index.passages

    def search(self, questions: Sequence[str], k: int) -> tuple[Array, Array]:
        """Cosines [Q, k] and numbers int64 [Q, k] of the nearest passages, nearest first."""
        size = self.index.vectors.shape[1]
        found = (np.zeros(size, np.float32) if each is None else each for each in vectors_of(questions, self.predictor))
        return self.index.search(np.stack(list(found)), k)


class Evidence(Ranking):
    """{"found": [the k best answers to a question, each {"score", "answer", "place", "text"}]}: passages that fit the
    question are read, and each answer has the passage that it is from.

    The score of an answer is p(span) of the reader within its window times the passage's score divided by that of the
    best passage (a product in place of the weighted sum of Yang et al., BERTserini, arXiv 1902.01718: neither scale has
    to be known).

    retriever   gives the passages
    predictor   reads: a question and a passage in, {"answer", "score"} out
    vocabulary  under which the step `windows` keeps the question
    """

    name = "evidence"

    def __init__(self, retriever: Any, predictor: Any, vocabulary: str, k: int = FOUND) -> None:
        self.retriever, self.predictor, self.vocabulary, self.k = retriever, predictor, vocabulary, k

    def __call__(self, value: Any, sample: Sample) -> Any:
        question = sample.memo[self.vocabulary].question
        scores, numbers = (each[0] for each in self.retriever.search([question], READ))
        fitting = [(score, self.retriever.passages[number]) for score, number in zip(scores, numbers, strict=True)]
        fitting = [(score, passage) for score, passage in fitting if score > 0]
        pairs = [[question, passage.text] for _, passage in fitting]
        answers = self.predictor.pipeline.answers(pairs, self.predictor.run, skip_errors=True)
        found = [
            {
                "score": float(read.value["score"] * score / scores[0]),
                "answer": read.value["answer"],
                **passage._asdict(),
            }
            for (score, passage), read in zip(fitting, answers, strict=True)
            if read.error is None and read.value["answer"]
        ]
        best = dict[str, Any]()
        for each in sorted(found, key=lambda each: -each["score"]):  # of equal answers the one with the most evidence
            best.setdefault(each["answer"], each)
        return {"found": list(best.values())[: self.k]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["found"])

    def caption(self, answer: Any) -> str:
        return str(answer["found"][0]["answer"]) if answer["found"] else "no answer"

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        return ranked_alike(ours["found"], theirs["found"], "place", tolerance)

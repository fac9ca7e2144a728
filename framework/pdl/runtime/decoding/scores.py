"""From the scores of a net to tokens: what may follow, with which log-probability, the best ones, and draws."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.kernels import softmax as kernels
from pdl.ranking import top_k as best_columns
from pdl.runtime.decoding.options import Options


def log_probabilities(logits: Array, histories: list[Array], options: Options) -> Array:
    """log softmax of logits [R, V], where those of tokens that a row holds are penalised; an array of its own. -inf in
    rows that hold NaN or +inf, which no token may follow."""
    logits = np.array(logits, np.float64 if logits.dtype == np.float64 else np.float32)
    if options.repetition_penalty != 1.0:
        for row, history in zip(logits, histories, strict=True):
            seen = np.unique(history)
            found = row[seen]
            row[seen] = np.where(found > 0, found / options.repetition_penalty, found * options.repetition_penalty)
    made = np.empty_like(logits)
    kernels.log_softmax(made, logits)
    broken = np.isnan(made[:, 0])  # one NaN makes the sum one, and so all of a row
    if broken.any():
        made[broken] = -np.inf
    return made


def repeating(history: Array, n: int) -> Array:
    """The tokens that would make the last n of a row, int64 [T], a repetition of n that it holds."""
    if len(history) < n:
        return history[:0]
    held = np.lib.stride_tricks.sliding_window_view(history, n)
    return held[(held[:, :-1] == history[len(history) - n + 1 :]).all(axis=1), -1]


def best(scores: Array, k: int) -> tuple[Array, Array]:
    """The k highest of each row, best first, of equal ones the first: values and columns [R, k]."""
    if k == 1:
        at = scores.argmax(axis=1)[:, None]
        return np.take_along_axis(scores, at, axis=1), at
    values, columns = best_columns(np.ascontiguousarray(scores), k, first=0)
    return values, columns


def kept(scores: Array, options: Options) -> tuple[Array, Array]:
    """Tokens of a row that may be drawn, by number, and their probabilities, after temperature, top_k and top_p.

    scores [V] are log-probabilities, -inf of what must not follow.
    """
    tokens = np.flatnonzero(scores > -np.inf)
    logits = scores[tokens].astype(np.float64) / options.temperature
    if 0 < options.top_k < len(tokens):
        last = np.partition(logits, -options.top_k)[-options.top_k]
        tokens, logits = tokens[logits >= last], logits[logits >= last]
    weights = np.exp(logits - logits.max())
    weights /= weights.sum()
    if options.top_p < 1.0:
        order = np.argsort(-weights, kind="stable")
        before = np.cumsum(weights[order]) - weights[order]
        chosen = np.sort(order[before < options.top_p])
        tokens, weights = tokens[chosen], weights[chosen] / weights[chosen].sum()
    return tokens, weights


def drawn(scores: Array, options: Options, uniform: float) -> int:
    """The token that a number of [0, 1) falls on."""
    tokens, weights = kept(scores, options)
    at = np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right")
    return int(tokens[min(at, len(tokens) - 1)])


def generator(seed: int, key: int, row: int) -> np.random.Generator:
    """The draws of one answer: a function of the seed, the key of its source and its number among the answers."""
    mixed = np.random.SeedSequence([seed, key, row]).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=mixed))

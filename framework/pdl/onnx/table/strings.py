"""Ops on strings, which are arrays of Python objects."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from pdl.errors import ShapeError, UsageError
from pdl.onnx.eager import computed
from pdl.onnx.registry import Context, onnx_op


@onnx_op("StringConcat", since=20)
@computed
def _concat(ctx: Context, a: Any, b: Any) -> Any:
    """a + b, broadcast."""
    return np.asarray(np.add(a.astype(object), b.astype(object)), object)


@onnx_op("StringSplit", since=20)
@computed
def _split(ctx: Context, x: Any, *, delimiter: str = "", maxsplit: int | None = None) -> Any:
    """The parts of each string between delimiters (by default whitespace), filled up with "", and their number."""
    parts = [str(s).split(delimiter or None, -1 if maxsplit is None else maxsplit) for s in x.reshape(-1)]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    made = np.full((len(parts), int(counts.max(initial=0))), "", object)
    for row, part in zip(made, parts, strict=True):
        row[: len(part)] = part
    return made.reshape(*x.shape, -1 if parts else 0), counts


@onnx_op("StringNormalizer", since=10)
@computed
def _normalise(
    ctx: Context, x: Any, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "",
    stopwords: Any = (),
) -> Any:  # fmt: skip
    """The strings without stop words, in upper or lower case; one empty string where none is left."""
    if x.ndim not in (1, 2) or (x.ndim == 2 and len(x) != 1):
        raise ShapeError(f"{ctx.node.label()}: x {x.shape} must be [C] or [1, C]")
    changes: dict[str, Any] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = changes.get(case_change_action)
    if change is None:
        raise UsageError(f"{ctx.node.label()}: case_change_action {case_change_action!r} is not known")
    key: Any = str if is_case_sensitive else str.lower
    stop = {key(w) for w in stopwords}
    kept = [change(s) for s in x.reshape(-1) if key(s) not in stop] or [""]
    return np.array(kept, object).reshape(*x.shape[:-1], -1)


@onnx_op("RegexFullMatch", since=20)
@computed
def _full_match(ctx: Context, x: Any, *, pattern: str) -> Any:
    """Whether the pattern matches the whole string.

    ONNX means RE2's syntax. Python's engine can need exponential time where RE2 cannot, so that patterns with nested
    repetition, back references or look-around are refused.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{ctx.node.label()}: {pattern!r} is no regular expression: {error}") from error
    if re.search(r"\\[1-9]|\(\?[=!<P]|[*+}]\)?[*+{]|\)[*+{]", pattern):
        raise UsageError(f"{ctx.node.label()}: {pattern!r} repeats a group or looks around; that is not supported")
    return np.array([compiled.fullmatch(s) is not None for s in x.reshape(-1)], bool).reshape(x.shape)


@onnx_op("TfIdfVectorizer", since=9)
@computed
def _tfidf(
    ctx: Context, x: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: Any, ngram_indexes: Any, pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    """How often each n-gram of the pool occurs, with up to `max_skip_count` items left out between its items."""
    if mode not in ("TF", "IDF", "TFIDF") or (pool_int64s is None) == (pool_strings is None):
        raise UsageError(f"{ctx.node.label()}: mode {mode!r}, and one pool of integers or strings")
    pool = list(pool_int64s if pool_strings is None else pool_strings)
    grams = _grams(pool, list(ngram_counts), min_gram_length, max_gram_length)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    made = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, out in zip(rows, made, strict=True):
        found = _count(row.tolist(), grams, max_skip_count)
        for number, count in found.items():
            value = float(count) if mode != "IDF" else 1.0
            out[ngram_indexes[number]] = value * (weights[number] if weights and mode != "TF" else 1)
    return made.reshape(*x.shape[:-1], -1)


def _grams(pool: list[Any], starts: list[int], low: int, high: int) -> dict[tuple[Any, ...], int]:
    """{n-gram: its number in the pool}; the pool holds all 1-grams, then all 2-grams, and so on."""
    found: dict[tuple[Any, ...], int] = {}
    number = 0
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        for at in range(start, end, n):
            if low <= n <= high:
                found[tuple(pool[at : at + n])] = number
            number += 1
    return found


def _count(items: list[Any], grams: dict[tuple[Any, ...], int], skips: int) -> Counter[int]:
    """How often each n-gram occurs; 1-grams know no skips."""
    found: Counter[int] = Counter()
    for n in {len(g) for g in grams}:
        for step in range(1, (skips if n > 1 else 0) + 2):
            for start in range(len(items) - (n - 1) * step):
                number = grams.get(tuple(items[start : start + (n - 1) * step + 1 : step]))
                if number is not None:
                    found[number] += 1
    return found

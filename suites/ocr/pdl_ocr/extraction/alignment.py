"""Where on a page the value of a field stands: labels say what it is, and not where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl_ocr.steps.fields import Position, Span, edges_of, squashed

LONG, SHARE = 16, 8  # values of so many letters and digits may differ from the page in one of so many of them
CUT = 6  # values of fewer are no part of a word or a number: 9.00 is not in 19.00


def spans_of(value: str, lines: Sequence[str]) -> list[Span]:
    """All places where a value stands in the lines of a page (in reading order), compared by letters and digits. Where
    none is of whole words, those that are not, as readers may lose spaces (25/12/20188:13); of a long value that stands
    nowhere the most similar place, if it is similar enough."""
    letters = [
        (c, Position(number, at)) for number, line in enumerate(lines) for at, each in enumerate(line)
        for c in squashed(each)
    ]  # fmt: skip
    page, wanted = "".join(c for c, _ in letters), squashed(value)
    if not wanted:
        return []
    found, begin = list[Span](), page.find(wanted)
    while begin >= 0:
        span = Span(letters[begin][1], letters[begin + len(wanted) - 1][1])
        found.append(span)
        begin = page.find(wanted, begin + 1)
    whole = [span for span in found if is_whole(span, lines)]
    found = whole or (found if len(wanted) >= CUT else [])
    if not found and len(wanted) >= LONG:
        begin, end, errors = nearest(wanted, page)
        similar = begin < end and errors <= len(wanted) // SHARE
        found = [_whole(Span(letters[begin][1], letters[end - 1][1]), lines)] if similar else []
    return [_with_marks(span, value.strip(), lines) for span in found]


def is_whole(span: Span, lines: Sequence[str]) -> bool:
    """Whether a span cuts no word or number in two."""
    return span == _whole(span, lines)


def _whole(span: Span, lines: Sequence[str]) -> Span:
    """The span with the rest of words and numbers that it cuts in two."""
    (line, begin), (last, end) = span
    begin = int(np.flatnonzero(edges_of(lines[line])[0, : begin + 1])[-1])
    end += int(np.flatnonzero(edges_of(lines[last])[1, end:])[0])
    return Span(Position(line, begin), Position(last, end))


def _with_marks(span: Span, value: str, lines: Sequence[str]) -> Span:
    """The span with the signs around it that the value has, too: `$9.00`, `JOHOR.`"""
    (line, begin), (last, end) = span
    inner = [i for i, c in enumerate(value) if c.isalnum()]
    before, after = value[: inner[0]], value[inner[-1] + 1 :]
    begin -= len(before) if before and lines[line][:begin].endswith(before) else 0
    rest = lines[last][end + 1 :]
    more = next(n for n in range(len(after), -1, -1) if rest.startswith(after[:n]))
    return Span(Position(line, begin), Position(last, end + more))


def nearest(wanted: str, page: str) -> tuple[int, int, int]:
    """The piece page[begin:end] with the least edit distance to `wanted`, and that distance: begin, end, distance
    (P. Sellers, Journal of Algorithms 1980)."""
    text = np.array([ord(c) for c in page], np.int64)
    index = np.arange(len(page) + 1)
    cost, start = np.zeros(len(page) + 1, np.int64), index
    for row, c in enumerate(wanted, 1):
        swap, drop = cost[:-1] + (text != ord(c)), cost[1:] + 1
        best = np.concatenate([[row], np.minimum(swap, drop)])
        begin = np.concatenate([[0], np.where(swap <= drop, start[:-1], start[1:])])
        lead = best - index  # an inserted character costs one: cost_j = min over i <= j of best_i + j - i
        least = np.minimum.accumulate(lead)
        source = np.maximum.accumulate(np.where(lead == least, index, 0))
        cost, start = least + index, begin[source]
    end = int(cost.argmin())
    return int(start[end]), end, int(cost[end])

"""Masks as runs and as polygons, as COCO has them; equal to pycocotools bit by bit.

Runs go down the columns: in an image of height H, the pixel (row, column) is number column * H + row. Counts are the
lengths of the runs of 0, 1, 0, 1, ... in that order; the first may be 0. In text, a count (from the fourth on: its
difference from the one two before) is written in groups of five bits, the lowest first, each as the character 48 +
bits, plus 32 where another group follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SCALE = 5  # boundaries are walked on a grid that is this much finer than pixels


def encode(mask: np.ndarray) -> np.ndarray:
    """The counts (int64) of a mask [H, W], whose pixels are set where they are not 0."""
    flat = np.asarray(mask).T.reshape(-1) != 0
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    counts = np.diff(np.concatenate([[0], edges, [flat.size]]))
    return np.concatenate([[0], counts]) if flat.size and flat[0] else counts


def decode(counts: np.ndarray, height: int, width: int) -> np.ndarray:
    """The mask uint8 [H, W], 0 or 1, of counts that fill it. ValueError where their sum is not H * W."""
    counts = np.asarray(counts, np.int64)
    if (counts < 0).any() or (total := int(counts.sum())) != height * width:
        raise ValueError("runs below 0" if (counts < 0).any() else
                         f"runs of {total} pixels in all, the image has {height} x {width}")  # fmt: skip
    ink = (np.arange(len(counts)) & 1).astype(np.uint8)
    return np.repeat(ink, counts).reshape(width, height).T


def to_text(counts: Sequence[int] | np.ndarray) -> str:
    """COCO's compressed form of counts."""
    values = np.asarray(counts, np.int64).copy()
    values[3:] -= np.asarray(counts, np.int64)[1:-2]
    out = bytearray()
    for value in values.tolist():
        while True:
            bits, value = value & 31, value >> 5
            more = value != (-1 if bits & 16 else 0)
            out.append(48 + bits + 32 * more)
            if not more:
                break
    return out.decode("ascii")


def from_text(text: str | bytes) -> np.ndarray:
    """The counts (int64) of the compressed form. ValueError for what is none."""
    return from_texts([text])[0]


def from_texts(texts: Sequence[str | bytes]) -> tuple[np.ndarray, np.ndarray]:
    """The counts (int64) of several texts one after the other, and how many each has (int64)."""
    parts = [text.encode("ascii") if isinstance(text, str) else text for text in texts]
    raw = np.frombuffer(b"".join(parts), np.uint8).astype(np.int64) - 48
    if len(raw) == 0:
        return np.empty(0, np.int64), np.zeros(len(parts), np.int64)
    borders = np.cumsum([len(part) for part in parts])
    last = (raw & 32) == 0  # of the characters of a count
    if raw.min() < 0 or raw.max() > 63 or not last[borders[borders > 0] - 1].all():
        raise ValueError("characters that the form does not have, or cut off")
    starts = np.flatnonzero(np.concatenate([[True], last[:-1]]))
    place = np.arange(len(raw)) - np.repeat(starts, np.diff(np.append(starts, len(raw))))
    if place.max() > 7:
        raise ValueError("a count of more than 40 bits")
    values = np.add.reduceat((raw & 31) << (5 * place), starts)
    ends = np.append(starts[1:], len(raw)) - 1
    values -= np.where(raw[ends] & 16, np.int64(32) << (5 * place[ends]), 0)  # the highest bit is the sign
    text = np.searchsorted(borders, starts, side="right")
    lengths = np.bincount(text, minlength=len(parts))
    number = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    for use in (number % 2 == 1, (number % 2 == 0) & (number > 0)):
        counts = np.bincount(text[use], minlength=len(parts))
        sums = np.cumsum(values[use])
        before = np.concatenate([[0], sums])[np.cumsum(counts) - counts]
        values[use] = sums - np.repeat(before, counts)
    return values, lengths


def polygon_mask(rings: Sequence[np.ndarray], height: int, width: int) -> np.ndarray:
    """The union of polygons [P, 2] of points (x, y) in pixels, as uint8 [H, W].

    A pixel is set where a vertical line through its centre has crossed the boundary an odd number of times above that
    centre; the boundary is walked on a grid five times as fine, its points rounded to it. Points farther outside of the
    image than its own width or height are moved to that distance.
    """
    mask = np.zeros((height, width), np.uint8)
    if height == 0 or width == 0:
        return mask
    for ring in rings:
        columns, rows = _crossings(np.asarray(ring, np.float64), height, width)
        if not len(columns):
            continue
        left, right = int(columns.min()), int(columns.max()) + 1
        toggles = np.bincount((columns - left) * height + rows, minlength=(right - left) * height + 1)[:-1]
        inside = (np.cumsum(toggles) & 1).astype(np.uint8)
        mask[:, left:right] |= inside.reshape(right - left, height).T
    return mask


def outline(mask: np.ndarray) -> list[np.ndarray]:
    """Polygons [P, 2] along the edges of a mask's pixels, those around holes, too; of equal parity with the mask.
    Pixels that touch at a corner alone are in polygons of their own."""
    padded = np.pad(np.asarray(mask) != 0, 1)
    inside, left, above = padded[1:, 1:], padded[1:, :-1], padded[:-1, 1:]
    ahead: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, other, (x, y) in ((inside, left, (0, 1)), (inside, above, (1, 0))):
        for row, column in np.argwhere(at != other).tolist():
            ends = [(column, row), (column + x, row + y)]
            start, end = ends if bool(at[row, column]) == bool(x) else ends[::-1]  # the inside is to the right
            ahead.setdefault(start, []).append(end)
    rings = []
    while ahead:
        start = here = next(iter(ahead))
        ring, come = [start], (0, 0)
        while True:
            steps = ahead[here]
            turns = [(come[0] * (y - here[1]) - come[1] * (x - here[0]), n) for n, (x, y) in enumerate(steps)]
            there = steps.pop(max(turns)[1])  # to the right where two polygons touch
            if not steps:
                del ahead[here]
            step = there[0] - here[0], there[1] - here[1]
            if step == come:
                ring.pop()
            come, here = step, there
            if here == start:
                break
            ring.append(here)
        if len(ring) > 1 and _aligned(ring[-1], ring[0], ring[1]):
            ring.pop(0)
        rings.append(np.array(ring, np.float64))
    return rings


def _aligned(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    return a[0] == b[0] == c[0] or a[1] == b[1] == c[1]


def _crossings(ring: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the boundary crosses the centre lines of columns: (columns, first rows below it, 0..height)."""
    far = np.array([width, height], np.float64)
    ends = (np.clip(ring, -far, 2 * far) * _SCALE + 0.5).astype(np.int64)
    u, v = _walk(ends, np.roll(ends, -1, axis=0))
    step = np.flatnonzero(u[1:] != u[:-1])
    before, after = u[step], u[step + 1]
    x = (np.where(after < before, after, after - 1) + 0.5) / _SCALE - 0.5
    y = np.ceil(np.clip((np.minimum(v[step], v[step + 1]) + 0.5) / _SCALE - 0.5, 0, height))
    kept = (np.floor(x) == x) & (x >= 0) & (x <= width - 1)
    return x[kept].astype(np.int64), y[kept].astype(np.int64)


def _walk(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every grid point (u, v) of edges that are each walked along their longer axis, from the smaller coordinate on."""
    d = np.abs(end - start)
    flat = d[:, 0] >= d[:, 1]
    longest = d.max(axis=1)
    flip = np.where(flat, start[:, 0] > end[:, 0], start[:, 1] > end[:, 1])
    low, high = np.where(flip[:, None], end, start), np.where(flip[:, None], start, end)
    across = np.where(flat, high[:, 1] - low[:, 1], high[:, 0] - low[:, 0])
    slope = across / np.maximum(longest, 1)
    edge = np.repeat(np.arange(len(start)), longest + 1)
    at = np.arange(len(edge)) - np.repeat(np.cumsum(longest + 1) - longest - 1, longest + 1)
    t = np.where(flip[edge], longest[edge] - at, at)
    along = t + np.where(flat, low[:, 0], low[:, 1])[edge]
    beside = (np.where(flat, low[:, 1], low[:, 0])[edge] + slope[edge] * t + 0.5).astype(np.int64)
    return np.where(flat[edge], along, beside), np.where(flat[edge], beside, along)

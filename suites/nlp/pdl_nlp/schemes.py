"""How tags mark spans: IO, BIO, BIOES, BMES; and spans out of tags, as conlleval and seqeval find them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from pdl.dtype import Array

Scheme: TypeAlias = Literal["none", "IO", "BIO", "BIOES", "BMES"]
"""none: every token has a tag of its own, as parts of speech."""

NEVER = -1e30  # the log of probability 0, which files hold
OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
CLOSED = np.array([True, False, False, True, True])  # no span goes on behind such a part
OPENS = np.array([False, True, False, False, True])  # a span begins with it, whatever stands before
LETTERS = {"O": OUTSIDE, "B": BEGIN, "I": INSIDE, "M": INSIDE, "E": END, "L": END, "S": SINGLE, "U": SINGLE}
TAG = re.compile(r"([BIMELSU])(?:[-_](.+))?")


class Tags:
    """The tags of a scheme: part and kind of each, what may follow what, spans.

    names   the tags in the order of their numbers
    scheme  by default the one that the tags are written in
    """

    def __init__(self, names: Sequence[str], scheme: Scheme | None = None) -> None:
        self.names, self.scheme = list(names), scheme_of(names) if scheme is None else scheme
        parted = [_parted(name, self.scheme) for name in names]
        self.kinds = sorted({kind for part, kind in parted if part != OUTSIDE})
        """The kinds of spans, "" where tags name none."""
        self.parts = np.array([part for part, _ in parted])
        self.kind = np.array([self.kinds.index(kind) if part != OUTSIDE else -1 for part, kind in parted])

    @cached_property
    def forbidden(self) -> tuple[Array, Array, Array]:
        """float32 [K, K], [K], [K]: `NEVER` where a tag must not follow another, begin or end a text; else 0. Of IO and
        of tags without a scheme nothing is."""
        before, after, same = self.parts[:, None], self.parts[None], self.kind[:, None] == self.kind[None]
        unfinished = np.isin(self.parts, (BEGIN, INSIDE))
        goes_on = np.isin(self.parts, (INSIDE, END))
        if self.scheme == "BIO":
            wrong = goes_on[None] & ~(np.isin(before, (BEGIN, INSIDE)) & same)
            starts, ends = goes_on, unfinished & False
        elif self.scheme in ("BIOES", "BMES"):
            wrong = np.where(unfinished[:, None], ~(np.isin(after, (INSIDE, END)) & same), goes_on[None])
            starts, ends = goes_on, unfinished
        else:
            wrong, starts, ends = (np.zeros((len(self.names),) * n, bool) for n in (2, 1, 1))
        made = [np.where(each, NEVER, 0.0).astype(np.float32) for each in (wrong, starts, ends)]
        return made[0], made[1], made[2]

    def wrong(self, tags: Array) -> Array:
        """The positions in tags [T] of one text that the scheme does not allow there."""
        moves, starts, ends = self.forbidden
        bad = np.zeros(len(tags), bool)
        bad[1:] = moves[tags[:-1], tags[1:]] < 0
        bad[:1] |= starts[tags[:1]] < 0
        bad[-1:] |= ends[tags[-1:]] < 0
        return np.flatnonzero(bad)

    def spans(self, tags: Array, *, mixed: bool = False) -> Array:
        """int64 [S, 3]: begin, end and kind of each span of tags [T], also of a text that the scheme does not allow: a
        span begins at B, at S, behind E and S, and wherever the kind changes (conlleval, seqeval), or, if they may be
        `mixed`, not there: the kind is that of its first tag. -1 is no tag."""
        if self.scheme == "none":
            return np.zeros((0, 3), np.int64)
        known = np.append(tags, -1)
        inside = known >= 0
        parts = np.where(inside, self.parts[known], OUTSIDE)
        kinds = np.where(inside, self.kind[known], -1)
        before, change = np.empty_like(parts), np.empty(len(parts), bool)
        before[0], before[1:] = OUTSIDE, parts[:-1]
        change[0], change[1:] = True, (parts[:-1] == OUTSIDE) if mixed else (kinds[1:] != kinds[:-1])
        change |= CLOSED[before]
        begins = np.flatnonzero((parts != OUTSIDE) & (change | OPENS[parts]))
        ends = np.flatnonzero((before != OUTSIDE) & (change | OPENS[parts] | (parts == OUTSIDE)))
        return np.stack([begins, ends, kinds[begins]], axis=1)


def scheme_of(names: Sequence[str]) -> Scheme:
    """The scheme that tags are written in: BMES with an M, BIOES with E or S, else BIO; IO of tags with an O alone;
    none of others."""
    inner = [name for name in names if name != "O"]
    found = [TAG.fullmatch(name) for name in inner]
    if not inner or not all(found):
        return "IO" if "O" in names and inner and not any(found) else "none"
    letters = {each[1] for each in found if each}
    return "BMES" if "M" in letters else "BIOES" if letters & set("ELSU") else "BIO"


def segmented(lengths: Sequence[int], tags: Sequence[str], scheme: Scheme) -> list[str]:
    """The tag of each character of words with these lengths and tags."""
    made = []
    for length, tag in zip(lengths, tags, strict=True):
        if scheme == "BIO":
            parts = ["B", *"I" * (length - 1)]
        else:
            middle, last, single = ("M", "E", "S") if scheme == "BMES" else ("I", "E", "S")
            parts = [single] if length == 1 else ["B", *middle * (length - 2), last]
        made += [f"{part}-{tag}" for part in parts]
    return made


def _parted(name: str, scheme: Scheme) -> tuple[int, str]:
    if scheme == "none":
        return SINGLE, name
    if name == "O":
        return OUTSIDE, ""
    if scheme == "IO":
        return INSIDE, name.removeprefix("I-")
    found = TAG.fullmatch(name)
    return (LETTERS[found[1]], found[2] or "") if found else (SINGLE, name)

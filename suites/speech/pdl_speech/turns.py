"""Who speaks when: turns, files of them (NIST's RTTM), and the error of one telling of them against another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import read_text


@dataclass(frozen=True)
class Turn:
    """Somebody speaks from `start` to `end`, in seconds."""

    start: float
    end: float
    speaker: str


@dataclass(frozen=True)
class DiarisationError:
    """Seconds of speech, each counted once for everybody who speaks: in all, missed, of nobody, and of somebody
    else."""

    total: float
    missed: float
    false: float
    confused: float

    @property
    def rate(self) -> float:
        """DER: (missed + false + confused) / total; NaN without speech."""
        return (self.missed + self.false + self.confused) / self.total if self.total else float("nan")

    def __add__(self, other: DiarisationError) -> DiarisationError:
        """That of both recordings together."""
        return DiarisationError(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def diarisation_error(
    reference: Iterable[Turn],
    found: Iterable[Turn],
    *,
    collar: float = 0.0,
    overlaps: bool = True,
    span: tuple[float, float] | None = None,
) -> DiarisationError:
    """The error of the turns that were found, as NIST's md-eval defines it: at each moment with R speakers of the
    reference and S found, of whom C are the same, max(0, R - S) are missed, max(0, S - R) false and min(R, S) - C
    confused. Who is who is decided so that most seconds agree. Turns of one speaker that touch are one.

    collar    seconds before and behind each end of a turn of the reference that do not count (0.25 in NIST's
              evaluations; pyannote's `collar` is both together)
    overlaps  False: moments at which more than one speaks in the reference do not count
    span      what counts, in seconds; by default from the first start to the last end of all turns
    """
    theirs, ours = _joined(reference), _joined(found)
    ends = [t for turns in (*theirs.values(), *ours.values()) for turn in turns for t in turn]
    first, last = span or (min(ends, default=0.0), max(ends, default=0.0))
    edges = [t for turns in theirs.values() for turn in turns for t in turn]
    zones = [(t - collar, t + collar) for t in edges] if collar else []
    cuts = np.unique(np.clip([*ends, *(t for zone in zones for t in zone), first, last], first, last))
    seconds, middle = np.diff(cuts), (cuts[1:] + cuts[:-1]) / 2
    truth, answer = (np.array([_within(turns, middle) for turns in each.values()], bool).reshape(-1, len(middle))
                     for each in (theirs, ours))  # fmt: skip
    same = _pairs((truth * seconds) @ answer.T.astype(np.float64))
    counts = ~_within(zones, middle) & (overlaps | (truth.sum(axis=0) < 2))
    there, said = truth.sum(axis=0), answer.sum(axis=0)
    right = sum((truth[i] & answer[j] for i, j in same), np.zeros(len(middle), np.int64))
    parts = (there, np.maximum(there - said, 0), np.maximum(said - there, 0), np.minimum(there, said) - right)
    return DiarisationError(*(float((part * seconds)[counts].sum()) for part in parts))


def _joined(turns: Iterable[Turn]) -> dict[str, list[tuple[float, float]]]:
    """The turns (start, end) of each speaker, those that touch as one."""
    made: dict[str, list[tuple[float, float]]] = {}
    for turn in sorted(turns, key=lambda turn: turn.start):
        own = made.setdefault(turn.speaker, [])
        if own and turn.start <= own[-1][1]:
            own[-1] = own[-1][0], max(own[-1][1], turn.end)
        else:
            own.append((turn.start, turn.end))
    return made


def _within(spans: Sequence[tuple[float, float]], moments: Array) -> Array:
    """Which moments [T] lie in one of the spans, bool [T]."""
    inside = np.zeros(len(moments), bool)
    for start, end in spans:
        inside[np.searchsorted(moments, start) : np.searchsorted(moments, end)] = True
    return inside


def _pairs(gain: Array) -> list[tuple[int, int]]:
    """Of rows and columns of a matrix [R, S] pairs (row, column), each in one at most, with the largest sum: by
    shortest paths with potentials (Kuhn, 1955; Munkres, 1957)."""
    if gain.shape[0] > gain.shape[1]:
        return [(i, j) for j, i in _pairs(gain.T)]
    rows, columns = gain.shape
    cost = np.zeros((rows + 1, columns + 1))
    cost[1:, 1:] = -gain
    u, v, match = np.zeros(rows + 1), np.zeros(columns + 1), np.zeros(columns + 1, np.int64)
    for row in range(1, rows + 1):
        match[0], at = row, 0
        least, before, seen = np.full(columns + 1, np.inf), np.zeros(columns + 1, np.int64), np.zeros(columns + 1, bool)
        while match[at]:
            seen[at] = True
            reduced = cost[match[at]] - u[match[at]] - v
            nearer = ~seen & (reduced < least)
            least[nearer], before[nearer] = reduced[nearer], at
            following = int(np.where(seen, np.inf, least)[1:].argmin()) + 1
            delta = least[following]
            u[match[seen]] += delta
            v[seen] -= delta
            least[~seen] -= delta
            at = following
        while at:
            match[at] = match[before[at]]
            at = int(before[at])
    return [(int(match[j]) - 1, j - 1) for j in range(1, columns + 1) if match[j]]


# -- files -------------------------------------------------------------------------------------------------------------
def rttm(name: str, turns: Iterable[Turn]) -> str:
    """The turns of a recording as lines of an RTTM file; spaces in names are "_"."""
    lines = (
        f"SPEAKER {_word(name)} 1 {turn.start:.3f} {turn.end - turn.start:.3f} <NA> <NA> {_word(turn.speaker)} <NA> "
        "<NA>\n"
        for turn in turns
    )
    return "".join(lines)


def read_rttm(path: str | Path) -> dict[str, list[Turn]]:
    """The turns of each recording of an RTTM file, in its order. DataError, with the line, for what is none."""
    made: dict[str, list[Turn]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split()
        if not words or words[0] != "SPEAKER":
            continue
        try:
            start, seconds = float(words[3]), float(words[4])
            good = start >= 0 and seconds >= 0 and np.isfinite([start, seconds]).all()
            turn = Turn(start, start + seconds, words[7])
        except (IndexError, ValueError):
            good = False
        if not good:
            raise DataError(
                f"{path}:{number}: {line[:60]!r} is no turn; expected SPEAKER RECORDING 1 START SECONDS <NA> <NA> NAME"
            )
        made.setdefault(words[1], []).append(turn)
    return made


def _word(name: str) -> str:
    return "_".join(name.split()) or "<NA>"

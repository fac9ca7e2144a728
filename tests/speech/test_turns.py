"""Errors of diarisation against a count by milliseconds over all pairings of speakers, and RTTM files."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError
from pdl_speech.turns import Turn, diarisation_error, read_rttm, rttm


def made_up(rng: np.random.Generator, speakers: str) -> list[Turn]:
    """Turns that overlap, in whole hundredths of a second."""
    starts = rng.integers(0, 3000, 12)
    return [Turn(s / 100, (s + n) / 100, str(rng.choice(list(speakers))))
            for s, n in zip(starts.tolist(), rng.integers(20, 500, 12).tolist(), strict=True)]  # fmt: skip


def active(turns: list[Turn], size: int) -> dict[str, np.ndarray]:
    """Who speaks in each millisecond."""
    made = {turn.speaker: np.zeros(size, bool) for turn in turns}
    for turn in turns:
        made[turn.speaker][round(1000 * turn.start) : round(1000 * turn.end)] = True
    return made


def counted(reference: list[Turn], found: list[Turn], collar: float, overlaps: bool) -> list[float]:
    """Total, missed, false and confused seconds, by the pairing of speakers with the most seconds in common."""
    size = 40_000
    theirs, ours = active(reference, size), active(found, size)
    first = round(1000 * min(turn.start for turn in (*reference, *found)))
    counts = np.arange(size) >= first
    for mine in theirs.values():
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mine, [False]]).astype(int)))
        for edge in edges.tolist():
            counts[max(0, edge - round(1000 * collar)) : edge + round(1000 * collar)] = False
    truth, answer = (np.array(list(each.values())) for each in (theirs, ours))
    if not overlaps:
        counts &= truth.sum(axis=0) < 2
    more = np.concatenate([answer, np.zeros((len(truth), size), bool)])
    best = max(permutations(range(len(more)), len(truth)), key=lambda p: int((truth & more[list(p)]).sum()))
    right = (truth & more[list(best)]).sum(axis=0)
    r, s = truth.sum(axis=0), answer.sum(axis=0)
    parts = r, np.maximum(r - s, 0), np.maximum(s - r, 0), np.minimum(r, s) - right
    return [float(part[counts].sum()) / 1000 for part in parts]


@pytest.mark.parametrize(("collar", "overlaps"), [(0.0, True), (0.25, True), (0.1, False)])
def test_the_error_is_that_of_a_count(collar: float, overlaps: bool) -> None:
    rng = np.random.default_rng(0)
    for speakers in ("ab", "abc", "abcd", "a"):
        reference, found = made_up(rng, "xyz"), made_up(rng, speakers)
        error = diarisation_error(reference, found, collar=collar, overlaps=overlaps)
        wanted = counted(reference, found, collar, overlaps)
        assert np.allclose(list(vars(error).values()), wanted, atol=1e-9)
        assert error.rate == pytest.approx(sum(wanted[1:]) / wanted[0])


def test_known_errors() -> None:
    reference = [Turn(0, 10, "anna"), Turn(12, 20, "bob")]
    assert diarisation_error(reference, reference).rate == 0
    assert diarisation_error(reference, [Turn(0, 10, "1"), Turn(12, 20, "0")]).rate == 0
    error = diarisation_error(reference, [Turn(0, 20, "0")])  # bob for anna, and speech in the pause
    assert (error.total, error.missed, error.false, error.confused) == (18, 0, 2, 8)
    error = diarisation_error(reference, [Turn(0.2, 10.2, "0"), Turn(12, 20, "1")], collar=0.25)
    assert (error.total, error.missed, error.false, error.confused) == (17, 0, 0, 0)
    assert diarisation_error(reference, []).rate == 1
    assert (diarisation_error(reference, []) + diarisation_error(reference, reference)).rate == 0.5
    assert np.isnan(diarisation_error([], [Turn(0, 1, "a")]).rate)
    assert diarisation_error(reference, reference, span=(5, 13)).total == 6


def test_it_is_that_of_pyannote() -> None:
    metrics = pytest.importorskip("pyannote.metrics.diarization")
    core = pytest.importorskip("pyannote.core")

    def annotation(turns: list[Turn]) -> object:
        made = core.Annotation()
        for i, turn in enumerate(turns):
            made[core.Segment(turn.start, turn.end), i] = turn.speaker
        return made

    rng = np.random.default_rng(1)
    for _ in range(5):
        reference, found = [Turn(i * 5, i * 5 + 3 + i % 2, "xyz"[i % 3]) for i in range(6)], made_up(rng, "abc")
        theirs = metrics.DiarizationErrorRate()(annotation(reference), annotation(found))
        assert diarisation_error(reference, found).rate == pytest.approx(theirs)


def test_files(tmp_path: Path) -> None:
    turns = [Turn(0.5, 1.25, "anna lee"), Turn(1.5, 2.0, "bob")]
    file = tmp_path / "a.rttm"
    file.write_text("SPKR-INFO a 1 <NA> <NA> <NA> unknown bob <NA>\n" + rttm("a b.wav", turns), "utf-8")
    assert "SPEAKER a_b.wav 1 0.500 0.750 <NA> <NA> anna_lee <NA> <NA>\n" in file.read_text("utf-8")
    assert read_rttm(file) == {"a_b.wav": [Turn(0.5, 1.25, "anna_lee"), Turn(1.5, 2.0, "bob")]}
    for wrong in ("SPEAKER a 1 0.5", "SPEAKER a 1 0 -1 <NA> <NA> x <NA>", "SPEAKER a 1 nan 1 <NA> <NA> x <NA>"):
        file.write_text(f"\n{wrong}\n", "utf-8")
        with pytest.raises(DataError, match=r"a.rttm:2: .* is no turn"):
            read_rttm(file)

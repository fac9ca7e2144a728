"""Features as inputs of nets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError
from pdl.runtime.sample import Sample
from pdl_speech.steps.frames import Frames


def test_arrays_and_files(tmp_path: Path) -> None:
    step, x = Frames(3), np.arange(12).reshape(4, 3)
    np.save(tmp_path / "a.npy", x)
    for item in (x, tmp_path / "a.npy", str(tmp_path / "a.npy")):
        made = step.parse(item, Sample())
        assert made.dtype == np.float32
        assert (made == x).all()
    assert [each.name for each in step.expand(tmp_path, 0)] == [str(tmp_path / "a.npy")]


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros((4, 2)), r"features float64 \(4, 2\) must be numbers \[frames, 3\]"),
        (np.zeros((0, 3)), "one frame at least"),
        (np.array([["a", "b", "c"]]), "must be numbers"),
        (np.full((2, 3), np.nan), "must be finite"),
    ],
)
def test_refusals(x: np.ndarray, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        Frames(3).parse(x, Sample())
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(DataError, match=r"text\.npy: not an array that can be read"):
        Frames(3).parse(tmp_path / "text.npy", Sample())

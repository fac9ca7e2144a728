"""Recordings as inputs: of any rate, as files, bytes and arrays; folders and patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.sample import Sample
from pdl_speech.audio import wav
from pdl_speech.steps.waveform import PadOrCrop, Waveform, fitted


def sine(rate: int, seconds: float = 0.25) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


def parse(item: Any, rate: int = 16000) -> np.ndarray:
    return Waveform(rate).parse(item, Sample())


def test_files_bytes_and_arrays_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    wav.write(path, sine(8000), 8000, "float32")
    made = [parse(path), parse(str(path)), parse(path.read_bytes()), parse((sine(8000), 8000))]
    for each in made:
        np.testing.assert_allclose(each, made[0], atol=1e-6)
        np.testing.assert_allclose(each[200:-200], sine(16000)[200:-200], atol=2e-3)
    np.testing.assert_array_equal(parse(sine(16000)), sine(16000))


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (np.zeros((3, 2)), r"a waveform \(3, 2\) must be finite numbers"),
        (np.zeros(0), r"a waveform \(0,\)"),
        (np.array([0.0, np.nan]), "must be finite"),
        ((np.zeros(9), 0), "a waveform at 0 Hz"),
        ((np.zeros(9), "x"), "a waveform at 'x' Hz"),
        (b"", "empty"),
        (b"nothing that sounds", "not audio"),
    ],
)
def test_what_is_no_recording(item: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        parse(item)


def test_folders_and_patterns_stand_for_their_recordings(tmp_path: Path) -> None:
    for name in ("b.wav", "a.wav", "c.txt"):
        wav.write(tmp_path / name, sine(8000), 8000) if name.endswith("wav") else (tmp_path / name).write_text("x")
    step = Waveform(8000)
    assert [each.name for each in step.expand(str(tmp_path), 0)] == [str(tmp_path / "a.wav"), str(tmp_path / "b.wav")]
    assert [each.name for each in step.expand(str(tmp_path / "b*"), 0)] == [str(tmp_path / "b.wav")]
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"in this folder are no recordings \(.wav, "):
        list(step.expand(str(tmp_path / "none"), 0))


@pytest.mark.parametrize("length", [1, 4, 5, 8, 11])
def test_the_middle_is_kept(length: int) -> None:
    wave = np.arange(1, length + 1, dtype=np.float32)
    made = PadOrCrop(5)(wave)
    assert made.shape == (5,)
    if length >= 5:
        begin = (length - 5) // 2
        np.testing.assert_array_equal(made, wave[begin : begin + 5])
    else:
        np.testing.assert_array_equal(made[made > 0], wave)
        assert abs(np.flatnonzero(made)[0] - (4 - np.flatnonzero(made)[-1])) <= 1


def test_parts_outside_are_zero() -> None:
    np.testing.assert_array_equal(fitted(np.ones(3, np.float32), 4, 2), [1, 0, 0, 0])


@pytest.mark.parametrize(("make", "said"), [(lambda: Waveform(3), "rate=3"), (lambda: PadOrCrop(0), "samples=0")])
def test_arguments_are_checked(make: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()

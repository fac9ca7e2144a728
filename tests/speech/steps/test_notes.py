"""Notes of activations, windows of a recording, and MIDI files."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import hub
from pdl.dims import Dim
from pdl.errors import UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.export.systems import write_system
from pdl.hub.systems import system
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.predict import Prediction
from pdl.runtime.sample import Sample
from pdl.runtime.steps import Resources
from pdl_speech import Transcriber
from pdl_speech.audio.midi import midi
from pdl_speech.steps.notes import FirstSamples, NoteEvents

RATE, HOP, WINDOW = 1000, 10, 205  # of which a window has 20 frames


def found(frames: np.ndarray, onsets: np.ndarray, **options: Any) -> list[tuple[float, float, int, float]]:
    """Frames of 0.1 s, of which a note has more than 3."""
    step, sample = NoteEvents("onset", 1000, 100, **{"lowest": 60, "shortest": 0.3, **options}), Sample()
    sample.outputs = {"onset": onsets.astype(np.float32)}
    notes = step(frames.astype(np.float32), sample)["notes"]
    return [(n["start"], n["end"], n["midi"], round(n["amplitude"], 4)) for n in notes]


def test_notes_begin_at_onsets_and_end_in_quiet() -> None:
    frames, onsets = np.zeros((60, 5)), np.zeros((60, 5))
    frames[5:15, 2], onsets[5, 2] = 0.8, 0.9
    frames[15:25, 2], onsets[15, 2] = 0.6, 0.9  # struck again
    frames[5:15, 3] = 0.4  # a neighbour's shadow
    frames[30:34, 0], onsets[30, 0] = 0.8, 0.9
    frames[50:53, 0], onsets[50, 0] = 0.8, 0.9  # too short
    expected = [(0.5, 1.5, 62, 0.8), (1.5, 2.5, 62, 0.6), (3.0, 3.4, 60, 0.8)]
    assert found(frames, onsets) == expected
    assert found(frames, onsets, shortest=0.2) == [*expected, (5.0, 5.3, 60, 0.8)]
    frames[44:50, 0], frames[50:], onsets[30, 0], onsets[50] = 0.5, 0, 1, 0  # 10 quiet frames end no note
    assert found(frames, onsets, onset=0.95)[-1][:3] == (3.0, 5.0, 60)


def test_what_no_onset_began_is_found_by_its_loudest_frame() -> None:
    frames, onsets = np.zeros((60, 4)), np.zeros((60, 4))
    frames[20:30, 1] = np.linspace(0.4, 0.5, 10)
    assert found(frames, onsets) == [(2.0, 2.9, 61, 0.4444)]
    onsets[50, 3] = 0.8  # of which rises get their scale: 0.8 at frame 20
    frames[20:30, 1], frames[30:38, 1] = 0.4, 0.35
    assert found(frames, onsets) == [(2.0, 3.8, 61, round((4 + 2.8) / 18, 4))]
    assert found(frames, onsets, frame=0.5) == found(frames * 0, onsets * 0) == []
    assert found(frames[:1], onsets[:1]) == found(frames[:0], onsets[:0]) == []


class Loudness(pdl.nn.Module):
    """One key: the mean of each frame of [N, 205, 1], and its onsets."""

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        y = pdl.mean(x[:, : WINDOW // HOP * HOP].reshape(x.shape[0], WINDOW // HOP, HOP), axis=2)
        return pdl.expand_dims(y, axis=2), pdl.expand_dims(y, axis=2) * 0.0


def net() -> Deployment:
    events = {"step": "note_events", "onsets": "onset", "rate": RATE, "hop": HOP, "shortest": 0.05}
    return Deployment(
        module=Loudness(),
        inputs={"x": Spec((Dim.symbol("n", 3), WINDOW, 1), pdl.float32)},
        outputs=("note", "onset"),
        pre={"x": [{"step": "waveform", "rate": RATE}, {"step": "first_samples", "samples": WINDOW}]},
        post={"note": [events]},
        samples=[np.linspace(0, 1, n).astype(np.float32) for n in (150, 400)],
    )


def test_windows_are_joined(tmp_path: Path) -> None:
    made = Transcriber(net(), overlap=4)  # 16 frames of each, 165 samples apart
    wave = np.arange(1000, dtype=np.float32)
    frames, onsets, times = made.activations(wave)
    np.testing.assert_allclose(times, [(w * 165 + 10 * j) / RATE for w in range(7) for j in range(16) if
                                       w * 165 + 10 * j < 1000])  # fmt: skip
    inside = times * RATE <= 990
    np.testing.assert_allclose(frames[inside, 0], times[inside] * RATE + 4.5, rtol=1e-6)
    assert onsets.shape == frames.shape
    sound = np.zeros(1000, np.float32)
    sound[300:700] = 0.8
    (note,) = made(sound)["notes"]
    assert note["midi"] == 21
    assert 0.77 < note["amplitude"] < 0.8  # the first frame is half of it
    assert abs(note["start"] - 0.3) < 0.01
    assert abs(note["end"] - 0.7) < 0.011
    part, whole = tmp_path / "net.pdl", tmp_path / "notes.pdl"
    write(part, net())
    write_system(whole, {"_target_": "pdl_speech.Transcriber", "overlap": 4}, {"net": part}, where="here")
    session = load(whole)
    assert session(sound) == {"notes": [note]}
    for wrong in (3, 20):
        with pytest.raises(UsageError, match=f"overlap={wrong} must be even, and at most 19"):
            Transcriber(net(), overlap=wrong)
    with pytest.raises(UsageError, match="its pipeline must be waveform, first_samples, and note_events"):
        Transcriber(made)
    assert FirstSamples(3)(np.ones(2, np.float32)).tolist() == [[1], [1], [0]]


def test_the_system_of_the_index_is_whole() -> None:
    found = system("speech/basic_pitch")
    assert found is not None
    assert found.predictor == {"_target_": "pdl_speech.Transcriber"}
    assert found.parts == {"net": "speech/basic_pitch_net"}
    build = hub.entry(found.parts["net"]).build
    assert build is not None
    steps = Pipeline.read(build.pipeline, Resources(), "hub.yaml")
    made = Transcriber(SimpleNamespace(pipeline=steps))
    assert (made.shift, made.step.beside) == (36164, ("StatefulPartitionedCall:2",))


def test_midi_files_have_the_notes() -> None:
    notes = [
        {"start": 0.5, "end": 1.0, "midi": 60, "amplitude": 0.5},
        {"start": 1.0, "end": 1.0, "midi": 60, "amplitude": 0.0},
    ]
    body = bytes.fromhex("00ff5103 07a1208360 903c408360 803c0000 903c0101 803c0000ff2f00")
    expected = b"MThd" + bytes.fromhex("00000006 0000 0001 01e0") + b"MTrk" + len(body).to_bytes(4, "big") + body
    assert midi(notes) == expected
    file, (form,) = io.BytesIO(), NoteEvents("onset", RATE, HOP).forms
    pages: Any = form.begin(file, "a.wav")
    pages.add(Prediction("a.wav", None, Answer({"notes": notes}), Pipeline({}, {})))
    pages.close()
    assert file.getvalue() == expected

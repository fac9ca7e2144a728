"""Texts to be said, and waveforms as answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.predict import Prediction
from pdl.runtime.steps.base import Resources
from pdl_speech.audio import read_audio
from pdl_speech.features import LogMel
from pdl_speech.steps.text import room, spelled
from pdl_speech.synthesis.deploy import constants

FRONT = LogMel(rate=8000, n_mels=20, n_fft=256, hop_length=64, pad_mode="constant", floor=1e-6)


def pipeline() -> Pipeline:
    pre = {
        "texts": [{"step": "spoken_text"}],
        "manner": [{"step": "manner"}],
        "places": [{"step": "frame_room", "pace": 4.0}],
    }
    post = {"mel": [{"step": "griffin_lim", "rate": 8000, "hop": 64, "iterations": 4}]}
    made = Pipeline.read({"pre": pre, "post": post}, Resources(list(" .abc"), {}, constants(FRONT)), "here")
    assert made is not None
    return made


def test_texts_are_spelled_with_pauses_at_both_ends() -> None:
    assert spelled("\u201cDon\u2019t\u201d \u2014 she  said\u2026 9% ") == " don't - she said. 9 "
    assert spelled("Oh, NO!", lower=False) == " Oh, NO! "
    assert spelled("e\u0301") == " é "
    assert spelled("?!") == spelled(" ") == ""


def test_a_text_becomes_numbers_room_and_a_manner() -> None:
    made = pipeline()
    sample = made.parse("A b. x")
    np.testing.assert_array_equal(sample.inputs["texts"], [1, 3, 1, 4, 2, 1])
    assert sample.notes == {"unknown": ["x"]}
    np.testing.assert_array_equal(sample.inputs["places"], np.arange(room(6, 4.0)))
    np.testing.assert_array_equal(sample.inputs["manner"], [1, 0])
    slow = made.configured({"--speed": ["0.5"], "--pitch": ["-2"]}, None).parse("ab")
    np.testing.assert_array_equal(slow.inputs["manner"], [0.5, -2])
    assert len(slow.inputs["places"]) == room(4, 4.0, 0.5) > room(4, 4.0)
    both = made.collate([sample.inputs, slow.inputs])
    assert both["texts"].tolist() == [[1, 3, 1, 4, 2, 1], [1, 3, 4, 1, 0, 0]]
    assert both["places"].shape == (2, max(len(each.inputs["places"]) for each in (sample, slow)))
    for text in ("", "xyz", "..."):
        with pytest.raises(DataError, match="nothing that can be said"):
            made.parse(text)
    with pytest.raises(DataError, match=r"has 1,502 characters, more than 1,000"):
        made.parse("abc" * 500)
    with pytest.raises(UsageError, match=r"--speed 9: expected a number from 0\.25 to 4"):
        made.configured({"--speed": ["9"]}, None)


def test_energies_become_a_waveform_and_a_file(tmp_path: Path) -> None:
    made = pipeline()
    mel = np.random.default_rng(0).normal(-6, 1, (40, 20)).astype(np.float32)
    sample = made.parse("ab")
    answer = made.finish({"mel": mel, "frames": np.int64(30)}, sample)
    assert (answer["rate"], answer["seconds"], answer["audio"].shape) == (8000, 0.232, (29 * 64,))
    assert made.unprinted == {"audio"}
    assert list(made.post["mel"][-1].rows(answer)[0]) == ["rate", "seconds"]
    with pytest.raises(DataError, match=r"said in 0\.3 s, for which there is no room"):
        made.finish({"mel": mel, "frames": np.int64(41)}, sample)
    (form,) = made.forms
    path = tmp_path / "said.wav"
    with path.open("wb") as file:
        pages = form.begin(file, "said")
        pages.add(Prediction("ab", "ab", Answer(answer), made))
        pages.close()
    wave, rate = read_audio(path)
    assert rate == 8000
    np.testing.assert_allclose(wave, np.clip(answer["audio"], -1, 1), atol=1e-4)

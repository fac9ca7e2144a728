"""The whole way of a classifier of recordings: a folder, a recipe, its check, training, report, bundle, answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl_speech.audio import wav
from pdl_speech.data import standin

RATE = 8000
NAMES = ["low", "high", "hiss"]
FEATURES = {"_target_": "pdl_speech.features.LogMel", "rate": RATE, "n_fft": 256, "hop_length": 80, "n_mels": 40}


def sound(kind: str, rng: np.random.Generator, rate: int = RATE) -> np.ndarray:
    """A tone or a hiss of 0.3 to 0.5 s."""
    time = np.arange(int(rate * rng.uniform(0.3, 0.5))) / rate
    if kind == "hiss":
        return 0.2 * rng.standard_normal(len(time)).clip(-3, 3)
    hertz = rng.uniform(200, 400) if kind == "low" else rng.uniform(1200, 2000)
    return 0.4 * np.sin(2 * np.pi * hertz * time + rng.uniform(0, 6)) + 0.01 * rng.standard_normal(len(time))


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("sounds"), np.random.default_rng(0)
    for name in NAMES:
        (folder / name).mkdir()
        for number in range(30):
            wav.write(folder / name / f"{number}.wav", sound(name, rng), RATE)
    return folder


@pytest.fixture(scope="module")
def run(sounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of what `pdl init` writes."""
    folder = tmp_path_factory.mktemp("run")
    recipe = folder / "sounds.yaml"
    assert main(["init", "speech.classification", "--data", str(sounds), "--out", str(recipe)]) == 0
    assert main(["check", "-c", str(recipe)]) == 0
    words = ["train.epochs=24", "data.batch_size=8", "optim.lr=5e-3"]
    assert main(["train", "-c", str(recipe), *words, "--run", str(folder / "run")]) == 0
    return folder / "run"


def test_it_learns_and_the_report_shows_sounds(run: Path) -> None:
    found = json.loads((run / "result.json").read_text())
    assert found["metrics"]["test/accuracy"] >= 0.8
    assert "nearest neighbour" in found["baselines"]
    page = (run / "report.html").read_text()
    assert all(name in page for name in NAMES)


def test_run_and_bundle_say_the_same_of_any_rate(run: Path, sounds: Path, tmp_path: Path) -> None:
    session, rng = pdl.runtime.load(run / "model.pdl"), np.random.default_rng(1)
    stereo, right = tmp_path / "stereo.wav", 0
    for name in NAMES:
        wav.write(stereo, np.stack([sound(name, rng, 16000)] * 2, axis=1), 16000)
        for given in (str(sounds / name / "0.wav"), (sound(name, rng, 22050), 22050), stereo.read_bytes()):
            (ours,), theirs = workflow.predict(run, [given]), session(given)
            assert ours["label"] == theirs["label"]
            right += theirs["label"] == name
    assert right >= 5


def test_commands_answer(run: Path, sounds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(run), str(sounds / "low"), "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert len(answers) == 30
    assert sum(answer["label"] == "low" for answer in answers) >= 24
    assert main(["predict", str(run), str(sounds / "none.wav")]) == 3
    assert "none.wav: no such file" in capsys.readouterr().err
    assert main(["eval", str(run), "--data", str(sounds)]) == 0


def test_it_exports_to_onnx(run: Path, tmp_path: Path) -> None:
    """With its front end: the waveform goes in."""
    onnxruntime = pytest.importorskip("onnxruntime")
    assert main(["export", str(run), "--to", "onnx", "-o", str(tmp_path / "net.onnx")]) == 0
    theirs = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    session = pdl.runtime.load(run / "model.pdl")
    x = np.random.default_rng(0).standard_normal((2, session.inputs[0].shape[1])).astype(np.float32) * 0.1
    ours = session.run({"audio": x})["logits"]
    np.testing.assert_allclose(ours, theirs.run(None, {"audio": x})[0], rtol=1e-3, atol=1e-3)


# -- what does not fit -------------------------------------------------------------------------------------------------
def recipe(**changes: Any) -> dict[str, Any]:
    """Digits that ship; dotted keys (with __) change it."""
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_speech.AudioClassification"},
        "model": {"_target_": "pdl_speech.DSCNN", "features": dict(FEATURES)},
        "data": {
            "train": {"_target_": "pdl_speech.data.SpokenDigits", "split": "train"},
            "val": {"_target_": "pdl_speech.data.SpokenDigits", "split": "val"},
            "transforms": {"train": [crop()], "eval": [crop()]},
        },
        "optim": {"_target_": "pdl.optim.Adam"},
        "train": {"epochs": 1},
    }
    for key, value in changes.items():
        *parts, last = key.split("__")
        node = tree
        for each in parts:
            node = node[each]
        node[last] = value
    return tree


def crop(samples: int = 4000) -> dict[str, Any]:
    return {"_target_": "pdl_speech.data.transforms.PadOrCrop", "samples": samples}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__features__rate": 16000}, "data.train: gives waveforms at 8000 Hz, but model.features takes 16000 Hz"),
        ({"model__num_classes": 12}, r"the data has 10 classes .* set model.num_classes=10"),
        ({"model": {"_target_": "pdl_cv.LeNet"}}, "LeNet is no pdl_speech.models.AudioNet"),
        ({"data__transforms__eval": [crop(20)]}, "does not take the waveforms of data.val"),
    ],
)
def test_what_does_not_fit_is_told_before_training(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        workflow.train(from_dict(recipe(**changes)), run=tmp_path / "run")


def test_classes_of_splits_agree(tmp_path: Path) -> None:
    standin.write_folders(tmp_path, ["a", "b"], splits=True)
    (tmp_path / "val/c").mkdir()
    wav.write(tmp_path / "val/c/1.wav", np.full(800, 0.1), RATE)
    folder = {"_target_": "pdl_speech.data.AudioFolder", "root": str(tmp_path), "rate": RATE}
    tree = recipe(data__train={**folder, "split": "train"}, data__val={**folder, "split": "val"})
    with pytest.raises(DataError, match="a class folder outside of the class list"):
        workflow.train(from_dict(tree), run=tmp_path / "run")


# -- pdl check ---------------------------------------------------------------------------------------------------------
def test_faults_of_recordings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = {
        "a/fine.wav": (sound("low", rng), 8000),
        "a/silent.wav": (np.zeros(4000), 8000),
        "a/quiet.wav": (1e-4 * sound("low", rng), 8000),
        "a/clipped.wav": ((8 * sound("low", rng)).clip(-1, 1), 8000),
        "a/offset.wav": (0.5 + 0.2 * sound("low", rng), 8000),
        "b/short.wav": (sound("hiss", rng)[:200], 8000),
        "b/slow.wav": (sound("hiss", rng, 4000), 4000),
        "b/stereo.wav": (np.stack([sound("hiss", rng)] * 2, axis=1), 8000),
        "b/again.wav": (np.zeros(4000), 8000),
    }
    for name, (wave, rate) in made.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        wav.write(tmp_path / name, wave, rate)
    (tmp_path / "b/damaged.wav").write_bytes(b"RIFF")
    folder = {"_target_": "pdl_speech.data.AudioFolder", "root": str(tmp_path), "rate": RATE}
    tree = recipe(data__train=folder)
    del tree["data"]["val"]
    checked = Recipe(from_dict(tree))
    found = checked.task.build().check(checked)
    said = {Path(fault.path or "").name: fault.what for fault in found}
    assert "silence: all samples are 0" in said["silent.wav"]
    assert "silence: its loudest sample is at -" in said["quiet.wav"]
    assert "clipped:" in said["clipped.wav"]
    assert "an offset: its mean is +0.50" in said["offset.wav"]
    assert "25 ms long" in said["short.wav"]
    assert "recorded at 4000 Hz, below the 8000 Hz of the net" in said["slow.wav"]
    assert "2 channels" in said["stereo.wav"]
    assert "damaged.wav" in said
    assert "fine.wav" not in said

"""The whole way of verifying speakers: a folder, a recipe, its check, training, report, bundle, enrolment."""

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
from pdl.runtime.predict import Configured
from pdl.train import Recipe
from pdl_speech.audio import wav
from pdl_speech.data import AudioFolder, Speakers
from pdl_speech.speakers.check import check_recipe

RATE = 8000
HERTZ = np.geomspace(150, 1500, 12)  # of the voices


def voice(hertz: float, seconds: float, rng: np.random.Generator, rate: int = RATE) -> np.ndarray:
    """Pulses of a tone with an overtone, and a little noise."""
    time = np.arange(int(rate * seconds)) / rate
    tones = sum(np.sin(2 * np.pi * k * hertz * time + rng.uniform(0, 6)) / k for k in (1, 2))
    pulses = np.maximum(np.sin(2 * np.pi * 5 * time + rng.uniform(0, 6)), 0)
    return 0.3 * tones * pulses + 0.01 * rng.standard_normal(len(time))


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("voices"), np.random.default_rng(0)
    for number, hertz in enumerate(HERTZ):
        (folder / f"s{number:02}").mkdir()
        for take in range(6):
            wav.write(folder / f"s{number:02}" / f"{take}.wav", voice(hertz, rng.uniform(0.7, 0.9), rng), RATE)
    return folder


@pytest.fixture(scope="module")
def run(voices: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of what `pdl init` writes, with a smaller net."""
    folder = tmp_path_factory.mktemp("run")
    recipe = folder / "speakers.yaml"
    assert main(["init", "speech.speakers", "--data", str(voices), "--out", str(recipe)]) == 0
    assert main(["check", "-c", str(recipe)]) == 0
    words = ["train.epochs=8", "data.batch_size=8", "model.channels=16", "model.aggregated=32", "train.eval_every=4"]
    assert main(["train", "-c", str(recipe), *words, "--run", str(folder / "run")]) == 0
    return folder / "run"


def test_it_learns_and_the_report_has_curves(run: Path) -> None:
    found = json.loads((run / "result.json").read_text())
    assert found["metrics"]["test/eer"] <= 0.25
    assert {"test/min_dcf@0.01", "test/min_dcf@0.05", "test/auc"} <= found["metrics"].keys()
    assert "mean and std of MFCC" in found["baselines"]
    page = (run / "report.html").read_text()
    assert all(f"{title} (test)" in page for title in ("ROC", "DET", "Scores", "Speakers"))


def test_run_and_bundle_embed_alike_and_without_the_class_matrix(run: Path, voices: Path) -> None:
    session: Any = pdl.runtime.load(run / "model.pdl")
    for name in ("s00/0.wav", "s05/3.wav"):  # of different lengths
        (ours,), theirs = workflow.predict(run, [str(voices / name)]), session(str(voices / name))
        np.testing.assert_allclose(ours["vector"], theirs["vector"], atol=1e-4)
        assert np.linalg.norm(theirs["vector"]) == pytest.approx(1, abs=1e-4)
    assert "speakers" in (run / "config.yaml").read_text()
    assert not [name for name in session.bundle.weights if "criterion" in name]
    assert workflow.evaluate(run / "model.pdl").metrics["test/eer"] == pytest.approx(
        json.loads((run / "result.json").read_text())["metrics"]["test/eer"], abs=0.02
    )


def test_people_are_enrolled_and_recognised(run: Path, voices: Path, tmp_path: Path) -> None:
    session, rng = pdl.runtime.load(run / "model.pdl"), np.random.default_rng(5)
    threshold = session.pipeline.post["embedding"][-1].threshold
    assert -1 < threshold < 1
    people = tmp_path / "people"
    for name, place in (("low", 0), ("high", 11)):
        (people / name).mkdir(parents=True)
        for take in range(3):
            wav.write(people / name / f"{take}.wav", voice(HERTZ[place], 1.2, rng), RATE)
    known = Configured.of(session, {"--enrolled": [str(people)], "--keep": [str(tmp_path / "people.npz")]})
    again = Configured.of(session, {"--enrolled": [str(tmp_path / "people.npz")]})
    for who in (known, again):
        given = [(voice(HERTZ[place], 1.1, rng, 16000), 16000) for place in (0, 11)]
        found = [answer.value["top"][0]["label"] for answer in who.pipeline.answers(given, who.run)]
        assert found == ["low", "high"]


# -- splits ------------------------------------------------------------------------------------------------------------
def test_splits_share_no_speaker(voices: Path) -> None:
    every = AudioFolder(voices, rate=RATE)
    ratios = {"train": 0.5, "val": 0.25, "test": 0.25}
    splits = {split: Speakers(every, split=split, ratios=ratios, pieces=2) for split in ratios}  # type: ignore[arg-type]
    assert sorted(name for data in splits.values() for name in data.classes) == every.classes
    assert [len(data) for data in splits.values()] == [72, 36, 36]
    test = splits["test"]
    whole = every[int(test.rows[1])]["audio"]
    np.testing.assert_array_equal(np.concatenate([test[2]["audio"], test[3]["audio"]]), whole)
    assert test.path_of(2) == test.path_of(3) == every.path_of(int(test.rows[1]))
    named = {"test": ["s03", "s07"]}
    assert Speakers(every, split="test", held_out=named).classes == ["s03", "s07"]
    assert not {"s03", "s07"} & set(Speakers(every, split="train", held_out=named).classes)
    with pytest.raises(ConfigError, match="'s99' must be one of"):
        Speakers(every, split="test", held_out={"test": ["s99"]})


def folder(voices: Path) -> dict[str, Any]:
    return {"_target_": "pdl_speech.data.AudioFolder", "root": str(voices), "rate": RATE}


def recipe(voices: Path, **changes: Any) -> Recipe:
    whole = {"_target_": "pdl_speech.data.Speakers", "recordings": folder(voices), "pieces": 2}
    features = {"_target_": "pdl_speech.features.LogMel", "rate": RATE, "n_mels": 20}
    crop = {"_target_": "pdl_speech.data.transforms.PadOrCrop", "samples": 4000, "random": True}
    tree = {
        "task": {"_target_": "pdl_speech.SpeakerVerification"},
        "model": {"_target_": "pdl_speech.DVector", "features": features, "hidden": 8, "embedding_size": 8},
        "data": {
            **{split: {**whole, "split": split} for split in ("train", "val", "test")},
            "batch_size": 8,
            "transforms": {"train": [crop]},
        },
        "optim": {"_target_": "pdl.optim.AdamW"},
    }
    for key, value in changes.items():
        node: Any = tree
        *path, last = key.split("__")
        for name in path:
            node = node[name]
        node[last] = value
    return Recipe(from_dict(tree))


def test_a_speaker_of_training_in_the_test_is_refused(voices: Path) -> None:
    wrong = recipe(voices, data__test__split=None)
    with pytest.raises(DataError, match=r"data\.test: 10 of 12 speakers are in train, too: s"):
        wrong.task.build().prepare(wrong, wrong.data.datasets())
    assert next(each for each in check_recipe(wrong) if each.severity == "error").what.startswith("10 of 12 speakers")
    ratios = {"train": 0.5, "val": 0.25, "test": 0.25}
    changes = {f"data__{split}__ratios": ratios for split in ratios}
    alone = recipe(voices, **changes, data__test__pieces=1, data__test__recordings={**folder(voices), "per_class": 1})
    assert [each.what for each in check_recipe(alone) if each.severity == "error"] == [
        "no speaker has two recordings, so there are no trials of one speaker (3 speakers)"
    ]


def test_batches_of_ge2e(voices: Path) -> None:
    own = recipe(voices, task={"_target_": "pdl_speech.SpeakerVerification", "loss": "ge2e", "crops": 4})
    datasets, task = own.data.datasets(), own.task.build()
    task.prepare(own, datasets)
    batch = next(iter(task.loader(datasets["train"], own, training=True, seed=0)))
    assert batch["audio"].shape == (8, 4000)
    assert (batch["label"].reshape(2, 4) == batch["label"].reshape(2, 4)[:, :1]).all()
    net = task.model(own)
    assert np.isfinite(task.step(net, batch).value.item())
    ragged = next(iter(task.loader(datasets["val"], own, training=False, seed=0)))
    assert isinstance(ragged["audio"], list)
    net.eval()
    with pdl.no_grad():
        made = task.evaluate(net, ragged).outputs[0]
        alone = net(pdl.tensor(ragged["audio"][3][None])).numpy()[0]
    np.testing.assert_allclose(made[3], alone, atol=1e-5)
    for words, match in (({"crops": 3}, "must be a multiple of"), ({"crops": 8}, "2 classes at least")):
        wrong = recipe(voices, task={"_target_": "pdl_speech.SpeakerVerification", "loss": "ge2e", **words})
        task = wrong.task.build()
        task.prepare(wrong, datasets)
        with pytest.raises(ConfigError, match=match):
            task.loader(datasets["train"], wrong, training=True, seed=0)


def test_a_list_of_trials(voices: Path, tmp_path: Path) -> None:
    held_out = {"test": ["s03", "s07"]}
    path = tmp_path / "trials.txt"
    path.write_text("1 s03/0.wav s03/1.wav\n0 s03/0.wav s07/1.wav\n")
    changes = {f"data__{split}__held_out": held_out for split in ("train", "test")}
    changes |= {"data__val": None, "task": {"_target_": "pdl_speech.SpeakerVerification", "trial_list": str(path)}}
    good, pieces = (recipe(voices, **changes, data__test__pieces=count) for count in (1, 2))
    task = good.task.build()
    task.prepare(good, good.data.datasets())
    assert task.listed == [(True, "s03/0.wav", "s03/1.wav"), (False, "s03/0.wav", "s07/1.wav")]
    with pytest.raises(ConfigError, match="or have them in pieces"):  # where a name is that of two samples
        pieces.task.build().prepare(pieces, pieces.data.datasets())
    path.write_text("1 a.wav\n")
    with pytest.raises(DataError, match="is no trial"):
        good.task.build().prepare(good, good.data.datasets())

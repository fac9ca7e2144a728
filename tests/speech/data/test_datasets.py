"""Data sets of recordings: what they read, how they are split, and what they say of what cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import Dataset
from pdl.errors import ConfigError, DataError
from pdl_speech.audio import wav
from pdl_speech.data import FSDD, AudioFolder, AudioTable, SpokenDigits, WithOthers, standin

SPLITS = ("train", "val", "test")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fsdd")
    standin.write_digits(folder)
    return folder


def test_the_digits_that_ship() -> None:
    sets = [SpokenDigits(split=split) for split in SPLITS]  # type: ignore[arg-type]
    assert [len(each) for each in sets] == [180, 60, 60]
    for each in sets:
        assert np.bincount(each.labels).tolist() == [len(each) // 10] * 10
        wave = each[0]["audio"]
        assert wave.dtype == np.float32
        assert 0.01 < np.abs(wave).max() <= 1
    at_16 = SpokenDigits(split="test", rate=16000)
    assert len(at_16[3]["audio"]) == 2 * len(sets[2][3]["audio"])
    assert len({each.fingerprint for each in [*sets, at_16]}) == 4


def test_official_and_held_out_speakers(digits: Path) -> None:
    official = {split: FSDD(digits, split=split, ratios={"train": 0.8, "val": 0.2}, rate=8000) for split in SPLITS}
    assert {split: len(each) for split, each in official.items()} == {"train": 190, "val": 50, "test": 60}
    assert not {Path(p).name for p in official["train"].paths} & {Path(p).name for p in official["val"].paths}
    held = {s: FSDD(digits, split=s, held_out=["theo"], val=["lucas"], rate=8000) for s in SPLITS}  # type: ignore[arg-type]
    speakers = {split: {name.split("_")[1] for name in each.paths} for split, each in held.items()}
    assert speakers == {"train": {"george", "jackson", "nicolas", "yweweler"}, "val": {"lucas"}, "test": {"theo"}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"held_out": ["teo"]}, "'teo' must be one of george"),
        ({"held_out": ["theo"], "val": ["theo"]}, "'theo' must be one of"),
        ({"split": "val"}, "to cut it out of train"),
        ({"val": ["theo"], "ratios": {"train": 0.9, "val": 0.1}}, "give one of them"),
    ],
)
def test_what_cannot_be_split(digits: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FSDD(digits, rate=8000, **arguments)


def test_a_folder_of_other_names_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"it has no files called DIGIT_SPEAKER_TAKE\.wav"):
        FSDD(tmp_path, rate=8000)


# -- folders and tables ------------------------------------------------------------------------------------------------
def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def tone(path: Path, seconds: float = 0.1, rate: int = 8000, channels: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    wave = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    wav.write(path, np.stack([wave] * channels, axis=1), rate)
    return path


def test_folders_and_tables_give_the_same(tmp_path: Path) -> None:
    names = ["zero", "one", "two"]
    standin.write_folders(tmp_path / "folders", names, splits=True)
    table = standin.write_table(tmp_path, names)
    for split in SPLITS:
        folder = AudioFolder(tmp_path / "folders", split=split, rate=8000, classes=names)
        rows = AudioTable(table, split=split, rate=8000, classes=names)
        assert sorted(map(_facts, folder)) == sorted(map(_facts, rows))
        assert rows.classes == names


def _facts(sample: Any) -> tuple[int, int, float]:
    return sample["label"], len(sample["audio"]), float(np.abs(sample["audio"]).sum())


def test_recordings_are_resampled_and_mixed(tmp_path: Path) -> None:
    for name in "ab":
        tone(tmp_path / name / "1.wav", channels=2)
    data: Dataset = AudioFolder(tmp_path, rate=16000)
    assert data[0]["audio"].shape == (1600,)
    assert np.abs(data[0]["audio"]).max() == pytest.approx(0.5, abs=0.02)
    assert data.fault_of(0) is None


def test_columns_of_tables(tmp_path: Path) -> None:
    """As ESC-50 and UrbanSound8K have them: names of files by several columns, folds for splits."""
    for fold in (1, 2, 3):
        for name in "xy":
            tone(tmp_path / f"audio/fold{fold}/{name}{fold}.wav")
    lines = [f"{name}{fold}.wav,{fold},{kind}" for fold in (1, 2, 3) for name, kind in (("x", "dog"), ("y", "rain"))]
    table = write(tmp_path / "meta.csv", "slice_file_name,fold,class", *lines)
    shared = {"file": "audio/fold{fold}/{slice_file_name}", "splits": "fold", "values": {"train": [1, 2], "test": [3]}}
    train, test = (AudioTable(table, split=split, rate=8000, **shared) for split in ("train", "test"))
    assert (len(train), len(test), train.classes) == (4, 2, ["dog", "rain"])
    assert all(len(sample["audio"]) == 800 for sample in train)


@pytest.mark.parametrize(
    ("lines", "arguments", "said"),
    [
        (["file,label", "a.wav"], {}, ":2: 1 columns, expected 2"),
        (["file,label"], {}, "the table is empty"),
        (["name,label", "a.wav,x"], {}, "none of its columns name, label is called file"),
        (["file,label", "a.wav,x"], {"label": "class"}, "it has no column 'class'; name one of file, label"),
        (["file,label", "a.wav,x"], {"file": "audio/{clip}.wav"}, "it has no column 'clip'"),
        (["file,label", "a.wav,x", ",y"], {}, ":3: it names no file"),
        (["file,label", "a.wav,x", "b.wav,z"], {"classes": ["x", "y"]}, ":3: label 'z' is none of x, y"),
        (["file,label", "a.wav,x"], {"split": "test"}, "no column names the split of a row"),
        (
            ["file,label,split", "a.wav,x,training"],
            {"split": "train"},
            "no recordings for split 'train', only for training",
        ),
    ],
)
def test_tables_that_cannot_be_used(tmp_path: Path, lines: list[str], arguments: dict[str, Any], said: str) -> None:
    table = write(tmp_path / "list.csv", *lines)
    with pytest.raises(DataError, match=said):
        AudioTable(table, rate=8000, **arguments)


def test_a_pattern_names_columns_and_nothing_else(tmp_path: Path) -> None:
    table = write(tmp_path / "list.csv", "file,label", "a.wav,x")
    with pytest.raises(DataError, match=r"it has no column 'file.__class__'"):
        AudioTable(table, rate=8000, file="{file.__class__}")


def test_damaged_and_absent_files_are_faults(tmp_path: Path) -> None:
    tone(tmp_path / "a/1.wav")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/2.wav").write_bytes(b"no sound")
    data = AudioFolder(tmp_path, rate=8000)
    found = data.fault_of(1)
    assert found is not None
    assert "not audio that is read" in found.what
    with pytest.raises(DataError, match=r"b/2.wav.*not audio that is read"):
        data[1]
    (tmp_path / "b/2.wav").unlink()
    with pytest.raises(DataError, match=r"b/2.wav"):
        data[1]


def test_one_more_class_of_what_is_none_of_the_others(tmp_path: Path) -> None:
    standin.write_folders(tmp_path / "digits", ["zero", "one"], splits=False)
    (tmp_path / "others/a").mkdir(parents=True)
    for number in range(20):
        wave = np.full(8000 + 400 * number, 0.1 + 0.01 * number, np.float32)
        wav.write(tmp_path / f"others/a/{number}.wav", wave, 8000)
    folder = AudioFolder(tmp_path / "digits", rate=8000)

    def others(split: Any = None, **options: Any) -> WithOthers:
        return WithOthers(folder, others=tmp_path / "others", split=split, seconds=0.5, noise=40, **options)

    whole = others()
    assert whole.classes == ["one", "zero", "other"]
    assert len(whole) == len(folder) + 20 * 2 + 10 + 40
    np.testing.assert_allclose(whole[len(folder) + 3]["audio"], 0.11, atol=1e-4)
    assert {len(whole[n]["audio"]) for n in range(len(folder), len(whole))} == {4000}
    assert {whole[n]["label"] for n in range(len(folder), len(whole))} == {2}
    levels = np.array([np.sqrt(np.mean(whole[len(whole) - 1 - n]["audio"] ** 2)) for n in range(40)])
    assert 0 < (levels == 0).sum() < 10
    assert (levels < 0.11).all()
    assert levels.max() > 0.03
    of = {split: {path for path, _ in others(split).pieces} for split in ("train", "val", "test")}
    assert sum(map(len, of.values())) == len(set().union(*of.values())) == 20
    with pytest.raises(ConfigError, match="'one' is a class of the recordings already"):
        others(name="one")
    with pytest.raises(DataError, match=r"none of its 20 recordings .* lasts 30 s"):
        WithOthers(folder, others=tmp_path / "others", seconds=30)

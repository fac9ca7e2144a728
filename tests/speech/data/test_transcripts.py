"""Recordings with what is said in them: tables, folders, LibriSpeech's lists, AN4's arrays, sequences of digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import ConfigError, DataError
from pdl_speech.audio import wav
from pdl_speech.data import AN4, DigitSequences, Transcripts, standin


def record(path: Path, seconds: float = 0.5, rate: int = 8000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    wave = np.random.default_rng(0).normal(0, 0.1, int(seconds * rate)).astype(np.float32)
    wav.write(path, wave, rate)


def test_a_table(tmp_path: Path) -> None:
    path = standin.write_transcripts(tmp_path)
    train, test = (Transcripts(path, split=split, rate=16000) for split in ("train", "test"))
    assert (len(train), len(test)) == (standin.FEW["train"], standin.FEW["test"])
    sample = train[3]
    assert sample["text"] == train.texts[3]
    assert set(sample["text"].split()) <= set(standin.NAMES)
    assert sample["speaker"] == train.speakers[3] in standin.SPEAKERS
    assert len(sample["audio"]) == train.lengths[3]
    assert sample["audio"].dtype == np.float32
    with pytest.raises(DataError, match="no recordings for split 'dev', only for test, train, val"):
        Transcripts(path, split="dev", rate=8000)


def test_splits_are_cut_by_speakers(tmp_path: Path) -> None:
    rows = ["file,sentence,client_id"]
    for k in range(40):
        record(tmp_path / f"clips/{k}.wav", 0.1)
        rows.append(f"{k}.wav,word {k},speaker {k % 10}")
    (tmp_path / "all.csv").write_text("\n".join(rows))
    parts = [Transcripts(tmp_path, split=s, ratios={"train": 0.6, "test": 0.4}, rate=8000) for s in ("train", "test")]
    assert sum(map(len, parts)) == 40
    assert not set(parts[0].speakers) & set(parts[1].speakers)
    assert parts[0].dealing().groups is not None
    with pytest.raises(ConfigError, match="no split"):
        Transcripts(tmp_path, ratios={"train": 1.0}, rate=8000)
    with pytest.raises(DataError, match="nothing tells its splits"):
        Transcripts(tmp_path, split="val", rate=8000)


def test_librispeech(tmp_path: Path) -> None:
    for name in ("84-121123-0000", "84-121123-0001"):
        record(tmp_path / f"84/121123/{name}.wav")
    lists = tmp_path / "84/121123/84-121123.trans.txt"
    lists.write_text("84-121123-0000 GO DO YOU HEAR\n84-121123-0001 BUT IN LESS\n")
    data = Transcripts(tmp_path, rate=8000)
    assert data.texts == ["GO DO YOU HEAR", "BUT IN LESS"]
    assert data.speakers == ["84", "84"]
    assert data.lengths.tolist() == [4000, 4000]
    lists.write_text("84-121123-0007 NOTHING\n")
    with pytest.raises(DataError, match=r"84-121123\.trans\.txt.*no recording is called '84-121123-0007'"):
        Transcripts(tmp_path, rate=8000)


def test_texts_beside_recordings(tmp_path: Path) -> None:
    for split, name, ending in (("train", "a", ".txt"), ("train", "b", ".lab"), ("test", "c", ".txt")):
        record(tmp_path / split / f"{name}.wav")
        (tmp_path / split / f"{name}{ending}").write_text(f"this is\n{name}\n")
    assert Transcripts(tmp_path, split="train", rate=8000).texts == ["this is a", "this is b"]
    assert Transcripts(tmp_path, split="test", rate=8000)[0]["text"] == "this is c"
    record(tmp_path / "test/d.wav")
    with pytest.raises(DataError, match=r"nothing says what is said in it: there is no d\.txt or d\.lab"):
        Transcripts(tmp_path, split="test", rate=8000)
    with pytest.raises(DataError, match="it is not there"):
        Transcripts(tmp_path / "none", rate=8000)


def test_an4(tmp_path: Path) -> None:
    path = standin.write_cepstra(tmp_path)
    data: dict[str, Any] = {split: AN4(path, split=split, share=0.3) for split in ("train", "val", "test")}
    assert len(data["train"]) + len(data["val"]) == standin.FEW["train"]
    assert not set(data["train"].speakers) & set(data["val"].speakers)
    with np.load(path) as arrays:
        starts = np.cumsum(arrays["test_len"]) - arrays["test_len"]
        begin, length = int(starts[2]), int(arrays["test_len"][2])
        assert (data["test"][2]["features"] == arrays["test_feat"][begin : begin + length]).all()
        assert data["test"][2]["text"] == arrays["test_text"][2]
        broken = {name: arrays[name] for name in arrays.files} | {"test_len": arrays["test_len"] + 1}
    assert data["test"].lengths.tolist() == [len(data["test"][i]["features"]) for i in range(len(data["test"]))]
    np.savez(tmp_path / "broken.npz", **broken)
    with pytest.raises(DataError, match="the lengths must sum to the frames"):
        AN4(tmp_path / "broken.npz", split="test")


def test_sequences_of_digits_are_what_their_number_says() -> None:
    one, same = (DigitSequences(split="val", rate=16000) for _ in range(2))
    other = DigitSequences(split="val", rate=16000, seed=1)
    assert one.texts == same.texts != other.texts
    assert (one[7]["audio"] == same[7]["audio"]).all()
    assert [len(one[i]["audio"]) for i in range(20)] == one.lengths[:20].tolist()
    assert {len(text.split()) for text in one.texts} == {1, 2, 3, 4, 5}
    assert len(DigitSequences(split="train", count=17)) == 17

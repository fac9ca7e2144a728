"""Texts with classes: out of tables, JSON lines, lines without a header, and folders."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import ConfigError, DataError
from pdl_nlp.data import TextFile, TextFolder, Texts, standin

ROWS = [("good", 'a nice, "big" room'), ("bad", "dull"), ("good", "酒店很好")]
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a.csv": ('label,text\ngood,"a nice, ""big"" room"\nbad,dull\n\ngood,酒店很好\n', {}),
    "a.tsv": ('label\ttext\ngood\ta nice, "big" room\nbad\tdull\n\ngood\t酒店很好\n', {}),
    "a.jsonl": ("".join(json.dumps({"label": label, "text": text}) + "\n" for label, text in ROWS), {}),
    "a.txt": ('good a nice, "big" room\nbad dull\ngood 酒店很好\n', {"columns": ["label", "text"], "separator": " "}),
    "b.tsv": ('a nice, "big" room\tgood\ndull\tbad\n酒店很好\tgood\n', {"columns": ["text", "label"]}),
}


def written(path: Path, text: str | bytes) -> Path:
    data = text if isinstance(text, bytes) else text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    pack: Any = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz"])
def test_all_forms_have_the_same_texts(name: str, packed: str, tmp_path: Path) -> None:
    text, settings = FORMS[name]
    data = TextFile(written(tmp_path / f"{name}{packed}", text), **settings)
    assert data.classes == ["bad", "good"]
    assert [(data.classes[each["label"]], each["text"]) for each in (data[i] for i in range(3))] == ROWS
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0, 1]
    if name == "a.csv":
        assert data.lines == [2, 3, 5]


def test_names_order_and_normal_forms(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "label\ttext\n1\t\uff21\n0\tb\n10\tc\n2\td\n")
    assert TextFile(path).classes == ["0", "1", "2", "10"]
    data = TextFile(path, names={"0": "no", "1": "yes"}, normalise="NFKC")
    assert data.classes == ["no", "yes", "10", "2"]
    assert data[0] == {"text": "A", "label": 1}
    assert data.fingerprint != TextFile(path).fingerprint


def test_several_classes(tmp_path: Path) -> None:
    table = TextFile(written(tmp_path / "a.csv", 'text,label\nx,"a, b"\ny,\nz,b\n'), several=",")
    lines = "".join(json.dumps({"text": t, "label": ls}) + "\n" for t, ls in (("x", ["a", "b"]), ("y", []), ("z", "b")))
    for data in (table, TextFile(written(tmp_path / "a.jsonl", lines), several=",")):
        assert data.labels is None
        assert np.stack([data[i]["label"] for i in range(3)]).tolist() == [[1, 1], [0, 0], [0, 1]]
        assert data[0]["label"].dtype == np.float32


def test_pairs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "q\tr\tlabel\nx\ty\t1\n")
    assert TextFile(path, text="q", pair="r")[0] == {"text": "x", "pair": "y", "label": 0}


def test_equal_texts_stay_in_one_split(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "label\ttext\n" + "".join(f"{i % 2}\ttext {i % 300}\n" for i in range(900)))
    ratios = {"train": 0.6, "val": 0.2, "test": 0.2}
    parts = {split: TextFile(path, split=split, ratios=ratios) for split in ratios}
    assert sum(map(len, parts.values())) == 900
    assert [round(len(part) / 900, 1) for part in parts.values()] == [0.6, 0.2, 0.2]
    sets = [set(part.texts) for part in parts.values()]
    assert not sets[0] & sets[1]
    assert not sets[0] & sets[2]
    assert all(part.classes == ["0", "1"] for part in parts.values())


def test_a_column_names_the_split(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "label,text,fold\na,x,train\nb,y,dev\na,z,test\n")
    found = {split: TextFile(path, split=split, split_column="fold") for split in ("train", "val", "test")}
    assert [each.texts for each in found.values()] == [["x"], ["y"], ["z"]]
    assert all(each.classes == ["a", "b"] for each in found.values())
    with pytest.raises(DataError, match="column 'fold' names no row holdout"):
        TextFile(path, split="holdout", split_column="fold")


@pytest.mark.parametrize(
    ("name", "text", "settings", "message"),
    [
        ("a.tsv", "label\ttext\na\n", {}, r"a\.tsv:2: 1 columns, expected 2 \(label, text\)"),
        ("a.tsv", "class\ttext\na\tb\n", {}, r"a\.tsv:2: has no column 'label'; it has class, text"),
        ("a.tsv", "label\tlabel\na\tb\n", {}, r"a\.tsv:1: two columns are called 'label'"),
        ("a.tsv", "label\ttext\n\tb\n", {}, r"a\.tsv:2: label is '', not a class"),
        ("a.tsv", "label\ttext\n", {}, r"a\.tsv: has no texts; add some"),
        ("a.tsv", "label\ttext\nc\tb\n", {"classes": ["a", "d"]}, r"a\.tsv:2 .*class 'c' is none of a, d"),
        ("a.jsonl", '{"label": 1, "text": 5}\n', {}, r"a\.jsonl:1: text is 5, not a text"),
        ("a.jsonl", '{"label": 1, "text": "x"\n', {}, r"a\.jsonl:1: .* is not JSON"),
        ("a.txt", "a b\n", {}, r"a\.txt: its name does not say what its lines are; call it \*\.csv"),
        ("a.csv", b"label,text\na,\xff\n", {}, r"a\.csv:2: not UTF-8 text \(bytes ff 0a\); save it as UTF-8"),
    ],
)
def test_faults_say_where(name: str, text: Any, settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        TextFile(written(tmp_path / name, text), **settings)


def test_settings_that_do_not_go_together(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "label\ttext\na\tb\n")
    with pytest.raises(ConfigError, match="split_column and ratios both cut"):
        TextFile(path, split_column="x", ratios={"train": 1.0})
    with pytest.raises(ConfigError, match="split='test' is none of the ratios train"):
        TextFile(path, split="test", ratios={"train": 1.0})
    with pytest.raises(DataError, match=r"absent\.tsv is not there.*get it from the authors' page"):
        TextFile("absent.tsv", address="the authors' page")


def test_classes_are_those_of_training(tmp_path: Path) -> None:
    data = TextFile(written(tmp_path / "a.tsv", "label\ttext\nb\tx\n"))
    data.bind(["a", "b"])
    assert data[0]["label"] == 1
    with pytest.raises(DataError, match=r"a\.tsv:2 \(index 0\): class 'b' is none of a, c"):
        data.bind(["a", "c"])


def test_folders_of_classes(tmp_path: Path) -> None:
    for split, name, text in (
        ("train", "neg", "x"),
        ("train", "pos", "y"),
        ("train", "unsup", "?"),
        ("test", "pos", "z"),
    ):
        written(tmp_path / split / name / "deep" / "1.txt", f" {text}\n")
    written(tmp_path / "train/neg/2.txt.gz", "packed")
    train = TextFolder(tmp_path, split="train", classes=["neg", "pos"])
    assert train.texts == ["packed", "x", "y"]
    assert train[2] == {"text": "y", "label": 1}
    assert str(train.path_of(1)).endswith("train/neg/deep/1.txt")
    test = TextFolder(tmp_path, split="test")
    assert test.classes == ["neg", "pos", "unsup"]
    cut = [TextFolder(tmp_path, split=each, ratios={"train": 0.5, "val": 0.5}) for each in ("train", "val")]
    assert sorted(text for each in cut for text in each.texts) == ["?", "packed", "x", "y"]
    with pytest.raises(DataError, match="holds folders for splits, not classes; add split=train"):
        TextFolder(tmp_path)
    with pytest.raises(DataError, match="has no folder for split 'val'; make "):
        TextFolder(tmp_path, split="val")


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "train.tsv", "text": "text_a", "names": {"0": "negative", "1": "positive"}},
        {"path": "train.txt", "columns": ["label", "text"], "separator": " "},
        {"path": "a.csv.gz", "split": "val", "split_column": "part"},
        {"path": "a.jsonl", "several": ",", "classes": ["no", "yes", "plain"]},
        {"path": "a.tsv", "pair": "other", "split": "test", "ratios": {"train": 0.5, "test": 0.5}},
    ],
    ids=str,
)
def test_stand_ins_are_read_by_the_same_settings(settings: dict[str, Any], tmp_path: Path) -> None:
    made = TextFile.stand_in(tmp_path, settings)
    data = TextFile(**{**settings, **made.settings})
    assert isinstance(data, Texts)
    assert len(data) > standin.SENTENCES // 5
    assert len(data.classes) == (3 if "several" in settings else 2)


def test_folders_that_stand_in(tmp_path: Path) -> None:
    for split in ("train", "test"):
        made = TextFolder.stand_in(tmp_path, {"split": split})
        assert len(TextFolder(split=split, **made.settings)) == standin.SENTENCES


def test_lists_in_a_json_object(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(
        '{"about": {"a": [1]},\n "train": [["one", "x"],\n  ["two, ]", "y"]], "none": [],\n "more": [["three", "-"]]}'
    )
    both = TextFile(path, columns=["text", "label"], keys=["more", "train"])
    assert (both.texts, both.names, both.lines) == (["three", "one", "two, ]"], ["-", "x", "y"], [4, 2, 3])
    assert TextFile(path, columns=["text", "label"], keys=["train", "more"], leave_out=["-"]).texts == ["one", "two, ]"]
    path.write_text(json.dumps({"train": [{"text": "one", "label": "x"}, {"text": "two", "label": "y"}]}))
    assert TextFile(path, keys=["train"]).names == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "keys", "said"),
    [
        ('{"train": [["one", "x"]}', ["train"], "all.json: is not JSON"),
        ('{"train": [["one", "x"]], "n": 3}', ["val"], "has no list 'val'; it has train"),
        ("[1]", ["val"], "has no list 'val'; it has none"),
        (
            '{"train": [["one", "x"],\n["two"]]}',
            ["train"],
            r"all.json:2: \['two'\] is no row; write an object, or a list of",
        ),
    ],
)
def test_faults_of_lists(text: str, keys: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "all.json").write_text(text)
    with pytest.raises(DataError, match=said):
        TextFile(tmp_path / "all.json", columns=["text", "label"], keys=keys)


def test_classes_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\none\tx\ntwo\t-\nthree\ty\n")
    data = TextFile(tmp_path / "a.tsv", leave_out=["-"])
    assert (data.texts, data.classes, data.lines) == (["one", "three"], ["x", "y"], [2, 4])

"""Files of many inputs: tables, slots, lines; names in a text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import DataError, UsageError
from pdl.runtime.tables import csv_line, is_file_of_many, json_lines, opened, rows, split_names, text_lines

GOOD: dict[str, tuple[str, str, dict[str, Any], list[tuple[str, Any]]]] = {
    "a table": ("a.csv", "x, y\n1,2\n\n3,4\n", {}, [("2", {"x": "1", " y": "2"}), ("4", {"x": "3", " y": "4"})]),
    "tabs": ("a.tsv", "x\ty\n1\t2\n", {}, [("2", {"x": "1", "y": "2"})]),
    "quotes between tabs": ("a.tsv", 'x\ty\n"1\t2"\n', {}, [("2", {"x": '"1', "y": '2"'})]),
    "without a header": ("a.log", "1;2\n", {"columns": ["x", "y"], "separator": ";"}, [("1", {"x": "1", "y": "2"})]),
    "slots": ("a.txt", "1 a:3 b:5 a:4\n\n", {}, [("1", {"label": "1", "a": ["3", "4"], "b": ["5"]})]),
    "gz": ("a.csv.gz", "x\n1\n", {}, [("2", {"x": "1"})]),
    "bz2": ("a.tsv.bz2", "x\n1\n", {}, [("2", {"x": "1"})]),
    "xz": ("a.csv.xz", "x\n" + "1\n" * 70000, {}, [(str(row), {"x": "1"}) for row in range(2, 70002)]),
}
PACK: dict[str, Any] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("name", GOOD)
def test_rows_of_a_file(name: str, tmp_path: Path) -> None:
    file, text, options, expected = GOOD[name]
    data = text.encode()
    (tmp_path / file).write_bytes(PACK.get(Path(file).suffix, bytes)(data))
    assert list(rows(tmp_path / file, **options)) == expected


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a.csv", b"x,y\n1\n", r"a.csv:2: 1 columns, expected 2 \(x, y\)"),
        ("a.csv", b"x,x\n1,2\n", r"a.csv:1: two columns are called 'x'"),
        ("a.csv", b'x\n"1\n', r"a.csv:\d: not the text of a csv file"),
        ("a.txt", b"1 a3\n", r"a.txt:1: 'a3' is not slot:id"),
        ("a.csv.gz", b"x\n", r"a.csv.gz:1: not a text that can be read \(Not a gzipped file"),
        ("a.csv.bz2", b"x\n", r"a.csv.bz2:1: not a text that can be read \(Invalid data stream"),
        ("a.csv.xz", b"x\n", r"a.csv.xz:1: not a text that can be read \(Input format not supported"),
        ("a.csv.xz", lzma.compress(b"x\n1\n")[:-8], r"a.csv.xz:\d: not a text that can be read \(it ends before"),
        ("a.csv.xz", lzma.compress(b"x\n", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]),
         r"a.csv.xz:1: not a text that can be read \(Memory usage limit exceeded"),
    ],
)
def test_damaged_files(file: str, text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(text)
    with pytest.raises(DataError, match=message):
        list(rows(tmp_path / file))
    with pytest.raises(DataError, match=r"absent\.csv: cannot be read"):
        list(rows(tmp_path / "absent.csv"))


def test_all_streams_of_an_xz_file_are_read(tmp_path: Path) -> None:
    parts = [b"x\n1\n", b"", bytes(range(48, 58)) * 30000 + b"\n"]
    (tmp_path / "a.txt.xz").write_bytes(b"".join(map(lzma.compress, parts)))
    with opened(tmp_path / "a.txt.xz") as file:
        assert file.read().encode() == b"".join(parts)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_byte_order_marks_tell_the_encoding(encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    data = f"{mark}x,y\r\né,酒店\r\n".encode(encoding)
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(data))
    for name in ("a.csv", "b.csv.gz"):
        assert list(rows(tmp_path / name)) == [("2", {"x": "é", "y": "酒店"})]


def test_other_encodings_are_an_error_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x\n" + 5000 * b"good\n" + "酒店\n".encode("gb18030"))
    with pytest.raises(
        DataError, match=r"a\.csv:5002: not UTF-8 text \(bytes be c6 b5 ea\); save it as UTF-8, such as: iconv"
    ):
        list(rows(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_bytes("x\ny\n".encode("utf-16")[:-1])
    with pytest.raises(DataError, match=r"a\.csv:2: not UTF-16 text"):
        list(rows(tmp_path / "a.csv"))


def test_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text(" x \n\ny\n")
    (tmp_path / "a.csv").write_text("name,more\nx,1\n,2\n")
    assert list(text_lines(tmp_path / "a.txt", "name")) == [("x", "x"), ("y", "y")]
    assert [name for name, _ in text_lines(tmp_path / "a.csv", "name")] == ["x", "3"]
    monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": io.BytesIO(b'{"a": 1}\n\n[]\n')}))
    found = json_lines("-")
    assert next(found) == ("1", {"a": 1})
    with pytest.raises(DataError, match=r"-:3: '\[\]' is no object"):
        next(found)


def test_what_a_word_means(tmp_path: Path) -> None:
    for word in ("-", "absent.csv", "absent.tsv.gz", "absent.csv.xz", "absent.txt", str(tmp_path)):
        assert is_file_of_many(word), word
    assert not is_file_of_many("name")


@given(st.lists(st.text("ab ,'\"\té7", max_size=6), min_size=1, max_size=5))
def test_any_names_survive_csv(names: list[str]) -> None:
    stripped = [name.strip() for name in names]
    text = ",".join('"' + name.replace('"', '""') + '"' for name in stripped)
    if "" in stripped:
        with pytest.raises(DataError, match="is empty"):
            split_names(text, "list")
    else:
        assert split_names(text, "list") == split_names(stripped, "list") == stripped
        assert split_names(csv_line(stripped), "list") == stripped


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ("a,,b", DataError, "name 2 of the list 'a,,b' is empty"),
        ('"a', DataError, "the list '\"a' is not one line of csv"),
        (7, UsageError, "a list is a text 'name1,name2' or a list of names, not int"),
        ([1.5], UsageError, "not list"),
    ],
)
def test_names_that_are_none(item: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        split_names(item, "list")
    assert split_names(np.array([3, 4]), "list") == ["3", "4"]

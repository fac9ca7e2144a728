"""Files of sessions."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from pdl.errors import DataError
from pdl_rec.steps.session_file import sessions

TABLES: dict[str, tuple[str, str, list[tuple[str, list[str]]]]] = {
    "rows in order": ("a.csv", "session,item\n2,x\n2,y\n1,z\n", [("2", ["x", "y"]), ("1", ["z"])]),
    "rows mixed up": ("a.csv", "item,session\nx,2\nz,1\ny,2\n", [("2", ["x", "y"]), ("1", ["z"])]),
    "by time": ("a.csv", "session,item,time\n1,x,9\n1,y,1.5\n1,z,1.5\n", [("1", ["y", "z", "x"])]),
    "ISO times": (
        "a.tsv",
        "session\titem\ttime\n1\tx\t2014-04-07T10:51:09.277Z\n1\ty\t2014-04-07T10:50:00Z\n",
        [("1", ["y", "x"])],
    ),
    "own columns": ("a.csv", "Sid,Iid,Time\n7,x,2\n7,y,1\n", [("7", ["y", "x"])]),
    "quotes": ("a.csv", 'session,item\n1,"a,b"\n1, c \n\n', [("1", ["a,b", "c"])]),
    "windows": ("a.csv", "\ufeffsession,item\r\n1,x\r\n", [("1", ["x"])]),
    "packed": ("a.csv.gz", "session,item\n1,x\n", [("1", ["x"])]),
    "a table by its header": ("a.txt", '"Sid";Iid;more\n1;x;\n', [("1", ["x"])]),
    "bars, packed": ("a.txt.gz", "Sid|Iid\n1|x\n", [("1", ["x"])]),
    "a session a line": ("a.txt", 'x, y\n\n"a,b",c\n', [("1", ["x", "y"]), ("3", ["a,b", "c"])]),
}


@pytest.mark.parametrize("name", TABLES)
def test_sessions_of_a_file(name: str, tmp_path: Path) -> None:
    file, text, expected = TABLES[name]
    data = text.encode()
    (tmp_path / file).write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
    assert list(sessions(tmp_path / file, ("Sid", "Iid", "Time"))) == expected


def test_sessions_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": io.BytesIO(b"x,y\nz\n")}))
    assert list(sessions("-")) == [("1", ["x", "y"]), ("2", ["z"])]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a.csv", b"who,what\n1,x\n", r"a.csv:1: columns are who, what; expected .* \(Sid, Iid, session, item\)"),
        ("a.csv", b"", r"a.csv:1: columns are missing"),
        ("a.csv", b"session,item\n1,x\n2\n", r"a.csv:3: 1 columns in \['2'\]"),
        ("a.csv", b"session,item\n1,\n", r"a.csv:2: no item"),
        ("a.csv", b"session,item,time\n1,x,noon\n", r"a.csv:2: 'noon' is no time"),
        ("a.csv", b'session,item\n1,"x\n', r"a.csv:\d: not the text of a csv file"),
        ("a.csv", b"session,item\n1,\xff\n", r"a.csv:\d: not the text of a csv file"),
        ("a.csv.gz", b"session,item\n", r"a.csv.gz:1: not a text that can be read \(Not a gzipped file"),
    ],
)
def test_damaged_files(file: str, text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(text)
    with pytest.raises(DataError, match=message):
        list(sessions(tmp_path / file, ("Sid", "Iid", "Time")))
    with pytest.raises(DataError, match=r"absent\.csv: cannot be read"):
        list(sessions(tmp_path / "absent.csv"))

"""Files of sessions, files of answers."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime import use
from pdl.runtime.tables import answers, sessions, write_answers
from tests.framework.runtime import made

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
        ("a.csv.gz", b"session,item\n", r"a.csv.gz:1: not the text of a csv file \(Not a gzipped file"),
    ],
)
def test_damaged_files(file: str, text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(text)
    with pytest.raises(DataError, match=message):
        list(sessions(tmp_path / file, ("Sid", "Iid", "Time")))
    with pytest.raises(DataError, match=r"absent\.csv: cannot be read"):
        list(sessions(tmp_path / "absent.csv"))


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ({"input": "a", "items": [{"item": "x", "score": 1.0}], "unknown": ["y"]}, [{"item": "x", "score": 1.0}]),
        ({"input": "a", "label": "b", "top": [{"label": "b"}, {"label": "c"}]}, [{"label": "b"}, {"label": "c"}]),
        ({"input": "a", "text": "hello", "score": 0.5}, [{"text": "hello", "score": 0.5}]),
        ({"input": "a", "labels": []}, []),
        ({"input": "a", "error": "unknown"}, []),
    ],
)
def test_answers_of_a_prediction(prediction: dict[str, Any], expected: Any) -> None:
    assert answers(prediction) == expected


def test_from_file_to_file(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(made.sessions(k=2))
    rows = [("s2", "apple"), ("s1", "eggs"), ("s2", "dates"), ("s3", "kiwi"), ("s4", "figs"), ("s4", "kiwi")]
    (tmp_path / "in.csv").write_text("session,item\n" + "".join(f"{s},{i}\n" for s, i in rows))
    given = [tmp_path / "in.csv", use.Given("session", "figs"), ["apple", "dates"]]
    found = [each for *_, each in use.predict(tmp_path / "model.pdl", given, batch_size=2, on_error="tell")]
    assert [each["input"] for each in found] == ["s2", "s1", "s3", "s4", "figs", "apple,dates"]
    assert "the item kiwi is not among the 6" in found[2]["error"]
    assert found[3]["unknown"] == ["kiwi"]
    assert found[0]["items"] == [each | {"score": pytest.approx(each["score"])} for each in found[5]["items"]]
    assert write_answers(tmp_path / "deep" / "out.csv", found, "session") == (6, 10)
    with (tmp_path / "deep" / "out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["session"] for row in written[:4]] == ["s2", "s2", "s1", "s1"]
    assert [row["rank"] for row in written[:4]] == ["1", "2", "1", "2"]
    assert [row["item"] for row in written[:2]] == [each["item"] for each in found[0]["items"]]
    assert [float(row["score"]) for row in written[:2]] == [each["score"] for each in found[0]["items"]]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out.csv"]


def test_wrong_inputs_and_outputs(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(made.sessions())
    (tmp_path / "conv.pdl").write_bytes(made.whole("conv"))
    with pytest.raises(DataError, match="the item kiwi is not among"):
        list(use.predict(tmp_path / "model.pdl", ["kiwi"]))
    with pytest.raises(UsageError, match="this model takes a session: --session"):
        list(use.predict(tmp_path / "model.pdl", []))
    with pytest.raises(UsageError, match="this model takes a picture, not a session"):
        list(use.predict(tmp_path / "conv.pdl", [use.Given("session", "apple")]))
    with pytest.raises(UsageError, match=r"answers are written to a file \*.csv or \*.tsv"):
        write_answers(tmp_path / "out.xls", [])

    def fails() -> Any:
        yield {"input": "a", "text": "b"}
        raise DataError("damaged")

    with pytest.raises(DataError, match="damaged"):
        write_answers(tmp_path / "out.csv", fails())
    assert not list(tmp_path.glob("*out*")), "nothing is left of what was not finished"

"""Files of sessions as people have them: what is read all the same, and what is told where it cannot be."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault
from pdl.errors import ConfigError
from pdl_rec.data import PairFile, SessionFile

HEAD = b"session_id,item_id,timestamp\n"
GOOD = HEAD + b"1,a,10\n1,b,20\n2,b,5\n2,a,6\n"


def clock(form: bytes) -> bytes:
    """GOOD with its times in this form."""
    return HEAD + b"".join(
        b"%b,%b\n" % (key, form % at)
        for key, at in zip((b"1,a", b"1,b", b"2,b", b"2,a"), (b"10", b"20", b"05", b"06"), strict=True)
    )


def times(path: Path, **arguments: Any) -> list[float]:
    found = SessionFile(path, **arguments).raw.times
    assert found is not None
    return [float(time) for time in found]


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (GOOD, {}),
        (gzip.compress(GOOD), {}),
        (b"\xef\xbb\xbf" + GOOD, {}),
        (GOOD.replace(b"\n", b"\r\n"), {}),
        (GOOD.replace(b",", b"\t"), {}),
        (GOOD.replace(b",", b";"), {}),
        (GOOD.replace(b",", b"^"), {"separator": "^"}),
        (GOOD.removesuffix(b"\n") + b"\n\n", {}),
        (GOOD.replace(b",a", b',"a"').replace(b"session_id", b'"session_id"'), {}),
        (GOOD.removeprefix(HEAD), {"header": ["session_id", "item_id", "timestamp"]}),
        (GOOD.replace(b"item_id", b"product").replace(b"timestamp", b"at"), {"item": "product", "time": "at"}),
        (b"x,session_id,item_id,timestamp\n" + re.sub(rb"(?m)^(?=\d)", b"?,", GOOD.removeprefix(HEAD)), {}),
        (clock(b"1970-01-01 00:00:%b"), {}),
        (clock(b"1970-01-01T00:00:%b.0Z"), {}),
        (clock(b"1970-01-01T01:00:%b+01:00"), {}),
        (GOOD.replace(b"0\n", b"0000\n").replace(b"5\n", b"5000\n").replace(b"6\n", b"6000\n"), {"unit": "ms"}),
    ],
    ids=["plain", "gz", "bom", "crlf", "tab", "semicolon", "given", "empty line", "quotes", "headless", "columns",
         "more", "iso", "utc", "zone", "ms"],
)  # fmt: skip
def test_forms_of_one_file(tmp_path: Path, content: bytes, arguments: dict[str, Any]) -> None:
    path = tmp_path / "events.txt"
    path.write_bytes(content)
    data = SessionFile(path, **arguments)
    assert [data.known[k - 1] for k in data.raw.items] == ["a", "b", "b", "a"]
    assert data.raw.names.tolist() == [1, 2]
    assert times(path, **arguments) == [10, 20, 5, 6]


def test_numbers_after_the_first_may_have_fractions(tmp_path: Path) -> None:
    """What the first block of a file looks like decides nothing about the others."""
    lines = [f"{k // 10},i{k % 7},{k}" for k in range(400_000)]
    lines[-1] += ".5"
    (tmp_path / "long.csv").write_bytes(HEAD + "\n".join(lines).encode())
    data = SessionFile(tmp_path / "long.csv")
    assert len(data) == 40_000
    assert data.raw.times is not None
    assert data.raw.times[-1] == 399_999.5
    lines[-3] = lines[-3].replace(",", ",x,", 1)
    (tmp_path / "long.csv").write_bytes(HEAD + "\n".join(lines).encode())
    with pytest.raises(DataFault, match=r"long.csv:399999: Expected 3 columns, got 4"):
        SessionFile(tmp_path / "long.csv")


@pytest.mark.parametrize(
    ("content", "arguments", "match"),
    [
        (b"", {}, "the file is empty"),
        (b"\n\n", {}, "the file is empty"),
        (HEAD, {}, "a header and no rows"),
        (gzip.compress(GOOD)[:-9], {}, "damaged or cut off"),
        (gzip.compress(np.random.default_rng(0).bytes(300_000))[:100_000], {}, "damaged or cut off|no column"),
        (GOOD, {"item": "item"}, r"events.txt:1: no column 'item'; there are .*did you mean 'item_id'"),
        (GOOD, {"separator": "|"}, r"no column 'session_id'.*here taken as '\|'"),
        (GOOD.replace(b"20", b"noon"), {}, r"events.txt:3: column 'timestamp': 'noon' is no number or time"),
        (GOOD.replace(b"20", b""), {}, r"events.txt:3: column 'timestamp' has no time"),
        (GOOD.replace(b"1,b", b"1,"), {}, r"events.txt:3: column 'item_id' is empty"),
        (GOOD.replace(b"1,b", b"1"), {}, r"events.txt:3: Expected 3 columns, got 2"),
        (GOOD.replace(b",a", b",\xff\xfe"), {}, r"events.txt:2: column 'item_id': not UTF-8 text"),
        (GOOD, {"min_length": 3}, "none of its 2 sessions is long enough"),
    ],
    ids=["empty", "empty lines", "header only", "gz cut off", "gz of noise", "no item column", "separator", "no time",
         "empty time", "empty item", "two columns", "not UTF-8", "short sessions"],
)  # fmt: skip
def test_damage_is_told_with_its_line(tmp_path: Path, content: bytes, arguments: dict[str, Any], match: str) -> None:
    (tmp_path / "events.txt").write_bytes(content)
    with pytest.raises(DataFault, match=match):
        SessionFile(tmp_path / "events.txt", **arguments)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"1 2\t3\n4\n", r"pairs.txt:2: Expected 2 columns, got 1"),
        (b"1 2\t3\n4 5\t6 7\n", r"pairs.txt:2: the target '6 7' is not one item"),
        (b"1 2\t3\n4 5\t\n", r"pairs.txt:2: the target '' is not one item"),
        (b"1\n2\n", "none of its 2 sessions is long enough"),
        (b"", "the file is empty"),
    ],
)
def test_damaged_pairs(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "pairs.txt").write_bytes(content)
    with pytest.raises(DataFault, match=match):
        PairFile(tmp_path / "pairs.txt")


def test_absent_files_say_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataFault, match=r"store/shop/events.csv: no such file; looked for .*; get it from http://shop"):
        SessionFile("shop/events.csv", address="http://shop")
    (tmp_path / "store/shop").mkdir(parents=True)
    with pytest.raises(DataFault, match="a folder stands where a file"):
        PairFile("shop")
    (tmp_path / "store/shop/events.csv").write_bytes(GOOD)
    assert len(SessionFile("shop/events.csv")) == 2


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"separator": ", "}, "must be one character"),
        ({"session": "item_id"}, "must be different columns"),
        ({"unseen": "forget"}, "neither drop nor keep"),
        ({"time": None, "split": "val", "holdout": {"val": "1d"}}, "holdout needs times"),
        ({"split": "dev", "holdout": {"val": "1d"}}, "split='dev' is none of train, val"),
        ({"split": "val", "holdout": {"train": "1d"}}, "holdout names 'train'"),
    ],
)
def test_arguments_that_make_no_sense(tmp_path: Path, arguments: dict[str, Any], match: str) -> None:
    (tmp_path / "events.txt").write_bytes(GOOD)
    with pytest.raises(ConfigError, match=match):
        SessionFile(tmp_path / "events.txt", **arguments)

"""Bundles in use: predictions for what people name, facts, measurements; memory that stays flat."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import DataError, UsageError
from pdl.report import png
from pdl.runtime import tables
from pdl.runtime.bench import bench
from pdl.runtime.info import info
from pdl.runtime.predict import Prediction, predict, write_answers
from tests.framework.runtime import made


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "deep").mkdir(parents=True)
    for name, level in (("photos/a.png", 20), ("photos/deep/b.png", 120), ("c.png", 250)):
        (tmp_path / name).write_bytes(png(np.full((20, 30, 3), level, np.uint8)))
    (tmp_path / "model.pdl").write_bytes(made.whole("conv"))
    return tmp_path / "model.pdl"


def test_predict_what_people_name(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path("c.png").read_bytes()
    monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": io.BytesIO(data)}))
    array = np.full((20, 30, 3), 250, np.uint8)
    given = ["photos", "*.png", "-", data, array]
    found = [each.to_dict() for each in predict(model, given, topk=2, batch_size=2)]
    assert [each["input"] for each in found] == [
        "photos/a.png",
        "photos/deep/b.png",
        "c.png",
        "-",
        "bytes 3",
        "array 4",
    ]
    assert all(len(each["top"]) == 2 for each in found)
    assert len({each["score"] for each in found[2:]}) == 1
    assert found[0]["score"] != found[1]["score"]


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], UsageError, "no input"),
        (["absent.png"], DataError, "absent.png: no such file"),
        (["no*.png"], DataError, r"no\*.png: no file matches"),
        (["empty"], DataError, "no images"),
        ([b"GIF89a"], DataError, "not an image"),
    ],
)
def test_bad_inputs(model: Path, inputs: Any, error: Any, message: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(error, match=message):
        list(predict(model, inputs))


def written(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_file_to_file(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(made.rows(k=2))
    (tmp_path / "in.csv").write_text('items,more\n"apple,dates",1\neggs,2\n')
    (tmp_path / "bad.tsv").write_text("more\n3\n")
    given = [tmp_path / "in.csv", tmp_path / "bad.tsv", {"items": "apple,dates"}]
    found = list(predict(tmp_path / "model.pdl", given, batch_size=2, skip_errors=True))
    assert [each.name for each in found] == ["2", "3", "2", "{'items': 'apple,dates'}"]
    assert "has none of the columns items" in str(found[2].error)
    assert found[0].to_dict()["names"] == found[3].to_dict()["names"]
    assert write_answers(tmp_path / "deep" / "out.csv", found, "row") == (4, 6)
    rows = written(tmp_path / "deep" / "out.csv")
    assert [row["row"] for row in rows[:4]] == ["2", "2", "3", "3"]
    assert [row["rank"] for row in rows[:4]] == ["1", "2", "1", "2"]
    assert [row["name"] for row in rows[:2]] == [each["name"] for each in found[0].rows()]
    assert [float(row["score"]) for row in rows[:2]] == [each["score"] for each in found[0].rows()]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out.csv"]


def test_answers_between_tabs_are_read_again(tmp_path: Path) -> None:
    found = list(predict(pdl.runtime.load(made.rows(k=1)), [{"items": "apple,dates"}]))
    write_answers(tmp_path / "out.tsv", [replace(found[0], name='a\t"b"\r\nc')], "row")
    ((_, row),) = tables.rows(tmp_path / "out.tsv")
    answer = {key: str(value) for key, value in found[0].rows()[0].items()}
    assert row == {"row": 'a "b" c', "rank": "1", **answer}
    write_answers(tmp_path / "named.tsv", [replace(found[0], name="a")], "name")  # as a column of the answers
    assert [row for _, row in tables.rows(tmp_path / "named.tsv")] == [{"input": "a", "rank": "1", **answer}]


def test_wrong_inputs_and_outputs(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(made.rows())
    with pytest.raises(DataError, match="has none of the columns items"):
        list(predict(tmp_path / "model.pdl", [{"more": 1}]))
    with pytest.raises(UsageError, match=r"no input; this model takes a row: column=value,.* or --row COLUMN=VALUE"):
        list(predict(tmp_path / "model.pdl", []))
    with pytest.raises(UsageError, match=r"answers are written to a file \*.csv or \*.tsv"):
        write_answers(tmp_path / "out.xls", [])
    with pytest.raises(UsageError, match="this model has no pipeline"):
        list(predict(pdl.runtime.load(made.good()), [1]))

    def fails() -> Iterator[Prediction]:
        yield next(predict(tmp_path / "model.pdl", [{"items": "apple"}]))
        raise DataError("damaged")

    with pytest.raises(DataError, match="damaged"):
        write_answers(tmp_path / "out.csv", fails())
    assert not list(tmp_path.glob("*out*")), "nothing is left of what was not finished"


def test_each_item_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of files of many were read a second time, to see which are none."""
    session = pdl.runtime.load(made.rows())
    assert session.pipeline is not None
    read: list[object] = []
    parse = session.pipeline.input.parse
    monkeypatch.setattr(
        session.pipeline.input, "parse", lambda item, sample: (read.append(item), parse(item, sample))[1]
    )
    rows = [{"items": "apple"}, {"more": 1}, {"items": "eggs"}]
    assert [each.error is None for each in predict(session, rows, skip_errors=True)] == [True, False, True]
    assert read == rows


def test_info(model: Path) -> None:
    facts = info(model)
    assert facts["inputs"] == ["image float32[n, 8, 8, 3]"]
    assert facts["labels"] == "5: ant, bee, cow, dog, elk"
    assert facts["licence"] == "not stated"
    assert facts["after"] == {"y": "softmax() > top(k=3)"}


def test_bench(model: Path) -> None:
    found = bench(model, batch=2, threads=1, seconds=0.01)
    assert found.inputs == {"image": (2, 8, 8, 3)}
    assert found.percentile(50) <= found.percentile(90) <= found.percentile(99)
    assert found.throughput > 0
    assert sum(calls for calls, _ in found.ops.values()) >= 5
    seconds = [each for _, each in found.ops.values()]
    assert seconds == sorted(seconds, reverse=True)
    for options, message in (
        ({"sizes": {"h": 9}}, "no size h can be chosen"),
        ({"batch": 0}, "must be at least 1"),
        ({"seconds": 0.0}, "above 0"),
    ):
        with pytest.raises(UsageError, match=message):
            bench(model, **options)  # type: ignore[arg-type]


def test_memory_stays_flat() -> None:
    path = Path(__file__).parents[3] / "tools" / "soak.py"
    spec = importlib.util.spec_from_file_location("soak", path)
    assert spec is not None
    assert spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(soak)
    session = pdl.runtime.load(soak.small_net(), memory=8 << 20)
    found = soak.soak(session, 120, low=16, high=64)
    assert found["shapes"] > 40
    assert found["growth"] < 0.05

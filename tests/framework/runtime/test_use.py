"""Bundles in use: predictions for what people name, facts, measurements; memory that stays flat."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import DataError, UsageError
from pdl.report import png
from pdl.runtime import use
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
    found = [said for _, _, said in use.predict(model, ["photos", "*.png", "-", data, array], topk=2, batch_size=2)]
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
        (["empty"], DataError, "no pictures"),
        ([b"GIF89a"], DataError, "not a picture"),
    ],
)
def test_bad_inputs(model: Path, inputs: Any, error: Any, message: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(error, match=message):
        list(use.predict(model, inputs))


def test_info(model: Path) -> None:
    facts = use.info(model)
    assert facts["inputs"] == ["image float32[n, 8, 8, 3]"]
    assert facts["labels"] == "5: ant, bee, cow, dog, elk"
    assert facts["licence"] == "not stated"
    assert facts["after"] == {"y": "softmax() > top(k=3)"}


def test_bench(model: Path) -> None:
    found = use.bench(model, batch=2, threads=1, seconds=0.01)
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
            use.bench(model, **options)  # type: ignore[arg-type]


def test_memory_stays_flat() -> None:
    path = Path(__file__).parents[3] / "tools" / "soak.py"
    spec = importlib.util.spec_from_file_location("soak", path)
    assert spec is not None
    assert spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(soak)
    session = pdl.runtime.load(soak.small_net(), memory=8 << 20)
    found = soak.soak(session, 400, low=16, high=96)
    assert found["shapes"] > 100
    assert found["growth"] < 0.05

"""Lines upright and upside down, and that a small net learns which is which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl import workflow
from pdl.config.compose import load
from pdl.data import Fold
from pdl.runtime import load as opened
from pdl_ocr import Reader
from pdl_ocr.data import TextLines, TurnedLines
from pdl_ocr.data.standin import write_list
from tests.ocr.synthetic import session


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> TextLines:
    return TextLines(write_list(tmp_path_factory.mktemp("lines"), "val"))


def test_every_line_is_there_both_ways(lines: TextLines) -> None:
    data = TurnedLines(lines)
    assert (len(data), data.classes) == (2 * len(lines), ("0", "180"))
    assert data.labels.tolist() == [data[i]["label"] for i in range(len(data))]
    for i in (0, 7):
        upright, turned = data[2 * i]["image"], data[2 * i + 1]["image"]
        assert (upright == lines[i]["image"]).all()
        assert (turned == np.rot90(upright, 2)).all()
        assert data.path_of(2 * i) == data.path_of(2 * i + 1) == lines.path_of(i)
    with pytest.raises(IndexError, match="sample 64 is outside of 64"):
        data[64]
    assert data.fingerprint != lines.fingerprint
    assert TurnedLines(lines).fingerprint == data.fingerprint


def test_both_samples_of_a_line_stay_in_one_fold(lines: TextLines) -> None:
    parts = [Fold([TurnedLines(lines)], split="test", fold=fold, folds=4) for fold in range(4)]
    paths = [{part.path_of(i) for i in range(len(part))} for part in parts]
    assert sum(map(len, paths)) == len(lines)
    assert all(part.labels is not None and part.labels.mean() == 0.5 for part in parts)


def test_a_small_net_learns_it_and_is_the_part_of_a_reader(lines: TextLines, tmp_path: Path) -> None:
    """Its bundle takes lines of any width."""
    words = write_list(tmp_path, "train")
    data = [f"data.train.lines.path={words}", "data.workers=0", "data.batch_size=32"]
    fast = ["train.epochs=16", "train.ema=null", "optim.lr=5.0e-3", "data.transforms.train=${data.transforms.eval}"]
    small = [f"data.transforms.eval.{i}.{name}" for i, name in ((0, "height=24"), (0, "width=96"), (2, "size=[24,96]"))]
    done = workflow.train(load("ocr/line_direction", [*data, *fast, *small]), run=tmp_path / "run", progress=False)
    assert done.metrics["test/accuracy"] > 0.85
    turn = opened(tmp_path / "run/model.pdl")
    reader = Reader(session("det"), session("rec"), turn)
    assert reader.turn is turn
    for width in (5, 60, 400):
        answer = turn(np.full((32, width, 3), 200, np.uint8))
        assert answer["label"] in ("0", "180")
    right = [turn(lines[i]["image"])["label"] == "0" for i in range(16)]
    assert sum(right) > 12


def test_a_damaged_line_is_told_of_once(tmp_path: Path) -> None:
    file = write_list(tmp_path, "test")
    (tmp_path / "test/003.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    data = TurnedLines(TextLines(file))
    assert [i for i in range(len(data)) if data.fault_of(i) is not None] == [6]

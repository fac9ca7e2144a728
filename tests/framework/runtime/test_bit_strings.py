"""Bit strings as questions, and rows of bits as answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.bit_strings import PARTS, BitString
from pdl.runtime.pipeline import Pipeline

AFTER = {"step": "bit_strings", "measure": "cut", "scale": -0.5, "shift": 2.0, "k": 2}


def pipeline(**after: Any) -> Pipeline:
    steps = {
        "pre": {part: [{"step": "bit_string", "part": part, "num_qubits": 3}] for part in PARTS},
        "post": {"strings": [{**AFTER, **after}]},
    }
    made = Pipeline.read(json.loads(json.dumps(steps)), ("ann", "bob", "cy"), "x.pdl")
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("item", "bits", "asked"),
    [("011", [0, 1, 1], 0), ("1 0,1", [1, 0, 1], 0), ("likely", [0, 0, 0], 1), (" best", [0, 0, 0], 2)],
)
def test_bits_and_words_become_numbers(item: str, bits: list[int], asked: int) -> None:
    found = pipeline().prepare(item)
    assert (found["bits"].tolist(), found["asked"].tolist()) == (bits, asked)


@pytest.mark.parametrize("item", ["01", "0112", "bets", ""])
def test_what_is_no_bit_string_is_refused(item: str) -> None:
    with pytest.raises(DataError, match="no bit string of 3 qubits"):
        pipeline().prepare(item)


def test_a_file_has_bits_a_line(tmp_path: Path) -> None:
    (tmp_path / "bits.txt").write_text("011\n\nbest\n")
    (tmp_path / "bits.csv").write_text("bitstring,note\n011,a\n")
    reader = BitString("bits", 3)
    assert [item for _, item in reader.rows(tmp_path / "bits.txt")] == ["011", "best"]
    assert [item for _, item in reader.rows(tmp_path / "bits.csv")] == ["011"]


def test_rows_become_answers() -> None:
    rows = np.array([[0, 1, 1, 0.25, -4.0], [1, 0, 0, 0.5, 2.0], [1, 1, 1, 0.0, 0.0], [0, 0, 0, -1, -1]])
    first = {"bits": "011", "cut": 4.0, "probability": 0.25, "ones": "bob cy"}
    second = {"bits": "100", "cut": 1.0, "probability": 0.5, "ones": "ann"}
    assert pipeline().finish({"strings": rows}) == {"strings": [first, second]}  # empty rows are none, k is 2
    assert pipeline().finish({"strings": rows[[0, 3]]}) == first


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="must be one of bits, asked"):
        BitString("letters", 3)
    with pytest.raises(UsageError, match="expected rows of bits"):
        pipeline().finish({"strings": np.zeros(3)})
    with pytest.raises(Exception, match="scale=inf must be a finite number"):
        pipeline(scale=float("inf"))

"""Bit strings as questions, and rows of bits as answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.steps import Sample
from pdl_quantum.steps.bit_strings import PARTS, BitStringInput
from tests.pipelines import pipeline as made

AFTER = {"step": "bit_strings", "measure": "cut", "scale": -0.5, "shift": 2.0, "k": 2}


def pipeline(**after: Any) -> Pipeline:
    pre = {part: [{"step": "bit_string", "part": part, "num_qubits": 3}] for part in PARTS}
    return made(pre, {"strings": [{**AFTER, **after}]}, labels=("ann", "bob", "cy"))


@pytest.mark.parametrize(
    ("item", "bits", "selector"),
    [("011", [0, 1, 1], 0), ("1 0,1", [1, 0, 1], 0), ("likely", [0, 0, 0], 1), (" best", [0, 0, 0], 2)],
)
def test_bits_and_words_become_numbers(item: str, bits: list[int], selector: int) -> None:
    found = pipeline().prepare(item)
    assert (found["bits"].tolist(), found["selector"].tolist()) == (bits, selector)


@pytest.mark.parametrize("item", ["01", "0112", "bets", ""])
def test_what_is_no_bit_string_is_refused(item: str) -> None:
    with pytest.raises(DataError, match="no bit string of 3 qubits"):
        pipeline().prepare(item)


def test_a_file_has_bits_a_line(tmp_path: Path) -> None:
    (tmp_path / "bits.txt").write_text("011\n\nbest\n")
    (tmp_path / "bits.csv").write_text("bitstring,note\n011,a\n")
    step = BitStringInput("bits", 3)
    assert [each.item for each in step.file(tmp_path / "bits.txt")] == ["011", "best"]
    assert [each.item for each in step.file(tmp_path / "bits.csv")] == ["011"]


def test_rows_become_answers() -> None:
    rows = np.array([[0, 1, 1, 0.25, -4.0], [1, 0, 0, 0.5, 2.0], [1, 1, 1, 0.0, 0.0], [0, 0, 0, -1, -1]])
    first = {"bits": "011", "cut": 4.0, "probability": 0.25, "ones": "bob cy"}
    second = {"bits": "100", "cut": 1.0, "probability": 0.5, "ones": "ann"}
    assert pipeline().finish({"strings": rows}, Sample()) == {"strings": [first, second]}  # empty rows are none, k is 2
    assert pipeline().finish({"strings": rows[[0, 3]]}, Sample()) == first


def test_answers_are_limited_written_compared_and_drawn() -> None:
    rows = np.array([[0, 1, 1, 0.25, -4.0], [1, 0, 0, 0.5, 2.0]])
    steps = pipeline(edges=[[0, 1, 1.0], [1, 2, 2.5]])
    answer = Answer(steps.finish({"strings": rows}, Sample()), ("strings",))
    assert [row["bits"] for row in steps.rows(answer)] == ["011", "100"]
    assert [row["bits"] for row in steps.rows(Answer(answer.value["strings"][0], ("strings",)))] == ["011"]
    assert "bits" in steps.limited(1).finish({"strings": rows[:1]}, Sample())
    assert len(steps.limited(1).finish({"strings": rows}, Sample())["strings"]) == 1
    assert steps.agree({"strings": rows}, {"strings": rows + np.array([0, 0, 0, 1e-7, 1e-7])}, Sample(), 1e-6)
    assert not steps.agree({"strings": rows}, {"strings": rows[::-1]}, Sample(), 1e-6)
    svg = steps.draw("best", answer).svg
    assert "A cut of 1<" in svg
    assert "bob - cy: 2.5" in svg
    with pytest.raises(UsageError, match="that of no graph"):
        pipeline().draw("best", answer)


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="must be one of bits, selector"):
        BitStringInput("letters", 3)
    with pytest.raises(UsageError, match="expected rows of bits"):
        pipeline().finish({"strings": np.zeros(3)}, Sample())
    with pytest.raises(Exception, match="scale=inf must be a finite number"):
        pipeline(scale=float("inf"))

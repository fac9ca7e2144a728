"""What passes say, and what the ops they make refuse."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.errors import ShapeError, UsageError
from pdl.ops.base import apply
from pdl.ops.inference import ConvThen, LinearThen
from pdl.program import Program
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, log, run_passes


@pytest.mark.parametrize(("words", "heard"), [("plan", True), ("memory,plan", True), ("planning", False), ("", False)])
def test_log(words: str, heard: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PDL_LOG", words)
    log(Program("net"), "3 nodes into 1")
    assert capsys.readouterr().err == ("plan net: 3 nodes into 1\n" if heard else "")


def test_passes_of_an_empty_program() -> None:
    run_passes(Program(), (*INFERENCE_ONCE, *PER_SHAPE))


def test_refusals() -> None:
    x, w = pdl.tensor(np.zeros((2, 4, 4, 3), np.float32)), pdl.tensor(np.zeros((1, 1, 3, 5), np.float32))
    op = ConvThen((1, 1), ((0, 0), (0, 0)), (1, 1), 1, "relu7")
    with pytest.raises(UsageError, match=r"relu7.*hardswish"):
        apply(op, x, w, None, None)
    with pytest.raises(ShapeError, match=r"\(2, 4, 4, 3\).*\(2, 4, 4, 5\)"):
        apply(ConvThen((1, 1), ((0, 0), (0, 0)), (1, 1), 1), x, w, None, x)
    with pytest.raises(ShapeError, match="linear_then: residual"):
        apply(LinearThen(), pdl.tensor(np.zeros((2, 3), np.float32)), w.reshape((3, 5)), None, w.reshape((3, 5)))

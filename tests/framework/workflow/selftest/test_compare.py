"""Which predictions count as the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.workflow.selftest.compare import TOLERANCE, differences


def ranked(**scores: float) -> dict[str, Any]:
    """A prediction as classifiers give it."""
    top = [{"label": name, "class": "abc".index(name), "score": score} for name, score in scores.items()]
    return {"input": "x.png", **top[0], "top": top}


SAME = [
    (ranked(a=0.6, b=0.4), ranked(a=0.6 + TOLERANCE / 2, b=0.4 - TOLERANCE / 2)),
    (ranked(a=0.5, b=0.5), ranked(b=0.5, a=0.5)),
    ({"input": "x", "text": "12", "score": 0.9}, {"input": "x", "text": "12", "score": 0.9}),
    ({"input": "x", "output": np.ones(3)}, {"input": "x", "output": [1.0, 1.0, 1.0]}),
    ({"input": "x", "boxes": [{"box": [0, 1], "on": True}]}, {"input": "x", "boxes": [{"box": (0, 1), "on": True}]}),
]
OTHER = [
    (ranked(a=0.6, b=0.4), ranked(b=0.6, a=0.4), "x.png: top: a: score is 0.4, the run gives 0.6"),
    (ranked(a=0.6, b=0.4), ranked(a=0.6, c=0.4), "x.png: top: has a, c, the run a, b"),
    (ranked(a=1.0), ranked(a=float("nan")), "x.png: top: a: score is nan, the run gives 1"),
    ({"input": "x", "text": "12"}, {"input": "x", "text": "13"}, "x: text is '13', the run gives '12'"),
    ({"input": "x", "n": 1}, {"input": "x"}, "x: has input, the run input, n"),
    ({"input": "x", "v": [1, 2]}, {"input": "x", "v": [1]}, "x: v is [1], the run gives [1, 2]"),
    ({"input": "x", "v": [1, 2]}, {"input": "x", "v": [1, 3]}, "x: v[1] is 3, the run gives 2"),
    ({"input": "x", "on": True}, {"input": "x", "on": False}, "x: on is False, the run gives True"),
]


@pytest.mark.parametrize(("ours", "theirs"), SAME)
def test_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    found = differences([ours], [theirs])
    assert not found.lines
    assert found.largest <= TOLERANCE


@pytest.mark.parametrize(("ours", "theirs", "says"), OTHER)
def test_other(ours: dict[str, Any], theirs: dict[str, Any], says: str) -> None:
    assert says in differences([ours], [theirs]).lines


def test_a_prediction_too_few() -> None:
    assert differences([ranked(a=1.0)] * 2, [ranked(a=1.0)]).lines == ["1 predictions, the run gives 2"]

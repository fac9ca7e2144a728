"""Measures of slots by hand, and the step that answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.runtime.sample import Sample
from pdl_speech.slots.metrics import Heard, confused, slot_metrics, worded
from pdl_speech.steps.slots import Slots

SLOTS = {"size": ["", "large", "small"], "roast": ["", "dark"]}
SAID = np.array([[1, 0], [2, 1], [0, 0], [2, 1]])
FOUND = np.array([[1, 1], [2, 1], [0, 0], [1, 0]])
STEP = {"names": list(SLOTS), "values": list(SLOTS.values())}


def test_measures() -> None:
    metrics = slot_metrics(list(SLOTS))
    for rows in (slice(0, 3), slice(3, 4)):  # in batches of unequal size
        for metric in metrics.values():
            metric.update(FOUND[rows], SAID[rows], np.arange(4)[rows])
    values: dict[str, Any] = {name: metric.compute() for name, metric in metrics.items()}
    heard = values.pop("orders")
    wanted = {"whole": 2 / 4, "accuracy": 5 / 8, "accuracy@size": 3 / 4, "accuracy@roast": 2 / 4, "f1": 2 * 3 / (5 + 5)}
    assert values == pytest.approx(wanted)
    assert confused(heard, SLOTS) == [("roast", "", "dark", 1), ("roast", "dark", "", 1), ("size", "small", "large", 1)]
    assert heard.numbers.tolist() == [0, 1, 2, 3]
    assert worded(SAID[3], SLOTS, FOUND[3]) == "size: [small -> large], roast: [dark -> ]"
    assert [worded(row, SLOTS) for row in SAID[1:3]] == ["size: small, roast: dark", "nothing"]
    assert confused(Heard(SAID, SAID, np.arange(4)), SLOTS) == []


def test_the_step_names_what_is_said() -> None:
    step, sample = Slots(**STEP), Sample()
    answer = step(np.log(np.array([0.1, 0.1, 0.8, 0.6, 0.4], np.float32)), sample)
    assert answer["slots"] == {"size": "small"}
    assert answer["scores"] == pytest.approx({"size": 0.8, "roast": 0.6}, abs=1e-6)
    assert step.caption(answer) == "size: small"
    assert [(row["slot"], row["value"]) for row in step.rows(answer)] == [("size", "small")]
    even = step(np.log(np.array([0.1, 0.1, 0.8, 0.5, 0.5001])), sample)
    other = step(np.log(np.array([0.1, 0.1, 0.8, 0.5001, 0.5])), sample)
    assert even["slots"] != other["slots"]
    assert step.agrees(even, other, 1e-3, sample)
    assert not step.agrees(answer, {**answer, "slots": {"size": "large"}}, 1e-3, sample)
    assert not step.agrees(answer, other, 1e-3, sample)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"names": []}, "one name or more"),
        ({"names": ["size", "size"]}, "each once"),
        ({"values": [["", "a"]]}, "a list for each of 2 names"),
        ({"values": [["a"], [""]]}, "must begin with ''"),
    ],
)
def test_arguments_of_the_step_are_checked(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        Slots(**{**STEP, **wrong})


def test_scores_of_other_slots_are_refused() -> None:
    with pytest.raises(UsageError, match="not those of 5 values"):
        Slots(**STEP)(np.zeros(4, np.float32), Sample())

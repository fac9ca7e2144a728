"""What chose the weights is told from the data, and stands in the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.config import load
from pdl.errors import DataError
from pdl.runtime import bundle
from pdl.train.recipe import check
from pdl.workflow.selection import same_samples, selection
from pdl.workflow.training import train

A, B = ([{"image": np.full((2, 2), i + off), "label": i} for i in range(40)] for off in (0, 7))
LAST = "The weights are those of the last epoch; no split chose them."
OPTIMISTIC = "and val is the test split itself: the test figures are optimistic."


@pytest.mark.parametrize(
    ("weights", "datasets", "early", "match"),
    [
        ("last", {"train": A, "test": B}, False, LAST),
        (
            "best",
            {"train": B[:5], "val": A, "test": B},
            False,
            "best val/accuracy; the test split had no part in that.",
        ),
        ("best", {"train": B[:5], "val": B, "test": list(B)}, False, OPTIMISTIC),
        ("last", {"train": B[:5], "val": B, "test": list(B)}, True, "which val/accuracy chose, " + OPTIMISTIC),
        ("last", {"train": B[:5], "val": B, "test": list(B)}, False, LAST),
        ("best", {"train": A, "val": B}, False, "nothing else was measured, so that figure is optimistic."),
        ("best", {"train": A, "val": A, "test": A}, False, "Training and test are the same data"),
    ],
)
def test_what_chose_the_weights(weights: str, datasets: dict[str, Any], early: bool, match: str) -> None:
    assert match in selection(weights, "val/accuracy", datasets, stopped_early=early)


def test_samples_are_compared_not_objects() -> None:
    assert same_samples(A, [dict(each) for each in A])
    assert not same_samples(A, A[:39])
    assert not same_samples(A, [*A[:20], *B[20:]])
    assert not same_samples(iter(A), iter(A))
    assert not same_samples(Unreadable(), Unreadable())


class Unreadable:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        raise DataError(f"{index}.png: is damaged")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ([], "the test split had no part in that."),
        ([f"data.{split}.validate=held_out" for split in ("train", "val", "test")], OPTIMISTIC),
        (["train.test_weights=last"], LAST),
    ],
)
def test_the_card_of_a_run_says_so(settings: list[str], match: str, tmp_path: Path) -> None:
    """By the folds of MUTAG, whose recipes differ in one word."""
    quick = ["train.epochs=1", "train.report=false", "task.epoch_steps=1"]
    result = train(check(load("graph/mutag_gin", [*quick, *settings])), run=tmp_path / "run", progress=False)
    assert match in result.selection
    card = bundle.read(tmp_path / "run" / "model.pdl").card
    assert card.count(match) == 1
    assert "without the test split" not in card

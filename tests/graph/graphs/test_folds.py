"""Cross-validation: what the numbers are, and that runs are not repeated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl.errors import ConfigError, UsageError
from pdl_graph.graphs.folds import Folds, chosen_within, cross_validate
from pdl_graph.graphs.loader import Passes

OWN = ("train.epochs=2", "task.epoch_steps=2", "model.encoder.hidden=4", "train.report=false", "train.export=false")


def test_the_epoch_is_that_of_the_best_mean() -> None:
    curves = np.array([[0.5, 0.9, 0.6], [0.5, 0.3, 0.8]])
    found = Folds("accuracy", curves, [2, 4, 6], np.array([0.4, 0.6]))
    (held, *best), (last, *end) = found.rows("held_out")
    assert (held, last) == ("held_out", "last")
    assert best == pytest.approx([6, 0.7, 0.1])
    assert end == pytest.approx([6, 0.7, 0.1])
    assert Folds("rmse", curves, [2, 4, 6], np.zeros(2), less=True).rows("held_out")[0][1:] == pytest.approx(
        (2, 0.5, 0)
    )
    assert found.rows("inner") == [("inner", None, pytest.approx(0.5), pytest.approx(0.1))]


def test_folds_of_a_recipe(tmp_path: Path) -> None:
    lines: list[str] = []
    found = cross_validate("graph/mutag_gin", folds=2, overrides=OWN, runs=tmp_path, tell=lines.append)
    assert found.curves.shape == (2, 2)
    assert found.epochs == [1, 2]
    assert (found.test == found.curves.max(axis=1)).all()  # the held-out fold chose and tests
    again = cross_validate("graph/mutag_gin", folds=2, overrides=OWN, runs=tmp_path)
    assert (again.curves == found.curves).all()
    assert len(lines) == 4
    with pytest.raises(UsageError, match="differ from the run's own"):
        cross_validate("graph/mutag_gin", folds=2, overrides=(*OWN, "optim.lr=1"), runs=tmp_path)
    with pytest.raises(ConfigError, match="no val/rmse was measured"):
        cross_validate("graph/mutag_gin", folds=2, overrides=OWN, runs=tmp_path, metric="rmse")


@pytest.mark.parametrize("size", [4, 7, 23])
def test_epochs_are_cut_out_of_whole_passes(size: int) -> None:
    passes = Passes(7, size, seed=3)
    order = np.concatenate([passes.order(epoch) for epoch in range(14)])
    assert len(order) == 14 * size == 14 * len(passes)
    assert (np.sort(order.reshape(-1, 7), axis=1) == np.arange(7)).all()
    assert (order[:7] != order[7:14]).any()


def test_each_fold_chooses_by_its_own_validation_fold() -> None:
    one = Folds("accuracy", np.array([[0.5, 0.9], [0.6, 0.6]]), [1, 2], np.array([0.1, 0.2]))
    other = Folds("accuracy", np.array([[0.8, 0.7], [0.6, 0.7]]), [1, 2], np.array([0.3, 0.4]))
    test, pick = chosen_within([one, other])
    assert pick.tolist() == [0, 1]
    assert test.tolist() == [0.1, 0.4]
    less = [Folds("rmse", f.curves, f.epochs, f.test, less=True) for f in (one, other)]
    assert chosen_within(less)[1].tolist() == [0, 0]

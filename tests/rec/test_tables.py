"""Recommendation recipes with their tables on servers, by one line."""

from __future__ import annotations

import numpy as np
import pytest

from pdl import runtime, workflow
from pdl.checkpoint import LAST, load
from pdl.config import load as recipe
from pdl.errors import UsageError
from tests.framework.distributed.tables.conftest import served  # noqa: F401 - a fixture
from tests.rec.next_item.made import recipe as sessions

CUT = ["train.report=false", "train.epochs=2", "data.batch_size=100"]


def trained(name, folder, *overrides, **options):
    return workflow.train(recipe(name, overrides=[*CUT, *overrides]), run=folder, progress=False, **options)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_deepfm_has_its_rows_on_servers_and_is_as_any_model_afterwards(mode, tmp_path):
    line = f"distributed.tables={{servers: 2, mode: {mode}}}"
    result = trained("rec/synthetic_deepfm", tmp_path / "run", line)
    assert result.metrics["train/loss"] < 0.66
    assert np.isfinite(result.metrics["test/auc"])
    table = load(tmp_path / "run/checkpoints" / LAST)["model"]["vectors.table.weight"]
    assert 0.005 < table.std() < 0.05  # rows that nobody touched, too
    assert runtime.load(tmp_path / "run/model.pdl") is not None
    assert workflow.evaluate(tmp_path / "run").metrics["test/auc"] == pytest.approx(result.metrics["test/auc"])


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gru4rec_learns_on_servers_what_follows_what(mode, tmp_path):
    task = {"batches": "session_parallel", "loss": {"_target_": "pdl_rec.CrossEntropy", "negatives": 6, "logq": 1.0}}
    tables = {"tables": {"servers": 2, "mode": mode}}
    made = sessions(tmp_path, task=task, train={"epochs": 20}) | {"distributed": tables}
    result = workflow.train(made, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@1"] > 0.97
    with pytest.raises(UsageError, match=r"set model\.sparse=true, and a loss over a sample"):
        workflow.train(sessions(tmp_path) | {"distributed": tables}, run=tmp_path / "full", progress=False)

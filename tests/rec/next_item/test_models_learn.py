"""The models of sequences in training: each learns what follows what, on prefixes and, where it reads from left to
right, on whole sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdl.workflow import train
from tests.rec.next_item.made import recipe

SMOOTHED = {"_target_": "pdl_rec.CrossEntropy", "label_smoothing": 0.1}
SAMPLED = {"_target_": "pdl_rec.CrossEntropy", "negatives": 6}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SRGNN": ({"cosine": 8, "dropout": 0.1}, {"batches": "pairs", "loss": SMOOTHED}),
    "SRGNN, sampled": ({}, {"batches": "pairs", "loss": SAMPLED}),
    "NARM": ({"dropout": 0.1, "dropout_session": 0.1}, {"batches": "pairs"}),
    "NARM, sequences": ({"cosine": 8, "dropout": 0.1}, {"batches": "sequences", "loss": SAMPLED}),
    "SASRec": ({"max_length": 6, "cosine": 8}, {"batches": "sequences", "loss": SMOOTHED}),
    "SASRec, sampled": ({"max_length": 6, "dropout": 0.0}, {"batches": "sequences", "loss": SAMPLED}),
    "SSR": ({"cosine": 8}, {"batches": "sequences"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_learns_what_follows_what(tmp_path: Path, name: str) -> None:
    model, task = MODELS[name]
    node = {"_target_": f"pdl_rec.{name.partition(',')[0]}", "width": 16, **model}
    cfg = recipe(tmp_path, task=task, train={"epochs": 20})
    result = train({**cfg, "model": node}, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@1"] > 0.95

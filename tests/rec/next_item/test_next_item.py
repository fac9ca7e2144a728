"""The task from a recipe to predictions: each kind of batch learns, resumes bit for bit, evaluates, predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import ConfigError, DataError
from pdl.train import Recipe, assemble
from pdl.train.hooks import Hook
from pdl.train.loop import Trainer
from pdl.workflow import evaluate, predict, train
from tests.rec.next_item.made import recipe, write_cycles

PARALLEL: dict[str, Any] = {"batches": "session_parallel"}
VARIANTS: dict[str, dict[str, Any]] = {
    "pairs": {"task": {"batches": "pairs"}},
    "sequences": {"task": {"batches": "sequences"}},
    "session-parallel": {"task": PARALLEL, "model": {"dropout_hidden": 0.1, "layers": [16, 12]}},
    "sampled softmax": {"task": PARALLEL | {"loss": {"_target_": "pdl_rec.CrossEntropy", "negatives": 6, "logq": 1.0}}},
    "bpr-max": {"task": PARALLEL | {"loss": {"_target_": "pdl_rec.BPRMax", "negatives": 6, "bpreg": 0.1}}},
    "top1-max": {"task": PARALLEL | {"loss": {"_target_": "pdl_rec.TOP1Max", "negatives": 6}}},
    "pairs, sampled": {"task": {"loss": {"_target_": "pdl_rec.CrossEntropy", "negatives": 6}}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_learns_what_follows_what(tmp_path: Path, name: str) -> None:
    cfg = recipe(tmp_path, **VARIANTS[name], train={"epochs": 20})
    result = train(cfg, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@1"] > 0.97
    assert result.metrics["test/mrr@5"] > 0.97


class Cut(Hook):
    """Breaks off behind a step, as a power cut would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Trainer) -> None:
        if trainer.state.step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["pairs", "sequences", "session-parallel", "bpr-max"])
def test_resumed_equals_unbroken_bit_for_bit(tmp_path: Path, name: str) -> None:
    cfg = recipe(tmp_path, **VARIANTS[name], train={"epochs": 2, "checkpoint_every": 5, "ema": 0.9})
    train(cfg, run=tmp_path / "whole", progress=False)
    with pytest.raises(KeyboardInterrupt):
        train(cfg, run=tmp_path / "cut", progress=False, hooks=[Cut(17)])
    train(cfg, run=tmp_path / "cut", progress=False, resume=True)
    whole, cut = ((tmp_path / run / "checkpoints" / "last.safetensors").read_bytes() for run in ("whole", "cut"))
    assert _tensors(whole) == _tensors(cut)


def _tensors(file: bytes) -> bytes:
    """The numbers of a safetensors file, without its header, which has the clock in it."""
    return file[8 + int.from_bytes(file[:8], "little") :]


def test_a_run_is_used_without_its_data(tmp_path: Path) -> None:
    cfg = recipe(tmp_path, task=PARALLEL, train={"report": True, "epochs": 20})
    train(cfg, run=tmp_path / "run", progress=False)
    for split in ("train", "val"):
        (tmp_path / f"{split}.csv").unlink()
    again = evaluate(tmp_path / "run", split="test")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert again.metrics["test/mrr@5"] == result["metrics"]["test/mrr@5"]
    answers = list(predict(tmp_path / "run", ["item3, item4", ["item11"], "item1,nothing"], topk=3))
    assert [answer["items"][0]["item"] for answer in answers] == ["item5", "item0", "item2"]
    assert [len(answer["items"]) for answer in answers] == [3, 3, 3]
    assert [answer.get("unknown") for answer in answers] == [None, None, ["nothing"]]
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(word in page for word in ("recall@5 by items known before", "came next", "ties count against"))


def test_own_items_are_left_out_where_they_may_not_be_recommended(tmp_path: Path) -> None:
    cfg = recipe(tmp_path, task={"self_recommendation": False}, train={"epochs": 1})
    train(cfg, run=tmp_path / "run", progress=False)
    (answer,) = predict(tmp_path / "run", ["item1,item2,item3"], topk=20)
    assert {each["item"] for each in answer["items"]} == {f"item{k}" for k in range(12)} - {"item1", "item2", "item3"}


def test_vocabulary_is_that_of_training(tmp_path: Path) -> None:
    checked = Recipe(recipe(tmp_path))
    write_cycles(tmp_path / "test.csv", sessions=5, seed=9, items=20)  # items 12 to 19 are new
    task = checked.task.build()
    parts = assemble(task, checked)
    assert len(task.vocabularies["items"]) == 12
    assert max(int(b["items"].max()) for b in parts.loaders["test"]) <= 12


def test_an_unknown_target_is_a_miss(tmp_path: Path) -> None:
    cfg = recipe(tmp_path)
    (tmp_path / "test.csv").write_text("session_id,item_id,timestamp\n0,item1,0\n0,new,1\n1,item1,2\n1,item2,3\n")
    cfg["data"]["test"]["unseen"] = "keep"
    result = train(cfg, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@5"] == 0.5
    assert np.isfinite(result.metrics["test/loss"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": {"batches": "session_parallel"}, "model": {"_target_": "pdl_rec.NARM", "width": 8}}, "use pairs or"),
        ({"task": {"batches": "sequences"}, "model": {"_target_": "pdl_rec.SRGNN", "width": 8}}, "use pairs"),
        ({"task": {"loss": {"_target_": "pdl_rec.NextItem"}}}, "ItemLoss; pdl_rec.NextItem is not one"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    cfg = recipe(tmp_path, **changes)
    cfg["model"] = {k: v for k, v in cfg["model"].items() if k != "layers" or "GRU" in cfg["model"]["_target_"]}
    with pytest.raises(ConfigError, match=said):
        train(cfg, run=tmp_path / "run", progress=False)


def test_data_in_which_nothing_is_to_be_predicted(tmp_path: Path) -> None:
    cfg = recipe(tmp_path)
    (tmp_path / "val.csv").write_text("session_id,item_id,timestamp\n0,new,0\n0,newer,1\n")
    with pytest.raises(DataError, match=r"data\.val: no session"):
        train(cfg, run=tmp_path / "run", progress=False)

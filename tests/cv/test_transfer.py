"""Weights of the hub to a smaller problem: what the recipe of transfer does, on digits, in seconds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import checkpoint
from pdl.checkpoint import LAST
from pdl.errors import ConfigError
from pdl.hub import load_pretrained
from pdl.workflow import Result, Run
from pdl_cv.models import LeNet

RECIPE = Path(__file__).parents[2] / "configs" / "cv" / "digits_lenet.yaml"
CLASSES = "['3','8','9']"


def transfer(run: Path, *overrides: str) -> Result:
    own = [f"data.{split}.classes={CLASSES}" for split in ("train", "val", "test")]
    few = ["data.train.per_class=10", "train.epochs=8", "train.log_every=1", "train.test_weights=last"]
    cfg = pdl.config.load(RECIPE, ["model.pretrained=cv/digits_lenet", *own, *few, "data.batch_size=15", *overrides])
    return pdl.workflow.train(cfg, run=run, progress=False)


def test_a_new_head_on_frozen_weights(tmp_path: Path) -> None:
    """30 images teach a new last layer; the rest is to the bit what the hub has, in weights, averages and bundle."""
    result = transfer(tmp_path / "run", "train.freeze=backbone", "optim.lr=0.03")
    assert result.metrics["test/accuracy"] > 0.9
    source = LeNet(image_size=8, channels=(16, 32))
    load_pretrained(source, "cv/digits_lenet")
    saved = checkpoint.load(tmp_path / "run/checkpoints" / LAST)
    model = LeNet(image_size=8, channels=(16, 32), num_classes=3)
    Run.open(tmp_path / "run").load_weights(model)
    for name, value in source.state_dict().items():
        if not name.startswith(f"{source.head}."):
            np.testing.assert_array_equal(saved["model"][name], value.data)
            np.testing.assert_array_equal(model.state_dict()[name].data, value.data)
    assert set(saved["optimizer"]["state"]) == {f"{source.head}.weight", f"{source.head}.bias"}
    assert pdl.runtime.load(tmp_path / "run/model.pdl").bundle.labels == ["3", "8", "9"]


def test_rates_by_layer_are_in_the_log(tmp_path: Path) -> None:
    transfer(tmp_path / "run", "optim.layer_decay=0.5", "train.epochs=1")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step"]
    assert len(steps) == 2
    for line in steps:  # five layers: two convolutions and three linear ones
        assert line["lr_lowest"] == pytest.approx(line["lr"] * 0.5**4)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.freeze=layer1", "train.freeze: 'layer1' matches no parameter of LeNet"),
        ("train.freeze=[backbone,fc]", "'backbone' matches no parameter"),
        ("optim.layer_decay=1.2", "optim.layer_decay"),
        ("data.train.per_class=1000", "per_class=1000, but class '3' has"),
        ("data.train.classes=[three]", "'three' is none of 0, 1, 2"),
    ],
)
def test_what_cannot_be(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        transfer(tmp_path / "run", override)
    assert not (tmp_path / "run").exists()

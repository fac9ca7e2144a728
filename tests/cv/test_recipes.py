"""What a recipe of images reaches, what its self-test finds, and what stands in for its data; tests/test_recipes.py has
the table of all recipes.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import hub
from pdl.data import StandIn
from pdl.errors import DataError
from pdl.export.deployment import Deployment
from pdl.workflow import selftest
from pdl.workflow.selftest import chain
from pdl_cv import data

CONFIGS = Path(__file__).parents[2] / "configs" / "cv"


@pytest.mark.slow
def test_digits_reach_their_target(tmp_path: Path) -> None:
    result = pdl.workflow.train(pdl.config.load(CONFIGS / "digits_lenet.yaml"), run=tmp_path / "run", progress=False)
    assert result.metrics["test/accuracy"] >= 0.98


# -- what the self-test would find -------------------------------------------------------------------------------------
QUICK = ["train.report=false"]


def test_a_bundle_with_its_labels_out_of_order_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = chain.predict

    def mistaken(model: Any, *arguments: Any, **options: Any) -> Any:
        for found in own(model, *arguments, **options):
            answer = found.answer.value
            top = [{**each, "label": str((int(each["label"]) + 1) % 10)} for each in answer["top"]]
            wrong = dataclasses.replace(found.answer, value={**answer, **top[0], "top": top})
            yield found if isinstance(model, Deployment) else dataclasses.replace(found, answer=wrong)

    monkeypatch.setattr(chain, "predict", mistaken)
    outcome = selftest.run("cv/digits_lenet", QUICK, folder=tmp_path)
    assert (outcome.status, outcome.step) == ("failed", "predict")
    assert "the bundle answers otherwise than the run: array 0: top: " in outcome.reason


def test_pretrained_weights_are_taken_from_this_machine_or_fresh_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = [*QUICK, "+model.pretrained=cv/digits_lenet"]
    outcome = selftest.run("cv/digits_lenet", begin, folder=tmp_path / "bundled")
    assert outcome.status == "passed", outcome.reason
    assert outcome.facts["loss"][0] < 0.5  # it begins where the training ended

    def resolve(name: str) -> Path:
        assert os.environ["PDL_OFFLINE"] == "1"
        raise DataError(f"{name}: is not on this machine")

    monkeypatch.setattr(hub, "resolve", resolve)
    outcome = selftest.run("cv/digits_lenet", begin, folder=tmp_path / "absent")
    assert outcome.status == "passed", outcome.reason
    assert outcome.facts["loss"][0] > 0.5
    assert "model.pretrained: cv/digits_lenet is not on this machine; fresh weights" in outcome.notes


# -- stand-ins ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (data.MNIST, {}),
        (data.FashionMNIST, {"mode": "rgb"}),
        (data.CIFAR10, {}),
        (data.CIFAR10, {"classes": ["frog", "dog"], "per_class": 20}),
        (data.ImageFolder, {}),
        (data.ImageFolder, {"mode": "gray", "classes": ["a", "b", "c"]}),
        (data.ImageList, {"classes": ["a", "b", "c"]}),
        (data.ImageList, {"root": "elsewhere", "ratios": {"train": 0.9, "val": 0.1}}),
    ],
)
def test_stand_ins_are_read_by_the_class_itself(kind: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    for split in ("train", "test"):
        stand = kind.stand_in(tmp_path, {**settings, "split": split})
        assert isinstance(stand, StandIn)
        made = kind(**{**settings, **stand.settings}, split=split)
        assert set(made.labels) == set(range(len(made.classes)))
        assert made[0]["image"].dtype == np.uint8
        assert made[0]["image"].std() > 10


def test_more_classes_than_digits_have_no_stand_in(tmp_path: Path) -> None:
    assert data.ImageFolder.stand_in(tmp_path, {"classes": [str(i) for i in range(11)]}) is None

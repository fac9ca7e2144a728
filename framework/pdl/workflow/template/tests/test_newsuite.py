"""Every part of the suite, and every recipe whole: train, resume, evaluate, export, predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdl
import pdl_newsuite
from pdl import hub, suites
from pdl.workflow import predict, selftest
from pdl_newsuite.data import Dots
from pdl_newsuite.models import dotnet

RECIPES = sorted((Path(pdl_newsuite.__file__).parent / "recipes").glob("*.yaml"))
PARAMETERS = {"dotnet": 1762, "dotnet_wide": 20866}


def test_pdl_knows_the_suite() -> None:
    """The entry point is in force (pip install -e .), and the index of pretrained files has no fault."""
    assert suites.installed()["newsuite"].package == "pdl_newsuite"
    assert "newsuite" not in hub.broken()


@pytest.mark.parametrize("name", dotnet.VARIANTS)
def test_models(name: str) -> None:
    """Shapes, gradients and the number of parameters."""
    arguments = {key: value for key, value in dotnet.VARIANTS[name].items() if key != "_target_"}
    net = pdl_newsuite.DotNet(**arguments)
    y = net(pdl.zeros((3, 16, 16, 1)))
    assert y.shape == (3, 2)
    y.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert sum(p.size for p in net.parameters()) == PARAMETERS[name]


def test_data() -> None:
    """The brightest pixel is where the point says; the same arguments give the same pictures, another split others."""
    data = Dots(split="test", samples=20)
    for i in range(len(data)):
        sample = data[i]
        assert sample["image"].shape == (16, 16, 1)
        y, x = np.unravel_index(sample["image"].argmax(), (16, 16))
        assert np.abs((np.array([x, y]) + 0.5) / 16 - sample["point"]).max() < 1.5 / 16
    assert data.fingerprint == Dots(split="test", samples=20).fingerprint
    assert data.fingerprint != Dots(split="val", samples=20).fingerprint


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_pass_the_selftest(recipe: Path, tmp_path: Path) -> None:
    """What `pdl selftest` holds: the loss falls, a resumed run ends the same, and so do the bundle's answers."""
    outcome = selftest.run(recipe, folder=tmp_path)
    assert outcome.status == "passed", f"{outcome.step}: {outcome.reason}"


def test_it_learns(tmp_path: Path) -> None:
    """The recipe as it is finds the dot, in pictures that it has not seen."""
    cfg = pdl.config.load(RECIPES[0], ["train.seed=1"])
    result = pdl.workflow.train(cfg, run=tmp_path / "run", progress=False)
    assert result.metrics["test/distance"] < 0.06, "the middle of the picture is 0.27 off"
    (answer,) = predict(tmp_path / "run", [tmp_path / "run" / "example.png"])
    np.testing.assert_allclose(answer["output"], Dots(split="test", samples=128)[0]["point"], atol=0.1)

"""The range test finds where the loss falls fastest, and says where it falls nowhere."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.errors import CheckError, UsageError
from pdl.workflow import lr_find
from pdl.workflow.rate_test import judged
from tests.framework.config.broken import GOOD

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> str:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    return "recipe.yaml"


def test_the_steepest_descent() -> None:
    rates = np.logspace(-6, 0, 61)
    losses = 2.0 - 1.5 / (1 + (1e-3 / rates) ** 2) + 20 * np.maximum(rates - 0.05, 0)
    found = judged(rates.tolist(), losses.tolist())
    assert found.suggested == pytest.approx(1e-3, rel=0.3)
    assert 0.01 < found.least < 0.06
    assert len(found.rows()) == 16
    for values, says in (
        (1 + rates, "falls at no rate from"),
        (np.ones(61), "falls at no rate from"),
        (losses[:9], "broke after 9"),
    ):
        with pytest.raises(CheckError, match=says):
            judged(rates[: len(values)].tolist(), values.tolist())


def test_a_recipe(recipe: str, capsys: Capture) -> None:
    before = pdl.random.get_state()
    assert main(["lr-find", "-c", recipe, "--json", "--out", "rates.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lr"][0] == pytest.approx(1e-6)
    assert math.isclose(found["lr"][1] / found["lr"][0], 10 ** (6 / 99))
    assert len(found["lr"]) == len(found["loss"]) <= 100
    assert found["suggested"] <= found["least"]
    assert "<polyline" in Path("rates.html").read_text()
    assert main(["lr-find", "-c", recipe, "--steps", "20"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "suggested"
    assert sorted(path.name for path in Path().iterdir()) == ["rates.html", "recipe.yaml"], "no run is left"
    assert str(pdl.random.get_state()) == str(before)
    for words in (["--start", "1", "--end", "0.1"], ["--steps", "3"], ["optim.lr=0"]):
        assert main(["lr-find", "-c", recipe, *words]) == 2
    with pytest.raises(UsageError, match="the rates must rise"):
        lr_find(pdl.config.load(recipe), start=0)

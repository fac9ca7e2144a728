"""Recipes of matching: short, named, and taken whole through the self-test on stand-ins of their data."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl.config import load
from pdl.config.named import shipped
from pdl.workflow import selftest

CONFIGS = Path(__file__).parents[3] / "configs" / "rec"
RECIPES = sorted(p for p in CONFIGS.glob("*.yaml") if load(p).get("task._target_") == "pdl_rec.Matching")


def test_there_are_recipes_of_the_models() -> None:
    models = {"bpr", "dssm", "ncf", "simnet", "tagspace", "youtubednn"}
    assert {f"ml100k_{model}" for model in models} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_recipe_passes_the_selftest(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_DATA", str(tmp_path / "nothing"))
    assert len(path.read_text().splitlines()) <= 40
    assert f"rec/{path.stem}" in shipped()
    outcome = selftest.run(path, folder=tmp_path)
    assert outcome.status == "passed", f"{outcome.step}: {outcome.reason}"

"""Wheels of pdl and pdl-cv, built, installed into an empty environment outside the tree, and used there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"pdl": ROOT, "pdl_cv": ROOT / "suites/cv"}


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Output of a command that must succeed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean.get('PATH', '')}"  # meson looks for cython there
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=clean | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds the two wheels (and the dependencies of this one)."""
    where = tmp_path_factory.mktemp("packaging")
    for source in PACKAGES.values():
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", where / "dist", source, cwd=where)
    venv.create(where / "venv", with_pip=True)
    # the dependencies come from the running environment, so that this test needs no package index
    site = next((where / "venv/lib").glob("python*/site-packages"))
    for wheel in (where / "dist").glob("*.whl"):
        run(where / "venv/bin/python", "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=where)
    (site / "zz_dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")) + "\n")
    return where


def test_wheels_hold_what_they_need(installed: Path) -> None:
    names = {n for wheel in (installed / "dist").glob("*.whl") for n in zipfile.ZipFile(wheel).namelist()}
    assert any(n.startswith("pdl/kernels/") and ".so" in n for n in names)
    assert any(n.startswith("pdl_cv/parts/") and n.endswith(".yaml") for n in names)
    assert {f"pdl_cv/recipes/{file.name}" for file in (ROOT / "configs/cv").glob("*.yaml")} <= names
    assert any("CC-BY" in n.upper() or "LICENSE" in n.upper() for n in names if n.startswith("pdl_cv/data/"))
    assert not [n for n in names if n.endswith((".pyx", ".cpp", ".h")) or n.startswith("tests/")]


def test_import_and_cli_outside_the_tree(installed: Path) -> None:
    python, pdl_command = installed / "venv/bin/python", installed / "venv/bin/pdl"
    found = run(python, "-c", "import pdl, pdl_cv; print(pdl.__file__, pdl_cv.__file__)", cwd=installed)
    assert str(installed / "venv") in found
    assert all(str(installed / "venv") in part for part in found.split())
    assert "train" in run(pdl_command, "--help", cwd=installed)
    assert json.loads(run(pdl_command, "info", "--json", cwd=installed))


def test_train_and_predict_outside_the_tree(installed: Path) -> None:
    recipe = installed / "digits.yaml"
    recipe.write_text((ROOT / "configs/cv/digits_lenet.yaml").read_text())
    pdl_command = installed / "venv/bin/pdl"
    out = run(pdl_command, "train", "-c", recipe, "--run", installed / "run", "--fast-dev-run", "--json", cwd=installed)
    assert json.loads(out.splitlines()[-1])["metrics"]
    for name in ("result.json", "config.yaml", "report.html"):
        assert (installed / "run" / name).is_file()

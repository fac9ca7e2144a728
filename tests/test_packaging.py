"""Wheels of every suite, built, installed into an empty environment outside the tree, and used there with the pdl that
runs the tests; what is made there: a packaged model, a new suite. With -m slow also the wheel of pdl itself, which is
compiled anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pdl import packages

ROOT = Path(__file__).parents[1]
SUITES = sorted(file.parent for file in ROOT.glob("suites/*/pyproject.toml"))


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Output of a command that must succeed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean.get('PATH', '')}"  # meson looks for cython there
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=clean | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def build(where: Path, *names: str) -> list[dict[str, str]]:
    """Build these wheels into dist/ and install them into an environment beside it; what tools/build_wheels.py says."""
    compiled_soon = ("-Csetup-args=-Dinstruction_sets=baseline", "-Csetup-args=-Doptimization=0")  # nothing is raced
    only = [word for name in names for word in ("--only", name)]
    options = ("--no-deps", "--no-isolation", "--json", *(compiled_soon if "core" in names else ()), *only)
    built: list[dict[str, str]] = json.loads(
        run(sys.executable, ROOT / "tools/build_wheels.py", *options, "--out", where / "dist", cwd=where)
    )
    assert all(sha256((where / "dist" / each["file"]).read_bytes()).hexdigest() == each["sha256"] for each in built)
    assert sorted(path.name for path in (where / "dist").iterdir()) == sorted(each["file"] for each in built)
    venv.create(where / "venv")
    # the dependencies come from the running environment, so that this test needs no package index
    site = next((where / "venv/lib").glob("python*/site-packages"))
    pip_install(where, *(where / "dist").glob("*.whl"))
    (site / "zz_dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")) + "\n")
    return built


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds the wheels of the suites; pdl is the one that runs the tests."""
    where = tmp_path_factory.mktemp("packaging")
    built = build(where, *(suite.name for suite in SUITES))
    assert {each["file"].split("-")[0] for each in built if each["ours"]} == {f"pdl_{suite.name}" for suite in SUITES}
    return where


def pip_install(where: Path, *what: str | Path) -> None:
    """Into the environment, without dependencies and without an index."""
    pip = (sys.executable, "-m", "pip", "--python", where / "venv/bin/python")
    run(*pip, "install", "--no-deps", "--no-index", *what, cwd=where, PIP_BUILD_CONSTRAINT="")  # nothing is built apart


def pdl_in(where: Path, *words: str | Path, **env: str) -> str:
    """The output of a `pdl` command of the environment, in its folder."""
    return run(where / "venv/bin/python", "-m", "pdl", *words, cwd=where, **env)


@pytest.fixture(scope="module")
def trained(installed: Path) -> Path:
    """A short run, made where nothing of the tree is in reach."""
    out = pdl_in(installed, "train", "-c", "cv/digits_lenet", "--run", "run", "--fast-dev-run", "--json")
    assert json.loads(out.splitlines()[-1])["metrics"]
    return installed / "run"


def names(dist: Path, pattern: str = "*") -> set[str]:
    return {name for wheel in dist.glob(f"{pattern}.whl") for name in zipfile.ZipFile(wheel).namelist()}


def files(folder: Path) -> Iterator[Path]:
    """Every file of a package, those behind links included."""
    for place, folders, found in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(place) / name for name in found if not name.endswith(".pyc"))


@pytest.mark.slow
def test_the_wheel_of_pdl(tmp_path: Path) -> None:
    build(tmp_path, "core")
    have = names(tmp_path / "dist")
    assert any(n.startswith("pdl/kernels/") and ".so" in n for n in have)
    assert {"pdl/data/files/optdigits.npz", "pdl/data/files/LICENSE-optdigits.txt"} <= have
    assert not [n for n in have if n.endswith((".pyx", ".cpp", ".h")) or n.startswith("tests/")]
    code = "import pdl; from pdl import kernels; print(pdl.__file__)"
    assert str(tmp_path / "venv") in run(tmp_path / "venv/bin/python", "-c", code, cwd=tmp_path)
    assert "train" in run(tmp_path / "venv/bin/pdl", "--help", cwd=tmp_path)


def test_wheels_hold_what_they_need(installed: Path) -> None:
    have = names(installed / "dist")
    assert {f"pdl_cv/recipes/{file.name}" for file in (ROOT / "configs/cv").glob("*.yaml")} <= have
    assert not [n for n in have if n.endswith((".pyx", ".cpp", ".h")) or n.startswith("tests/")]


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.name)
def test_the_wheel_of_a_suite(suite: Path, installed: Path) -> None:
    """It holds all that its folder holds, and its metadata say which pdl it works with."""
    (wheel,) = (installed / "dist").glob(f"pdl_{suite.name}-*.whl")
    assert {file.relative_to(suite).as_posix() for file in files(suite / f"pdl_{suite.name}")} <= names(
        wheel.parent, wheel.stem
    )
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        needs = HeaderParser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist") or []
    of_core = [Requirement(each) for each in needs if Requirement(each).name == "pdl-core"]
    (plain,) = (each for each in of_core if each.marker is None)
    assert "train" not in plain.extras, "what bundles need is enough for them"
    assert any(str(each.marker) == 'extra == "train"' and "train" in each.extras for each in of_core)
    assert "<" in str(plain.specifier)
    assert packages.fits(str(plain.specifier))
    assert any("licenses/LICENSE" in name for name in names(wheel.parent, wheel.stem))


def test_every_suite_is_in_the_requirements() -> None:
    listed = (ROOT / "requirements.txt").read_text().splitlines()
    assert {f"./suites/{suite.name}[train]" for suite in SUITES} <= set(listed)
    called = [tomllib.loads((suite / "pyproject.toml").read_text())["project"]["name"] for suite in SUITES]
    assert called == [f"pdl-{suite.name}" for suite in SUITES]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--only", "nothing"], "--only nothing: choose of core, cv, "),
        (["--only", "core", "--only", "x"], "--only x: choose"),
    ],
)
def test_what_cannot_be_built(options: list[str], says: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/build_wheels.py"), "--out", str(tmp_path / "dist"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert not (tmp_path / "dist").exists()


def test_import_and_cli_outside_the_tree(installed: Path) -> None:
    python = installed / "venv/bin/python"
    modules = [f"pdl_{suite.name}" for suite in SUITES]
    code = f"import {', '.join(modules)}; print({', '.join(f'{each}.__file__' for each in modules)})"
    assert all(str(installed / "venv") in part for part in run(python, "-c", code, cwd=installed).split())
    assert "train" in pdl_in(installed, "--help")
    facts = json.loads(pdl_in(installed, "info", "--json"))
    assert {each.split()[0] for each in facts["suites"]} >= {suite.name for suite in SUITES}
    assert facts["left_out"] == []


def test_train_outside_the_tree(trained: Path) -> None:
    for name in ("result.json", "config.yaml", "report.html", "model.pdl"):
        assert (trained / name).is_file()


def test_a_packaged_model(trained: Path, installed: Path) -> None:
    """RUN -> wheel -> pip install -> the model by its name, with the answer that the run gives."""
    about = ("--name", "pdl-my-model", "--version", "1.0", "--licence", "MIT")
    made = json.loads(pdl_in(installed, "package", trained, *about, "--out", "models", "--json"))
    pip_install(installed, installed / made["wheel"])
    offline = {"PDL_OFFLINE": "1", "XDG_CACHE_HOME": str(installed / "cache")}
    facts = json.loads(pdl_in(installed, "info", "--json", **offline))
    assert facts["models"] == ["my-model (pdl_my_model 1.0)"]
    answers = [
        json.loads(pdl_in(installed, "predict", model, "run/example.png", "--json", **offline))[0]["top"]
        for model in (trained, "my-model")
    ]
    assert [each["label"] for each in answers[1]] == [each["label"] for each in answers[0]]
    assert [each["score"] for each in answers[1]] == pytest.approx([each["score"] for each in answers[0]], abs=1e-5)


def test_a_new_suite(installed: Path) -> None:
    """What `pdl init suite` writes is built, installed and trained with, from the installed pdl alone."""
    pdl_in(installed, "init", "suite", "audio")
    pip_install(installed, "--no-build-isolation", installed / "pdl-audio")
    out = pdl_in(installed, "train", "-c", "audio/dots", "--run", "dots", "--fast-dev-run", "--json")
    assert "test/distance" in json.loads(out.splitlines()[-1])["metrics"]

"""`pdl init suite`: what it writes is a suite, and its own tests pass as they are."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pdl
from pdl import packages
from pdl.cli import main
from pdl.errors import UsageError
from pdl.workflow.new_suite import TEMPLATE, new_suite

ROOT = Path(__file__).parents[3]


def install(folder: Path, site: Path) -> list[str]:
    """What PYTHONPATH needs for a generated suite to count as installed: metadata as its pyproject.toml states them."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {each}\n" for each in project["dependencies"])
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n{needs}"
    (info / "METADATA").write_text(metadata)
    ((group, entries),) = project["entry-points"].items()
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()))
    return [str(folder), str(site)]


@pytest.mark.parametrize("name", ["audio", "pdl-time-series"])
def test_its_own_tests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of their own, warnings being errors; nothing of the template's name is left."""
    monkeypatch.chdir(tmp_path)
    folder = new_suite(name).resolve()
    assert folder.name == f"pdl-{name.removeprefix('pdl-')}"
    files = [path for path in folder.rglob("*") if path.is_file()]
    template = [path for path in TEMPLATE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) == len(template)
    assert not [path for path in files if "newsuite" in str(path.relative_to(folder)) + path.read_text()]
    assert f'"pdl-core[train]{packages.series()}"' in (folder / "pyproject.toml").read_text()
    path = [*install(folder, tmp_path / "site"), str(Path(pdl.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_pdl_installs_the_whole_template(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of it is in the list that goes into pdl's wheel."""
    monkeypatch.setattr(sys, "argv", ["list_package.py", str(ROOT / "framework")])
    runpy.run_path(str(ROOT / "tools/list_package.py"))
    listed = set(capsys.readouterr().out.split())
    template = ROOT / "framework/pdl/workflow/template"
    wanted = {path for path in template.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert len(wanted) > 10
    assert {path.relative_to(ROOT / "framework").as_posix() for path in wanted} <= listed


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cv", r"the suite 'cv' is installed \(pdl-cv .*\); choose another"),
        ("pdl-cv", "the suite 'cv' is installed"),
        ("core", "pdl-core is the framework itself; choose another name"),
        ("Audio", "'Audio' is no name for a suite: lower-case letters.*; for example audio"),
        ("2d shapes", "for example d-shapes"),
        ("../x", "no name for a suite"),
        ("a.b", "for example a-b"),
        ("newsuite", "no name for a suite"),
        ("import", "no name for a suite"),
        ("", "no name for a suite"),
    ],
)
def test_names_that_are_refused(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        new_suite(name)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert new_suite("audio", tmp_path / "mine") == tmp_path / "mine"
    (tmp_path / "mine/README.md").write_text("mine")
    with pytest.raises(UsageError, match="mine exists; give another folder with --out"):
        new_suite("audio", tmp_path / "mine")
    assert (tmp_path / "mine/README.md").read_text() == "mine"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "suite", "audio"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "pdl-audio",
        "next:  pip install -e 'pdl-audio[test]'",
        "       pytest pdl-audio",
        "       pdl train -c audio/dots",
    ]
    assert Path("pdl-audio/pdl_audio/recipes/dots.yaml").is_file()

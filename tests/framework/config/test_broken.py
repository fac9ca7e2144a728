"""Every broken config ends with exit code 2, a message that names the place and says what to do, and nothing
written.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pdl.cli import main
from tests.framework.config.broken import BROKEN, GOOD, Broken


def test_the_table_is_long_enough() -> None:
    assert len({case.name for case in BROKEN}) == len(BROKEN) >= 40


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_broken(
    case: Broken, demo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r").mkdir()
    Path("r/recipe.yaml").write_text(case.recipe())
    code = main(["train", "-c", "r/recipe.yaml", "--run", "run", *case.overrides])
    said = capsys.readouterr()
    assert code == 2, said.err
    for part in case.says:
        assert part.replace("{recipe}", "r/recipe.yaml") in said.err, said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sorted(str(path) for path in Path().rglob("*")) == ["r", "r/recipe.yaml"]


def test_all_faults_at_once(demo: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        GOOD.replace("width: 8", "width: ${nope}").replace("epochs: 2", "epochz: 2").replace("Jitter", "Jiter")
    )
    assert main(["config", "check", "-c", str(recipe), "optim.lr=-1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4, lines
    assert [line.split(": ")[1] for line in lines[:1]] == ["model.width"]
    assert any(line.startswith("command line: optim.lr=-1: -1 is out of range") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["train", "-c", "r/recipe.yaml", "train.epochz=3"],
            "command line: train.epochz=3: unknown key; did you mean 'epochs'?",
        ),
        (["train", "-c", "r/recip.yaml"], "r/recip.yaml: no such file; did you mean 'r/recipe.yaml'?"),
        (["train", "-c", "r"], "r: is a folder"),
        (["train", "r/recipe.yaml"], "which recipe? write: -c r/recipe.yaml"),
    ],
)
def test_in_a_process_of_its_own(arguments: list[str], says: str, demo_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "recipe.yaml").write_text(GOOD)
    done = subprocess.run(
        [sys.executable, "-m", "pdl", *arguments],
        cwd=tmp_path,
        env=demo_env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["r", "recipe.yaml"]

"""The command line: help, exit codes, errors, output. What commands do is tested where it lives."""

from __future__ import annotations

import json
import keyword
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
import pdl_cv
from pdl.cli import main, overview, style
from pdl.errors import DataError, UsageError
from pdl.report.page import png
from pdl.workflow.new_recipe import init, writers
from tests.framework.config.broken import GOOD

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> str:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    return "recipe.yaml"


def python(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **settings)


HUB = ["hub list", "hub clear", "hub mirror"]


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_lists_every_command(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in overview.COMMANDS)
    assert said == overview.overview() + "\n"


@pytest.mark.parametrize(
    "name", [*overview.COMMANDS, "config list", "config show", "config check", "config diff", *HUB]
)
def test_help_of_a_command_ends_with_an_example(name: str, capsys: Capture) -> None:
    assert main([*name.split(), "--help"]) == 0
    last = capsys.readouterr().out.rstrip().split("\n\n")[-1].strip()
    assert last.startswith(f"Example:  pdl {name}")


def test_examples_stand_one_a_line_on_narrow_terminals(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for arguments in (["init", "--help"], ["data", "get", "--help"], ["predict", "--help"]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out.partition("Example:")[2].splitlines()
        assert len(shown) > 1
        assert all(line.strip().startswith("pdl ") for line in shown)


def test_the_table_has_what_the_modules_have() -> None:
    files = {path.stem for path in Path(overview.__file__).parent.glob("*.py")}
    named = {name.replace("-", "_") + "_" * keyword.iskeyword(name) for name in overview.COMMANDS}
    assert named == files - {"__init__", "app", "common", "deadline", "overview", "signals", "style", "sweep_worker"}


def test_help_imports_no_more_than_it_needs() -> None:
    code = "import sys; from pdl.cli import main; main(['--help']); print(*sys.modules)"
    modules = set(python("-c", code).stdout.split("\n")[-2].split())
    heavy = {
        "rich",
        "hydra",
        "omegaconf",
        "yaml",
        "cv2",
        "safetensors",
        "pdl.config",
        "pdl.train",
        "pdl.data",
        "pdl.cli.train",
    }
    assert not modules & heavy


def test_version(capsys: Capture) -> None:
    import pdl

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pdl {pdl.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["train", "--epochs", "3"], "given without dashes: train.epochs=3"),
        (["config", "shwo"], "Did you mean 'show'?"),
        (["eval"], "Usage: pdl eval"),
        (["predict", "--topk", "3"], "which model? write it first: pdl predict RUN"),
        (["predict", "nowhere"], "'nowhere': no file or run folder of that name, and no pretrained model"),
        (["predict", "nowhere", "x.png", "--topk", "0"], "topk"),
        (["predict", "nowhere", "x.png"], "'nowhere': no file or run folder of that name, and no pretrained model"),
        (["predict", "digits_lnet", "x.png"], "did you mean 'digits_lenet'?"),
        (["predict", "runs/no/where", "x.png"], "runs/no/where: no such run folder or bundle; `pdl train` writes"),
        (["predict", "./nowhere.pdl", "x.png"], "./nowhere.pdl: no such run folder or bundle"),
        (["eval", "nowhere"], "'nowhere': no file or run folder"),
        (["info", "nowhere"], "'nowhere': no file or run folder"),
        (["bench", "nowhere"], "'nowhere': no file or run folder"),
        (["compress", "nowhere"], "nowhere: no such folder"),
        (["train", "--resume"], "pdl train --resume RUN"),
        (["train", "--resume", "nowhere"], "nowhere"),
        (["config", "show"], "Usage: pdl config show"),
        (["config", "check", "train.epochs=3"], "which recipe?"),
        (["init", "cv.nothing", "--data", "."], "no recipe writer 'cv.nothing'"),
        (["init", "cv.nothing"], "no recipe writer 'cv.nothing'"),
        (["init", "cv.classification"], "--data names the folder or file your data lies in: pdl init cv.class"),
        (["init", "cv.classification", "photos"], "what is 'photos'?"),
        (["init", "audio", "--data", "."], "for a new suite: pdl init suite audio"),
        (["init", "suite"], "which name? write: pdl init suite NAME"),
        (["init", "suite", "cv"], "the suite 'cv' is installed"),
        (["init", "suite", "audio", "--data", "."], "--data belongs to recipes"),
        (["init", "suite", "audio", "--force"], "--force belongs to recipes"),
        (["download", "cv/nothing"], "'cv/nothing': no file"),
        (["download", "nothing*"], "'nothing*': no pretrained model has such a name"),
        (["hub", "clear"], "Usage: pdl hub clear"),
        (["hub", "mirror"], "Usage: pdl hub mirror"),
        (["hub", "mirror", "m", "nothing"], "'nothing': no file"),
        (["selftest"], "Usage: pdl selftest"),
        (["train", "points", "train.epochs=3"], "which recipe? write: -c RECIPE\n"),
        (["selftest", "a.yaml"], "which recipe? write: -c a.yaml, or --all"),
        (["selftest", "--json"], "which recipe? write: -c RECIPE, or --all"),
        (["selftest", "--all", "-c", "x.yaml"], "give one of the two"),
        (["selftest", "-c", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["export"], "Usage: pdl export"),
        (["export", "nowhere"], "'nowhere': no file or run folder"),
        (["export", "digits_lenet"], "digits_lenet is a bundle already; --to onnx"),
        (["export", "digits_lenet", "--to", "onnx", "--store", "bf16"], "--weights, --store, --form and"),
        (["export", "nowhere", "--to", "paper"], "--to paper: choose bundle or onnx"),
        (["export", "nowhere", "-o", "a.onnx"], "a.onnx: its name is that of an ONNX file; add --to onnx"),
        (["export", "nowhere", "--store", "fp8"], "--store fp8: choose fp32 or bf16 or fp16"),
        (["export", "nowhere", "-c", "x.yaml"], "-c belongs to --check"),
        (["export", "--check"], "which recipe?"),
        (["package"], "Usage: pdl package"),
        (["package", "nowhere"], "'--name'"),
        (["package", "x.pdl", "--name", "pdl-x", "--version", "1.0", "--store", "fp8"], "--store fp8: choose fp32 or"),
        (["package", "nowhere", "--name", "pdl-x", "--version", "1.0"], "nowhere: no such folder"),
        (["package", "nowhere", "--name", "x", "--version", "1.0"], "write --name pdl-x"),
        (["bench"], "Usage: pdl bench"),
        (["bench", "x.pdl", "--size", "224"], "--size '224': expected NAME=NUMBER, as in h=224,w=224"),
    ],
)
def test_wrong_use(arguments: list[str], says: str, capsys: Capture, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_config_show_check_and_diff(recipe: str, capsys: Capture) -> None:
    assert main(["config", "show", "-c", recipe, "train.epochs=5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["train"]["epochs"] == 5
    assert main(["config", "show", "-c", recipe, "train.epochz=5"]) == 2
    said = capsys.readouterr()
    assert "epochz: 5" in said.out
    assert "did you mean 'epochs'?" in said.err
    assert main(["config", "check", "-c", recipe]) == 0
    assert "good" in capsys.readouterr().out
    Path("other.yaml").write_text(GOOD.replace("width: 8", "width: 9"))
    assert main(["config", "diff", recipe, recipe]) == 0
    assert main(["config", "diff", recipe, "other.yaml"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split() == ["model.width", "8", "9"]
    assert main(["config", "diff", recipe, "other.yaml", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [{"key": "model.width", "left": "8", "right": "9"}]


def test_the_life_of_a_run(recipe: str, capsys: Capture) -> None:
    assert main(["train", "-c", recipe, "--run", "run", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["epochs"] == 2
    assert Path(result["run"]).resolve() == Path("run").resolve()
    assert main(["train", "--resume", "run"]) == 0
    assert "pdl info run" in capsys.readouterr().out, "this task has no deployer, so there is nothing to ask"
    assert main(["eval", "run", "--split", "val", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["val/loss"] == result["metrics"]["val/loss"]
    assert main(["info", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "finished"
    assert main(["config", "diff", recipe, "run"]) == 0
    assert main(["train", "-c", recipe, "--run", "run"]) == 2
    assert "pdl train --resume run" in capsys.readouterr().err
    assert main(["train", "-c", recipe]) == 0
    assert Path("runs/recipe-1/result.json").is_file()


def test_the_life_of_a_bundle(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl.report import png
    from tests.framework.runtime import made

    monkeypatch.chdir(tmp_path)
    Path("model.pdl").write_bytes(made.whole("conv"))
    Path("a.png").write_bytes(png(np.full((20, 30, 3), 200, np.uint8)))
    assert main(["predict", "model.pdl", "a.png", "--topk", "2", "--json", "--save", "drawn"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["label"] in ("ant", "bee", "cow", "dog", "elk")
    assert len(found["top"]) == 2
    assert Path(found["saved"]).is_file()
    assert main(["predict", "model.pdl", "a.png"]) == 0
    assert found["label"] in capsys.readouterr().out
    assert main(["info", "model.pdl"]) == 0
    said = capsys.readouterr().out
    assert "image float32[n, 8, 8, 3]" in said
    assert "resize_short(size=9" in said
    assert main(["bench", "model.pdl", "--batch", "3", "--threads", "1", "--seconds", "0.01", "--json"]) == 0
    bench = json.loads(capsys.readouterr().out)
    assert bench["inputs"] == {"image": [3, 8, 8, 3]}
    assert {"p50_ms", "p90_ms", "p99_ms", "samples_per_second", "memory_bytes"} <= bench.keys()
    assert bench["ops"]
    assert main(["bench", "model.pdl", "--seconds", "0.01"]) == 0
    assert "latency p90" in capsys.readouterr().out
    Path("model.pdl").write_bytes(made.whole("conv")[:-9])
    for command in (["predict", "model.pdl", "a.png"], ["info", "model.pdl"], ["bench", "model.pdl"]):
        assert main(command) == 3
        assert "model.pdl: archive: its end record is not at the end" in capsys.readouterr().err


def test_nothing_found_is_said(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl.report import png
    from tests.framework.runtime.test_tiles import Bright, Looking

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pdl.workflow.prediction.open_model", lambda *_, **__: Looking(Bright()))
    for name in ("a.png", "b.png"):
        Path(name).write_bytes(png(np.full((4, 4, 3), 100, np.uint8)))
    Path("cut.jpg").write_bytes(b"\xff\xd8")
    assert main(["predict", "model", "a.png"]) == 0
    assert capsys.readouterr().err == "nothing found with a score of 0.5 or more (--score)\n"
    assert main(["predict", "model", "a.png", "cut.jpg", "b.png"]) == 0
    said = capsys.readouterr()
    assert "nothing found in 2 of 3 inputs with a score of 0.5" in said.err
    assert said.out.count("cut.jpg") == 1
    assert main(["predict", "model", "a.png", "--out", "found.csv"]) == 0
    assert "nothing found with" in capsys.readouterr().err


def test_the_options_of_a_model(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.framework.runtime import made

    monkeypatch.chdir(tmp_path)
    Path("shop.pdl").write_bytes(made.rows(k=3))
    Path("conv.pdl").write_bytes(made.whole("conv"))
    assert main(["predict", "shop.pdl", "--help"]) == 0
    said = capsys.readouterr().out
    assert "Inputs of shop.pdl: " in said
    assert "--row COLUMN=VALUE,..." in said
    assert said.rstrip().endswith("It ranks, so --topk limits its answers.")
    assert main(["predict", "shop.pdl", "--row", '"items=apple,dates"', "--row=items=figs", "--topk", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    for arguments, says in (
        (["shop.pdl", "--nodes", "3"], "this model has no option --nodes; it takes "),
        (["shop.pdl", "--nodes", "3"], ", or --row COLUMN=VALUE,..."),
        (["shop.pdl", "--row"], "--row needs a value: --row COLUMN=VALUE,..."),
        (["conv.pdl", "--row", "x=1"], "this model has no option --row; it takes an image"),
        (["shop.pdl"], "no input; this model takes "),
        (["--topk", "2"], "which model?"),
    ):
        assert main(["predict", *arguments]) == 2, arguments
        assert says in capsys.readouterr().err


def test_answers_as_a_file(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.framework.runtime import made

    monkeypatch.chdir(tmp_path)
    Path("shop.pdl").write_bytes(made.rows(k=3))
    Path("in.csv").write_text('items\n"apple,dates"\nfigs\n')
    assert main(["predict", "shop.pdl", "in.csv", "--out", "answers.csv"]) == 0
    assert capsys.readouterr().out.split() == ["answers", "answers.csv", "inputs", "2", "rows", "6"]
    assert Path("answers.csv").read_text().startswith("row,rank,")
    assert main(["predict", "shop.pdl", "gone.csv"]) == 3
    assert "gone.csv: cannot be read" in capsys.readouterr().err
    assert main(["predict", "shop.pdl", "in.csv", "--out", "answers.csv", "--json"]) == 2


def test_check_and_broken_data(recipe: str, capsys: Capture) -> None:
    assert main(["check", "-c", recipe]) == 0
    assert "no fault" in capsys.readouterr().out
    for command in ("check", "train"):
        assert main([command, "-c", recipe, "data.val.root=nowhere"]) == 3
        assert "data.val: pdl_demo.Points: nowhere: no such folder" in capsys.readouterr().err
    assert main(["check", "-c", recipe, "data.val.root=nowhere", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["faults"][0]["split"] == "val"
    assert sorted(str(path) for path in Path().rglob("*")) == [recipe, "runs"]


@pytest.mark.parametrize(
    ("steps", "options", "says"),
    [
        (6, [], "go on with: pdl train --resume run\n"),
        (6, ["--overfit", "4"], "go on with: pdl train --resume run --overfit 4\n"),
        (2, [], "nothing to go on from"),
    ],
)
def test_an_interruption_says_how_to_go_on(
    steps: int, options: list[str], says: str, recipe: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pdl_demo

    step, calls = pdl_demo.Fit.step, iter(range(steps))

    def interrupted(*arguments: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(pdl_demo.Fit, "step", interrupted)
    assert main(["train", "-c", recipe, "--run", "run", *options]) == 130
    assert says in capsys.readouterr().err


def test_init(recipe: str, capsys: Capture) -> None:
    assert main(["init", "demo.fit", "--data", ".", "--out", "new/mine.yaml"]) == 0
    assert "pdl train -c new/mine.yaml" in capsys.readouterr().out
    assert main(["config", "check", "-c", "new/mine.yaml"]) == 0
    before = Path(recipe).read_text()
    assert main(["init", "demo.fit", "--data", ".", "--out", recipe]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path(recipe).read_text() == before
    assert main(["init", "demo.fit", "--data", ".", "--out", recipe, "--force", "--width", "16"]) == 0
    assert "width: 16" in Path(recipe).read_text()
    assert main(["init", "demo.fit", "--data", "nowhere", "--out", "x.yaml"]) == 2
    assert main(["init", "demo.broken", "--data", ".", "--out", "x.yaml"]) == 2
    assert "model.width: missing" in capsys.readouterr().err
    assert sorted(path.name for path in Path().rglob("*.yaml")) == ["mine.yaml", "recipe.yaml"]


def test_info(capsys: Capture) -> None:
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {"versions", "machine", "suites", "folders"} <= set(facts)
    assert main(["info"]) == 0
    assert "versions.numpy" in capsys.readouterr().out


def _raise(error: BaseException) -> Any:
    def command(*_: Any, **__: Any) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (DataError("row 3: no such file; restore it"), 3, "row 3: no such file; restore it\n"),
        (KeyboardInterrupt(), 130, "pdl: interrupted\n"),
        (BrokenPipeError(), 141, ""),
        (ZeroDivisionError("division by zero"), 1, "pdl: unexpected error: ZeroDivisionError: division by zero\n"),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, says: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(style, "silence", lambda: None)
    monkeypatch.setattr("pdl.hub.catalogue.catalogue", _raise(error))
    assert main(["models"]) == code
    said = capsys.readouterr()
    assert said.err.startswith(says)
    assert "Traceback" not in said.err
    logs = list(tmp_path.glob("pdl-crash-*.log"))
    assert bool(logs) == (code == 1)
    assert all(str(log) in said.err and "Traceback" in log.read_text() for log in logs)


def test_debug_shows_the_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PDL_DEBUG", "1")
    assert main(["config", "show", "-c", str(tmp_path / "nope.yaml")]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_pipe_is_no_crash() -> None:
    """`pdl --version | head -0`: the reader has gone before the first line comes."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pdl", "--version"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_completion(capfd: Capture) -> None:
    environment = {**os.environ, "_PDL_COMPLETE": "complete_bash", "COMP_WORDS": "pdl co", "COMP_CWORD": "1"}
    known = ["compare", "compile", "compress", "config", "convert"]
    assert python("-m", "pdl", env=environment).stdout.split() == known


def test_table_is_plain_when_nobody_looks(capsys: Capture) -> None:
    style.table(["name", "n"], [["a", 1.5], ["bcd", None], ["e", float("nan")]], title="t")
    assert capsys.readouterr().out == "t\nname       n\na     1.5000\nbcd        -\ne          -\n"


def test_letters_of_two_columns_are_aligned(capsys: Capture) -> None:
    style.table(["name", "n"], [["日本", 1.5], ["a\u0308b", 2.5]])
    style.pairs([("日", "a"), ("bc", "d")])
    assert capsys.readouterr().out == "name       n\n日本  1.5000\na\u0308b    2.5000\n日  a\nbc  d\n"


def test_json_has_no_nan(capsys: Capture) -> None:
    import numpy as np

    style.json({"a": float("nan"), "b": np.float32(1.5), "c": (np.arange(2), Path("x"))})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": 1.5, "c": [[0, 1], "x"]}


HOSTILE = "cat\x1b[2J\x1b]0;owned\x07\r\x08\x7f\x9b31m\u202etac"
SHOWN = r"cat\x1b[2J\x1b]0;owned\x07\r\x08\x7f\x9b31m\u202etac"


@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_terminal_would_obey_is_shown(terminal: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: terminal, raising=False)
    style.out(HOSTILE)
    style.error(HOSTILE)
    style.note(f"two\nlines\t{HOSTILE}")
    style.table(["name", HOSTILE], [[HOSTILE, 1], [f"{HOSTILE}\nnext", 2]], title=HOSTILE)
    style.pairs([("label", HOSTILE)], title=HOSTILE)
    style.traceback(DataError(HOSTILE))
    out, err = capsys.readouterr()
    assert SHOWN in out
    assert SHOWN in err
    assert f"two\nlines\t{SHOWN}" in err
    said = re.sub(r"\x1b\[[\d;]*m|\n|\t", "", out + err)  # rich's own colours
    assert not [sign for sign in said if ord(sign) < 32 or 126 < ord(sign) < 160 or sign == "\u202e"]


def test_json_is_json_whatever_a_name_holds(capsys: Capture) -> None:
    style.json({HOSTILE: HOSTILE})
    said = capsys.readouterr().out
    assert json.loads(said) == {HOSTILE: HOSTILE}
    assert said.rstrip("\n").isprintable()


def test_no_command_hands_escapes_to_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "a\x1b[2J"
    folder.mkdir()
    (folder / "recipe.yaml").write_text("model: {_target_: !x }\n")
    given = [["config", "check", "-c", f"{folder}/recipe.yaml"], ["info", str(folder)], ["x\x1b[2J"]]
    for words in given:
        assert main(words) != 0
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        assert r"\x1b[2J" in out + err


def test_a_short_run_does_not_go_on_as_a_whole_one(recipe: str, capsys: Capture) -> None:
    assert main(["train", "-c", recipe, "--run", "run", "--fast-dev-run"]) == 0
    assert main(["train", "--resume", "run"]) == 2
    assert "pdl train --resume run --fast-dev-run" in capsys.readouterr().err
    assert main(["train", "--resume", "run", "--fast-dev-run"]) == 0


def test_profile(recipe: str, capsys: Capture) -> None:
    assert main(["train", "-c", recipe, "--run", "run", "--profile", "--profile-steps", "2"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("2 eager steps of ")
    assert "running in eager mode" in said.err
    assert "\nLinear" in said.out
    assert json.loads(Path("run/trace.json").read_text())["traceEvents"]
    assert json.loads(Path("run/profile.json").read_text())["steps"] == 2
    assert main(["train", "-c", recipe, "--profile", "--profile-steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trace"] == "runs/recipe-1/trace.json"
    assert main(["train", "-c", recipe, "--profile", "--overfit", "4"]) == 2
    assert "--profile stands alone" in capsys.readouterr().err


def test_a_plain_install_says_what_the_command_needs(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "pdl.cli.app", None)
    monkeypatch.setattr("pdl.cli.NEEDED", ("pdl", "typer"))
    assert main(["info"]) == 2
    assert 'pip install "pdl-core[train]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (["help"], "Usage: pdl COMMAND"),
        (["-h"], "Usage: pdl COMMAND"),
        (["help", "train"], "Usage: pdl train"),
        (["train", "-h"], "Usage: pdl train"),
        (["config", "list", "-h"], "Usage: pdl config list"),
        (["version"], f"pdl {pdl.__version__}"),
    ],
)
def test_help_and_version_as_other_programs_have_them(arguments: list[str], begins: str, capsys: Capture) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_recipes_by_a_part_of_their_name(capsys: Capture) -> None:
    assert main(["config", "list", "digits_le", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["cv/digits_lenet"]
    assert main(["config", "list", "nosuch"]) == 2
    assert "no recipe is named like 'nosuch'" in capsys.readouterr().err


def test_init_names_what_it_can_write(capsys: Capture) -> None:
    assert main(["init", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(name in said for name in writers())


def test_options_of_a_task_that_recipes_are_written_for(recipe: str, capsys: Capture) -> None:
    assert main(["init", "demo.fit", "--help"]) == 0
    assert "Options of demo.fit:\n  --width N  How wide the net is." in capsys.readouterr().out
    given = ["init", "demo.fit", "--data", ".", "--out", "x.yaml"]
    for more, message in (
        (["--widht", "3"], "demo.fit has no option --widht; did you mean '--width'? (it takes --data PATH"),
        (["--width"], "--width needs a value: --width N"),
        (["--width", "3", "--width=4"], "--width is given 2 times"),
        (["3"], "what is '3'?"),
    ):
        assert main([*given, *more]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"demo.fit has no option 'depth'.*\(it has width\)"):
        init("demo.fit", data=".", out="x.yaml", depth="3")


def test_wrong_paths_among_several_are_named_and_not_the_end(tmp_path: Path, capsys: Capture) -> None:
    model = str(Path(pdl_cv.__file__).parent / "weights/digits_lenet.pdl")
    (tmp_path / "a.png").write_bytes(png(np.zeros((8, 8, 1), np.uint8)))
    (tmp_path / "none").mkdir()
    words = [str(tmp_path / name) for name in ("b.png", "a.png", "none", "c*.png")]
    assert main(["predict", model, *words, "--json"]) == 0
    said = capsys.readouterr()
    answers = json.loads(said.out)
    assert [each["input"] for each in answers] == words
    assert ["error" in each for each in answers] == [True, False, True, True]
    for path, why in zip(
        words[:1] + words[2:], ("no such file", "in this folder are no images", "no file matches"), strict=True
    ):
        assert f"{path}: {why}" in said.err
    assert said.err.endswith("3 of 4 inputs have no answer (--strict ends at the first)\n")
    assert main(["predict", model, *words, "--strict"]) == 3
    assert capsys.readouterr().err == f"{words[0]}: no such file\n"
    assert main(["predict", model, words[0]]) == 3
    assert capsys.readouterr().err == f"{words[0]}: no such file\n"


def test_answers_are_printed_as_they_come(capsys: Capture) -> None:
    def values() -> Iterator[Any]:
        yield {"a": float("nan")}
        assert capsys.readouterr().out == '[{"a": null}'
        yield "\x1b"
        raise DataError("the rest is lost")

    with pytest.raises(DataError):
        style.json_list(values())
    assert capsys.readouterr().out == ', "\\u001b"\n'
    style.json_list(iter([1, [2]]))
    style.json_list(())
    assert capsys.readouterr().out == "[1, [2]]\n[]\n"


def test_one_broken_input_of_many_is_an_error_and_not_the_end(tmp_path: Path, capsys: Capture) -> None:
    model = str(Path(pdl_cv.__file__).parent / "weights/digits_lenet.pdl")
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(png(np.zeros((8, 8, 1), np.uint8)))
    (tmp_path / "aa.png").write_text("no image")
    assert main(["predict", model, str(tmp_path), "--json"]) == 0
    said = capsys.readouterr()
    assert [Path(each["input"]).stem for each in json.loads(said.out)] == ["a", "aa", "b"]
    assert "error" in json.loads(said.out)[1]
    assert said.err.count("aa.png") == 1
    assert said.err.endswith("1 of 3 inputs have no answer (--strict ends at the first)\n")
    assert main(["predict", model, str(tmp_path), "--out", str(tmp_path / "x.csv")]) == 0
    assert "aa.png: not an image" in capsys.readouterr().err
    assert main(["predict", model, str(tmp_path), "--strict"]) == 3
    assert main(["predict", model, str(tmp_path / "aa.png")]) == 3
    assert main(["predict", model, *[str(tmp_path / "aa.png")] * 2]) == 3
    assert capsys.readouterr().err.endswith("none of the inputs could be used\n")

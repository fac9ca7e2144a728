"""Searches: what is proposed, what is stopped, several runs at once, going on, Ray Tune, and the page."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl.config.sweeps import Interval
from pdl.workflow.sweeps import sweep
from pdl.workflow.sweeps.halving import Halving
from pdl.workflow.sweeps.page import importance
from pdl.workflow.sweeps.proposing import Past, propose
from tests.framework.workflow.test_leaderboard import SMALL

Capture = pytest.CaptureFixture[str]
LR = "optim.lr=log(1e-4,1e-1)"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL.format(channels=4, lr=0.01))
    return tmp_path


def record(folder: str | Path = "runs/small-sweep") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "trials.jsonl").read_text().splitlines()]


def proposed(folder: str | Path = "runs/small-sweep") -> list[dict[str, str]]:
    return [line["settings"] for line in record(folder) if line["kind"] == "trial"]


@pytest.mark.parametrize(("less", "factor", "grace"), [(True, 3, 1), (False, 2, 2), (True, 4, 1)])
def test_asha_stops_what_optunas_pruner_stops(less: bool, factor: int, grace: int) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=grace, reduction_factor=factor)
    study = optuna.create_study(direction="minimize" if less else "maximize", pruner=pruner)
    mine, rng = Halving.of(20, grace, factor, less), np.random.default_rng(0)
    under_way, stopped = {n: study.ask() for n in range(40)}, 0
    for epoch in range(1, 20):
        for n, trial in list(under_way.items()):
            value = float(np.round(rng.normal(), 1)) if rng.random() > 0.05 else math.nan
            trial.report(value, epoch)
            reason = mine.judge(str(n), epoch, value)
            assert bool(reason) == trial.should_prune(), (n, epoch, value)
            if reason:
                stopped += 1
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                del under_way[n]
    assert 20 < stopped <= 40
    assert Halving.of(100, None, 3, less).grace == 4


def test_proposals_are_a_function_of_what_is_known() -> None:
    pytest.importorskip("optuna")
    space = {"lr": Interval(1e-4, 1e-1, True), "width": Interval(8, 64), "kind": ["a", "b"]}

    def course(best: float, n: int) -> list[Past]:
        past: list[Past] = []
        for k in range(n):
            found = propose(space, past, seed=3, less=True)
            loss = abs(math.log10(float(found["lr"])) - best) + (found["kind"] == "b")
            state = "stopped" if k % 5 == 4 else "finished"
            past.append(Past(found, state, loss, {1: loss}))  # type: ignore[arg-type]
        return past

    past = course(-2.0, 30)
    assert course(-2.0, 30) == past
    assert propose(space, past, seed=3, less=True) != propose(space, past, seed=4, less=True)
    assert all(8 <= int(each.settings["width"]) <= 64 and 1e-4 <= float(each.settings["lr"]) <= 0.1 for each in past)
    late = [abs(math.log10(float(each.settings["lr"])) + 2) for each in past[15:]]
    assert np.median(late) < 0.5, "it finds where the loss is least"
    assert sum(each.settings["kind"] == "a" for each in past[15:]) > 8
    other = [Past({"lr": "5", "width": "9", "kind": "a"}, "finished", 0.0), Past({"lr": "0.01"}, "finished", 0.0)]
    assert propose(space, other, seed=3, less=True).keys() == space.keys(), "what lies outside is left out"


def test_a_search_goes_on_where_it_was(place: Path, capsys: Capture) -> None:
    pytest.importorskip("optuna")
    words = ["sweep", "-c", "small.yaml", LR, "data.batch_size=64,128", "train.epochs=2"]
    words += ["train.compile=false", "--scheduler", "asha", "-q"]
    assert main([*words, "--trials", "5", "--runs", "whole", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert main([*words, "--trials", "3", "--runs", "parts"]) == 0
    kept = [json.dumps(line) for line in record("parts") if line["kind"] != "end"]
    Path("parts/trials.jsonl").write_text("\n".join([*kept, '{"kind": "evalua']))  # as a kill leaves it
    assert main([*words, "--trials", "5", "--runs", "parts", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert proposed("whole") == proposed("parts")
    assert [row["name"] for row in parts["rows"]] == [row["name"] for row in whole["rows"]]
    stopped = [row for row in whole["rows"] if row["ended"]]
    assert {row["ended"] for row in stopped} == {"stopped after epoch 1"}
    name, run = stopped[0]["name"], Path(stopped[0]["runs"][0])
    assert not (run / "result.json").exists()
    assert (run / "checkpoints" / "last.safetensors").is_file()
    ends = [line["trial"] for line in record("whole") if line["kind"] == "end"]
    assert name in ends
    assert "go on with: pdl train --resume" in (run / "train.log").read_text()

    page = Path("whole/sweep.html").read_text()
    assert page.count('<g class="at"') > 5
    assert "stopped after epoch 1" in page
    assert re.search(r"<th>optim.lr</th>", page)
    assert "http" not in re.sub(r"http://www.w3.org/2000/svg|http-equiv", "", page)

    words = [word for word in words if word not in ("--scheduler", "asha")]
    assert main([*words, "--trials", "5", "--runs", "whole", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert not any(row["ended"] for row in rows), "without asha what was stopped goes on"
    assert (run / "result.json").is_file()
    log = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log if line["kind"] == "epoch"] == [1, 2], "from its checkpoint"

    for more, says in (
        (["-c", "small.yaml", LR, "--trials", "2"], "whose settings is data.batch_size, optim.lr; here it is optim.lr"),
        (["-c", "cv/digits_lenet", LR, "--trials", "2"], "whose recipe is small; here it is digits_lenet"),
    ):
        assert main(["sweep", *more, "--runs", "whole"]) == 2
        assert says in capsys.readouterr().err


def test_a_grid_is_stopped_by_its_first_seeds(place: Path) -> None:
    words = ["optim.lr=0.05,0.0,1e-05", "train.seed=0,1", "train.epochs=2", "train.compile=false"]
    board = sweep("small.yaml", words, scheduler="asha", factor=2)
    rows = {row.name: row for row in board.rows if row.runs}
    assert list(rows) == ["optim.lr=0.05", *[name for name in rows if name != "optim.lr=0.05"]]
    assert rows["optim.lr=0.05"].seeds == [0, 1]
    assert {rows[name].ended for name in ("optim.lr=0.0", "optim.lr=1e-05")} == {"stopped after epoch 1"}
    assert not Path("runs/small-sweep/optim.lr=0.0,train.seed=1").exists()
    assert "2 stopped early" in board.notes[-1]


def test_several_at_once(place: Path, capfd: Capture) -> None:
    words = ["sweep", "-c", "small.yaml", "optim.lr=0.02,0.05,1e30", "+train.clip_norm=null", "train.compile=false"]
    assert main([*words, "--jobs", "2", "--json"]) == 1
    said = capfd.readouterr()
    rows = {row["name"]: row for row in json.loads(said.out)["rows"]}
    assert "training diverged" in rows["optim.lr=1e+30"]["failures"][0]
    alone = sweep("small.yaml", ["optim.lr=0.02,0.05", "train.compile=false"], runs="alone")
    for row in alone.rows:
        if row.runs:
            assert rows[row.name]["metrics"]["val/accuracy"]["values"] == row.values["val/accuracy"]


def workers(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    found = [line.split(None, 2) for line in listed.splitlines()[1:]]
    return [int(pid) for pid, of, args in found if int(of) == parent and "sweep_worker" in args]


def wait(until: Any, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_killed_and_interrupted(place: Path) -> None:
    pytest.importorskip("optuna")
    words = ["-c", "small.yaml", "optim.lr=interval(0.01,0.02)", "train.epochs=400", "train.checkpoint_every=5"]
    line = [sys.executable, "-m", "pdl", "sweep", *words, "--trials", "2", "--jobs", "2", "--runs", "made"]
    job = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait(lambda: len(list(Path("made").glob("*/checkpoints/last.safetensors"))) == 2)
        os.kill(workers(job.pid)[0], signal.SIGKILL)
        assert job.stderr is not None
        seen = ""
        while "it is taken up again" not in seen:
            seen = job.stderr.readline()
            assert seen, "it ended"
        assert "its process ended (signal 9)" in seen
        wait(lambda: len(workers(job.pid)) == 2)
        os.killpg(job.pid, signal.SIGINT)
        assert "the same command goes on" in job.communicate(timeout=240)[1]
        assert job.returncode == 130
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
    assert len(proposed("made")) == 2
    logs = [(run / "train.log").read_text() for run in sorted(Path("made").glob("optim*"))]
    assert len(logs) == 2
    assert any("ended by SIGTERM; go on with" in log for log in logs)


def test_what_cannot_be_searched(place: Path, capsys: Capture) -> None:
    pytest.importorskip("optuna")
    text = Path("small.yaml").read_text()
    Path("blind.yaml").write_text(text.replace("  val: {_target_: pdl_cv.data.Digits, split: val}\n", ""))
    asha = ["--scheduler", "asha"]
    for words, says in (
        (["optim.lr=log(0,1)", "--trials", "2"], "logarithms are of numbers above 0"),
        (["optim.lr=log(0.1,0.01)", "--trials", "2"], "from a number to a larger one; here 0.1 to 0.01"),
        (["optim.lr=interval(1,1)", "--trials", "2"], "from a number to a larger one"),
        (["optim.lr=0.1,0.2", "--scheduler", "median"], "choose none or asha"),
        (["optim.lr=0.1,0.2", *asha], "train.epochs=1: nothing is ever stopped"),
        ([LR, "--trials", "3", "train.monitor=val/charm"], "there is no metric 'val/charm'"),
        (["-c", "blind.yaml", LR, "--trials", "3"], "the recipe has no data.val"),
        (["optim.lrr=0.1,0.2"], "lrr"),
    ):
        assert main(["sweep", "-c", "small.yaml", *words, "-q"]) == 2, words
        assert says in capsys.readouterr().err


def test_whole_numbers_where_a_setting_takes_no_others(place: Path) -> None:
    pytest.importorskip("optuna")
    board = sweep("small.yaml", ["data.batch_size=log(32,256)"], trials=2)
    assert all(re.fullmatch(r"data.batch_size=\d+", row.name) for row in board.rows if row.runs)


def test_what_matters() -> None:
    rng = np.random.default_rng(0)
    lr, noise = rng.random(60), rng.random(60)
    kind = rng.choice(["a", "b"], 60)
    loss = (lr - 0.5) ** 2 + 0.02 * (kind == "b") + 0.005 * rng.random(60)  # best in the middle
    places = np.argsort(np.argsort(loss)).tolist()
    settings = {"noise": list(map(str, noise)), "kind": list(kind), "lr": list(map(str, lr))}
    found = importance(settings, places, numbers={"lr", "noise"})
    assert next(iter(found)) == "lr"
    assert found["lr"] > 0.5 > found["kind"] > found["noise"]
    assert found["noise"] < 0.1
    # of equal groups: epsilon squared by hand, H = 12 / (n (n + 1)) sum R^2 / m - 3 (n + 1)
    exact = importance({"k": ["a"] * 5 + ["b"] * 5}, list(range(10)), numbers=set())["k"]
    h = 12 / 110 * (15**2 / 5 + 40**2 / 5) - 33
    assert exact == pytest.approx((h - 1) / 8)
    assert importance(settings, [None, *places[1:9], *[None] * 51], numbers=set()) == {}


def test_on_ray(place: Path) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("ray.tune")
    words = [LR, "train.epochs=2", "train.compile=false"]
    line = [sys.executable, "-m", "pdl", "sweep", "-c", "small.yaml", *words, "--trials", "2", "--scheduler", "asha"]
    environment = {**os.environ, "RAY_prestart_worker_first_driver": "0"}  # its processes begin when they are needed
    done = subprocess.run(
        [*line, "--ray", "local", "--jobs", "1", "--json"], env=environment, capture_output=True, text=True
    )  # fmt: skip
    if "timed out during startup" in done.stderr:
        pytest.skip("Ray gives up after 30 s, and this machine needs longer to start it")
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout)["rows"] if row["runs"]]
    here = sweep("small.yaml", words, trials=2, scheduler="asha", runs="here")
    assert proposed() == proposed("here")
    assert [(row["name"], row["ended"], row["metrics"]["val/accuracy"]["values"]) for row in rows] == [
        (row.name, row.ended, row.values["val/accuracy"]) for row in here.rows if row.runs
    ]
    again = sweep("small.yaml", words, trials=3, scheduler="asha")
    assert len([row for row in again.rows if row.runs]) == 3, "what was begun there goes on here"

"""Processes that are killed, hang, are told to leave and join: who goes on, from where, and what is said."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from pdl import checkpoint
from pdl.config import load
from pdl.distributed.elastic import Supervisor, Worker, bounds
from pdl.distributed.group import Group
from pdl.distributed.peers import Lost, Peers, Wire
from pdl.errors import UsageError
from pdl.train.log import read_log
from pdl.workflow import train
from pdl.workflow.run import Run
from tests.framework.distributed.conftest import ENVIRONMENT

TOOL = Path(__file__).parents[3] / "tools" / "chaos.py"


# -- groups over sockets ---------------------------------------------------------------------------------------------
@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    ends: list[dict[int, socket.socket]] = [{}, {}, {}]
    for a, b in combinations(range(3), 2):
        ends[a][b], ends[b][a] = socket.socketpair()
    made = [Wire(rank, each, lambda: False) for rank, each in enumerate(ends)]
    yield made
    for wire in made:
        wire.close()


def on_all(wires: list[Wire], work: Callable[[Group], object]) -> list[object]:
    """What `work` gives on each, in threads; an exception is what it gives."""
    found: list[object] = [None] * len(wires)

    def run(rank: int) -> None:
        try:
            found[rank] = work(Group(Peers(wires[rank]), timeout=20))
        except Lost as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(wires))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_a_group_of_sockets_is_a_group(wires: list[Wire]) -> None:
    def work(group: Group) -> bool:
        mine = np.arange(900_000, dtype=np.float64) + group.rank  # more than a socket holds
        whole, out = np.empty((3, len(mine))), np.tile(np.arange(3.0)[:, None], (1, 70_000)) + 10 * group.rank
        come = np.empty_like(out)
        late = group.gather(mine, whole, later=True)
        group.exchange(out, come).wait()
        late.wait()
        root = np.full(5, group.rank)
        group.broadcast(root, 1)
        group.rest()
        parts = group.part([0, 2]).texts(f"r{group.rank}") if group.rank != 1 else []
        again = group.part([2, 0]).rows(np.array([group.rank])).ravel().tolist() if group.rank != 1 else []
        return bool(
            (whole == np.arange(900_000.0) + np.arange(3)[:, None]).all()
            and (come == np.arange(3.0)[:, None] * 10 + group.rank).all()
            and (root == 1).all()
            and group.texts("x" * group.rank) == ["", "x", "xx"]
            and (group.rank == 1 or (parts == ["r0", "r2"] and again == [2, 0]))
        )

    assert on_all(wires, work) == [True, True, True]


def test_one_that_goes_is_lost_to_all_and_what_it_sent_counts(wires: list[Wire]) -> None:
    def work(group: Group) -> object:
        last = group.rows(np.array([7 + group.rank])).ravel().tolist()
        if group.rank == 2:
            wires[2].close()
            return last
        assert last == [7, 8, 9]
        group.wait_for(lambda: 2 in wires[group.rank].gone or group.comm.wire.advance() is not None)
        return group.rows(np.array([1]))

    found = on_all(wires, work)
    assert isinstance(found[0], Lost)
    assert isinstance(found[1], Lost)
    assert found[2] == [7, 8, 9]


# -- who watches over them -------------------------------------------------------------------------------------------
#: counts together with the others until a file is there; a stop travels as in training, and who is told to end leaves
MEMBER = """
import os, signal, sys, time
import numpy as np
from pdl.distributed.elastic import Regroup, member
from pdl.distributed.group import Silence

class Trainer:
    interruption = None

here, step, held, told = member(), 0, None, []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
def save(path):
    with open(path, "w") as file:
        file.write(str(step))
while True:
    generation = here.next(held, save)
    group, trainer = generation.group, Trainer()
    try:
        step = int(group.rows(np.array([step if generation.source else 0]))[0, 0])
        here.training(trainer)
        here.line.send(run=sys.argv[2])
        while True:
            mine = [step, bool(told), trainer.interruption is not None, os.path.exists(sys.argv[1])]
            steps = group.rows(np.array([mine]))[:, 0]
            assert (steps[:, 0] == step).all(), steps
            step, held = step + 1, [step + 1, 0]
            time.sleep(0.01)
            if steps[0, 3]:
                here.done()
                sys.exit()
            if told and len(sys.argv) > 3:
                sys.exit(int(sys.argv[3]))
            if steps[:, 1:3].any():
                break
    except Silence:
        continue
    if told:
        if here.ending:
            sys.exit(143)
        raise here.leave(143)
"""


def counting(tmp_path: Path, least: int, most: int, *more: str) -> Supervisor:
    script = tmp_path / "member.py"
    script.write_text(MEMBER)
    line = [sys.executable, str(script), str(tmp_path / "enough"), str(tmp_path / "saved"), *more]
    return Supervisor(line, least, most, heartbeat=1.0, timeout=30.0, pauses=(0.2, 1.0))


def run(supervisor: Supervisor, *deeds: Callable[[list[Worker]], None]) -> int:
    """The exit code. Each deed is done to the members, by rank, when all places are filled and train."""

    def do() -> None:
        number = 0
        for deed in deeds:
            while supervisor.number == number or [w.state for w in supervisor.members] != ["trains"] * supervisor.most:
                time.sleep(0.02)
            number = supervisor.number
            time.sleep(0.5)
            deed(list(supervisor.members))

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    return supervisor.run()


def send(rank: int, number: int) -> Callable[[list[Worker]], None]:
    return lambda members: os.kill(members[rank].process.pid, number)


def test_the_others_go_on_and_new_ones_join(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def enough(members: list[Worker]) -> None:
        os.kill(members[1].process.pid, signal.SIGTERM)
        time.sleep(1)
        (tmp_path / "enough").touch()

    assert run(counting(tmp_path, 1, 3), send(0, signal.SIGKILL), send(2, signal.SIGSTOP), enough) == 0
    said = capsys.readouterr().err
    host = os.uname().nodename
    assert re.search(rf"rank 0, process \d+ on {host} was killed \(signal 9\)\n2 processes go on from step \d+\n", said)
    assert "1 process joined; 3 processes go on from step" in said
    assert f"on {host} gave no sign of life for 1 s, and was ended" in said
    assert re.search(r"rank 1, process \d+ on .* was told to end and leaves\n2 processes go on", said)
    steps = [int(n) for n in re.findall(r"from step (\d+)", said)]
    assert steps == sorted(steps)
    assert min(steps) > 0


def test_too_few_write_down_what_they_have_and_ask_for_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = counting(tmp_path, 2, 2)
    supervisor.pauses = (30.0, 30.0)

    def kill(members: list[Worker]) -> None:
        supervisor.timeout = 2.0
        os.kill(members[0].process.pid, signal.SIGKILL)

    assert run(supervisor, kill) == 101
    assert int((tmp_path / "saved").read_text()) > 0
    said = capsys.readouterr().err
    assert "1 process left, 2 needed: waiting for 2 s at most" in said
    assert "no process for place 0 in 2 s: start this training again" in said


def test_an_error_of_one_and_a_signal_end_the_job(tmp_path: Path) -> None:
    assert run(counting(tmp_path, 1, 2, "3"), send(1, signal.SIGTERM)) == 3
    assert run(counting(tmp_path, 1, 2), lambda _: os.kill(os.getpid(), signal.SIGTERM)) == 143


def test_bounds() -> None:
    assert bounds("1:4") == (1, 4)
    assert bounds("3") == (3, 3)
    for wrong in ("", "0:2", "3:2", "a:b", "1:4:5"):
        with pytest.raises(UsageError, match="expected MIN:MAX"):
            bounds(wrong)


# -- the training ----------------------------------------------------------------------------------------------------
RECIPE = [
    "train.epochs=4", "train.report=false", "train.export=false", "train.ema=null", "data.batch_size=34",
    "optim._target_=pdl.optim.SGD", "optim.lr=0.05",
]  # fmt: skip


def test_a_training_whose_first_process_is_killed_learns_the_same(tmp_path: Path) -> None:
    words = ["train", "-c", "cv/digits_lenet", "--elastic", "1:2", "--run", "run", *RECIPE]
    job = subprocess.Popen(
        [sys.executable, "-m", "pdl", *words], cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    log, first = tmp_path / "run" / "metrics.jsonl", tmp_path / "run" / "logs" / "rank0.txt"
    while not (log.is_file() and '"kind": "epoch", "epoch": 1' in log.read_text()) and job.poll() is None:
        time.sleep(0.02)
    killed = int(re.findall(r"process (\d+)", first.read_text())[-1])
    os.kill(killed, signal.SIGKILL)
    while '"kind": "epoch", "epoch": 2' not in log.read_text() and job.poll() is None:
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    said = job.communicate(timeout=100)[1]
    assert job.returncode == 128 + signal.SIGTERM, said
    assert said.count("go on with: pdl train --resume") == 1
    assert f"rank 0, process {killed} on {os.uname().nodename} was killed (signal 9)" in said
    assert "was killed (signal 9)" in (tmp_path / "run" / "train.log").read_text()
    train(Run.open(tmp_path / "run").config(), run=tmp_path / "run", resume=True, progress=False)
    train(load("cv/digits_lenet", RECIPE), run=tmp_path / "alone", progress=False)
    found, alone = (
        [line for line in read_log(tmp_path / run / "metrics.jsonl") if line["kind"] == "epoch"]
        for run in ("run", "alone")
    )
    assert [line["epoch"] for line in found] == [1, 2, 3, 4]
    for ours, theirs in zip(found, alone, strict=True):
        assert ours["train/loss"] == pytest.approx(theirs["train/loss"], rel=1e-3)
    assert checkpoint.load(tmp_path / "run" / "checkpoints" / checkpoint.LAST)["state"]["samples"] == 4 * 1258


@pytest.mark.slow
def test_each_sample_counts_once_an_epoch_whatever_happens_to_processes(tmp_path: Path) -> None:
    options = ["--epochs", "30", "--every", "5", "--seconds", "20", "--signals", "KILL,STOP,TERM", "--heartbeat", "3"]
    done = subprocess.run([sys.executable, str(TOOL), *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "each sample once in each epoch" in done.stdout

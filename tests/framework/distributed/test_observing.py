"""What people see of a training with several processes: one line, logs of each, one trace, who is slow."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import sys
import termios
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pdl.distributed.launcher import pieces, start
from pdl.distributed.stragglers import WINDOW, Stragglers
from pdl.train.profiler import Event, in_lanes
from pdl.train.rank_log import named
from tests.framework.distributed.conftest import Ranks

#: stands for mpirun and its ranks: a line that is drawn anew, a message of another rank, mpirun's box, an end
JOB = """
import os, sys, time
def say(text):
    sys.stderr.write(text); sys.stderr.flush(); time.sleep(0.05)
assert os.environ["PDL_TERMINAL"] == "70"
say("\\r\\x1b[Kstep 1"); say("\\r\\x1b[Kstep 2"); say("rank 1 is slow\\n"); say("\\r\\x1b[Kstep 3")
say("-" * 74 + "\\nMPI_ABORT was invoked\\n" + "-" * 74 + "\\n"); say("half"); say(" a line\\n")
say("\\r\\x1b[Kstep 4")
"""


def test_a_line_that_is_drawn_anew_comes_at_once_and_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert start([sys.executable, "-c", JOB]) == 0
    seen = b""
    with suppress(OSError):  # the end, once the other side is closed
        while piece := os.read(ours, 10000):
            seen += piece
    os.close(ours)
    assert seen.decode().replace("\r\x1b[K", "<") == "<step 1<step 2<rank 1 is slow\r\n<step 3<half a line\r\n<step 4<"


def test_pieces_are_lines_wherever_reads_end() -> None:
    data = "one\n\r\x1b[Kä\r\x1b[Kb\ntwo\r\nthree".encode()
    for size in range(1, len(data) + 1):
        reads = iter([data[i : i + size] for i in range(0, len(data), size)] + [b""])
        found = list(pieces(lambda reads=reads: next(reads)))  # type: ignore[misc]
        assert "".join(found).encode() == data
        assert found[0] == "one\n"
        assert all(piece.count("\n") <= 1 for piece in found)


def test_a_rank_that_others_wait_for_is_named_once() -> None:
    stragglers = Stragglers(["a", "a", "b", "b"], 1.5)
    lines = []
    for step in range(3 * WINDOW):
        seconds = np.array([0.01, 0.011, 0.010, 0.018])
        seconds[step % 3] *= 50 if step % 10 == 0 else 1  # a checkpoint now and then
        lines += stragglers.see(seconds)
    (line,) = lines
    assert line.startswith("warning: rank 3 on b takes 1.8 times as long as the others")
    assert "18.0 ms of its own a step, they 10.0 ms" in line


def test_ranks_and_lanes_in_words() -> None:
    assert named([3]) == "rank 3"
    assert named([1, 2, 3, 7]) == "ranks 1-3 and 7"
    events = [Event("m", str(i), begin, end) for i, (begin, end) in enumerate([(0, 3), (1, 2), (2, 5), (3, 4)])]
    assert [[e.op for e in lane] for lane in in_lanes(events)] == [["0", "3"], ["1", "2"]]


#: rank 1 is slow and says something of its own; then steps are profiled, and a rank fails
CODE = """
    import json, time, warnings
    from pathlib import Path
    import numpy as np
    from pdl.config import load
    from pdl.distributed import stragglers
    from pdl.distributed.clocks import clock_offsets
    from pdl.distributed.group import world
    from pdl.train import Hook
    from pdl.workflow import profile, train

    group = world()
    stragglers.WINDOW = 8

    class Slow(Hook):
        def on_batch(self, trainer):
            if group.rank == 1:
                time.sleep(0.2)

        def on_start(self, trainer):
            if group.rank:
                trainer.emit("on_message", "not on the first")
            warnings.warn("on all", stacklevel=1)

    off = ["train.report=false", "train.export=false", "distributed.data=2"]
    recipe = load("cv/digits_lenet", [*off, "train.epochs=1", "train.max_steps=10"])
    train(recipe, run="run", hooks=[Slow()])
    clocks = clock_offsets(group)
    assert clocks[0].tolist() == [0, 0] and abs(clocks[1, 0]) <= clocks[1, 1]  # processes of a machine have one clock
    found = profile(load("cv/digits_lenet", [*off, "distributed.overlap=true"]), run="profile", steps=4)
    assert found.recorded == 4 and group.spans is None

    class Fails(Hook):
        def on_step(self, trainer):
            if group.rank == 1:
                raise ValueError("broken here")
            time.sleep(1)

    train(recipe, run="failed", hooks=[Fails()], progress=False)
"""


def test_logs_of_ranks_a_trace_of_all_and_who_is_slow(ranks: Ranks, tmp_path: Path) -> None:
    done = ranks(2, CODE, expect=1)
    said, train_log = done.stderr, (tmp_path / "run" / "train.log").read_text()
    for line in ("rank 1: not on the first", "warning: rank 1 on "):
        assert said.count(line) == train_log.count(line) == 1
    assert said.count("UserWarning: on all") == 1
    logs = [(tmp_path / "run" / "logs" / f"rank{rank}.txt").read_text() for rank in range(2)]
    for rank, log in enumerate(logs):
        assert f"rank {rank} of 2, host {os.uname().nodename}, process " in log
        assert log.count("UserWarning: on all") == log.count("waiting for others") == 1
        assert log.splitlines()[-1].endswith("  ended")
    assert "  not on the first" in logs[1]

    events = json.loads((tmp_path / "profile" / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for pid in (1, 2):
        mine = {
            row: [e for e in spans if names[e["pid"], e["tid"]] == row and e["pid"] == pid] for row in names.values()
        }
        messages = mine["messages 1"] + mine.get("messages 2", [])
        assert len([e for e in messages if e["name"] == "header"]) == 4
        assert {"sum of bucket 0", "gather of bucket 0"} <= {e["name"] for e in messages}
        assert int(next(e for e in messages if e["name"].startswith("sum of"))["args"]["bytes"]) >= 4 * 31294
        assert mine["phases"]
        assert mine["ops"]
        for row in mine.values():
            row.sort(key=lambda e: e["ts"])
            if row is not mine["ops"]:
                assert all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in pairwise(row))
    # a rank has the other's part of the sums not before that one has sent it
    step = [next(e for e in spans if e["pid"] == pid and e["name"] == "sum of bucket 0") for pid in (1, 2)]
    assert step[0]["ts"] + step[0]["dur"] > step[1]["ts"] - 50_000
    table = json.loads((tmp_path / "profile" / "profile.json").read_text())["messages"]
    assert {row["kind"]: row["number"] for row in table}["header"] == 1

    assert "ValueError: broken here" in (tmp_path / "failed" / "logs" / "rank1.txt").read_text()

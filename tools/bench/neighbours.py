"""How inference lives with neighbours: pdl against ONNX Runtime and OpenVINO on cores that are not theirs alone.

    python tools/bench/neighbours.py                                    # every condition, ResNet-20 and MobileNetV2
    python tools/bench/neighbours.py --nets resnet18_32 --only busy callers

alone      one session, one caller
busy       the same beside a process of low priority (nice 10) that computes without end
sessions   two sessions in one process, a caller each
callers    eight callers of one session
quota      one session, one caller, in a cgroup of 1.5 CPUs (needs the right to make one)

Every measurement is a process of its own, with as many threads a session as there are cores; the sides take turns. The
table shows calls a second of all callers together and percentiles of the latency of a call, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import infer_nets
import numpy as np
from infer import Row, cpu
from train import table

#: condition -> sessions, callers of each
CONDITIONS = {"alone": (1, 1), "busy": (1, 1), "sessions": (2, 1), "callers": (1, 8), "quota": (1, 1)}
QUOTA, PERIOD = 150_000, 100_000
CPU_GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))


# -- the worker: one measurement ---------------------------------------------------------------------------------------
def worker(args: argparse.Namespace) -> Row:
    """Latencies of all callers, in this process."""
    side, name, condition = args.worker
    ready, make = infer_nets.SIDES[side](args.folder, name, 1, "fp32", args.threads)
    ready()
    sessions, callers = CONDITIONS[condition]
    if side == "openvino":  # a request of OpenVINO serves one caller at a time
        calls = [make() for _ in range(sessions * callers)]
    else:
        calls = [call for call in (make() for _ in range(sessions)) for _ in range(callers)]
    for call in calls:
        call()
    found: list[list[float]] = [[] for _ in calls]
    begin = threading.Barrier(len(calls))

    def run(number: int) -> None:
        begin.wait()
        for measuring, seconds in ((False, args.seconds / 3), (True, args.seconds)):
            end = time.perf_counter() + seconds
            while (start := time.perf_counter()) < end:
                calls[number]()
                if measuring:
                    found[number].append(time.perf_counter() - start)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    times = np.concatenate([np.array(times) for times in found])
    return {"per_second": len(times) / args.seconds, **{f"p{p}": float(np.percentile(times, p)) for p in (50, 99)}}


# -- the conditions ----------------------------------------------------------------------------------------------------
@contextmanager
def neighbour(condition: str) -> Iterator[None]:
    """The busy process, where the condition has one."""
    if condition != "busy":
        yield
        return
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.nice(10))
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


@contextmanager
def group(condition: str) -> Iterator[Path | None]:
    """The file to which a process of the condition writes its number: that of a cgroup of 1.5 CPUs."""
    if condition != "quota":
        yield None
        return
    root = next((g for g in CPU_GROUPS if (g / "cgroup.procs").exists()), None)
    if root is None:
        raise OSError("no cgroup of CPUs is mounted")
    made = root / f"pdl-neighbours-{os.getpid()}"
    made.mkdir()
    try:
        if (made / "cpu.cfs_quota_us").exists():
            (made / "cpu.cfs_quota_us").write_text(f"{QUOTA}")
        else:
            (made / "cpu.max").write_text(f"{QUOTA} {PERIOD}")
        yield made / "cgroup.procs"
    finally:
        made.rmdir()


def ask(side: str, name: str, condition: str, args: argparse.Namespace) -> Row:
    """What `worker` answers in a process of its own; {"error": ...} where it fails."""
    command = [sys.executable, __file__, "--worker", side, name, condition, "--folder", str(args.folder),
               "--seconds", str(args.seconds), "--threads", str(args.threads)]  # fmt: skip
    try:
        with neighbour(condition), group(condition) as procs:
            enter = (lambda: procs.write_text(f"{os.getpid()}")) if procs else None
            done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=enter)
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, condition: str, args: argparse.Namespace) -> dict[str, Row]:
    """All sides in turns; the median over the rounds."""
    rounds: dict[str, list[Row]] = {side: [] for side in args.sides}
    for _ in range(args.rounds):
        for side, found in rounds.items():
            if not any("error" in row for row in found):
                found.append(ask(side, name, condition, args))
                print(".", end="", file=sys.stderr, flush=True)
    rows: dict[str, Row] = {}
    for side, found in rounds.items():
        wrong = next((row for row in found if "error" in row), None)
        rows[side] = wrong or {key: statistics.median(row[key] for row in found) for key in found[0]}
    return rows


def line(name: str, condition: str, side: str, row: Row) -> list[str]:
    """A line of the table."""
    head = [name, condition, side]
    if "error" in row:
        return [*head, row["error"][:100]]
    return [*head, f"{row['per_second']:,.1f}", *[f"{row[f'p{p}'] * 1e3:,.2f}" for p in (50, 99)]]


def main() -> None:
    """Measure everything, print a table; or (as a worker) one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=list(infer_nets.NETS), default=["resnet20", "mobilenetv2"])
    parser.add_argument("--only", nargs="+", choices=list(CONDITIONS), default=list(CONDITIONS))
    parser.add_argument("--sides", nargs="+", choices=list(infer_nets.SIDES), default=list(infer_nets.SIDES))
    parser.add_argument("--seconds", type=float, default=3.0, help="of measuring, per process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each session")
    parser.add_argument("--folder", type=Path, help="where nets are written and, if they are there, found")
    parser.add_argument("--json", type=Path, help="write everything here")
    parser.add_argument("--worker", nargs=3, metavar=("SIDE", "NET", "CONDITION"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(worker(args)))
        return
    results: dict[str, dict[str, dict[str, Row]]] = {}
    with tempfile.TemporaryDirectory() as made:
        args.folder = args.folder or Path(made)
        for name in args.nets:
            if not (args.folder / f"{name}.json").exists():
                infer_nets.prepare(name, args.folder)
            results[name] = {condition: measure(name, condition, args) for condition in args.only}
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu(), "threads": args.threads, "nets": results}, indent=1) + "\n")
    titles = ["net", "condition", "side", "calls/s", "p50 ms", "p99 ms"]
    lines = [line(n, c, s, row) for n, found in results.items() for c, rows in found.items() for s, row in rows.items()]
    print(f"\n{cpu()}, {args.threads} threads a session\n{table(titles, iter(lines))}")


if __name__ == "__main__":
    main()

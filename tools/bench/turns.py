"""Sides that take short turns, each a process that stays: what else the machine does meets all of them alike.

A worker makes its call ready, and `serve`s; the race asks one after the other to run for a part of a second, many times
over. A ratio is the median, over the turns, of one side's time through the other's right before or after it.

Where other work keeps the cores busy, the time that passes says little; then `clock` "cpu" counts the time that all
threads of a side spend computing (sides that wait actively count that, too: give them one thread).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

Row = dict[str, Any]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def serve(call: Callable[[], Any], facts: Mapping[str, Any], clock: str = "wall") -> None:
    """Say `facts`; then, for every number of seconds on a line of the input, run that long and say the median."""
    now = CLOCKS[clock]
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        times: list[float] = []
        while not times or sum(times) < float(line):
            start = now()
            call()
            times.append(now() - start)
        print(json.dumps(statistics.median(times)), flush=True)


class Worker:
    """A process that serves; `facts` are what it said first, {"error": ...} if it failed."""

    def __init__(self, command: Sequence[str]) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the worker
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.facts: Row = self._answer() or {"error": self._complaint()}

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def _complaint(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def turn(self, seconds: float) -> float:
        """Median seconds of a call in a turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        found = self._answer()
        if found is None:
            raise SystemExit(f"a side failed while it was measured: {self._complaint()}")
        return float(found)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._log.close()


def race(commands: Mapping[str, Sequence[str]], *, seconds: float, turns: int) -> dict[str, Row]:
    """All sides by name: what they said, "median" seconds of a call, and "turns", the median of each."""
    workers = {name: Worker(command) for name, command in commands.items()}
    ready = {name: worker for name, worker in workers.items() if "error" not in worker.facts}
    found: dict[str, list[float]] = {name: [] for name in ready}
    for number in range(turns + 1):  # the first turn warms up
        for name, worker in ready.items():
            taken = worker.turn(seconds)
            if number:
                found[name].append(taken)
        print(".", end="", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.close()
    return {
        name: worker.facts | ({"median": statistics.median(found[name]), "turns": found[name]} if name in ready else {})
        for name, worker in workers.items()
    }


def ratio(rows: Mapping[str, Row], own: str, peers: Sequence[str]) -> tuple[str, float] | None:
    """The fastest of the peers, and how many times as fast as it `own` is; None where one of both did not run."""
    ran = [name for name in peers if "median" in rows[name]]
    if "median" not in rows[own] or not ran:
        return None
    peer = min(ran, key=lambda name: rows[name]["median"])
    pairs = zip(rows[peer]["turns"], rows[own]["turns"], strict=True)
    return peer, statistics.median(theirs / ours for theirs, ours in pairs)


def main(
    doc: str | None,
    nets: Sequence[str],
    worker: Callable[[str, str, argparse.Namespace], None],
    run: Callable[[str, argparse.Namespace], Row],
    cells: Callable[[str, Row], list[str]],
    titles: list[str],
    *,
    seconds: float,
    turns: int,
    torch: bool = False,
) -> None:
    """The command line of a race of nets, with PyTorch's interpreter where `torch` takes part: `worker(side, net, ...)`
    serves; `run(net, ...)` gives {"rows", "ratio", ...}, of which `cells` make a line of the table."""
    from infer import cpu  # what processes of peers that serve can do without
    from train import table

    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if torch:
        parser.add_argument(
            "--torch-python", default=sys.executable, help="the interpreter that has PyTorch, torchvision"
        )
    parser.add_argument("--only", nargs="+", choices=list(nets), default=list(nets), help="these nets (default: all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=seconds, help="of a turn, at least one call")
    parser.add_argument("--turns", type=int, default=turns)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: on a busy machine (turns.py)")
    parser.add_argument("--folder", type=Path, help="where nets are written and, if they are there, found")
    parser.add_argument("--json", type=Path, help="write everything here")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "NET"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(*args.worker, args)
        return
    with tempfile.TemporaryDirectory() as made:
        args.folder = args.folder or Path(made)
        args.folder.mkdir(parents=True, exist_ok=True)
        results = {name: run(name, args) for name in args.only}
    lines = table(titles, iter([cells(name, result) for name, result in results.items()]))
    print(f"\n{cpu()}, {args.threads} threads, {args.clock} clock\n{lines}")
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu(), "threads": args.threads, "nets": results}, indent=1) + "\n")

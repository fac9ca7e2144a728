"""How soon a model answers, pdl against ONNX Runtime: importing, loading, the first run, that of a new size.

    pip install onnxruntime==1.32.0
    python tools/bench/start.py                                      # the nets of infer.py; 2 threads
    python tools/bench/start.py --nets resnet20 --threads 1 --rounds 3
    python tools/bench/foreign_nets.py NETS; python tools/bench/start.py --only-onnx --onnx NETS/*.onnx

The nets are those of infer.py, in the same folder (--folder) if it is given. Every measurement is a process of its own;
the sides take turns, and the table shows the median of the rounds, in milliseconds:

    import    NumPy and all modules that the next steps need
    load      `pdl.runtime.load`, or `onnxruntime.InferenceSession` with its default optimisations
    first     the first run, at batch 1 (or the batch that the file fixes)
    again     the second
    new size  the first run at batch 3; then the second
    ratio     load + first of ONNX Runtime over that of pdl, above 1 where pdl is faster; likewise of the new size
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import infer_nets
from infer import cpu
from train import memory, table

SIDES = ("pdl", "ort")
BATCHES = (1, 3)
Row = dict[str, float]


# -- the worker: one measurement ---------------------------------------------------------------------------------------
def pdl_ready() -> None:
    """All that a start needs; `pdl.runtime` alone imports it at the first load."""
    import pdl.runtime.bundle
    import pdl.runtime.pipeline
    import pdl.runtime.plan  # noqa: F401


def pdl_load(path: Path, threads: int) -> Callable[[Any], Any]:
    """A model that takes an array."""
    import pdl.runtime

    session = pdl.runtime.load(path.with_suffix(".pdl"), threads=threads)
    return lambda x: session.run({session.inputs[0].name: x})


def ort_ready() -> None:
    """The import."""
    import onnxruntime  # noqa: F401


def ort_load(path: Path, threads: int) -> Callable[[Any], Any]:
    """A model that takes an array."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(path.with_suffix(".onnx"), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {session.get_inputs()[0].name: x})


def worker(side: str, name: str, folder: Path, threads: int) -> Row:
    """One measurement, in this process; seconds and bytes."""
    ready, load = {"pdl": (pdl_ready, pdl_load), "ort": (ort_ready, ort_load)}[side]
    make = infer_nets.arrays_of if side == "pdl" else infer_nets.onnx_input
    arrays = [make(name, batch, folder) for batch in BATCHES]
    fixed = arrays[0].shape == arrays[1].shape
    row: Row = {}

    def timed(step: str, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        made = call()
        row[step] = time.perf_counter() - begin
        return made

    timed("import", ready)
    before = memory()["now"]
    run = timed("load", lambda: load(folder / name, threads))
    timed("first", lambda: run(arrays[0]))
    timed("again", lambda: run(arrays[0]))
    row["peak"] = memory()["peak"] - before
    if not fixed:
        timed("new size", lambda: run(arrays[1]))
        timed("then", lambda: run(arrays[1]))
    return row


# -- the race ----------------------------------------------------------------------------------------------------------
def measure(name: str, args: argparse.Namespace) -> dict[str, Row]:
    """Both sides of a net, in turns: the median of each step."""
    rounds: dict[str, list[Row]] = {side: [] for side in SIDES}
    for _ in range(args.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "--worker", side, name, "--folder", str(args.folder), "--threads",
                       str(args.threads)]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rounds[side].append(json.loads(done.stdout.splitlines()[-1]))
            print(".", end="", file=sys.stderr, flush=True)
    for rows in rounds.values():
        for row in rows:
            row["start"] = row["load"] + row["first"]
    return {side: {step: statistics.median(r[step] for r in rows) for step in rows[0]} for side, rows in rounds.items()}


def rows_of(results: dict[str, dict[str, Row]]) -> Iterator[list[str]]:
    """The table: a line for each net and side."""
    steps = ("import", "load", "first", "start", "again", "new size", "then")
    for name, sides in results.items():
        for side, row in sides.items():
            times = [f"{row[step] * 1e3:,.1f}" if step in row else "-" for step in steps]
            ratios = [f"{sides['ort'][step] / row[step]:.2f}" if side == "pdl" and step in row else "-"
                      for step in ("start", "new size")]  # fmt: skip
            yield [name, side, *times, *ratios, f"{row['peak'] / 2**20:,.0f}"]


def main() -> None:
    """Race, or (as a worker) measure once."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--nets", nargs="+", choices=list(infer_nets.NETS), help="these nets (default: all)")
    made.add_argument("--onnx", nargs="+", type=Path, default=[], help="ONNX files to import and race, too")
    made.add_argument("--only-onnx", action="store_true", help="race only the files of --onnx")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--folder", type=Path, help="where nets are written and, if they are there, found")
    made.add_argument("--json", type=Path, help="write everything here")
    made.add_argument("--worker", nargs=2, metavar=("SIDE", "NET"), help=argparse.SUPPRESS)
    args = made.parse_args()
    if args.worker:
        print(json.dumps(worker(*args.worker, args.folder, args.threads)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        args.folder = args.folder or Path(temporary)
        args.folder.mkdir(parents=True, exist_ok=True)
        names = [] if args.only_onnx else args.nets or list(infer_nets.NETS)
        sources = {path.stem: path for path in args.onnx}
        results = {}
        for name in [*names, *sources]:
            infer_nets.prepare_missing(name, sources.get(name), args.folder)
            results[name] = measure(name, args)
    print(file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu(), "threads": args.threads, "nets": results}, indent=1) + "\n")
    titles = ["net", "side", "import", "load", "first", "load + first", "again", "new size", "then", "ratio",
              "new size", "peak MiB"]  # fmt: skip
    print(f"{cpu()}, {args.threads} threads, milliseconds")
    print(table(titles, rows_of(results)))


if __name__ == "__main__":
    main()

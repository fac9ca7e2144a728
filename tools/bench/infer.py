"""Inference speed of pdl against ONNX Runtime and OpenVINO, in one run: latency at batch 1, throughput at 32, memory.

    pip install onnxruntime==1.32.0 openvino==2026.4.1
    python tools/bench/infer.py                                      # all nets; all engines, 2 threads
    python tools/bench/infer.py --nets lenet resnet20 --quick
    python tools/bench/infer.py --precisions int8 --batches 1
    python tools/bench/foreign_nets.py NETS; python tools/bench/infer.py --only-onnx --onnx NETS/*.onnx --json X

Each net has random weights (batch norms: the statistics of a batch) and is written once: as a bundle, which pdl loads
through `pdl.runtime`, and as an ONNX file, which the others read (ONNX Runtime: sequential, spinning as by default;
OpenVINO: latency hint, compiled for the input's shape). Files given with --onnx are imported into a bundle, and run at
the batch that they fix, if they fix one. In int8 all three run one file, quantised by ONNX Runtime.

Every measurement is a process of its own; the sides take turns. A process warms up, then times single calls for the
given seconds. The table shows the median over the rounds of each process' percentiles; a ratio compares the median
latency with that of the faster peer of the same precision, above 1 where pdl is faster. "off by" is the largest
difference of pdl's outputs from ONNX Runtime's float32 over the largest of these. Memory is the process' peak (VmHWM)
less what it held after importing its framework.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import infer_nets
import numpy as np
from train import memory, table

#: (side, precision) of everything measured
MODES = (
    ("ort", "fp32"), ("openvino", "fp32"), ("pdl", "fp32"), ("openvino", "bf16"), ("pdl", "bf16"),
    ("ort", "int8"), ("openvino", "int8"), ("pdl", "int8"),
)  # fmt: skip
PERCENTILES = (50, 90, 99)
Row = dict[str, Any]


# -- the worker: one measurement ---------------------------------------------------------------------------------------
def timed(call: Callable[[], Any], seconds: float, least: int = 5) -> list[float]:
    """Seconds of each call, after a warm-up of a third of the time and three calls at least."""
    until, warm = time.perf_counter() + seconds / 3, 0
    while warm < 3 or time.perf_counter() < until:
        call()
        warm += 1
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def worker(args: argparse.Namespace) -> Row:
    """One measurement, in this process."""
    side, precision, name, batch = args.worker
    ready, make = infer_nets.SIDES[side](args.folder, name, int(batch), precision, args.threads)
    ready()
    before = memory()["now"]
    call = make()
    first = call()
    times = timed(call, args.seconds)
    np.savez(args.folder / f"{name}-{batch}-{side}-{precision}.npz", *first)
    return {
        **{f"p{p}": float(np.percentile(times, p)) for p in PERCENTILES},
        "min": min(times), "calls": len(times), "memory_after_import": before, "memory_peak": memory()["peak"],
    }  # fmt: skip


# -- the race ----------------------------------------------------------------------------------------------------------
def ask(side: str, precision: str, name: str, batch: int, args: argparse.Namespace) -> Row:
    """What `worker` answers in a process of its own; {"error": ...} where it fails."""
    command = [*args.wrap, sys.executable, __file__, "--worker", side, precision, name, str(batch), "--folder",
               str(args.folder), "--seconds", str(args.seconds), "--threads", str(args.threads)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"error": lines[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, batch: int, args: argparse.Namespace) -> dict[str, Row]:
    """All modes of a net at a batch size, in turns: "side precision" -> row."""
    bf16 = name not in infer_nets.NETS or infer_nets.NETS[name].bf16
    modes = [(s, p) for s, p in MODES if p in args.precisions and (bf16 or p == "fp32")]
    rounds: dict[str, list[Row]] = {f"{side} {precision}": [] for side, precision in modes}
    for _ in range(args.rounds):
        for side, precision in modes:
            made = rounds[f"{side} {precision}"]
            if not any("error" in row for row in made):
                made.append(ask(side, precision, name, batch, args))
                print(".", end="", file=sys.stderr, flush=True)
    rows = {label: one_row(found, batch) for label, found in rounds.items()}
    return compared(rows, args.folder, name, batch)


def one_row(rounds: list[Row], batch: int) -> Row:
    """The median over the rounds of one mode."""
    wrong = next((r for r in rounds if "error" in r), None)
    if wrong is not None:
        return wrong
    middle = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    best = {"min": min(r["min"] for r in rounds), "calls": sum(r["calls"] for r in rounds)}
    return {**middle, **best, "rounds": [r["p50"] for r in rounds], "per_second": batch / middle["p50"]}


def compared(rows: dict[str, Row], folder: Path, name: str, batch: int) -> dict[str, Row]:
    """The rows; those of pdl with the ratio to the faster peer and the difference from ONNX Runtime's float32."""
    for label, row in rows.items():
        side, precision = label.split()
        if side != "pdl" or "error" in row:
            continue
        peers = {s: rows[f"{s} {precision}"]["p50"] for s in ("ort", "openvino")
                 if "p50" in rows.get(f"{s} {precision}", {})}  # fmt: skip
        if peers:
            row["peer"] = min(peers, key=peers.__getitem__)
            row["ratio"] = peers[row["peer"]] / row["p50"]
        if "p50" in rows.get("ort fp32", {}):
            files = [folder / f"{name}-{batch}-{x.replace(' ', '-')}.npz" for x in ("ort fp32", label)]
            row["off_by"] = difference(*(list(np.load(f).values()) for f in files))
    return rows


def difference(wanted: list[Any], found: list[Any]) -> float:
    """The largest |a - b| over the largest |b|, over all outputs."""
    pairs = list(zip(wanted, found, strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return math.inf
    scale = max(float(np.abs(a).max(initial=0)) for a in wanted)  # detectors may find nothing
    apart = (np.abs(a.astype(np.float64) - b.astype(np.float64)) for a, b in pairs)
    return max(float(each.max(initial=0)) for each in apart) / (scale or 1.0)


# -- what people read --------------------------------------------------------------------------------------------------
def geometric_means(results: dict[str, Any]) -> dict[str, float]:
    """Of the ratios, per batch size and precision."""
    found: dict[str, list[float]] = {}
    for batches in results.values():
        for batch, rows in batches.items():
            for label, row in rows.items():
                if "ratio" in row:
                    found.setdefault(f"{label.split()[1]} batch {batch}", []).append(row["ratio"])
    return {key: math.exp(statistics.mean(map(math.log, ratios))) for key, ratios in found.items()}


def rows_of(results: dict[str, Any]) -> Iterator[list[str]]:
    """The table: a line for each net, batch size, side and precision."""
    for name, batches in results.items():
        for batch, rows in batches.items():
            for label, row in rows.items():
                head = [f"{name} x{batch}", label]
                if "error" in row:
                    yield [*head, row["error"][:100]]
                    continue
                more = (row["memory_peak"] - row["memory_after_import"]) / 2**20
                yield [
                    *head, *[f"{row[f'p{p}'] * 1e3:,.3f}" for p in PERCENTILES], f"{row['min'] * 1e3:,.3f}",
                    f"{row['per_second']:,.1f}", f"{more:,.0f}",
                    f"{row['ratio']:.2f} {row['peer']}" if "ratio" in row else "-",
                    f"{row['off_by']:.0e}" if "off_by" in row else "-",
                ]  # fmt: skip


def report(results: dict[str, Any], threads: int) -> str:
    """The table and the geometric means."""
    titles = ["net x batch", "side", *[f"p{p} ms" for p in PERCENTILES], "min ms", "samples/s", "MiB", "ratio",
              "off by"]  # fmt: skip
    means = ", ".join(f"{key}: {value:.2f}" for key, value in geometric_means(results).items())
    lines = [f"{cpu()}, {threads} threads", table(titles, rows_of(results))]
    return "\n".join(lines + ([f"geometric mean of the ratios: {means}"] if means else []))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--nets", nargs="+", choices=list(infer_nets.NETS), help="these nets (default: all)")
    made.add_argument("--onnx", nargs="+", type=Path, default=[], help="ONNX files to import and race, too")
    made.add_argument("--only-onnx", action="store_true", help="race only the files of --onnx")
    made.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    made.add_argument("--precisions", nargs="+", choices=["fp32", "bf16", "int8"], default=["fp32", "bf16"])
    made.add_argument("--seconds", type=float, default=2.0, help="of measuring, per process")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--quick", action="store_true", help="one round of half a second at batch 1")
    made.add_argument("--folder", type=Path, help="where nets are written and, if they are there, found")
    made.add_argument("--wrap", type=shlex.split, default=[], help="a command before each, such as 'taskset -c 0,1'")
    made.add_argument("--json", type=Path, help="write everything here")
    made.add_argument("--worker", nargs=4, metavar=("SIDE", "PRECISION", "NET", "BATCH"), help=argparse.SUPPRESS)
    return made


def race(args: argparse.Namespace) -> dict[str, Any]:
    """Write the nets, measure all: net -> batch -> "side precision" -> row."""
    names = [] if args.only_onnx else args.nets or list(infer_nets.NETS)
    sources = {path.stem: path for path in args.onnx}
    results: dict[str, Any] = {}
    for name in [*names, *sources]:
        infer_nets.prepare_missing(name, sources.get(name), args.folder)
        if "int8" in args.precisions and not (args.folder / f"{name}-int8.json").exists():
            infer_nets.prepare_int8(name, args.folder)
        fixed = (infer_nets.facts_of(name, args.folder).get("shape") or [None])[0]
        batches = [fixed] if fixed else args.batches
        results[name] = {str(batch): measure(name, batch, args) for batch in batches}
        if args.json:
            args.json.write_text(json.dumps(whole(results, args), indent=1) + "\n")
    print(file=sys.stderr)
    return results


def whole(results: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """What is written: the rows, how they were measured, and on what."""
    return {"cpu": cpu(), "threads": args.threads, "seconds": args.seconds, "rounds": args.rounds,
            "geometric_means": geometric_means(results), "nets": results}  # fmt: skip


def cpu() -> str:
    """The CPU's name and its instruction sets that matter here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = found.get("flags", "").split()
    sets = [f for f in ("avx2", "avx_vnni", "avx512f", "avx512_bf16", "amx_tile") if f in flags]
    return f"{found.get('model name', 'unknown')} ({', '.join(sets)})"


def main() -> None:
    """Run a race, or (as a worker) one measurement."""
    args = parser().parse_args()
    if args.worker:
        print(json.dumps(worker(args)))
        return
    if args.quick:
        args.batches, args.rounds, args.seconds = [1], 1, 0.5
    with tempfile.TemporaryDirectory() as made:
        args.folder = args.folder or Path(made)
        args.folder.mkdir(parents=True, exist_ok=True)
        results = race(args)
    print(report(results, args.threads))


if __name__ == "__main__":
    main()

"""Training speed of pdl against its peers, in one run: whole steps (forward, loss, gradients, update), synthetic data.

    python tools/bench/train.py                            # pdl alone
    python tools/bench/train.py --peer torch               # beside PyTorch, if this interpreter has it
    python tools/bench/train.py --peer torch paddle --torch-python PYTHON --paddle-python PYTHON --json out.json
    python tools/bench/train.py --only lenet gru4rec --modes eager

Every measurement is a process of its own; pdl and its peers take turns. A figure is the median step of a process after
its warm-up; the table shows the median over the rounds. A ratio compares the best mode of pdl in a precision with the
best mode of all peers in the same precision. Every mode of every side has a line in the second table.

Peak memory is that of the process (VmHWM) less what it held after importing its framework; so it contains weights,
gradients, optimiser state, activations and, for torch.compile, the compiler. The share of the peak is the arithmetic of
the products (convolutions, matrices, recurrent layers, attention; forward and gradients, by the plain formula, two
operations for each multiply-add) a second, over what multiply-adds in registers reach in this run. An algorithm that
multiplies less, such as Winograd's, may pass 100 %.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from peak import peak_rate
from workloads import WORKLOADS, Workload

SIDES = ("pdl", "torch", "paddle")
PRECISIONS = ("fp32", "bf16")
Rows = dict[str, dict[str, Any]]  # "side mode" -> what was measured


# -- the worker: one measurement ---------------------------------------------------------------------------------------
def measure(step: Callable[[], Any], seconds: float) -> tuple[float, int]:
    """Median seconds of a step after a warm-up (three steps, and a quarter of the time), and how many were timed."""
    until = time.perf_counter() + seconds / 4
    warm = 0
    while warm < 3 or time.perf_counter() < until:
        step()
        warm += 1
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times), len(times)


def memory() -> dict[str, int]:
    """Bytes of this process: resident now, and at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {key: int(fields[name].split()[0]) * 1024 for key, name in (("now", "VmRSS"), ("peak", "VmHWM"))}


def worker(side: str, workload: str, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """One measurement, in this process."""
    module = importlib.import_module(f"{side}_nets")
    if mode == "list":
        listed = {"modes": module.modes(WORKLOADS[workload])}
        return listed | ({"flops": module.step_flops(workload)} if side == "pdl" else {})
    before = memory()["now"]
    made = module.side(workload, mode, args.threads)
    median, count = measure(made.step, args.seconds)
    return {
        "seconds": median,
        "steps": count,
        "parameters": made.parameters,
        "memory_after_import": before,
        "memory_peak": memory()["peak"],
    }


# -- the race ----------------------------------------------------------------------------------------------------------
def ask(side: str, workload: str, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """What `worker` answers in a process of its own; {"error": ...} where it fails."""
    wrap = [] if mode == "list" else args.wrap
    command = [*wrap, python_of(side, args), __file__, "--worker", side, workload, mode,
               "--seconds", str(args.seconds), "--threads", str(args.threads)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"error": lines[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def python_of(side: str, args: argparse.Namespace) -> str:
    """The interpreter that has this side."""
    return str({"pdl": sys.executable, "torch": args.torch_python, "paddle": args.paddle_python}[side])


def plan(workload: str, args: argparse.Namespace) -> tuple[list[tuple[str, str]], float]:
    """(side, mode) of everything to measure on a workload, and the operations of a sample's step."""
    found, flops = [], 0.0
    for side in ("pdl", *args.peer):
        listed = ask(side, workload, "list", args)
        if "error" in listed:
            sys.exit(f"{side} cannot run {workload} with {python_of(side, args)}: {listed['error']}")
        flops = listed.get("flops", flops)
        found += [(side, m) for m in listed["modes"] if not args.modes or any(word in m for word in args.modes)]
    return found, flops


def run_workload(workload: str, peak: float, args: argparse.Namespace) -> dict[str, Any]:
    """All modes of all sides, in turn."""
    pairs, flops = plan(workload, args)
    rounds: dict[str, list[dict[str, Any]]] = {f"{side} {mode}": [] for side, mode in pairs}
    for _ in range(args.rounds):
        for side, mode in pairs:
            if not any("error" in r for r in rounds[f"{side} {mode}"]):
                rounds[f"{side} {mode}"].append(ask(side, workload, mode, args))
                print(".", end="", file=sys.stderr, flush=True)
    rows = {label: one_row(found, WORKLOADS[workload]) for label, found in rounds.items()}
    counts = {row["parameters"] for row in rows.values() if "parameters" in row}
    if len(counts) > 1:
        shown = {label: row.get("parameters") for label, row in rows.items()}
        sys.exit(f"{workload}: the sides disagree about the number of parameters: {shown}")
    return {"modes": rows, "flops_per_sample": flops, **compare(rows, flops, peak)}


def one_row(found: list[dict[str, Any]], work: Workload) -> dict[str, Any]:
    """The median over the rounds of one mode."""
    wrong = next((r for r in found if "error" in r), None)
    if wrong is not None:
        return wrong
    each = [work.batch / r["seconds"] for r in found]
    return {
        "samples_per_second": statistics.median(each),
        "rounds": each,
        "steps": sum(r["steps"] for r in found),
        "parameters": found[0]["parameters"],
        "memory_after_import": int(statistics.median(r["memory_after_import"] for r in found)),
        "memory_peak": int(statistics.median(r["memory_peak"] for r in found)),
    }


def compare(rows: Rows, flops: float, peak: float) -> dict[str, Any]:
    """Best modes, ratios and shares of the peak in each precision."""
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        own = best(rows, f"pdl {precision}")
        peers = [b for b in (best(rows, f"{side} {precision}") for side in SIDES[1:]) if b]
        peer = max(peers, key=lambda label: rows[label]["samples_per_second"], default=None)
        found[precision] = {"pdl": own, "peer": peer}
        for name, label in (("pdl", own), ("peer", peer)):
            if label:
                rate = rows[label]["samples_per_second"] * flops / 1e9
                found[precision][f"{name}_share_of_fp32_peak"] = rate / peak
        if own and peer:
            found[precision]["ratio"] = rows[own]["samples_per_second"] / rows[peer]["samples_per_second"]
    return found


def best(rows: Rows, prefix: str) -> str | None:
    """The fastest of the modes whose label begins so."""
    ran = [label for label, row in rows.items() if label.startswith(prefix) and "error" not in row]
    return max(ran, key=lambda label: rows[label]["samples_per_second"], default=None)


# -- what people read --------------------------------------------------------------------------------------------------
def step_memory(row: dict[str, Any]) -> float:
    """Mebibytes that training needed beyond the imports."""
    return float(row["memory_peak"] - row["memory_after_import"]) / 2**20


def summary_rows(results: dict[str, Any]) -> Iterator[list[str]]:
    """The table of the race: a line for each workload and precision."""
    for workload, result in results.items():
        for precision in PRECISIONS:
            found, rows = result[precision], result["modes"]
            sides = [(name, found[name]) for name in ("pdl", "peer")]
            if not any(label for _, label in sides):
                continue
            cells = [workload, precision]
            for name, label in sides:
                shown = label.replace(f"{name} ", "").replace(f"{precision} ", "") if label else "-"
                cells += [shown, f"{rows[label]['samples_per_second']:,.1f}" if label else "-"]
            cells += [f"{found['ratio']:.2f}" if "ratio" in found else "-"]
            shares = [found.get(f"{name}_share_of_fp32_peak") for name, _ in sides]
            cells += ["-" if share is None else f"{share:.0%}" for share in shares]
            yield cells + [f"{step_memory(rows[label]):,.0f}" if label else "-" for _, label in sides]


def mode_rows(results: dict[str, Any]) -> Iterator[list[str]]:
    """Every mode of every side."""
    for workload, result in results.items():
        for label, row in result["modes"].items():
            if "error" in row:
                yield [workload, label, row["error"][:100]]
                continue
            spread = (max(row["rounds"]) - min(row["rounds"])) / row["samples_per_second"]
            yield [workload, label, f"{row['samples_per_second']:,.1f}", f"{spread:.0%}", str(row["steps"]),
                   f"{row['memory_after_import'] / 2**20:,.0f}", f"{step_memory(row):,.0f}"]  # fmt: skip


def table(titles: list[str], rows: Iterator[list[str]]) -> str:
    """Aligned columns, names to the left and numbers to the right; a row that is too short ends in a remark."""
    lines = [titles, *rows]
    whole = [line for line in lines if len(line) == len(titles)]
    widths = [max(len(line[i]) for line in whole) for i in range(len(titles))]
    left = [i < 2 or title.endswith("mode") for i, title in enumerate(titles)]

    def aligned(line: list[str]) -> str:
        last = len(line) - 1 if len(line) < len(titles) else len(line)
        cells = [c if i == last else c.ljust(widths[i]) if left[i] else c.rjust(widths[i]) for i, c in enumerate(line)]
        return "  ".join(cells).rstrip()

    return "\n".join(map(aligned, lines))


def geometric_means(results: dict[str, Any]) -> dict[str, float]:
    """Over the workloads that have a ratio in a precision."""
    found = {}
    for precision in PRECISIONS:
        ratios = [r[precision]["ratio"] for r in results.values() if "ratio" in r[precision]]
        if ratios:
            found[precision] = math.exp(statistics.mean(map(math.log, ratios)))
    return found


def report(results: dict[str, Any], peak: float, threads: int) -> str:
    """Both tables and the geometric means."""
    short = ["workload", "precision", "pdl mode", "pdl/s", "peer mode", "peer/s", "ratio", "pdl of peak",
             "peer of peak", "pdl MiB", "peer MiB"]  # fmt: skip
    full = ["workload", "mode", "samples/s", "spread", "steps", "MiB after import", "MiB more at peak"]
    means = ", ".join(f"{p} {v:.2f}" for p, v in geometric_means(results).items())
    return "\n".join([
        f"{threads} threads; float32 peak {peak:.0f} GFLOP/s in this run (multiply-adds in registers)", "",
        table(short, summary_rows(results)), *([f"geometric mean of the ratios: {means}"] if means else []), "",
        table(full, mode_rows(results)),
    ])  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--peer", nargs="+", choices=SIDES[1:], default=[], help="measure these frameworks too")
    made.add_argument("--torch-python", default=sys.executable, help="the interpreter that has PyTorch")
    made.add_argument("--paddle-python", default=sys.executable, help="the interpreter that has PaddlePaddle")
    made.add_argument("--only", nargs="+", choices=list(WORKLOADS), help="these workloads (default: all)")
    made.add_argument("--modes", nargs="+", metavar="WORD", help="modes with one of these words, such as eager or bf16")
    made.add_argument("--seconds", type=float, default=4.0, help="of measuring, per process")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--wrap", type=shlex.split, default=[], help="a command before each, such as 'taskset -c 0,1'")
    made.add_argument("--json", type=Path, help="write everything here")
    made.add_argument("--worker", nargs=3, metavar=("SIDE", "WORKLOAD", "MODE"), help=argparse.SUPPRESS)
    return made


def main() -> None:
    """Run a race, or (as a worker) one measurement."""
    args = parser().parse_args()
    if args.worker:
        print(json.dumps(worker(*args.worker, args)))
        return
    peak = peak_rate(args.threads, tuple(args.wrap))
    results = {name: run_workload(name, peak, args) for name in args.only or WORKLOADS}
    print(file=sys.stderr)
    print(report(results, peak, args.threads))
    if args.json:
        whole = {"threads": args.threads, "seconds": args.seconds, "rounds": args.rounds, "fp32_peak_gflops": peak,
                 "geometric_means": geometric_means(results), "workloads": results}  # fmt: skip
        args.json.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()

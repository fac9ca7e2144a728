"""The cost of a training step of GRU4Rec with sampled softmax, against the number of items: it must not depend on it.

    python tools/bench/rec_items.py                                    # 10 thousand to 10 million items
    python tools/bench/rec_items.py --items 10000 1000000 --width 100 --svg items.svg

Batch 64, hidden 100, item vectors of `--width`, 2048 shared negatives (uniform, the worst case for caches), session-
parallel, row-wise Adagrad with sparse gradients. Each number of items is measured in a process of its own, in turns;
the figure is the median step of all rounds. Beside it: seconds to make the model, its tables, its memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rec_data import session_parallel, zipf_sessions

BATCH, HIDDEN, SAMPLES, STEPS = 64, 100, 2048, 600


def worker(items: int, args: argparse.Namespace) -> dict[str, Any]:
    """One number of items, in this process."""
    import pdl
    from pdl import threads
    from pdl.program import CompiledStep
    from pdl_rec.models.gru4rec import GRU4Rec

    threads.set_num_threads(args.threads)
    begin = time.perf_counter()
    net = GRU4Rec((HIDDEN,), embedding="shared", embedding_size=args.width, sparse=True, slots=BATCH, num_items=items)
    made = time.perf_counter() - begin
    optimizer = pdl.optim.Adagrad(net, lr=0.05, rowwise=True)

    def loss(x: Any, y: Any, reset: Any, drawn: Any) -> Any:
        rows, bias = net.item_rows(pdl.concat([y, drawn]))
        places = pdl.arange(BATCH, dtype=pdl.int64)
        return pdl.linear_cross_entropy(net.advance(x, reset), rows, bias, places, transposed=True)

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(loss, net, notify=notify)
    batches = session_parallel(zipf_sessions(items, max(400_000, BATCH * STEPS * 2)), BATCH, STEPS)
    drawn = np.random.default_rng(1).integers(1, items + 1, (STEPS, SAMPLES))
    times = []
    for i in range(STEPS):
        begin = time.perf_counter()
        program(*(b[i] for b in batches), drawn[i])
        optimizer.step()
        times.append(time.perf_counter() - begin)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    tables = sum(p.size * 4 for p in net.parameters())
    return {"seconds": statistics.median(times[50:]), "made": made, "bytes": tables,
            "peak": int(status["VmHWM"].split()[0]) * 1024}  # fmt: skip


def ask(items: int, args: argparse.Namespace) -> dict[str, Any]:
    """What `worker` finds in a process of its own."""
    options = ["--width", str(args.width), "--threads", str(args.threads)]
    words = [sys.executable, __file__, "--worker", str(items), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{items} items failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(found: dict[int, list[dict[str, Any]]], args: argparse.Namespace) -> str:
    """A line for each number of items."""
    what = f"{SAMPLES} negatives, hidden {HIDDEN}, vectors of {args.width}, batch {BATCH}, {args.threads} threads"
    titles = f"{'items':>12}{'ms/step':>9}{'events/s':>10}{'s to make':>11}{'tables MiB':>12}{'peak MiB':>10}"
    lines = [f"GRU4Rec, {what}", titles]
    for items, rows in found.items():
        step, row = step_of(rows), rows[0]
        lines.append(f"{items:>12,}{step * 1e3:>9.2f}{BATCH / step:>10,.0f}{row['made']:>11.2f}"
                     f"{row['bytes'] / 2**20:>12,.0f}{row['peak'] / 2**20:>10,.0f}")  # fmt: skip
    return "\n".join(lines)


def step_of(rows: list[dict[str, Any]]) -> float:
    """Seconds: the median over the rounds."""
    return statistics.median(r["seconds"] for r in rows)


def picture(found: dict[int, list[dict[str, Any]]]) -> str:
    """Milliseconds of a step against the logarithm of the number of items, as SVG."""
    from pdl.report.chart import line_chart

    points = [(float(np.log10(items)), step_of(rows) * 1e3) for items, rows in found.items()]
    floor = [(points[0][0], 0.0), (points[-1][0], 0.0)]
    return line_chart({"ms a step": points, "": floor}, x_label="log10 of the number of items")


def main() -> None:
    """All numbers of items in turns, or (as a worker) one."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    made.add_argument("--width", type=int, default=16, help="of the item vectors")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--svg", type=Path, help="save a picture here")
    made.add_argument("--json", type=Path, help="write everything here")
    made.add_argument("--worker", type=int, metavar="ITEMS", help=argparse.SUPPRESS)
    args = made.parse_args()
    if args.worker:
        print(json.dumps(worker(args.worker, args)))
        return
    found: dict[int, list[dict[str, Any]]] = {items: [] for items in args.items}
    for _ in range(args.rounds):
        for items in args.items:
            found[items].append(ask(items, args))
    print(report(found, args))
    if args.svg:
        args.svg.write_text(picture(found))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

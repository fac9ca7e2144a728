"""Latency of a bundle of GRU4Rec for one session, names in, names out: what `session("item1,item2")` takes.

    python tools/bench/rec_bundle.py                             # 37,483 items, hidden 100, 2 threads
    python tools/bench/rec_bundle.py --items 1000000 --store bf16
    python tools/bench/rec_bundle.py --bundle runs/shop/model.pdl

Weights and names are made up, for the time depends on neither. Each row is one length of session: the median and the
90th percentile of the whole call, and the medians of its parts: reading the session, the net, ranking and naming.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pdl
from pdl.config import load as load_recipe
from pdl.export.bundle import Store, to_bytes
from pdl.export.symbolic import trace_symbolic
from pdl.runtime.session import Session, load
from pdl.train import Recipe
from pdl.vocabulary import Vocabulary


def made_up(items: int, hidden: int, store: Store) -> bytes:
    """A bundle of GRU4Rec with fresh weights."""
    import pdl_rec
    pdl.random.seed(0)
    task = pdl_rec.NextItem()
    task.vocabularies["items"] = Vocabulary(str(214_500_000 + 7 * i) for i in range(items))
    model = pdl_rec.GRU4Rec(layers=[hidden], num_items=items).eval()
    recipe = Recipe(load_recipe("rec/yoochoose100k_gru4rec"))
    given = task.deployer(recipe).deployment(model)
    program, _ = trace_symbolic(given.module, given.inputs)
    return to_bytes(program, given, store=store)


def timed(call: Callable[[], Any], seconds: float) -> list[float]:
    """Milliseconds of each call, after a third of the time to warm up."""
    end, found = time.perf_counter() + seconds / 3, []
    while time.perf_counter() < end:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 20:
        begin = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - begin))
    return found


def measure(session: Session, length: int, seconds: float) -> dict[str, float]:
    """One row."""
    assert session.pipeline is not None
    assert session.bundle is not None
    steps, names = session.pipeline, session.bundle.vocabularies["items"].names
    picked = np.random.default_rng(length).integers(0, len(names), length)
    text = ",".join(names[i] for i in picked)
    sample = steps.parse(text)
    ((_, inputs),) = steps.batches([sample])
    outputs = {name: array[0] for name, array in session.run(inputs).items()}
    whole = timed(lambda: session(text), seconds)
    parts = {
        "read": timed(lambda: list(steps.batches([steps.parse(text)])), seconds / 3),
        "net": timed(lambda: session.run(inputs), seconds / 3),
        "rank": timed(lambda: steps.finish(outputs, sample), seconds / 3),
    }
    return {
        "length": length, "p50_ms": statistics.median(whole), "p90_ms": float(np.percentile(whole, 90)),
        **{f"{name}_ms": statistics.median(times) for name, times in parts.items()},
    }  # fmt: skip


def main() -> None:
    """Print a row for each length, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=37_483)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--store", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--bundle", type=Path, help="measure this one")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 3, 10, 50])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each row")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        file = args.bundle or Path(folder) / "model.pdl"
        if args.bundle is None:
            file.write_bytes(made_up(args.items, args.hidden, args.store))
        begin = time.perf_counter()
        session = load(file, threads=args.threads, precision=args.precision)
        session(",".join(session.bundle.vocabularies["items"].names[:2]))  # type: ignore[union-attr]
        loaded = 1e3 * (time.perf_counter() - begin)
        rows = [measure(session, length, args.seconds) for length in args.lengths]
        size = file.stat().st_size
    if args.json:
        sys.stdout.write(json.dumps({"rows": rows, "load_ms": loaded, "bytes": size, "threads": args.threads}) + "\n")
        return
    print(f"{size / 1e6:.1f} MB, loaded and answered once in {loaded:.0f} ms, {args.threads} threads")
    print("  ".join(f"{name:>8}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>8.3f}" if isinstance(value, float) else f"{value:>8}" for value in row.values()))


if __name__ == "__main__":
    main()

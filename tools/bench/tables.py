"""DeepFM over 10 million rows: two table servers and two trainers, against one trainer with a table of its own.

    pip install "pdl-core[ray,mpi]" pdl-rec
    python tools/bench/tables.py                                   # async, 60 steps of 8,192 samples, 26 fields
    python tools/bench/tables.py --warm 400                        # most rows of a step have been made before
    python tools/bench/tables.py --draw flat                       # names that hardly ever come again
    python tools/bench/tables.py --rows 200000 --steps 10 --batch 512 --mode ssp

local     one process on one core with `nn.Embedding(..., sparse=True)`: all rows are its own
served    two processes that average their dense gradients over MPI; rows on two Ray actors. Each process has one thread
          and half of a batch of --batch samples, so a step is the same for both sides
samples/s of the medians of the wall-clock times of steps. Where there are fewer cores than processes these share them:
          `own cores` is what the CPU time of the slowest process allows, were each alone on a core
touched   rows that were made, and what the servers' memory has grown by

Of the rows of a field number k is drawn with a probability of 1 / k^1.05 (zipf, as in click logs), or number
floor(rows u^4), u uniform (flat): of the ids of a step 48 or 86 % are distinct.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

FIELDS = 26


class Batches:
    """`steps` batches, of which a process gets its share; all are drawn before the first step."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.rank, self.world = args, 0, 1

    def share(self, rank: int, world: int) -> None:
        """As loaders do."""
        self.rank, self.world = rank, world

    def __len__(self) -> int:
        return int(self.args.steps) + int(self.args.warm)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rows, halves = self.args.rows // FIELDS, 2
        edges = np.cumsum(1.0 / np.arange(1, rows + 1) ** 1.05)
        edges /= edges[-1]
        made = []
        for step in range(len(self)):
            parts = [self._part(rows, edges, step, half) for half in range(self.rank, halves, self.world)]
            made.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        yield from made

    def _part(self, rows: int, edges: Any, step: int, half: int) -> dict[str, Any]:
        rng = np.random.default_rng([step, half])
        u = rng.random((self.args.batch // 2, FIELDS))
        ids = (rows * u**4).astype(np.int64) if self.args.draw == "flat" else np.searchsorted(edges, u)
        return {"ids": np.minimum(ids, rows - 1), "label": (rng.random((len(u), 1)) < 0.3).astype(np.float32)}


def memory(process: int) -> float:
    """Resident, in MB."""
    line = next(x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def cpu(process: int) -> float:
    """Seconds, of user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trained(args: argparse.Namespace) -> dict[str, Any]:
    """One side, in this process (or this one of two)."""
    import pdl
    from pdl import optim
    from pdl.distributed.group import world
    from pdl.nn.init import tables_skipped
    from pdl.train import Hook, Trainer, TrainSettings
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed, Tables
    from pdl.train.tables import Ahead, ServedTables
    from pdl_rec import ClickThrough, DeepFM

    group = world()
    if args.side == "local":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    fields = [f"f{i}" for i in range(FIELDS)]
    schema = {"tables": dict.fromkeys(fields, args.rows // FIELDS), "ids": {name: [name, 0] for name in fields}}
    before = memory(os.getpid())
    pdl.seed(0)
    settings = TrainSettings(epochs=1)
    if args.side == "local":
        model = DeepFM(fields=schema, dim=args.dim, hidden=[128, 64], sparse=True)
    else:
        with tables_skipped():
            model = DeepFM(fields=schema, dim=args.dim, hidden=[128, 64], sparse=True)
    optimizer = optim.Adagrad(model, lr=0.02)
    task, loaders, served = ClickThrough(fields={}), {"train": Batches(args)}, None
    times, parts = [], {}

    class Clock(Hook):
        def on_step(self, trainer: Any) -> None:
            times.append((time.perf_counter(), time.process_time()))
            step = trainer.state.step
            if served is not None and served.client is not None and step in (args.warm, args.warm + args.steps):
                served.client.settle()
                handles = [line.server.handle for line in served.client.lines]
                import ray

                ids = ray.get([h.process.remote() for h in handles])
                parts[step] = [(cpu(p), memory(p)) for p in ids]
                if step > args.warm:
                    parts["stats"] = served.client.stats()
                    parts["client"] = [served.client.waited, served.client.pulled, served.client.calls]

    options: Any = {}
    if args.side == "served":
        tables = Tables(servers=args.servers, mode=args.mode, cache_rows=args.cache, replay_megabytes=args.replay)
        distributed = Distributed(data=2, tables=tables)
        served = ServedTables(distributed, settings, task, model, optimizer, group)
        served.folder = Path(args.folder)
        loaders["train"] = Ahead(loaders["train"], served) if args.mode in ("async", "ssp") else loaders["train"]
        trainer: Any = ParallelTrainer(group, distributed, task, model, optimizer, loaders, settings, **options)
        trainer.tables = served
    else:
        trainer = Trainer(task, model, optimizer, loaders, settings)
    trainer.hooks = [*([served] if served else []), Clock()]
    trainer.fit()
    seen = times[args.warm :]
    walls = [b[0] - a[0] for a, b in pairwise(seen)]
    found = {
        "wall": statistics.median(walls),
        "cpu": (seen[-1][1] - seen[0][1]) / (len(seen) - 1),
        "memory": memory(os.getpid()) - before,
    }
    if parts:
        first, last = parts[args.warm], parts[args.warm + args.steps]
        found["server_cpu"] = [(b[0] - a[0]) / args.steps for a, b in zip(first, last, strict=True)]
        found["server_memory"] = [b[1] for b in last]
        found["rows"] = {name: each["rows"] for name, each in parts["stats"].items()}
        found["waited"], found["pulled"], found["calls"] = parts["client"]
    return found


def run(args: argparse.Namespace, side: str, folder: Path) -> list[dict[str, Any]]:
    """What each process of a side says."""
    from pdl.distributed.launcher import mpirun

    own = [__file__, "--side", side, "--folder", str(folder)]
    for name in ("rows", "dim", "batch", "steps", "warm", "servers", "mode", "cache", "draw", "replay"):
        own += [f"--{name}", str(getattr(args, name))]
    start = [
        mpirun(),
        "-n",
        "2",
        "--map-by",
        ":OVERSUBSCRIBE",
        "--bind-to",
        "none",
        "--mca",
        "mpi_yield_when_idle",
        "1",
    ]
    line = [sys.executable, *own] if side == "local" else [*start, sys.executable, *own]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PDL_NUM_THREADS": "1"}
    subprocess.run(line, env={**os.environ, **root}, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{side}-*.json"))]


def main() -> None:
    """Run both sides and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm", type=int, default=20, help="steps before those that count")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--mode", default="async", choices=["sync", "async", "ssp", "geo"])
    parser.add_argument("--cache", type=int, default=0)
    parser.add_argument("--draw", default="zipf", choices=["zipf", "flat"])
    parser.add_argument("--replay", type=float, default=1024.0, help="megabytes of pushes between two snapshots")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        from pdl.distributed.group import world

        found, group = trained(args), world()
        rank = 0 if group is None else group.rank
        (Path(args.folder) / f"{args.side}-{rank}.json").write_text(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (local,), served = run(args, "local", folder), run(args, "served", folder)
    first = served[0]
    slowest = max(*(each["cpu"] for each in served), *first["server_cpu"])
    walls = max(each["wall"] for each in served)
    own = {"samples/s": args.batch / local["wall"], "cpu ms/step": 1e3 * local["cpu"], "memory MB": local["memory"]}
    theirs = {
        "samples/s": args.batch / walls,
        "own cores": args.batch / slowest,
        "trainers cpu ms/step": [round(1e3 * each["cpu"], 1) for each in served],
        "servers cpu ms/step": [round(1e3 * each, 1) for each in first["server_cpu"]],
        "waited for rows ms/step": round(1e3 * first["waited"] / (args.steps + args.warm), 1),
        "trainers MB": [round(each["memory"]) for each in served],
        "servers MB": [round(each) for each in first["server_memory"]],
        "rows made": first["rows"],
    }
    ratios = {"ratio": local["wall"] / walls, "ratio, own cores": local["cpu"] / slowest}
    report = {"local": own, "served": theirs, **ratios}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()

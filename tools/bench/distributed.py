"""Training on two processes of a core each against one process on one core, pdl beside PyTorch's DDP (gloo).

    python tools/bench/distributed.py --torch-python PYTHON
    python tools/bench/distributed.py --only resnet20 --sync-batch-norm --overlap on --json out.json
    python tools/bench/distributed.py --only resnet50 --zero 3 --bucket-megabytes 1 --states
    python tools/bench/distributed.py --only transformer --tied --zero 3 --bucket-megabytes 1 --states
    python tools/bench/distributed.py --only transformer --pipeline 2 --micro-batches 8 --virtual-stages 2

Every process has the whole batch of a workload (workloads.py), so two of them train twice the samples in a step: of a
perfect machine they take no longer. A line has the median step of one process and of two, the speed-up in samples a
second, the part of a step that a process waits for others or moves gradients, and pdl's speed through PyTorch's. The
sides take turns, `--rounds` times; the median over the rounds is shown. What two processes apart reach at the same
time (--apart) is what the machine's memory and caches leave of twice the speed. Steps are those of `pdl.train.Trainer`
and `ParallelTrainer`, compiled, and of eager PyTorch; batch norms of both keep statistics of their own, unless
--sync-batch-norm says otherwise for pdl. With --states bytes are counted, not time: of weights, gradients and the
optimiser's state of a rank, and resident memory.

With --pipeline all processes have one batch, in micro-batches, and each some of the layers (`MeshedTrainer`): a line
has the step of one process with the whole batch, of one that adds up the same micro-batches, of the pipeline, and the
speed-up over both. Of a perfect machine it is P / (1 + (P - 1) / (v m)) of the second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from train import table
from workloads import WORKLOADS

DEFAULT = ("resnet20", "transformer", "resnet18")
RANKS = (1, 2)
Row = dict[str, Any]


# -- the workers -------------------------------------------------------------------------------------------------------
def timed(step: Callable[[], Any], agree: Callable[[int], int], seconds: float) -> Row:
    """The median step of about so many seconds of them, after a warm-up."""
    for _ in range(3):
        begin = time.perf_counter()
        step()
    count = agree(max(5, int(seconds / (time.perf_counter() - begin))))
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(times), "steps": count}


def pdl_worker(name: str, args: argparse.Namespace) -> Row | None:
    """A measurement of pdl on this rank; rank 0 answers."""
    import numpy as np
    import pdl_nets

    import pdl
    from pdl.distributed.group import world
    from pdl.train import Loss, Task, Trainer, TrainSettings
    from pdl.train.meshed import MeshedTrainer
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed

    work, group = WORKLOADS[name], world()
    pdl.seed(0)
    net = pdl_nets.net_of(name, work)
    loss_of = pdl_nets.loss_by(net, work)
    if args.tied:
        net = pdl_nets.TiedTransformer(work.vocabulary, work.length, work.classes)
        loss_of = net.loss

    class Race(Task):
        def step(self, model: Any, batch: Any) -> Loss:
            return Loss(loss_of(*batch), float(work.batch))

    batch = [pdl.Tensor(a) for a in work.arrays()]

    class Again:
        """The same batch, for ever."""

        def __iter__(self) -> Any:
            return itertools.repeat(batch)

        def share(self, rank: int, world: int) -> None:
            """Every rank has all of it."""

    optimizer = pdl.optim.Adam(net, **pdl_nets.ADAM) if work.optimizer == "adam" else pdl.optim.SGD(net, **pdl_nets.SGD)
    pieces = args.micro_batches if args.pieces else 1
    if pieces > 1:
        rows = work.batch // pieces
        cut = [[pdl.Tensor(x.data[i : i + rows]) for x in batch] for i in range(0, work.batch, rows)]
        Again.__iter__ = lambda self: itertools.cycle(cut)  # type: ignore[method-assign]
    made: Any = (Race(), net, optimizer, {"train": Again()}, TrainSettings(max_steps=10**9, accumulate=pieces))
    overlap = {"on": True, "off": False, "auto": None}[args.overlap]
    settings = Distributed(
        wire=args.wire,
        overlap=overlap,
        sync_batch_norm=args.sync_batch_norm,
        zero=args.zero,
        bucket_megabytes=args.bucket_megabytes,
        pipeline=args.pipeline,
        micro_batches=args.micro_batches,
        virtual_stages=args.virtual_stages,
    )
    kind = ParallelTrainer if args.pipeline == 1 else MeshedTrainer
    trainer: Any = Trainer(*made) if group is None else kind(group, settings, *made)
    trainer.frozen.train()
    steps = trainer.step_batches()

    def step() -> None:
        trainer.gradients(next(steps))
        trainer.update()

    if args.states:
        with nullcontext() if group is None else trainer.norms.joined():
            for _ in range(3):
                step()
        row = states(trainer)
        return row if group is None or group.rank == 0 else None
    if group is None:
        return timed(step, lambda n: n, args.seconds)
    with trainer.norms.joined():
        for _ in range(3):
            step()
        before = group.waited
        row = timed(step, lambda n: int(group.rows(np.array([n])).min()), args.seconds)
    if args.pipeline > 1:
        row["waiting"] = trainer.pipe.group.waited / (row["steps"] + 6) / row["seconds"]
        return row if group.rank == 0 else None
    row["waiting"] = (group.waited - before) / (row["steps"] + 3) / row["seconds"]
    return row if group.rank == 0 else None


def states(trainer: Any) -> Row:
    """Bytes of weights, gradients and optimiser's state in a step of this rank: what stays, and the most that comes on
    top at one time (by the plan of the program, and by what buckets have held)."""
    (program,) = (each for each in trainer.compiled.programs.values() if each is not None)
    executable, plan = program.executable, program.executable.plan
    passing = [*executable._feeds, *executable._taps, *program.program.outputs[program.results :]]
    storages = {id(plan.owner[v]): plan.owner[v] for v in passing if v in plan.owner}.values()
    ends = sorted({s.first for s in storages})
    most = max((sum(s.nbytes for s in storages if s.first <= at <= s.last) for at in ends), default=0)
    weights = sum(p.data.nbytes for p in trainer.model.parameters() if any(p.data.strides))
    shares, reduction = getattr(trainer, "weights", None), getattr(trainer, "reduction", None)
    buckets = sum(bucket.nbytes for bucket in getattr(reduction, "buckets", ()))
    kept = sum(a.nbytes for state in trainer.optimizer.state.values() for a in state.values() if hasattr(a, "nbytes"))
    return {
        "weights": weights + (0 if shares is None else shares.nbytes),
        "state": kept,
        "passing": most,
        "buckets": 0 if reduction is None else max(reduction.most_held, buckets + getattr(shares, "most_asked", 0)),
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def torch_worker(name: str, args: argparse.Namespace) -> Row | None:
    """A measurement of PyTorch on this rank; rank 0 answers."""
    import torch
    import torch_nets
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    work = WORKLOADS[name]
    net: Any = torch_nets.net_of(name, work, sparse=False)
    if work.image is not None:
        net = net.to(memory_format=torch.channels_last)
    x, labels = (torch.from_numpy(a) for a in work.arrays())
    if work.image is not None:
        x = x.permute(0, 3, 1, 2)
    if size > 1:
        distributed.init_process_group("gloo")
        net = DistributedDataParallel(net)
    optimizer = (
        torch.optim.Adam(net.parameters(), **torch_nets.ADAM)
        if work.optimizer == "adam"
        else torch.optim.SGD(net.parameters(), **torch_nets.SGD)
    )

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), labels).backward()
        optimizer.step()

    def agree(n: int) -> int:
        if size == 1:
            return n
        least = torch.tensor(n)
        distributed.all_reduce(least, distributed.ReduceOp.MIN)
        return int(least)

    row = timed(step, agree, args.seconds)
    return row if rank == 0 else None


# -- the race ----------------------------------------------------------------------------------------------------------
def ask(
    side: str, name: str, ranks: int, args: argparse.Namespace, *, pieces: bool = False, apart: bool = False
) -> Row:
    """A measurement in processes of their own, each on a core; of one in `pieces`, as the pipeline has them. `apart`:
    two of one rank at the same time, of which the slower one answers."""
    python = sys.executable if side == "pdl" else args.torch_python
    worker = [python, __file__, "--worker", side, "--only", name, "--seconds", str(args.seconds), "--wire", args.wire]
    worker += ["--overlap", args.overlap, *(["--sync-batch-norm"] if args.sync_batch_norm else [])]
    worker += ["--zero", str(args.zero), "--bucket-megabytes", str(args.bucket_megabytes)]
    worker += ["--states"] if args.states else []
    worker += ["--tied"] if args.tied else []
    if args.pipeline > 1:
        worker += ["--micro-batches", str(args.micro_batches), "--virtual-stages", str(args.virtual_stages)]
        worker += ["--pieces"] if pieces else []
        worker += ["--pipeline", str(args.pipeline)] if ranks > 1 else []
    environment = {**os.environ, "PDL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if apart:
        jobs = [start(["taskset", "-c", str(core), *worker], environment) for core in range(2)]
    elif ranks == 1:
        jobs = [start(["taskset", "-c", "0", *worker], environment)]
    elif side == "pdl":
        from pdl.distributed.launcher import mpirun

        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        jobs = [start([mpirun(), "-n", str(ranks), "--bind-to", "core", *worker], {**environment, **root})]
    else:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555", "WORLD_SIZE": str(ranks)}
        jobs = [
            start(["taskset", "-c", str(r), *worker], {**environment, **place, "RANK": str(r)}) for r in range(ranks)
        ]
    answers = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        sys.exit(f"{side} {name} on {ranks}: it failed")
    rows = [dict(json.loads(answer.splitlines()[-1])) for answer in answers if answer]
    return max(rows, key=lambda row: row["seconds"]) if apart else rows[0]


def start(line: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    """A process whose output is read."""
    return subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True)


def race(name: str, args: argparse.Namespace) -> Row:
    """All sides on a workload."""
    sides = ("pdl", "torch") if args.torch_python else ("pdl",)
    found: dict[tuple[str, int], list[Row]] = {(side, n): [] for side in sides for n in RANKS}
    lone: list[float] = []
    for _ in range(args.rounds):
        for side, n in found:
            found[side, n].append(ask(side, name, n, args))
            print(".", end="", file=sys.stderr, flush=True)
        if args.apart:
            lone.append(ask("pdl", name, 1, args, apart=True)["seconds"])
    made: Row = {}
    for side in sides:
        one, two = (statistics.median(row["seconds"] for row in found[side, n]) for n in RANKS)
        made |= {f"{side} 1": one, f"{side} 2": two, f"{side} speed-up": 2 * one / two}
    if lone:
        made["apart"] = 2 * made["pdl 1"] / statistics.median(lone)
    made["waiting"] = statistics.median(row["waiting"] for row in found["pdl", 2])
    if args.torch_python:
        made["ratio 1"], made["ratio 2"] = (made[f"torch {n}"] / made[f"pdl {n}"] for n in RANKS)
    return made


def piped(name: str, args: argparse.Namespace) -> list[str]:
    """A row of a pipeline against one process."""
    found: list[list[float]] = []
    for _ in range(args.rounds):
        asked = [(1, False), (1, True), (args.pipeline, False)]
        found.append([ask("pdl", name, n, args, pieces=pieces)["seconds"] for n, pieces in asked])
        print(".", end="", file=sys.stderr, flush=True)
    whole, pieces, several = (statistics.median(times) for times in zip(*found, strict=True))
    times = [f"{seconds * 1e3:.1f} ms" for seconds in (whole, pieces, several)]
    best = args.pipeline / (1 + (args.pipeline - 1) / (args.virtual_stages * args.micro_batches))
    return [name, *times, f"{whole / several:.2f}", f"{pieces / several:.2f}", f"{best:.2f}"]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(DEFAULT), choices=list(WORKLOADS))
    parser.add_argument("--torch-python", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wire", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--overlap", choices=("auto", "on", "off"), default="auto")
    parser.add_argument("--sync-batch-norm", action="store_true")
    parser.add_argument("--zero", type=int, choices=(0, 1, 2, 3), default=0)
    parser.add_argument("--bucket-megabytes", type=float, default=4.0)
    parser.add_argument("--states", action="store_true", help="memory of weights, gradients and state, not time")
    parser.add_argument("--tied", action="store_true", help="the transformer's table is its last weight, too")
    parser.add_argument("--pipeline", type=int, default=1, metavar="P", help="processes that each have some layers")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--virtual-stages", type=int, default=1)
    parser.add_argument("--apart", action="store_true", help="also two processes that know nothing of each other")
    parser.add_argument("--pieces", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=("pdl", "torch"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        row = {"pdl": pdl_worker, "torch": torch_worker}[args.worker](args.only[0], args)
        if row is not None:
            print(json.dumps(row), flush=True)
        return
    if args.states:
        for name in args.only:
            one, two = (ask("pdl", name, n, args) for n in RANKS)
            held = [sum(n for key, n in row.items() if key != "resident") for row in (one, two)]
            print(json.dumps({"net": name, "zero": args.zero, "one": one, "two": two, "ratio": held[1] / held[0]}))
        return
    if args.pipeline > 1:
        rows = [piped(name, args) for name in args.only]
        print(file=sys.stderr)
        columns = ["net", "one", "one in pieces", f"pipeline={args.pipeline}", "speed-up", "of pieces", "at most"]
        print(table(columns, rows))
        return
    results = {name: race(name, args) for name in args.only}
    print(file=sys.stderr)
    columns = list(next(iter(results.values())))
    rows = [[name, *(f"{result[c] * 1e3:.1f} ms" if c[-2:] in (" 1", " 2") and "ratio" not in c
                     else f"{result[c]:.1%}" if c == "waiting" else f"{result[c]:.2f}" for c in columns)]
            for name, result in results.items()]  # fmt: skip
    print(table(["net", *columns], rows))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

"""Training speed of DeepFM with large tables: pdl beside PyTorch, the same net, rows and threads, in one run.

    python tools/bench/rec_ctr.py --torch /path/to/python-with-torch       the table of examples a second
    python tools/bench/rec_ctr.py --rows 10000000 --only pdl               step time and memory of a larger table
    python tools/bench/rec_ctr.py --profile                                where the time of pdl's step goes

39 fields of equally many names, drawn by Zipf's law as in click logs; a table of --rows x --dim and one of --rows x 1;
a perceptron over the vectors. Every variant trains on the same batches; the median of rounds is told, and the loss at
the end beside it. "sparse" has gradients of the tables by rows (torch.nn.Embedding(sparse=True)), "dense" as a whole.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

FIELDS = 39
PDL = ("adagrad", "rowwise", "adam")
TORCH = ("adagrad", "adam", "dense adam")


def batches(rows: int, batch: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(ids int64 [batch, fields] within each field's own numbers, labels float32 [batch])."""
    rng = np.random.default_rng(0)
    each = rows // FIELDS
    ranks = 1.0 / np.arange(1, each + 1) ** 1.05
    edges = np.cumsum(ranks) / ranks.sum()
    made = []
    for _ in range(count):
        ids = np.minimum(np.searchsorted(edges, rng.random((batch, FIELDS))), each - 1)
        labels = (rng.random(batch) < 0.05 + 0.4 * (ids[:, 0] % 2)).astype(np.float32)
        made.append((ids.astype(np.int64), labels))
    return made


def measure(step: Callable[[int], float], batch: int, seconds: float) -> dict[str, Any]:
    """Examples a second (median of rounds of some steps), and the last loss."""
    loss = 0.0
    for number in range(3):
        loss = step(number)
    rounds, number, end = [], 3, time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 3:
        begin = time.perf_counter()
        for _ in range(4):
            loss = step(number)
            number += 1
        rounds.append(4 * batch / (time.perf_counter() - begin))
    return {"examples_per_second": float(np.median(rounds)), "steps": number, "loss": loss}


# -- pdl ---------------------------------------------------------------------------------------------------------------
def pdl_step(args: argparse.Namespace, kind: str, data: Any) -> Any:
    """One training step of the suite's own DeepFM, as the trainer makes it: compiled, then the optimiser."""
    import pdl
    from pdl.program import CompiledStep
    from pdl_rec import ClickThrough, DeepFM

    pdl.threads.set_num_threads(args.threads)
    pdl.seed(0)
    each = args.rows // FIELDS
    names = [f"C{i}" for i in range(FIELDS)]
    fields = {"tables": dict.fromkeys(names, each), "ids": {name: [name, 0] for name in names}}
    model = DeepFM(fields=fields, dim=args.dim, hidden=args.hidden, sparse=True)
    task = ClickThrough(fields={name: {"hash": each - 1} for name in names})
    made: dict[str, Callable[[], Any]] = {
        "adagrad": lambda: pdl.optim.Adagrad(model, lr=0.01),
        "rowwise": lambda: pdl.optim.Adagrad(model, lr=0.01, rowwise=True),
        "adam": lambda: pdl.optim.Adam(model, lr=1e-3),
    }
    optimizer = made[kind]()
    notify = functools.partial(print, file=sys.stderr)
    program = CompiledStep(lambda batch: task.step(model, batch), model, notify=notify)

    def step(number: int) -> float:
        ids, labels = data[number % len(data)]
        loss = program({"ids": ids, "label": labels[:, None]})
        optimizer.step()
        return float(loss.value.item())

    return step


# -- torch -------------------------------------------------------------------------------------------------------------
def torch_step(args: argparse.Namespace, kind: str, data: Any) -> Any:
    """The same net in PyTorch, written as its users write it."""
    import torch
    from torch import nn

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    sparse = kind != "dense adam"
    each = args.rows // FIELDS

    class DeepFM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Embedding(each * FIELDS, 1, sparse=sparse)
            self.vectors = nn.Embedding(each * FIELDS, args.dim, sparse=sparse)
            nn.init.zeros_(self.linear.weight)
            nn.init.normal_(self.vectors.weight, std=0.01)
            layers: list[nn.Module] = []
            width = FIELDS * args.dim
            for units in args.hidden:
                layers += [nn.Linear(width, units), nn.ReLU()]
                width = units
            self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))
            self.bias = nn.Parameter(torch.zeros(1))
            self.register_buffer("offsets", torch.arange(FIELDS) * each)

        def forward(self, ids: Any) -> Any:
            ids = ids + self.offsets
            v = self.vectors(ids)
            pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)
            return self.linear(ids).sum((1, 2)) + self.bias + pairs + self.mlp(v.flatten(1)).squeeze(1)

    model = DeepFM()
    tables = [model.linear.weight, model.vectors.weight]
    others = [p for p in model.parameters() if all(p is not t for t in tables)]
    optimizers: list[Any] = {
        "adagrad": lambda: [torch.optim.Adagrad(model.parameters(), lr=0.01)],
        "adam": lambda: [torch.optim.SparseAdam(tables, lr=1e-3), torch.optim.Adam(others, lr=1e-3)],
        "dense adam": lambda: [torch.optim.Adam(model.parameters(), lr=1e-3)],
    }[kind]()
    loss_of = nn.BCEWithLogitsLoss()
    tensors = [(torch.from_numpy(ids), torch.from_numpy(labels)) for ids, labels in data]

    def step(number: int) -> float:
        ids, labels = tensors[number % len(tensors)]
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = loss_of(model(ids), labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return float(loss.item())

    return step


# -- the run -----------------------------------------------------------------------------------------------------------
def one(args: argparse.Namespace) -> dict[str, Any]:
    """What one variant measures, in a process of its own."""
    data = batches(args.rows, args.batch, 8)
    side, _, kind = args.one.partition(" ")
    step = (pdl_step if side == "pdl" else torch_step)(args, kind, data)
    found = measure(step, args.batch, args.seconds)
    return {**found, "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def main() -> None:
    """Measure the variants, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--hidden", type=int, nargs="*", default=[256, 128])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each variant")
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--only", choices=["pdl", "torch"])
    parser.add_argument("--kinds", nargs="*", help="of optimisers: adagrad, rowwise, adam, 'dense adam'")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.profile:
        profile(args)
        return
    if args.one:
        print(json.dumps(one(args)))
        return
    variants = [f"pdl {k}" for k in PDL if args.only != "torch"] + [f"torch {k}" for k in TORCH if args.only != "pdl"]
    print(f"DeepFM, {FIELDS} fields, table {args.rows:,} x {args.dim}, perceptron {args.hidden}, batch {args.batch}, "
          f"{args.threads} threads")  # fmt: skip
    for variant in variants:
        if args.kinds and variant.partition(" ")[2] not in args.kinds:
            continue
        python = args.torch if variant.startswith("torch") else sys.executable
        own = [a for a in sys.argv[1:] if a != "--torch" and a != args.torch]
        env = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "PDL_NUM_THREADS": str(args.threads)}
        done = subprocess.run([python, __file__, *own, "--one", variant], capture_output=True, text=True, env=env)
        if done.returncode:
            print(f"{variant:18} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        got = json.loads(done.stdout.splitlines()[-1])
        speed = got["examples_per_second"]
        print(f"{variant:18} {speed:10,.0f} examples/s   {1e3 * args.batch / speed:7.1f} ms a step   "
              f"{got['memory_gb']:.2f} GB   loss {got['loss']:.4f} after {got['steps']} steps", flush=True)  # fmt: skip


def profile(args: argparse.Namespace) -> None:
    """Seconds of each op of the compiled step, and of the optimiser."""
    import cProfile
    import pstats

    data = batches(args.rows, args.batch, 8)
    step = pdl_step(args, (args.kinds or ["adagrad"])[0], data)
    for number in range(3):
        step(number)
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "stats")
        cProfile.runctx("for n in range(20): step(n)", {}, {"step": step}, file)
        pstats.Stats(file).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()

"""Training speed of RotatE in pdl and PyTorch, in one run: whole steps with the update.

    python tools/bench/graph_knowledge.py                                     # pdl alone
    python tools/bench/graph_knowledge.py --torch-python PYTHON               # in turns with PyTorch
    python tools/bench/graph_knowledge.py --torch-python PYTHON --batch 1024 --negatives 256 --dim 1000 --json out.json

Facts are drawn (the size of FB15k-237: 14,541 entities, 237 relations), as time does not depend on what they say. Both
sides get the same batches of questions (tails and heads), the same shared negatives, the same initial weights (drawn by
NumPy), the self-adversarial loss and Adam. The first 20 steps' losses are compared: the largest relative difference is
printed, and above 1e-3 is an error. Then steps are timed; the figure is questions (batch / median step) a second, the
table the median over the rounds, each a process of its own.

PyTorch's modes: sparse (gradients of the rows in use, SparseAdam, as pdl) and dense (nn.Embedding, Adam: what the
papers' code does). The distances are written as one would: differences [batch, negatives, dim / 2], then their moduli.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ENTITIES, RELATIONS, MARGIN, LR, COMPARED = 14_541, 237, 9.0, 1e-3, 20
MODES = {"pdl": ["sparse"], "torch": ["sparse", "dense"]}
Batch = dict[str, np.ndarray]
Step = Callable[[Batch], float]


def weights(dim: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Entities [N + 1, dim], relations [R + 1, dim / 2], and what turns numbers into angles."""
    rng, bound = np.random.default_rng(7), (MARGIN + 2) / (dim // 2)
    shapes = (ENTITIES + 1, dim), (RELATIONS + 1, dim // 2)
    entity, relation = (rng.uniform(-bound, bound, shape).astype(np.float32) for shape in shapes)
    return entity, relation, math.pi / bound


def batches(args: argparse.Namespace, count: int) -> list[Batch]:
    """Questions, answers and shared negatives."""
    rng, n = np.random.default_rng(3), args.batch
    return [
        {"entity": rng.integers(1, ENTITIES + 1, n), "relation": rng.integers(1, RELATIONS + 1, n),
         "inverse": rng.integers(0, 2, n), "answer": rng.integers(1, ENTITIES + 1, n),
         "others": rng.choice(ENTITIES, args.negatives, replace=False) + 1,
         "known": rng.random((n, args.negatives)) < 0.01}
        for _ in range(count)
    ]  # fmt: skip


def pdl_step(args: argparse.Namespace, mode: str) -> Step:
    """A training step of pdl_graph's RotatE."""
    import pdl
    from pdl import threads
    from pdl.program import CompiledStep
    from pdl_graph import KnowledgeGraph, RotatE

    threads.set_num_threads(args.threads)
    model, task = RotatE(ENTITIES, RELATIONS, dim=args.dim, margin=MARGIN), KnowledgeGraph()
    entity, relation, _ = weights(args.dim)
    model.entities.weight.data[...], model.relations.weight.data[...] = entity, relation

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(lambda batch: task.step(model, batch).value, model, notify=notify)
    optimizer = pdl.optim.Adam(model, lr=LR)

    def step(batch: Batch) -> float:
        value = program(batch)
        optimizer.step()
        return float(value.item())

    return step


def torch_step(args: argparse.Namespace, mode: str) -> Step:
    """The same, written as one would in PyTorch."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(args.threads)
    entity, relation, angle = weights(args.dim)
    entities = torch.nn.Embedding.from_pretrained(torch.from_numpy(entity), freeze=False, sparse=mode == "sparse")
    relations = torch.nn.Embedding.from_pretrained(torch.from_numpy(relation), freeze=False)
    optimizers: list[Any] = [torch.optim.Adam([*entities.parameters(), *relations.parameters()], lr=LR)]
    if mode == "sparse":
        lazy = torch.optim.SparseAdam(list(entities.parameters()), lr=LR)
        optimizers = [lazy, torch.optim.Adam(relations.parameters(), lr=LR)]

    def moduli(u: Any, v: Any) -> Any:
        return torch.sqrt((u * u + v * v).clamp_min(1e-30)).sum(-1)

    def step(batch: Batch) -> float:
        notify = {name: torch.from_numpy(column) for name, column in batch.items()}
        for optimizer in optimizers:
            optimizer.zero_grad()
        a, b = entities(notify["entity"]).chunk(2, 1)
        phase = relations(notify["relation"]) * (1 - 2 * notify["inverse"].float())[:, None] * angle
        c, s = torch.cos(phase), torch.sin(phase)
        u, v = a * c - b * s, a * s + b * c
        own, others = entities(notify["answer"]).chunk(2, 1), entities(notify["others"]).chunk(2, 1)
        fits = MARGIN - moduli(u - own[0], v - own[1])
        rest = MARGIN - moduli(u[:, None] - others[0], v[:, None] - others[1])
        rest = rest.masked_fill(notify["known"], -1e9)
        share = torch.softmax(rest.detach(), 1)
        loss = 0.5 * (F.softplus(-fits) + (share * F.softplus(rest)).sum(1)).mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return float(loss.item())

    return step


def worker(side: str, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """Losses of the first steps, then the median step, in this process."""
    step = (pdl_step if side == "pdl" else torch_step)(args, mode)
    given = batches(args, COMPARED)
    losses = [step(batch) for batch in given]
    times: list[float] = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        step(given[len(times) % COMPARED])
        times.append(time.perf_counter() - begin)
    return {"losses": losses, "ms": 1e3 * statistics.median(times), "rate": args.batch / statistics.median(times)}


def run(side: str, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """`worker` in a process of its own."""
    python = sys.executable if side == "pdl" else args.torch_python
    sizes = [f"--{name}={getattr(args, name)}" for name in ("batch", "negatives", "dim", "threads", "seconds")]
    command = [python, __file__, "--worker", side, mode, *sizes]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a row for each side and mode, or write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", help="a Python with PyTorch")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--negatives", type=int, default=256)
    parser.add_argument("--dim", type=int, default=400, help="real numbers in an entity's vector")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed steps, each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        sys.stdout.write(json.dumps(worker(*args.worker, args)) + "\n")
        return
    sides = [("pdl", mode) for mode in MODES["pdl"]]
    sides += [("torch", mode) for mode in MODES["torch"]] if args.torch_python else []
    rounds = [{side: run(*side, args) for side in sides} for _ in range(args.rounds)]
    first = rounds[0][sides[0]]["losses"]
    rows = []
    for side in sides:
        found = [each[side] for each in rounds]
        # dense Adam moves rows that a step does not touch, so only its first step must agree
        compared = 1 if side[1] == "dense" else COMPARED
        apart = max(abs(a - b) / abs(b) for a, b in zip(found[0]["losses"][:compared], first, strict=False))
        if apart > 1e-3:
            raise SystemExit(f"{' '.join(side)}: losses differ from pdl's by {apart:.2g}")
        rows.append({"side": " ".join(side), "ms": statistics.median(f["ms"] for f in found),
                     "questions_s": statistics.median(f["rate"] for f in found), "apart": apart})  # fmt: skip
    for row in rows:
        row["pdl_is"] = row["ms"] / rows[0]["ms"]
        print(f"{row['side']:<14} {row['ms']:8.2f} ms a step  {row['questions_s']:10,.0f} questions/s  "
              f"pdl is {row['pdl_is']:.1f}x  losses apart {row['apart']:.1e}")  # fmt: skip
    if args.json:
        sizes = {name: getattr(args, name) for name in ("batch", "negatives", "dim", "threads")}
        args.json.write_text(json.dumps({**sizes, "rows": rows}))


if __name__ == "__main__":
    main()

"""Training speed of GRU4Rec in pdl and PyTorch, in one run: session-parallel mini-batches, whole steps with the update.

    python tools/bench/rec_train.py                                     # pdl alone
    python tools/bench/rec_train.py --torch-python PYTHON               # in turns with PyTorch
    PDL_DATA=... python tools/bench/rec_train.py --data yoochoose --loss sampled --json out.json

Both sides get the same batches in the same order and the same initial weights (drawn by NumPy), embedding and output
tables apart, Adagrad (lr 0.05; PyTorch's form). The first 200 steps' losses are compared: the largest relative
difference is printed, and above 1e-3 is an error. Then steps are timed; the figure is events (batch / median step) a
second, the table the median over the rounds, each a process of its own.

loss   full      softmax over all items
       sampled   softmax over the 64 targets of the batch and 2048 shared negatives, drawn by count^0.5, with logQ

PyTorch's modes: plain (nn.Embedding, nn.GRU with one step, nn.Linear, F.cross_entropy, optim.Adagrad), and fast (sparse
gradients of the tables that are looked up, Adagrad(fused=True) for the others).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rec_data import negatives, session_parallel, yoochoose, zipf_sessions

BATCH, HIDDEN, SAMPLES, ALPHA, LR, COMPARED = 64, 100, 2048, 0.5, 0.05, 200
MODES = {"pdl": ["compiled"], "torch": ["plain", "fast"]}
Step = Callable[..., float]


def weights(items: int) -> dict[str, np.ndarray]:
    """Initial values, the same for everyone: matrices [in, out], gates in the order r, z, n."""
    rng = np.random.default_rng(7)
    shapes = {"inputs": (items + 1, HIDDEN), "outputs": (items + 1, HIDDEN), "ih": (HIDDEN, 3 * HIDDEN),
              "hh": (HIDDEN, 3 * HIDDEN)}  # fmt: skip
    return {name: rng.uniform(-0.1, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def pdl_step(items: int, loss: str, logq: np.ndarray, mode: str, threads: int) -> Step:
    """A training step of pdl-rec's GRU4Rec: (items, targets, reset, negatives) -> loss."""
    import pdl
    from pdl import threads as pool
    from pdl.program import CompiledStep
    from pdl_rec.models.gru4rec import GRU4Rec

    pool.set_num_threads(threads)
    net = GRU4Rec((HIDDEN,), embedding="separate", sparse=True, slots=BATCH, num_items=items)
    first, (cell,) = weights(items), net.cells
    for p, name in ((net.inputs, "inputs"), (net.outputs, "outputs"), (cell.weight_ih, "ih"), (cell.weight_hh, "hh")):
        p.data[...] = first[name]
    correction = pdl.tensor(logq[:, None])

    def full(x: Any, y: Any, reset: Any) -> Any:
        return pdl.linear_cross_entropy(net.advance(x, reset), *net.item_table(), y, transposed=True)

    def sampled(x: Any, y: Any, reset: Any, drawn: Any) -> Any:
        ids = pdl.concat([y, drawn])
        rows, bias = net.item_rows(ids)
        bias = bias - pdl.reshape(pdl.embedding(correction, ids), (-1,))
        places = pdl.arange(BATCH, dtype=pdl.int64)
        return pdl.linear_cross_entropy(net.advance(x, reset), rows, bias, places, transposed=True)

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(full if loss == "full" else sampled, net, notify=notify)
    optimizer = pdl.optim.Adagrad(net, lr=LR)

    def step(*batch: np.ndarray) -> float:
        value = program(*batch)
        optimizer.step()
        return float(value.item())

    return step


def torch_step(items: int, loss: str, logq: np.ndarray, mode: str, threads: int) -> Step:
    """The same, written as one would in PyTorch."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(threads)
    fast, sampling = mode == "fast", loss == "sampled"
    inputs, outputs = nn.Embedding(items + 1, HIDDEN, sparse=fast), nn.Linear(HIDDEN, items + 1)
    bias = nn.Embedding(items + 1, 1, sparse=True)
    if sampling:
        outputs = nn.Embedding(items + 1, HIDDEN, sparse=True)
        nn.init.zeros_(bias.weight)
    else:
        nn.init.zeros_(outputs.bias)
    gru, first = nn.GRU(HIDDEN, HIDDEN), weights(items)
    with torch.no_grad():
        for p, value in ((inputs.weight, first["inputs"]), (outputs.weight, first["outputs"]),
                         (gru.weight_ih_l0, first["ih"].T), (gru.weight_hh_l0, first["hh"].T)):  # fmt: skip
            p.copy_(torch.from_numpy(value.copy()))
        gru.bias_ih_l0.zero_()
        gru.bias_hh_l0.zero_()
    params = [*inputs.parameters(), *gru.parameters(), *outputs.parameters(), *(bias.parameters() if sampling else ())]
    lazy = [inputs.weight, *([outputs.weight, bias.weight] if sampling else [])]
    optimizers = [torch.optim.Adagrad(params, lr=LR)] if not fast else [
        torch.optim.Adagrad(lazy, lr=LR),
        torch.optim.Adagrad([p for p in params if not any(p is other for other in lazy)], lr=LR, fused=True),
    ]  # fmt: skip
    correction, places = torch.from_numpy(logq), torch.arange(BATCH)
    state = torch.zeros(1, BATCH, HIDDEN)

    def step(*batch: np.ndarray) -> float:
        nonlocal state
        x, y, reset, *drawn = map(torch.from_numpy, batch)
        for optimizer in optimizers:
            optimizer.zero_grad()
        h, after = gru(inputs(x)[None], state.masked_fill(reset[None, :, None], 0.0))
        state = after.detach()
        if sampling:
            ids = torch.cat([y, *drawn])
            value = F.cross_entropy(h[0] @ outputs(ids).T + bias(ids)[:, 0] - correction[ids], places)
        else:
            value = F.cross_entropy(outputs(h[0]), y)
        value.backward()
        for optimizer in optimizers:
            optimizer.step()
        return float(value.item())

    return step


def worker(side: str, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """Losses of the first steps, then the median step, in this process."""
    data = yoochoose() if args.data == "yoochoose" else zipf_sessions(args.items, 400_000)
    count = 2000
    batches: list[np.ndarray] = [*session_parallel(data, BATCH, count)]
    logq = np.zeros(data.items + 1, np.float32)
    if args.loss == "sampled":
        drawn, logq = negatives(data, count, SAMPLES, ALPHA)
        batches.append(drawn)
    step = {"pdl": pdl_step, "torch": torch_step}[side](data.items, args.loss, logq, mode, args.threads)
    losses = [step(*(b[i] for b in batches)) for i in range(COMPARED)]
    times: list[float] = []
    while sum(times) < args.seconds:
        batch = [b[(COMPARED + len(times)) % count] for b in batches]
        begin = time.perf_counter()
        step(*batch)
        times.append(time.perf_counter() - begin)
    return {"losses": losses, "seconds": statistics.median(times), "steps": len(times), "items": data.items}


def ask(side: str, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """What `worker` finds in a process of its own."""
    python = args.torch_python if side == "torch" else sys.executable
    words = [python, __file__, "--worker", side, mode]
    for name in ("data", "items", "loss", "seconds", "threads"):
        words += [f"--{name}", str(getattr(args, name))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side} {mode} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def race(args: argparse.Namespace) -> dict[str, Any]:
    """All modes in turns; {"side mode": {"events_per_second", "rounds", "loss_difference"}}."""
    pairs = [(side, mode) for side in ("pdl", *(["torch"] if args.torch_python else [])) for mode in MODES[side]]
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {pair: [] for pair in pairs}
    for _ in range(args.rounds):
        for pair in pairs:
            rounds[pair].append(ask(*pair, args))
    own = np.array(rounds[pairs[0]][0]["losses"])
    found = {}
    for pair, measured in rounds.items():
        each = [BATCH / m["seconds"] for m in measured]
        away = float(np.abs(np.array(measured[0]["losses"]) / own - 1).max())
        found[" ".join(pair)] = {"events_per_second": statistics.median(each), "rounds": each, "loss_difference": away,
                                 "last_loss": measured[0]["losses"][-1]}  # fmt: skip
    return {"loss": args.loss, "items": rounds[pairs[0]][0]["items"], "threads": args.threads, "modes": found}


def report(result: dict[str, Any]) -> str:
    """The table, and how many times faster pdl is."""
    lines = [f"GRU4Rec, {result['loss']} softmax, {result['items']:,} items, hidden {HIDDEN}, batch {BATCH}, "
             f"{result['threads']} threads", f"{'':16}{'events/s':>10}{'spread':>8}{'loss off by':>13}"]  # fmt: skip
    rates = {}
    for label, row in result["modes"].items():
        rates[label] = row["events_per_second"]
        spread = (max(row["rounds"]) - min(row["rounds"])) / rates[label]
        lines.append(f"{label:16}{rates[label]:>10,.0f}{spread:>8.0%}{row['loss_difference']:>13.1e}")
    own = rates.pop("pdl compiled")
    return "\n".join(lines + [f"pdl / {label}: {own / rate:.2f}" for label, rate in rates.items()])


def main() -> None:
    """Run a race, or (as a worker) one measurement."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--torch-python", help="the interpreter that has PyTorch")
    made.add_argument("--data", choices=["zipf", "yoochoose"], default="zipf")
    made.add_argument("--items", type=int, default=37_000, help="of the drawn sessions")
    made.add_argument("--loss", choices=["full", "sampled"], default="full")
    made.add_argument("--seconds", type=float, default=4.0, help="of measuring, per process")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--json", type=Path, help="write everything here")
    made.add_argument("--worker", nargs=2, metavar=("SIDE", "MODE"), help=argparse.SUPPRESS)
    args = made.parse_args()
    if args.worker:
        print(json.dumps(worker(*args.worker, args)))
        return
    result = race(args)
    print(report(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    worst = max(row["loss_difference"] for row in result["modes"].values())
    if worst > 1e-3:
        sys.exit(f"the losses of the sides differ by {worst:.1e} within {COMPARED} steps")


if __name__ == "__main__":
    main()

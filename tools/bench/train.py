"""Training speed of pdl against a peer, in one run: whole steps (forward, loss, gradients, update) on synthetic data.

    python tools/bench/train.py                          # pdl alone
    python tools/bench/train.py --peer torch             # beside PyTorch, if this interpreter has it
    python tools/bench/train.py --peer torch --peer-python /path/to/python --json out.json

Every measurement is a process of its own; pdl and the peer take turns. A figure is the median step of the round, the
table shows the median round. The peer runs in the better of its memory layouts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STEP = Callable[[], None]


@dataclass(frozen=True)
class Workload:
    """A net, its input and its optimiser."""

    shape: tuple[int, int, int]  # H, W, C
    classes: int
    batch: int
    optimizer: str


WORKLOADS = {
    "lenet": Workload((28, 28, 1), 10, 128, "adam"),
    "resnet20": Workload((32, 32, 3), 10, 128, "sgd"),
}


def batch_of(work: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, H, W, C] and labels [N], the same for everyone."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((work.batch, *work.shape), dtype=np.float32)
    return images, rng.integers(0, work.classes, work.batch)


def pdl_step(name: str, work: Workload, threads: int) -> STEP:
    """One eager training step in pdl."""
    import pdl
    import pdl_cv
    from pdl import threads as pdl_threads

    pdl_threads.set_num_threads(threads)
    pdl.seed(0)
    nets = {"lenet": pdl_cv.LeNet, "resnet20": pdl_cv.CifarResNet}
    net = nets[name](in_channels=work.shape[2], num_classes=work.classes)
    images, labels = (pdl.Tensor(a) for a in batch_of(work))
    optimizer: pdl.optim.Optimizer
    if work.optimizer == "adam":
        optimizer = pdl.optim.Adam(net.parameters(), lr=1e-3)
    else:
        optimizer = pdl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)

    def step() -> None:
        optimizer.zero_grad()
        pdl.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step


def torch_step(name: str, work: Workload, threads: int, channels_last: bool) -> STEP:
    """One eager training step in PyTorch."""
    import torch
    from torch_nets import NETS  # beside this file

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    net = NETS[name](work.shape[2], work.classes).to(memory_format=layout)
    arrays = batch_of(work)
    images = torch.from_numpy(arrays[0]).permute(0, 3, 1, 2).contiguous(memory_format=layout)
    labels = torch.from_numpy(arrays[1])
    if work.optimizer == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step


MAKERS: dict[str, Callable[[str, Workload, int], STEP]] = {
    "pdl": pdl_step,
    "torch nchw": lambda n, w, t: torch_step(n, w, t, False),
    "torch nhwc": lambda n, w, t: torch_step(n, w, t, True),
}


def measure(step: STEP, seconds: float) -> float:
    """Median seconds of a step after a warm-up of a fifth of the time."""
    until = time.perf_counter() + seconds / 5
    while time.perf_counter() < until:
        step()
    times: list[float] = []
    while sum(times) < seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_own_process(python: str, maker: str, workload: str, args: argparse.Namespace) -> float:
    """Seconds a step, measured by this file in a process of its own."""
    command = [python, __file__, "--worker", maker, "--only", workload, "--seconds", str(args.seconds),
               "--threads", str(args.threads)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{maker} on {workload} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def race(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Samples a second: {workload: {maker: median over rounds}}."""
    makers = [m for m in MAKERS if m == "pdl" or m.split()[0] == args.peer]
    table: dict[str, dict[str, float]] = {}
    for workload in args.only or WORKLOADS:
        rounds: dict[str, list[float]] = {m: [] for m in makers}
        for _ in range(args.rounds):
            for maker in makers:
                python = sys.executable if maker == "pdl" else args.peer_python
                seconds = in_own_process(python, maker, workload, args)
                rounds[maker].append(WORKLOADS[workload].batch / seconds)
        table[workload] = {m: statistics.median(r) for m, r in rounds.items()}
        peers = [v for m, v in table[workload].items() if m != "pdl"]
        if peers:
            table[workload]["ratio"] = table[workload]["pdl"] / max(peers)
        shown = "  ".join(f"{m} {v:,.2f}" if m == "ratio" else f"{m} {v:,.0f}/s" for m, v in table[workload].items())
        print(f"{workload:10}  {shown}", flush=True)
    return table


def main() -> None:
    """Parse the command line; run a race, or (as a worker) one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=["torch"], help="measure this framework too")
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has the peer")
    parser.add_argument("--only", nargs="+", choices=list(WORKLOADS), help="these workloads (default: all)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring, per process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the table here")
    parser.add_argument("--worker", choices=list(MAKERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        name = args.only[0]
        print(measure(MAKERS[args.worker](name, WORKLOADS[name], args.threads), args.seconds))
        return
    table = race(args)
    if args.json:
        args.json.write_text(json.dumps({"threads": args.threads, "samples_per_second": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()

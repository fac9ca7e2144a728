"""Training while its processes are killed: what is learned, and whether each sample was counted once an epoch.

    python tools/chaos.py --elastic 1:4 --every 10 --seconds 120 --epochs 100
    python tools/chaos.py --signals KILL,STOP,TERM --heartbeat 3

A process is drawn (with a seed) and sent a signal every so many seconds, for so long; the supervisor starts others in
its place. What is learned is cv/digits_lenet with a smooth net, in which rounding does not grow, and beside it a zero
for each sample, whose mean over a batch is added to the loss: under plain SGD a sample that is learned from lowers its
own by rate / batch size, so the weights after an epoch say how often each was.
The same recipe is trained by one process, undisturbed. Exit code 1 where a count
is wrong, or the training loss is off by more than 1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from pdl import nn
from pdl.cli.signals import stoppable
from pdl.config import load
from pdl.distributed.elastic import Supervisor, bounds
from pdl.hub.pretrained import deferred
from pdl.ops import tanh
from pdl.tensor import Tensor, as_tensor
from pdl.train import Hook, Loss, Recipe, Trainer
from pdl.workflow import train

SAMPLES, BATCH, RATE = 1258, 34, 0.05
#: SGD without momentum or decay, and whole batches alone: each sample weighs as much as any other
RECIPE = [
    f"data.batch_size={BATCH}", "optim._target_=pdl.optim.SGD", f"optim.lr={RATE}", "optim.weight_decay=0",
    "~schedule", "train.ema=null", "train.report=false", "train.export=false", "train.test_weights=last",
    "train.eval_every=10",
]  # fmt: skip


class Net(nn.Module):
    """A smooth net, and a number for each sample."""

    def __init__(self) -> None:
        self.inner, self.head = nn.Linear(64, 64), nn.Linear(64, 10)
        self.seen = nn.Embedding(SAMPLES, 1)
        self.seen.weight.data[...] = 0

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.head(tanh(self.inner(x.reshape(-1, 64))))


def counted() -> None:
    """Let the task count its samples."""
    from pdl_cv import Classification

    step = Classification.step

    def with_counts(self: Any, recipe: Any) -> Any:
        return Net()

    def and_count(self: Classification, model: nn.Module, batch: Any) -> Loss:
        loss = step(self, model, batch)
        loss.value = loss.value + model.seen(as_tensor(batch["index"])).mean()  # type: ignore[attr-defined]
        return loss

    Classification.model, Classification.step = with_counts, and_count  # type: ignore[method-assign]


class Counts(Hook):
    """A line after each epoch, into a file: how many it is, how often a sample was learned from, at least and most."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_epoch(self, trainer: Trainer) -> None:  # noqa: D102
        seen = -trainer.model.seen.weight.data[:, 0] * BATCH / RATE  # type: ignore[attr-defined]
        with self.path.open("a") as file:
            file.write(f"{trainer.state.epoch} {seen.min():.4f} {seen.max():.4f}\n")


class Chaos(threading.Thread):
    """Signals to processes of a supervisor that train, in turn those that are given."""

    def __init__(self, supervisor: Supervisor, every: float, seconds: float, signals: list[str], seed: int) -> None:
        super().__init__(daemon=True)
        self.supervisor, self.every, self.seconds, self.signals = supervisor, every, seconds, signals
        self.random, self.sent = random.Random(seed), list[str]()

    def run(self) -> None:
        """Until the time is over."""
        while not self._training():
            time.sleep(0.1)
        end = time.monotonic() + self.seconds
        while time.monotonic() + self.every <= end + 0.1:
            time.sleep(self.every)
            if training := self._training():
                name = self.signals[len(self.sent) % len(self.signals)]
                self.sent.append(name)
                os.kill(self.random.choice(training), getattr(signal, f"SIG{name}"))

    def _training(self) -> list[int]:
        workers = list(self.supervisor.workers.values())
        return [worker.process.pid for worker in workers if worker.state == "trains" and not worker.silent]


def main() -> int:
    """Both trainings, and what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elastic", default="1:4", metavar="MIN:MAX")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between signals")
    parser.add_argument("--seconds", type=float, default=120.0, help="for how long")
    parser.add_argument("--signals", default="KILL", help="in turn: KILL,STOP,TERM")
    parser.add_argument("--heartbeat", type=float, default=10.0, help="seconds after which a process counts as hung")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds until a lost process is started again")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--member", metavar="RUN", help=argparse.SUPPRESS)
    given = parser.parse_args()
    counted()
    recipe = load("cv/digits_lenet", [*RECIPE, f"train.epochs={given.epochs}"])
    if given.member:
        with stoppable() as stopping:
            train(recipe, run=given.member, hooks=[stopping, Counts(Path(given.member).with_name("counts"))])
        return 0
    with tempfile.TemporaryDirectory() as folder, deferred():
        runs = Path(folder) / "disturbed", Path(folder) / "undisturbed"
        line = [sys.executable, __file__, "--member", str(runs[0]), "--epochs", str(given.epochs)]
        least, most = bounds(given.elastic)
        supervisor = Supervisor(line, least, most, heartbeat=given.heartbeat, pauses=(given.pause, 60.0))
        chaos = Chaos(supervisor, given.every, given.seconds, given.signals.split(","), given.seed)
        chaos.start()
        began = time.monotonic()
        if code := supervisor.run():
            return code
        seconds = time.monotonic() - began
        print(f"{len(chaos.sent)} signals, {supervisor.number} generations, {seconds:.0f} s")
        train(Recipe(recipe), run=runs[1], progress=False)
        metrics, alone = (json.loads((run / "result.json").read_text())["metrics"] for run in runs)
        counts = np.loadtxt(Path(folder) / "counts", ndmin=2)
    once = set(counts[:, 0]) == {*range(1, given.epochs + 1)} and bool(np.abs(counts - counts[:, :1]).max() < 0.01)
    off = metrics["train/loss"] / alone["train/loss"] - 1
    print(f"after {given.epochs} epochs each sample was learned from {counts[-1, 1]:.4f} to {counts[-1, 2]:.4f} times")
    print(f"{'each sample once in each epoch' if once else 'NOT each sample once in each epoch'}")
    for name in ("train/loss", "val/loss", "test/accuracy"):
        print(f"{name:<14} {metrics[name]:.5f}, undisturbed {alone[name]:.5f}")
    print(f"training loss off by {off:+.3%}")
    return 0 if once and abs(off) < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())

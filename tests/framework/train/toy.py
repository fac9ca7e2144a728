"""Tasks that have nothing to do with pictures, for the tests of the loop; and, run as a program, a training that
kills itself.

python toy.py RUN [EVENT COUNT]      train into RUN or go on there; SIGKILL at the COUNT-th EVENT (step, write, fsync
or replace)
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pdl
from pdl import Tensor, checkpoint, nn, optim
from pdl.checkpoint import LAST
from pdl.data import ArrayDataset, DataLoader, IterableDataset
from pdl.data.pipeline import Transform
from pdl.files import replacing
from pdl.train import Hook, Loss, Metric, Task, Trainer, TrainSettings
from pdl.train.checkpoints import Checkpoints
from pdl.train.log import MetricsLog
from pdl.train.metrics import Accuracy, MeanSquaredError


class Regression(Task):
    """y = f(x) by least squares; batches are dicts of arrays."""

    def step(self, model: nn.Module, batch: Any) -> Loss:
        y = model(pdl.as_tensor(batch["x"]))
        loss = ((y - pdl.as_tensor(batch["y"])) ** 2).mean()
        return Loss(loss, len(batch["y"]), (y.detach(), batch["y"]), {"bias": 0.5})

    def metrics(self) -> dict[str, Metric]:
        return {"rmse": MeanSquaredError(root=True)}


class Words(IterableDataset):
    """A stream of sentences of unequal length; the label is whether "good" comes up more often than "bad"."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(1)
        for _ in range(96):
            words = rng.choice(["good", "bad", "so", "very", "the"], rng.integers(3, 9)).tolist()
            yield {"words": words, "label": int(words.count("good") > words.count("bad"))}


class BagOfWords(nn.Module):
    """Mean of word vectors, then a line."""

    def __init__(self) -> None:
        self.vectors = nn.Parameter(pdl.random.generator().standard_normal((5, 8)).astype(np.float32))
        self.head = nn.Linear(8, 2)

    def forward(self, counts: Tensor) -> Tensor:
        return self.head(counts @ self.vectors)


class Sentiment(Task):
    """Batches are lists of sentences, which only this task can read."""

    monitor, monitor_mode = "val/accuracy", "max"
    VOCABULARY = ("good", "bad", "so", "very", "the")

    def step(self, model: nn.Module, batch: Any) -> Loss:
        counts = np.array([[words.count(w) for w in self.VOCABULARY] for words in batch["words"]], np.float32)
        logits = model(pdl.as_tensor(counts))
        return Loss(
            pdl.cross_entropy(logits, pdl.as_tensor(batch["label"])), len(counts), (logits.data, batch["label"])
        )

    def metrics(self) -> dict[str, Metric]:
        return {"accuracy": Accuracy()}


class Jitter(Transform):
    """Random noise on x, from the sample's own generator."""

    def __call__(self, sample: Any, rng: Any) -> Any:
        return {**sample, "x": sample["x"] + np.float32(rng.uniform(-0.1, 0.1))}


def arrays(n: int = 90) -> ArrayDataset:
    x = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    return ArrayDataset(x=x, y=(x @ np.array([[1, 2], [-1, 0.5], [0.3, 1], [2, -2]], np.float32)))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))


def regression(
    settings: TrainSettings | None = None,
    *,
    workers: int = 0,
    hooks: Any = (),
    batch_size: int = 8,
    model: Any = None,
    task: Task | None = None,
) -> Trainer:
    """A trainer with everything that has a state: shuffled and noisy data, dropout, running means, momentum, a
    schedule."""
    model = model or net()
    loaders = {
        "train": DataLoader(
            arrays(), batch_size=batch_size, shuffle=True, transforms=[Jitter()], seed=3, workers=workers
        ),
        "val": DataLoader(arrays(30), batch_size=16),
    }
    optimizer = optim.SGD(model, lr=0.05, momentum=0.9, nesterov=True)
    return Trainer(task or Regression(), model, optimizer, loaders, settings, schedule=optim.OneCycle(), hooks=hooks)


def weights_hash(model: nn.Module) -> str:
    state = model.state_dict()
    return hashlib.sha256(b"".join(name.encode() + state[name].data.tobytes() for name in sorted(state))).hexdigest()


class Killer(Hook):
    """SIGKILL at the count-th event, so that nothing of Python's tidying up takes place."""

    def __init__(self, event: str, count: int) -> None:
        self.event, self.count = event, count
        if event in ("fsync", "replace"):
            setattr(os, event, self.before(getattr(os, event)))
        elif event == "write":
            checkpoint.write_atomic = self.half_written  # type: ignore[assignment]

    def tick(self) -> bool:
        self.count -= 1
        return self.count == 0

    def before(self, function: Any) -> Any:
        def call(*args: Any) -> Any:
            if self.tick():
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args)

        return call

    def half_written(self, path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
        whole = data if isinstance(data, bytes) else b"".join(data)
        with replacing(path) as part:
            part.write_bytes(whole[: len(whole) // 2])
            if self.tick():
                os.kill(os.getpid(), signal.SIGKILL)
            part.write_bytes(whole)

    def on_step(self, trainer: Trainer) -> None:
        if self.event == "step" and self.tick():
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, *kill: str) -> None:
    pdl.seed(0)
    folder.mkdir(exist_ok=True)
    settings = TrainSettings(epochs=4, accumulate=2, ema=0.9, clip_norm=1.0, checkpoint_every=2, log_every=1)
    hooks: list[Hook] = [Killer(kill[0], int(kill[1]))] if kill else []
    trainer = regression(settings, workers=1)
    trainer.hooks = [*hooks, MetricsLog(folder / "metrics.jsonl", 1), Checkpoints(folder, every=2, keep_last=2)]
    if (folder / LAST).is_file():
        trainer.load_state_dict(checkpoint.load(folder / LAST))
    trainer.fit()
    with trainer.averaged():
        averaged = weights_hash(trainer.model)
    sys.stdout.write(f"{weights_hash(trainer.model)} {averaged} {trainer.state.step}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

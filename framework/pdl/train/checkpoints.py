"""The hook that writes checkpoints while a model is trained, and the lock of their folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pdl.checkpoint import BEST, LAST, save
from pdl.dtype import bfloat16
from pdl.errors import UsageError
from pdl.files import is_part, locked, write_atomic
from pdl.tensor import Tensor
from pdl.train.hooks import Hook
from pdl.train.loop import Evaluation, Trainer

LOCK = ".lock"
_REST = 1.0  # seconds: shorter epochs do not each wait for the disk


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep every other process and thread from training into a folder; UsageError where one does so now."""

    def refuse() -> None:
        raise UsageError(f"{folder}: something else is training into this folder; wait for it, or name another one")

    with locked(folder / LOCK, refuse):
        yield


class Checkpoints(Hook):
    """Writes last.safetensors (everything a resumed run needs) and best.safetensors (the weights that were best on
    the validation data).

    `every` steps, `seconds` seconds: how often inside an epoch; each epoch ends with one anyway, unless `every` is not
    given and the last one is less than a second old: then the weights that were best meanwhile are kept in memory, and
    a run that is killed begins again up to a second before. The last epoch always ends with one, and so does the step
    or epoch in which `trainer.interruption` is set, and every epoch without `rest`. With `keep_last` k > 1 the latest k
    also stay as step-<number>.safetensors. This hook comes last, so that it sees what the others have become. Without a
    `folder` it writes nothing, and gives what another process of the training writes.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        every: int | None = None,
        seconds: float | None = None,
        keep_last: int = 1,
        rest: bool = True,
    ) -> None:
        self.folder, self.every, self.seconds, self.keep_last = folder, every, seconds, keep_last
        self.rest = _REST if rest else 0.0
        self._written = time.monotonic()
        self._first = True
        self._best: dict[str, Any] | None = None  # better weights that are not on the disk yet

    def on_start(self, trainer: Trainer) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left in filter(is_part, self.folder.iterdir()):
                left.unlink()
        self._written, self._first, self._best = time.monotonic(), True, None

    def on_step(self, trainer: Trainer) -> None:
        due = self.every is not None and trainer.state.step % self.every == 0
        overdue = self.seconds is not None and time.monotonic() - self._written >= self.seconds
        if trainer.agreed(due or overdue or trainer.interruption is not None):
            self.write(trainer)

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        in_common = trainer.ema is not None and trainer.ema.in_common
        if not trainer.improved or (self.folder is None and not in_common):
            return
        with trainer.averaged():
            if self.folder is None:
                return
            weights = trainer.model.state_dict()
            check_finite(weights, trainer)
            self._best = {"model": weights, "state": asdict(trainer.state)}
            if self._due(trainer):
                self._save_best()
            else:
                self._best["model"] = {name: value.data.copy() for name, value in weights.items()}

    def on_epoch(self, trainer: Trainer) -> None:
        if trainer.agreed(self._due(trainer)):
            self.write(trainer)

    def _due(self, trainer: Trainer) -> bool:
        """Whether this epoch ends with a checkpoint."""
        rested = self.every is not None or time.monotonic() - self._written >= self.rest
        return rested or self._first or trainer.finished or trainer.interruption is not None

    def _save_best(self) -> None:
        if self._best is not None and self.folder is not None:
            save(self.folder / BEST, self._best)
        self._best = None

    def write(self, trainer: Trainer) -> None:
        """Write last.safetensors; refuses to replace good weights by broken ones. The best weights that it speaks of
        are on the disk before it."""
        tree = trainer.state_dict()
        check_finite(tree["model"], trainer)
        self._save_best()
        self._written, self._first = time.monotonic(), False
        if self.folder is not None:
            save(self.folder / LAST, tree)
            if self.keep_last > 1:
                self._keep(self.folder, trainer.state.step)

    def _keep(self, folder: Path, step: int) -> None:
        last, name = folder / LAST, folder / f"step-{step:08d}.safetensors"
        name.unlink(missing_ok=True)
        try:
            os.link(last, name)
        except OSError:  # a file system without hard links
            write_atomic(name, last.read_bytes())
        for old in sorted(folder.glob("step-*.safetensors"))[: -self.keep_last]:
            old.unlink()


def check_finite(weights: dict[str, Tensor], trainer: Trainer) -> None:
    """Raise NumericalError naming the first tensor with NaN or infinite values."""
    for name, value in weights.items():
        array = value.data.astype(np.float32) if value.dtype == bfloat16 else value.data
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise trainer.diverged(f"{name} holds NaN or infinity after step {trainer.state.step}")

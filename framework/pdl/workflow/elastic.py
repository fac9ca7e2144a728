"""`Elastic`: what a process of an elastic training keeps from one generation of processes to the next."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdl import checkpoint, random
from pdl.checkpoint import LAST
from pdl.distributed.elastic import Generation, Member, Regroup
from pdl.distributed.group import Silence
from pdl.errors import UsageError
from pdl.train.checkpoints import held
from pdl.train.hooks import Hook
from pdl.train.log import read_log
from pdl.train.loop import Trainer
from pdl.train.parallel import Elsewhere, ParallelTrainer
from pdl.train.recipe import Recipe
from pdl.workflow.result import Result
from pdl.workflow.run import ABOUT, Run

_FIRST = 5.0  # seconds: of an error that all have rank 0 speaks, and ends the others


class Boundary(Hook):
    """Remembers what a step changes before it is done, so that the state after the last whole step can be had: of
    weights and optimiser nothing, since these change only when the gradients of all have come. Comes last."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.trainer: Trainer | None = None

    def on_start(self, trainer: Trainer) -> None:
        if any(buffer.per_sample for buffer in trainer.model.buffers()):
            raise UsageError(
                f"{type(trainer.model).__name__} carries a state for each place of a batch, which is lost with the "
                "process that has it; leave out --elastic, or train with task.batches=sequences or pairs"
            )
        self.trainer = trainer
        self._keep(trainer)
        self.member.training(trainer)

    def on_step(self, trainer: Trainer) -> None:
        self._keep(trainer)

    def on_epoch(self, trainer: Trainer) -> None:
        self._keep(trainer)

    def on_end(self, trainer: Trainer) -> None:
        self.member.training(None)

    def _keep(self, trainer: Trainer) -> None:
        loader, scheduler = trainer.loaders["train"], trainer.scheduler
        self.small = copy.deepcopy({
            "state": asdict(trainer.state),
            "schedule": scheduler.state_dict() if scheduler is not None else None,
            "random": random.get_state(),
            "loader": loader.state_dict() if hasattr(loader, "state_dict") else None,  # type: ignore[attr-defined]
            "hooks": {type(hook).__name__: hook.state_dict() for hook in trainer.hooks},
        })  # fmt: skip
        self.rates = [group["lr"] for group in trainer.optimizer.param_groups]
        self.buffers = [buffer.data.copy() for buffer in trainer.model.buffers()]

    def tree(self) -> dict[str, Any] | None:
        """The state after the last whole step, in memory of its own; None where this process has none, or, of an
        optimiser in pieces, not all of it."""
        trainer = self.trainer
        if trainer is None or (isinstance(trainer, ParallelTrainer) and trainer.zero):
            return None
        for buffer, values in zip(trainer.model.buffers(), self.buffers, strict=True):
            buffer.data[...] = values
        for group, rate in zip(trainer.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate
        trainer.hooks = []  # they are closed
        tree = trainer.state_dict() | self.small
        tree["model"] = {name: value.data.copy() for name, value in tree["model"].items()}
        return tree


class Elastic:
    """A process that trains in one generation after the other.

    run, resume  the run folder, and whether it holds a run that is gone on with
    """

    def __init__(self, member: Member, recipe: Recipe, run: str | Path | None, resume: bool) -> None:
        self.member, self.run, self.resume = member, run, resume
        self.tree: dict[str, Any] | None = None
        self.generation: Generation
        self.boundary = Boundary(member)
        check(recipe)

    def trained(self, once: Callable[[], Result]) -> Result:
        """What `once`, the training in one generation, gives in the last one."""
        while True:
            self.generation = self.member.next(self._position, self._save)
            if self.generation.run is not None:
                self.run, self.resume = self.generation.run, (Path(self.generation.run) / ABOUT).is_file()
            self.boundary = Boundary(self.member)
            try:
                result = once()
            except (Silence, Regroup, Elsewhere):
                self._keep()
            except KeyboardInterrupt as error:
                if self.member.ending and not self.member.rank:
                    raise
                raise self.member.leave(128 + int(getattr(error, "number", 2))) from None
            except Exception:
                if self.member.rank:
                    time.sleep(_FIRST)
                raise
            else:
                self.member.done()
                return result

    @property
    def again(self) -> bool:
        """Whether other generations were before."""
        return self.generation.number > 1

    def final(self, error: BaseException) -> bool:
        """Whether an error ends the training, and not this generation alone."""
        return not isinstance(error, Silence | Regroup | Elsewhere) and (
            not isinstance(error, KeyboardInterrupt) or self.member.ending
        )

    @contextmanager
    def folder(self, folder: Run) -> Iterator[None]:
        """The run folder that this process writes; what has come to be there is not given up when the generation
        ends."""
        self.member.line.send(run=str(folder.path))
        folder.note(*self.generation.said)
        try:
            yield
        except (Silence, Regroup, Elsewhere):
            self._keep()
            if self.tree is not None and not folder.resumable:
                folder.checkpoints.mkdir(exist_ok=True)
                checkpoint.save(folder.checkpoints / LAST, self.tree)
            raise

    @contextmanager
    def source(self, folder: Run) -> Iterator[Path | None]:
        """The checkpoint that all go on from: what this process holds, or the last one of the run."""
        if self.generation.source and self.tree is not None:
            with tempfile.TemporaryDirectory() as place:
                checkpoint.save(Path(place) / LAST, _completed(self.tree, folder))
                yield Path(place) / LAST
        else:
            yield folder.checkpoints / LAST if self.resume and folder.resumable else None

    @property
    def _position(self) -> list[int] | None:
        return [self.tree["state"]["step"], self.tree["state"]["epoch"]] if self.tree is not None else None

    def _keep(self) -> None:
        if self.boundary.trainer is not None:
            self.tree, self.boundary = self.boundary.tree(), Boundary(self.member)

    def _save(self, path: str) -> None:
        """What this process holds as the last checkpoint of a run."""
        folder = Run(Path(path))
        if self.tree is not None and (folder.path / ABOUT).is_file():
            with held(folder.path):
                folder.checkpoints.mkdir(exist_ok=True)
                checkpoint.save(folder.checkpoints / LAST, _completed(self.tree, folder))


def check(recipe: Recipe) -> None:
    """UsageError where processes cannot come and go: what one of them holds alone is lost with it."""
    for name in ("tensor", "pipeline", "local_steps", "compress", "tables"):
        if getattr(recipe.distributed, name, None) not in (None, 1):
            raise UsageError(
                f"distributed.{name}: a process then has what no other has, and --elastic cannot go on without it; "
                "leave out one of the two"
            )


def _completed(tree: dict[str, Any], folder: Run) -> dict[str, Any]:
    """With the state of hooks that only the first process had, where that is gone: as the last checkpoint has it, and
    metrics.jsonl up to the step."""
    if "MetricsLog" in tree["hooks"]:
        return tree
    saved = checkpoint.load(folder.checkpoints / LAST)["hooks"] if folder.resumable else {}
    log = {"MetricsLog": {"bytes": _logged(folder.path / "metrics.jsonl", tree["state"])}}
    return {**tree, "hooks": {**saved, **log, **tree["hooks"]}}


def _logged(path: Path, state: dict[str, Any]) -> int:
    """Bytes of the lines of a metrics.jsonl up to a position."""
    if not path.is_file():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(read_log(path)):
        later = line.get("step", 0) > state["step"]
        if later or line.get("kind") == "test" or (line.get("kind") == "epoch" and line["epoch"] > state["epoch"]):
            return sum(map(len, lines[:number]))
    return sum(map(len, lines[: len(read_log(path))]))


__all__ = ["Boundary", "Elastic"]

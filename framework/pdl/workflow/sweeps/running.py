"""Training what `Trials` hands out: here, one run after another; and the hook that says how it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pdl.errors import PdlError
from pdl.train.hooks import Hook
from pdl.train.loop import Evaluation, Trainer
from pdl.workflow.leaderboards import begun
from pdl.workflow.sweeps.trials import Trials

#: epoch, value of the monitored metric, whether it is the last one -> why the run is to stop, "" to go on
Evaluated = Callable[[int, float, bool], str]


class Halted(KeyboardInterrupt):
    """Ends a run that is not worth its time, after the epoch under way and with a checkpoint: it may go on later."""


class Reporting(Hook):
    """Tells the sweep each value of the monitored metric, and does as it says; `reason`: why the run was stopped."""

    def __init__(self, evaluated: Evaluated) -> None:
        self.evaluated, self.reason = evaluated, ""

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        value = evaluation.metrics[trainer.monitor]
        self.reason = self.evaluated(trainer.state.epoch, value, trainer.finished)
        if self.reason and trainer.interruption is None:
            trainer.interruption = Halted(self.reason)


def inline(trials: Trials, *, progress: bool, hooks: Sequence[Hook]) -> None:
    """Train all in this process."""
    while (job := trials.take()) is not None:
        reporting = Reporting(partial(trials.evaluated, job))
        try:
            begun(job.plan.recipe, job.plan.folder, progress, [*hooks, reporting])
        except Halted:
            trials.stopped(job, reporting.reason)
        except PdlError as error:
            trials.failed(job, error)
        else:
            trials.done(job)

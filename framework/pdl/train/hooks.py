"""`Hook`: code that is called at named points of training. Logs, progress, early stop and checkpoints are hooks like
any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdl.train.loop import Evaluation, Trainer


class Hook:
    """Override what you need; every method gets the trainer. Hooks run in the order of the trainer's list.

    A hook may read anything, set `trainer.state.stopped` to a reason (finish after this step) or `trainer.interruption`
    to an exception (raised after this step, once a checkpoint is written), and change gradients in `sync_gradients`.
    What it must know after an interruption belongs into `state_dict`; the class name is the key, so one hook of a kind.
    """

    def on_start(self, trainer: Trainer) -> None:
        """Before the first step, also of a resumed run."""

    def on_batch(self, trainer: Trainer) -> None:
        """A batch has come and its forward part begins; several times a step where gradients are accumulated."""

    def on_loss(self, trainer: Trainer) -> None:
        """Between the forward and the backward part of a batch; not where the two are one compiled program."""

    def sync_gradients(self, trainer: Trainer) -> None:
        """The one point between gradients and update: all gradients of the step are computed, nothing is clipped yet.

        Those of several processes have been summed.
        """

    def on_step(self, trainer: Trainer) -> None:
        """After every optimiser step; `trainer.last` holds its numbers."""

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """After every evaluation on the validation data; `trainer.improved` says whether it is the best so far."""

    def on_epoch(self, trainer: Trainer) -> None:
        """After every epoch and its evaluation; `trainer.state.epoch` epochs are done."""

    def on_end(self, trainer: Trainer) -> None:
        """After the last epoch; not when an error ends training."""

    def on_message(self, trainer: Trainer, line: str) -> None:
        """Something people should know, in one line."""

    def close(self) -> None:
        """Always last, also after an error: files are closed here."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this hook."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""


class EarlyStop(Hook):
    """Stop after `patience` evaluations in a row without a better value of the monitored metric."""

    def __init__(self, patience: int) -> None:
        self.patience, self.waited = patience, 0

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self.waited = 0 if trainer.improved else self.waited + 1
        if self.waited >= self.patience:
            waited = f"{self.waited} evaluations" if self.waited > 1 else "an evaluation"
            best = trainer.state.best
            said = "it never was a number" if best is None else f"the best is {best:.4g}"
            trainer.state.stopped = f"no better {trainer.monitor} in {waited}; {said}"

    def state_dict(self) -> dict[str, Any]:
        return {"waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.waited = int(state["waited"])

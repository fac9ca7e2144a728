"""`Scheduler`: applies a schedule to an optimiser, update by update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pdl.optim.optimizer import Optimizer
from pdl.optim.schedule import Schedule


class Scheduler:
    """Sets the learning rate of every group to its initial one times the schedule's factor; `step()` after every
    update.

    `total_steps` updates in the whole training (None: unknown, for schedules that can do without), `steps_per_epoch` of
    them in an epoch.
    """

    def __init__(
        self, optimizer: Optimizer, schedule: Schedule, *, total_steps: int | None = None, steps_per_epoch: float = 1
    ) -> None:
        self.optimizer, self.schedule = optimizer, schedule
        self.total_steps, self.steps_per_epoch = total_steps, steps_per_epoch
        self.last_step = 0
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self._apply()

    @property
    def factor(self) -> float:
        """The factor of the next update."""
        return self.schedule(self.last_step, self.total_steps, self.steps_per_epoch)

    def step(self) -> None:
        """Count an update, and set the learning rate of the next."""
        self.last_step += 1
        self._apply()

    def observe(self, value: float, mode: Literal["min", "max"] = "min") -> None:
        """Pass the result of an evaluation on to the schedule."""
        self.schedule.observe(value, mode)
        self._apply()

    def _apply(self) -> None:
        factor = self.factor
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def state_dict(self) -> dict[str, Any]:
        """The number of updates made, and the schedule's own state."""
        return {"last_step": self.last_step, "schedule": self.schedule.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`; the optimiser's own state, with the initial learning rates, is loaded first."""
        self.last_step = state["last_step"]
        self.schedule.load_state_dict(state["schedule"])
        self._apply()

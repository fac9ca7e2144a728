"""Asynchronous successive halving."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pdl.errors import UsageError

RUNGS = 27  # by default the first rung is at a 27th of the epochs: with thirds three rungs before the end


@dataclass
class Halving:
    """ASHA (Li et al., arXiv 1810.05934), as it stops: a trial that comes to a rung, after grace * factor^k epochs,
    goes on if its value is among the best 1/factor of all that have come there so far, itself included.

    Nothing waits for anything: the first at a rung goes on, so what is stopped hangs on the order. Where fewer than
    `factor` have come the best one goes on. A trial that is evaluated less often is judged at its first evaluation
    from the rung on.
    """

    grace: int
    factor: int
    less: bool
    rungs: dict[int, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, epochs: int, grace: int | None, factor: int, less: bool) -> Halving:
        """That for trainings of so many epochs. UsageError where nothing would ever be stopped."""
        grace = max(1, math.ceil(epochs / RUNGS)) if grace is None else grace
        if grace < 1 or factor < 2:
            raise UsageError(f"asha: grace={grace}, factor={factor}; at least 1 epoch, and at least 2")
        if grace >= epochs:
            raise UsageError(
                f"asha: a trial is judged after {grace} epoch{'s' * (grace > 1)} for the first time, and train.epochs="
                f"{epochs}: nothing is ever stopped; train for longer, or leave it out"
            )
        return cls(grace, factor, less)

    def judge(self, trial: str, epoch: int, value: float) -> str:
        """Write down the value of a trial after so many epochs; why it is to stop, "" where it goes on."""
        rung = self.grace
        while rung <= epoch:
            met = self.rungs.setdefault(rung, {})
            if trial not in met:
                met[trial] = value
                known = [each for each in met.values() if not math.isnan(each)]
                if math.isnan(value) or not self._among(value, known):
                    best = max(len(known) // self.factor, 1)
                    return f"{value:.4g} is not among the best {best} of {len(met)} at epoch {rung}"
            rung *= self.factor
        return ""

    def _among(self, value: float, known: Sequence[float]) -> bool:
        last = sorted(known, reverse=not self.less)[max(len(known) // self.factor, 1) - 1]
        return value <= last if self.less else value >= last

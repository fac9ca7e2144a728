"""Learning-rate schedules: pure functions of time.

A schedule returns the factor by which each group's own learning rate is multiplied:

    factor = Cosine()(step, total)             # update `step` (from 0) of `total`
    factor = Warmup(Cosine(), steps=500)(step, total)

Nothing is accumulated, so a resumed run is exact; `ReduceOnPlateau`, which reacts to measurements, is the one with
state. Durations are in `unit`s: "epochs" (the third argument says how many updates make one), "steps" (updates) or
"fraction" (of the whole training).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pdl.errors import UsageError
from pdl.hints import Range, part

Unit = Literal["epochs", "steps", "fraction"]
Factor = Annotated[float, Range(0, 1)]


@part
class Schedule(ABC):
    """A learning-rate factor over time.

    unit       what times are counted in: epochs, or steps (updates)
    final      the factor at the end
    gamma      what the factor is multiplied by
    schedules  the schedules that it is made of
    """

    @abstractmethod
    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        """The factor for update `step`, counted from 0, of `total` (None if unknown); `epoch` updates make an
        epoch.
        """

    def observe(self, value: float, mode: Literal["min", "max"] = "min") -> None:  # noqa: B027 - most need not listen
        """Take in the result of an evaluation: `value`, of which less ("min") or more ("max") is better."""

    def state_dict(self) -> dict[str, Any]:
        """What `observe` changed; empty for pure schedules."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - nor remember
        """Go on from `state_dict()`."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({shown})"


class Constant(Schedule):
    """f = factor.

    factor  of the learning rate, all the time
    """

    def __init__(self, factor: Annotated[float, Range(0)] = 1.0) -> None:
        self.factor = factor

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return self.factor


class Step(Schedule):
    """f = gamma^floor(t / step_size).

    step_size  time between two falls
    """

    def __init__(
        self, step_size: Annotated[float, Range(above=0)], *, gamma: Factor = 0.1, unit: Unit = "epochs"
    ) -> None:
        self.step_size, self.gamma, self.unit = step_size, gamma, unit

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return self.gamma ** math.floor(step / _updates(self, self.step_size, self.unit, total, epoch))


class MultiStep(Schedule):
    """f = gamma^(number of milestones reached).

    milestones  times at which the factor falls, ascending
    """

    def __init__(
        self, milestones: Sequence[Annotated[float, Range(above=0)]], *, gamma: Factor = 0.1, unit: Unit = "epochs"
    ) -> None:
        self.milestones, self.gamma, self.unit = _increasing("MultiStep", milestones), gamma, unit

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return self.gamma ** sum(step >= _updates(self, m, self.unit, total, epoch) for m in self.milestones)


class Exponential(Schedule):
    """f = gamma^t, t in (fractional) units."""

    def __init__(self, gamma: Annotated[float, Range(above=0, high=1)], *, unit: Unit = "epochs") -> None:
        self.gamma, self.unit = gamma, unit

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return float(self.gamma ** (step / _updates(self, 1, self.unit, total, epoch)))


class Cosine(Schedule):
    """f = final + (1 - final) (1 + cos(pi t / T)) / 2, T the whole training. Loshchilov & Hutter, arXiv 1608.03983."""

    def __init__(self, final: Factor = 0.0) -> None:
        self.final = final

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return self.final + (1 - self.final) * _half_cosine(_share(self, step, total))


class CosineRestarts(Schedule):
    """`Cosine` over `period`, begun again at its end with a period `growth` times as long. Loshchilov & Hutter, arXiv
    1608.03983.
    """

    def __init__(
        self,
        period: Annotated[float, Range(above=0)],
        *,
        growth: Annotated[float, Range(1)] = 1.0,
        final: Factor = 0.0,
        unit: Unit = "epochs",
    ) -> None:
        self.period, self.growth, self.final, self.unit = period, growth, final, unit

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        length = _updates(self, self.period, self.unit, total, epoch)
        while step >= length:
            step, length = step - length, length * self.growth
        return self.final + (1 - self.final) * _half_cosine(step / length)


class Polynomial(Schedule):
    """f = final + (1 - final) (1 - t / T)^power, over the whole training; power 1 is linear.

    power  1 falls in a line, 2 in a parabola that ends flat
    """

    def __init__(self, power: Annotated[float, Range(above=0)] = 1.0, *, final: Factor = 0.0) -> None:
        self.power, self.final = power, final

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return self.final + (1 - self.final) * (1 - _share(self, step, total)) ** self.power


class OneCycle(Schedule):
    """From 1 / div_factor up to 1 in the first `pct_start` of the training, then down to 1 / (div_factor
    final_div_factor).

    The optimiser's learning rate is the peak ("max_lr"). Smith & Topin, arXiv 1708.07120; PyTorch's two-phase form,
    without momentum cycling.

    div_factor        what the learning rate is divided by at the beginning
    final_div_factor  what that is divided by once more at the end
    anneal            form of both ways: cos or linear
    """

    def __init__(
        self,
        *,
        pct_start: Annotated[float, Range(0, below=1)] = 0.3,
        div_factor: Annotated[float, Range(1)] = 25.0,
        final_div_factor: Annotated[float, Range(1)] = 1e4,
        anneal: Literal["cos", "linear"] = "cos",
    ) -> None:
        self.pct_start, self.div_factor, self.final_div_factor, self.anneal = (
            pct_start,
            div_factor,
            final_div_factor,
            anneal,
        )

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        last = _known(self, total) - 1
        top = self.pct_start * (last + 1) - 1
        low = 1 / self.div_factor
        if step <= top and top > 0:
            return self._between(low, 1.0, step / top)
        down = last - max(top, 0.0)
        return self._between(
            1.0, low / self.final_div_factor, min(1.0, (step - max(top, 0.0)) / down) if down > 0 else 1.0
        )

    def _between(self, start: float, end: float, share: float) -> float:
        left = _half_cosine(share) if self.anneal == "cos" else 1 - share
        return end + (start - end) * left


class Warmup(Schedule):
    """Rises linearly from `start` to the beginning of `schedule` over so many `steps` (or `epochs`), then follows it
    over the rest.

    The rest is what `schedule` takes for the whole training. Goyal et al., arXiv 1706.02677.
    """

    def __init__(
        self,
        schedule: Schedule | None = None,
        *,
        steps: Annotated[int, Range(1)] | None = None,
        epochs: Annotated[float, Range(above=0)] | None = None,
        start: Factor = 0.01,
    ) -> None:
        if (steps is None) == (epochs is None):
            raise UsageError(f"Warmup: give either steps or epochs, got steps={steps} and epochs={epochs}")
        self.schedule, self.steps, self.epochs, self.start = schedule or Constant(), steps, epochs, start

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        length = self.steps if self.steps is not None else (self.epochs or 0) * epoch
        rest = None if total is None else max(total - length, 1.0)
        if step >= length:
            return self.schedule(step - length, rest, epoch)
        return (self.start + (1 - self.start) * step / length) * self.schedule(0, rest, epoch)

    def observe(self, value: float, mode: Literal["min", "max"] = "min") -> None:
        """Pass the value on to the inner schedule."""
        self.schedule.observe(value, mode)

    def state_dict(self) -> dict[str, Any]:
        """The inner schedule's."""
        return self.schedule.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`."""
        self.schedule.load_state_dict(state)


class _Several(Schedule):
    """What schedules made of several share."""

    schedules: list[Schedule]

    def observe(self, value: float, mode: Literal["min", "max"] = "min") -> None:
        """Pass the value on to every schedule."""
        for schedule in self.schedules:
            schedule.observe(value, mode)

    def state_dict(self) -> dict[str, Any]:
        """Every one's, by number."""
        return {str(n): schedule.state_dict() for n, schedule in enumerate(self.schedules)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`."""
        for n, schedule in enumerate(self.schedules):
            schedule.load_state_dict(state[str(n)])


class Chain(_Several):
    """The product of several schedules."""

    def __init__(self, schedules: Sequence[Schedule]) -> None:
        self.schedules = list(schedules)

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return math.prod(schedule(step, total, epoch) for schedule in self.schedules)


class Sequential(_Several):
    """One schedule after the other: number i + 1 begins at milestone i and takes the time up to the next for its whole
    training.

    milestones  times at which the next schedule begins, ascending
    """

    def __init__(
        self,
        schedules: Sequence[Schedule],
        milestones: Sequence[Annotated[float, Range(above=0)]],
        *,
        unit: Unit = "epochs",
    ) -> None:
        if len(schedules) != len(milestones) + 1:
            raise UsageError(
                f"Sequential: {len(schedules)} schedules need {len(schedules) - 1} milestones, got {len(milestones)}"
            )
        self.schedules, self.milestones, self.unit = list(schedules), _increasing("Sequential", milestones), unit

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        starts = [0.0, *(_updates(self, m, self.unit, total, epoch) for m in self.milestones)]
        ends = [*starts[1:], total]
        now = max(n for n, start in enumerate(starts) if step >= start)
        end = ends[now]
        return self.schedules[now](step - starts[now], None if end is None else end - starts[now], epoch)


class ReduceOnPlateau(Schedule):
    """Multiplied by `factor` after `patience` + 1 evaluations in a row without a value better than the best by
    `threshold`.

    `threshold` is relative or absolute (`threshold_mode`); after a reduction `cooldown` evaluations are not counted.
    PyTorch's rule.

    min_factor  below which the factor does not fall
    """

    def __init__(
        self,
        factor: Annotated[float, Range(above=0, below=1)] = 0.1,
        *,
        patience: Annotated[int, Range(0)] = 10,
        threshold: Annotated[float, Range(0)] = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: Annotated[int, Range(0)] = 0,
        min_factor: Factor = 0.0,
    ) -> None:
        self.factor, self.patience, self.cooldown, self.min_factor = factor, patience, cooldown, min_factor
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self._best: float | None = None
        self._now, self._bad, self._cooling = 1.0, 0, 0

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        """The factor reached so far."""
        return self._now

    def observe(self, value: float, mode: Literal["min", "max"] = "min") -> None:
        """Count one evaluation, and reduce where it is time to."""
        if self._best is None or self._is_better(value, self._best, mode):
            self._best, self._bad = value, 0
        else:
            self._bad += 1
        if self._cooling:
            self._cooling, self._bad = self._cooling - 1, 0
        if self._bad > self.patience:
            self._now = max(self._now * self.factor, self.min_factor)
            self._bad, self._cooling = 0, self.cooldown

    def _is_better(self, value: float, best: float, mode: str) -> bool:
        sign = 1 if mode == "max" else -1
        margin = self.threshold * abs(best) if self.threshold_mode == "rel" else self.threshold
        return sign * value > sign * best + margin

    def state_dict(self) -> dict[str, Any]:
        """Factor, best value, and the counters."""
        return {"now": self._now, "best": self._best, "bad": self._bad, "cooling": self._cooling}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`."""
        self._now, self._best, self._bad, self._cooling = (state[k] for k in ("now", "best", "bad", "cooling"))


# -- time --------------------------------------------------------------------------------------------------------------
def _known(schedule: Schedule, total: float | None) -> float:
    if total is None:
        raise UsageError(
            f"{type(schedule).__name__} runs over the whole training, whose length nobody knows here; "
            "set train.max_steps, or choose Constant, Step, MultiStep, Exponential or ReduceOnPlateau"
        )
    return total


def _share(schedule: Schedule, step: float, total: float | None) -> float:
    """How much of the training is over, 0 to 1."""
    known = _known(schedule, total)
    return min(1.0, step / known) if known > 0 else 1.0


def _updates(schedule: Schedule, amount: float, unit: Unit, total: float | None, epoch: float) -> float:
    """A duration in updates."""
    if unit == "fraction":
        return amount * _known(schedule, total)
    return amount * epoch if unit == "epochs" else amount


def _half_cosine(share: float) -> float:
    """1 at 0, 0 at 1."""
    return (1 + math.cos(math.pi * share)) / 2


def _increasing(name: str, milestones: Sequence[float]) -> list[float]:
    if list(milestones) != sorted(set(milestones)):
        raise UsageError(f"{name}: milestones {list(milestones)} must increase")
    return list(milestones)

"""Schedules against PyTorch's numbers (torch 2.13, initial learning rate 1), their composition, and the `Scheduler`."""

from __future__ import annotations

import pytest

from pdl import nn, optim
from pdl.errors import UsageError
from pdl.optim import Schedule

T = 12
TABLE: list[tuple[Schedule, list[float]]] = [
    (optim.Constant(), [1.0] * T),
    (optim.Step(5, gamma=0.5), [1.0] * 5 + [0.5] * 5 + [0.25] * 2),
    (optim.MultiStep([3, 7]), [1.0] * 3 + [0.1] * 4 + [0.01] * 5),
    (optim.MultiStep([0.25, 0.5], unit="fraction"), [1.0] * 3 + [0.1] * 3 + [0.01] * 6),
    (optim.Exponential(0.9), [0.9**t for t in range(T)]),
    (optim.Cosine(0.1), [1.0, 0.98466662, 0.93971143, 0.86819805, 0.775, 0.66646857, 0.55, 0.43353143, 0.325,
                         0.23180195, 0.16028857, 0.11533338]),
    (optim.CosineRestarts(3, growth=2, final=0.1), [1.0, 0.775, 0.325, 1.0, 0.93971143, 0.775, 0.55, 0.325, 0.16028857,
                                                    1.0, 0.98466662, 0.93971143]),
    (optim.Polynomial(2.0), [1.0, 0.84027778, 0.69444444, 0.5625, 0.44444444, 0.34027778, 0.25, 0.17361111, 0.11111111,
                             0.0625, 0.02777778, 0.00694444]),
    (optim.OneCycle(), [0.04, 0.34978965, 0.87928516, 0.99441544, 0.93301297, 0.81174565, 0.64737900, 0.46263710,
                        0.28306100, 0.13347753, 0.03456699, 4e-06]),
    (optim.OneCycle(pct_start=0.5, anneal="linear", div_factor=10, final_div_factor=100),
     [0.1, 0.28, 0.46, 0.64, 0.82, 1.0, 0.8335, 0.667, 0.5005, 0.334, 0.1675, 0.001]),
    (optim.Warmup(steps=4, start=0.2), [0.2, 0.4, 0.6, 0.8] + [1.0] * 8),
    (optim.Warmup(optim.Polynomial(), epochs=2, start=0.5), [0.5, 0.75, *(1 - t / 10 for t in range(10))]),
    (optim.Chain([optim.Step(6), optim.Exponential(0.5)]), [0.5**t * (1.0 if t < 6 else 0.1) for t in range(T)]),
    (optim.Sequential([optim.Constant(0.3), optim.Polynomial()], [2]), [0.3, 0.3, *(1 - t / 10 for t in range(10))]),
    (optim.ReduceOnPlateau(), [1.0] * T),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "expected"), TABLE, ids=lambda v: type(v).__name__)
def test_factors(schedule: Schedule, expected: list[float]) -> None:
    assert [schedule(t, T) for t in range(T)] == pytest.approx(expected, abs=1e-8)


def test_every_schedule_is_in_the_table() -> None:
    named = {
        n for n in optim.__all__ if isinstance(getattr(optim, n), type) and issubclass(getattr(optim, n), Schedule)
    }
    assert named - {"Schedule"} == {type(s).__name__ for s, _ in TABLE}


def test_durations_in_epochs_scale_with_the_epoch() -> None:
    for schedule in (
        optim.Step(2),
        optim.MultiStep([1, 3]),
        optim.Exponential(0.9),
        optim.Warmup(optim.Cosine(), epochs=1),
    ):
        assert [schedule(t * 10, T * 10, 10) for t in range(T)] == pytest.approx([schedule(t, T) for t in range(T)])
    assert optim.Step(2, unit="steps")(2, T * 10, 10) == 0.1


def test_plateau_is_pytorch_s() -> None:
    schedule, found = optim.ReduceOnPlateau(0.5, patience=1, cooldown=1, threshold=0.1), []
    for value in [5, 4, 4, 3.9, 3.9, 3.9, 3.9, 3.9, 3.0, 3.0, 3.0, 3.0]:
        schedule.observe(value, "min")
        found.append(schedule(0))
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125]


@pytest.mark.parametrize("mode", ["min", "max"])
def test_plateau_inside_others_hears_and_remembers(mode: str) -> None:
    def make() -> Schedule:
        return optim.Warmup(optim.Chain([optim.ReduceOnPlateau(0.5, patience=0), optim.Constant()]), steps=1)

    schedule, other = make(), make()
    for value in (1.0, 1.0, 1.0):
        schedule.observe(value, mode)  # type: ignore[arg-type]
    assert schedule(5) == 0.25
    other.load_state_dict(schedule.state_dict())
    assert other(5) == 0.25


@pytest.mark.parametrize(
    "schedule", [optim.Cosine(), optim.OneCycle(), optim.Polynomial(), optim.Step(0.1, unit="fraction")]
)
def test_an_unknown_length_is_refused(schedule: Schedule) -> None:
    with pytest.raises(UsageError, match="length nobody knows"):
        schedule(0, None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.Warmup(), "either steps or epochs"),
        (lambda: optim.Warmup(steps=1, epochs=1), "either steps or epochs"),
        (lambda: optim.MultiStep([3, 2]), "must increase"),
        (lambda: optim.Sequential([optim.Constant()], [3]), "need 0 milestones, got 1"),
    ],
)
def test_refused(make: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()  # type: ignore[operator]


def test_scheduler_moves_every_group_and_resumes() -> None:
    def make() -> tuple[optim.SGD, optim.Scheduler]:
        a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
        optimizer = optim.SGD([{"params": [("a", a)]}, {"params": [("b", b)], "lr": 0.1}], lr=1.0)
        return optimizer, optim.Scheduler(
            optimizer, optim.Warmup(optim.Cosine(), epochs=1), total_steps=20, steps_per_epoch=5
        )

    optimizer, scheduler = make()
    for _ in range(8):
        scheduler.step()
    rates = [group["lr"] for group in optimizer.param_groups]
    assert rates == pytest.approx([scheduler.factor, 0.1 * scheduler.factor])
    other, resumed = make()
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    assert [group["lr"] for group in other.param_groups] == rates

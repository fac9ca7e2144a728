"""Players: modules that learn in turn, by losses and optimisers of their own, in the one loop."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import checkpoint, nn, optim
from pdl.config import from_dict
from pdl.data import ArrayDataset, DataLoader
from pdl.errors import ConfigError, NumericalError, UsageError
from pdl.train import Hook, Loss, Task, Trainer, TrainSettings
from pdl.train.log import Progress
from pdl.train.players import Player, learners, refuse_players
from pdl.train.recipe import Recipe

NOISE = 3


class Duel(nn.Module):
    """A generator of points in a plane and who tells them from the data's; both have state that is not learned."""

    def __init__(self) -> None:
        self.judge = nn.Sequential(nn.SpectralNorm(nn.Linear(2, 8)), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.maker = nn.Sequential(nn.Linear(NOISE, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


class Duels(Task):
    """Hinge losses; val is the distance of the means."""

    def __init__(self, *, bad: int = -1) -> None:
        self.bad = bad

    def players(self, model: nn.Module) -> Sequence[str]:
        return ("judge", "maker")

    def turn(self, player: str, model: Any, batch: Any) -> Loss:
        x = pdl.as_tensor(batch["x"])
        made = model.maker(pdl.noise((x.shape[0], NOISE)))
        if player == "maker":
            return Loss(-model.judge(made).mean(), len(x))
        real, fake = model.judge(x), model.judge(made.detach())
        loss = pdl.relu(1 - real).mean() + pdl.relu(1 + fake).mean()
        return Loss(loss, len(x), parts={"real": real.mean().detach()})

    def evaluate(self, model: Any, batch: Any) -> Loss:
        made = model.maker(pdl.as_tensor(np.random.default_rng(0).standard_normal((32, NOISE), np.float32)))
        return Loss(pdl.square(made.mean(axis=0) - batch["x"].mean(axis=0)).sum(), 1)


def points(n: int = 96) -> ArrayDataset:
    rng = np.random.default_rng(0)
    return ArrayDataset(x=(rng.standard_normal((n, 2)) * 0.1 + [2, -1]).astype(np.float32))


def duel(
    hooks: Sequence[Hook] = (),
    batch: int = 32,
    steps: int = 2,
    lr: float = 1e-2,
    task: Task | None = None,
    adam: bool = True,
    **settings: Any,
) -> Trainer:
    pdl.seed(0)
    model = Duel()
    players = [
        Player("judge", model.judge, optim.Adam(model.judge, lr=lr) if adam else optim.SGD(model.judge, lr=lr), steps),
        Player("maker", model.maker, optim.SGD(model.maker, lr=lr, momentum=0.5)),
    ]
    loaders: dict[str, Any] = {
        "train": DataLoader(points(), batch_size=batch, shuffle=True, seed=1),
        "val": DataLoader(points(32), batch_size=32),
    }
    given = {"epochs": 2, "ema": 0.9, "clip_norm": 1.0, **settings}
    schedule = optim.Cosine() if lr < 1 else None
    return Trainer(task or Duels(), model, players, loaders, TrainSettings(**given), schedule=schedule, hooks=hooks)


def arrays(trainer: Trainer) -> dict[str, np.ndarray]:
    assert trainer.ema is not None
    found = {f"ema.{name}": value for name, value in trainer.ema.average.items()}
    return {name: np.array(x.data) for name, x in trainer.model.state_dict().items()} | found


def test_each_learns_in_its_turns_alone() -> None:
    """The judge takes two steps of a batch, the maker one, and neither moves the other."""
    moved: list[tuple[str, set[str]]] = []
    weights: dict[str, np.ndarray] = {}

    class Watch(Hook):
        def sync_gradients(self, trainer: Trainer) -> None:
            self.look(trainer)
            moved.append((trainer.player.name, set()))

        def on_step(self, trainer: Trainer) -> None:
            self.look(trainer)

        def look(self, trainer: Trainer) -> None:
            for name, p in trainer.model.named_parameters():
                if moved and not np.array_equal(weights[name], p.data):
                    moved[-1][1].add(name.partition(".")[0])
                weights[name] = p.data.copy()

    trainer = duel([Watch()], epochs=1)
    trainer.fit()
    assert moved == [("judge", {"judge"}), ("judge", {"judge"}), ("maker", {"maker"})] * 3
    assert trainer.state.step == 3
    assert all(p.requires_grad for p in trainer.model.parameters())
    judge, maker = trainer.players
    assert {state["step"] for state in judge.optimizer.state.values()} == {6}
    assert {state["step"] for state in maker.optimizer.state.values()} == {3}
    assert judge.scheduler is not None
    assert judge.scheduler.last_step == 3  # a schedule is of steps of the trainer


def test_a_compiled_turn_is_an_eager_one() -> None:
    compiled = duel(adam=False)
    compiled.fit()
    eager = duel(adam=False, compile=False)
    eager.fit()
    assert all(p.compiled is not None and p.compiled.stopped is None and p.compiled.hits for p in compiled.players)
    for name, value in arrays(eager).items():
        np.testing.assert_allclose(arrays(compiled)[name], value, rtol=2e-4, atol=2e-6, err_msg=name)


def test_several_batches_make_one_step() -> None:
    """Without what depends on a batch as a whole, two halves give the step of the whole batch."""

    class Plain(Duels):
        def turn(self, player: str, model: Any, batch: Any) -> Loss:
            x = pdl.as_tensor(batch["x"])
            looks = model.judge(x if player == "judge" else model.maker(x @ np.ones((2, NOISE), np.float32)))
            return Loss(pdl.square(looks - 1).mean(), len(x))

    def trained(batch: int, accumulate: int) -> dict[str, np.ndarray]:
        trainer = duel(batch=batch, task=Plain(), adam=False, accumulate=accumulate, epochs=1)
        for module in trainer.model.modules():
            module.training = False
        trainer.frozen.train = lambda mode=True: None  # type: ignore[method-assign]
        trainer.fit()
        return arrays(trainer)

    halves, whole = trained(16, 2), trained(32, 1)
    for name, value in whole.items():
        np.testing.assert_allclose(halves[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_resuming_is_to_the_bit(tmp_path: Path) -> None:
    """From a checkpoint amid an epoch: weights, averages, moments of both, schedules, noise and sums of losses."""
    whole = duel()
    whole.fit()

    class Stop(Hook):
        def on_step(self, trainer: Trainer) -> None:
            if trainer.state.step == 2:
                checkpoint.save(tmp_path / "last.safetensors", trainer.state_dict())
                trainer.state.stopped = "enough"

    first = duel([Stop()])
    first.fit()
    again = duel()
    pdl.seed(7)
    again.load_state_dict(checkpoint.load(tmp_path / "last.safetensors"))
    again.fit()
    for name, value in arrays(whole).items():
        np.testing.assert_array_equal(arrays(again)[name], value, err_msg=name)
    assert again.epoch_log == whole.epoch_log
    assert again.state.step == whole.state.step == 6


def test_what_is_told_of_them() -> None:
    printed = io.StringIO()
    trainer = duel([Progress(printed, every=1)], steps=1, epochs=1)
    trainer.fit()
    lines = printed.getvalue().splitlines()
    step = next(line for line in lines if "step 3/3" in line)
    parts = trainer.last.parts
    assert f"judge {parts['judge']:.4f}  maker {parts['maker']:.4f}" in step
    assert "train/judge" in lines[-1]
    assert "train/maker" in lines[-1]
    assert {"judge", "judge/real", "judge/grad_norm", "maker", "maker/grad_norm"} == parts.keys()
    assert trainer.last.loss == pytest.approx(parts["judge"] + parts["maker"])
    assert trainer.state.samples == 96
    log = trainer.epoch_log
    assert log["train/loss"] == pytest.approx(log["train/judge"] + log["train/maker"])


def test_a_loss_out_of_bounds_names_its_player() -> None:
    with pytest.raises(NumericalError, match=r"the loss of (judge|maker) is (nan|-?inf) at step"):
        duel(lr=1e20, clip_norm=None, ema=None, epochs=5).fit()


def recipe(players: Mapping[str, Any]) -> Recipe:
    tree = {
        "task": {"_target_": "pdl_cv.Generation"},
        "model": {"_target_": "pdl_cv.DCGAN"},
        "data": {"train": {"_target_": "pdl_cv.data.Digits"}},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-3},
        "players": dict(players),
    }
    return Recipe(from_dict(tree))


def test_recipes_say_how_each_learns() -> None:
    judge = {"optim": {"_target_": "pdl.optim.SGD", "lr": 0.5}, "steps": 5}
    given, model = recipe({"judge": judge}), Duel()
    made = learners(given, Duels(), model)
    assert isinstance(made, list)
    assert [(p.name, type(p.optimizer).__name__, p.steps) for p in made] == [("judge", "SGD", 5), ("maker", "Adam", 1)]
    with pytest.raises(ConfigError, match=r"players: jury is no player of pdl_cv.DCGAN; it has judge, maker"):
        learners(recipe({"jury": {}}), Duels(), model)
    with pytest.raises(ConfigError, match=r"players.judge.step: "):
        recipe({"judge": {"step": 2}})
    model.extra = nn.Linear(2, 2)
    with pytest.raises(ConfigError, match=r"extra.weight.* belongs to no player"):
        learners(given, Duels(), model)
    with pytest.raises(ConfigError, match="it has none"):
        learners(given, Task(), model)
    with pytest.raises(UsageError, match=r"lr_find: Duels trains .*judge.* in turn"):
        refuse_players(Duels(), model, "lr_find")

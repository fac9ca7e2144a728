"""What is frozen does not move by a bit, costs no backward work, and a broken-off run goes on to the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import checkpoint, nn, optim
from pdl.checkpoint import LAST
from pdl.config import from_dict
from pdl.data import DataLoader
from pdl.errors import ConfigError, UsageError
from pdl.ops.cost import multiply_adds
from pdl.program import Program
from pdl.train import Hook, Trainer, TrainSettings
from pdl.train.checkpoints import Checkpoints
from pdl.train.freeze import Frozen
from pdl.workflow.step_program import TracedRecipe
from tests.framework.train.toy import Regression, arrays, weights_hash


class Net(nn.Module):
    """Two layers with all that has a mode, and a head."""

    head = "out"

    def __init__(self) -> None:
        self.stem = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(8, 2)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.out(self.drop(self.body(self.stem(x))))  # type: ignore[no-any-return]


def trainer(settings: TrainSettings, **options: Any) -> Trainer:
    model = Net()
    frozen = Frozen(model, settings.freeze)
    optimizer = optim.SGD(model, lr=0.05, momentum=0.9, weight_decay=0.01, **options)
    loaders = {"train": DataLoader(arrays(), batch_size=8, shuffle=True), "val": DataLoader(arrays(30), batch_size=16)}
    return Trainer(Regression(), model, optimizer, loaders, settings, schedule=optim.OneCycle(), frozen=frozen)


def state(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.data.copy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("compiled", [True, False])
def test_a_frozen_backbone_does_not_move(compiled: bool) -> None:
    with pdl.random.fork_seed(0):
        train = trainer(TrainSettings(epochs=3, freeze="backbone", ema=0.9, clip_norm=1.0, compile=compiled))
        before = state(train.model)
        train.fit()
        moved = [name for name, value in state(train.model).items() if (value != before[name]).any()]
        with train.averaged():  # averages of what does not move are the same numbers, not nearly
            averaged = [name for name, value in state(train.model).items() if (value != before[name]).any()]
    assert moved == averaged == ["out.weight", "out.bias"]
    assert [name for group in train.optimizer.param_groups for name in group["names"]] == moved
    assert list(train.optimizer.state) == moved


def test_frozen_modules_stay_in_evaluation_mode() -> None:
    model = Net()
    frozen = Frozen(model, "backbone")
    frozen.train()
    modes = {name: module.training for name, module in model.named_modules()}
    assert [name for name, mode in modes.items() if mode] == ["", "drop", "out"]
    assert not modes["stem.3"]  # the dropout inside a frozen part
    frozen.train(False)
    assert not any(module.training for module in model.modules())


def test_a_norm_frozen_in_part_still_learns_statistics() -> None:
    """Only its shift is frozen; the module as a whole is not."""
    model = Net()
    frozen = Frozen(model, "*.bias")
    assert frozen.names == ["stem.0.bias", "stem.1.bias", "body.0.bias", "body.1.bias", "out.bias"]
    assert frozen.modules == []


def test_batch_norms_alone_keep_statistics() -> None:
    model = Net()
    frozen = Frozen(model, "batch_norm")
    assert frozen.names == ["stem.1.weight", "stem.1.bias", "body.1.weight", "body.1.bias"]
    frozen.train()
    assert [type(module).__name__ for module in model.modules() if not module.training] == ["BatchNorm1d"] * 2
    assert Frozen(Net(), ["out", "batch_norm"]).names == [*frozen.names, "out.weight", "out.bias"]
    with pytest.raises(ConfigError, match="'batch_norm' matches no parameter of Linear"):
        Frozen(nn.Linear(2, 2), "batch_norm")


def test_patterns_name_modules_and_parameters() -> None:
    assert Frozen(Net(), "stem").names == Frozen(Net(), "stem.*").names
    assert Frozen(Net(), ["stem.0", "body.?.weight"]).names == [
        "stem.0.weight", "stem.0.bias", "body.0.weight", "body.1.weight",
    ]  # fmt: skip


def test_release_gives_back_only_what_it_took() -> None:
    model = Net()
    model.body.requires_grad_(False)
    Frozen(model, "backbone").release()
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == [
        "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("layer9", "'layer9' matches no parameter of Net; names are stem.0.weight, "),
        (["stem", "sterm.*"], "'sterm.*' matches no parameter"),
        ("*", "freezes every parameter"),
        (["backbone", "out"], "'backbone' matches no parameter"),
    ],
)
def test_refused(what: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("*", "[*]")):
        Frozen(Net(), what)


def test_backbone_without_a_head() -> None:
    with pytest.raises(ConfigError, match="names no head"):
        Frozen(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "backbone")
    named = nn.Sequential({"backbone": nn.Linear(2, 2), "rest": nn.Linear(2, 2)})
    assert Frozen(named, "backbone").names == ["backbone.weight", "backbone.bias"]


def test_nothing_left_for_the_optimiser() -> None:
    with pytest.raises(UsageError, match="every parameter of the module is frozen"):
        optim.SGD(nn.Linear(2, 2).requires_grad_(False))


def products(program: Program) -> int:
    """Multiply-adds of a program."""
    return sum(
        multiply_adds(n.op, tuple(v and v.spec for v in n.inputs), tuple(v.spec for v in n.outputs))
        for n in program.nodes
    )


def test_the_compiled_step_skips_the_frozen_part() -> None:
    """Forward is 8 (4 8 + 8 8 + 8 2) multiply-adds; a frozen backbone leaves the gradient of one weight, 8 (8 2)."""
    batch = next(iter(DataLoader(arrays(), batch_size=8)))
    costs = {}
    for what in (None, "stem", "backbone"):
        train = trainer(TrainSettings(freeze=what))
        train.frozen.train()
        assert train.compiled is not None
        program = train.compiled.program_for(batch)
        assert program is not None
        costs[what] = products(program.program)
        assert len(program.learned) == {None: 10, "stem": 6, "backbone": 2}[what]
    forward = 8 * (4 * 8 + 8 * 8 + 8 * 2)
    assert costs[None] == forward + 8 * (4 * 8) + 2 * 8 * (8 * 8 + 8 * 2)
    assert costs["stem"] == forward + 8 * (8 * 8) + 2 * 8 * (8 * 2)
    assert costs["backbone"] == forward + 8 * (8 * 2)


class StopAfter(Hook):
    """Break off training like a fault does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Trainer) -> None:
        if trainer.state.step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("freeze", ["backbone", "stem"])
def test_resumed_with_frozen_parts_is_bit_exact(tmp_path: Path, freeze: str) -> None:
    settings = TrainSettings(epochs=3, freeze=freeze, ema=0.9)
    with pdl.random.fork_seed(0):
        whole = trainer(settings, layer_decay=0.5)
        whole.fit()
    with pdl.random.fork_seed(0):
        broken = trainer(settings, layer_decay=0.5)
        broken.hooks = [Checkpoints(tmp_path, every=5), StopAfter(17)]
        with pytest.raises(KeyboardInterrupt):
            broken.fit()
    with pdl.random.fork_seed(1):  # another start: all must come from the checkpoint
        resumed = trainer(settings, layer_decay=0.5)
        resumed.load_state_dict(checkpoint.load(tmp_path / LAST))
        assert resumed.state.step == 15
        resumed.fit()
    assert weights_hash(resumed.model) == weights_hash(whole.model)
    assert [g["lr"] for g in resumed.optimizer.param_groups] == [g["lr"] for g in whole.optimizer.param_groups]


class Lines(Hook):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.lines.append(line)


def test_what_is_frozen_and_the_rates_are_told() -> None:
    train = trainer(TrainSettings(epochs=1, freeze="stem", compile=False), layer_decay=0.1, no_decay=True)
    messages = Lines()
    train.hooks = [messages]
    train.fit()
    assert messages.lines == [
        "frozen: 4 tensors, 56 of 162 parameters; 106 are learned",
        "2 learning rates, from 0.05 (out.weight, out.bias) to 0.005 (body.0.weight, body.0.bias, ... (4 in all))",
    ]
    assert train.epoch_log["lr_lowest"] == pytest.approx(0.1 * train.epoch_log["lr"])
    assert train.last.lowest["lr_lowest"] == pytest.approx(0.1 * train.last.lr)


def test_model_fit_freezes_for_one_call() -> None:
    net = Net()
    data = arrays()
    model = pdl.Model(net).prepare(optimizer=optim.SGD(net, lr=0.01), loss=pdl.ops.mse_loss)
    before = state(net)
    model.fit((data.arrays["x"], data.arrays["y"]), progress=False, freeze="backbone")
    assert {name for name, value in state(net).items() if (value != before[name]).any()} == {"out.weight", "out.bias"}
    model.fit((data.arrays["x"], data.arrays["y"]), progress=False)
    assert all((value != before[name]).any() for name, value in state(net).items() if name.endswith("weight"))


def test_a_traced_recipe_is_the_step_that_training_takes() -> None:
    recipe = {
        "task": {"_target_": "pdl_cv.Classification"},
        "model": {"_target_": "pdl_cv.CifarResNet", "depth": 8},
        "data": {
            "train": {"_target_": "pdl_cv.data.Digits", "mode": "rgb"},
            "transforms": {"train": [{"_target_": "pdl.data.transforms.Normalize", "mean": 0.5, "std": 0.5}]},
        },
        "optim": {"_target_": "pdl.optim.SGD", "lr": 0.1},
    }
    whole = TracedRecipe(from_dict(recipe)).step()
    recipe["train"] = {"freeze": "backbone"}
    part = TracedRecipe(from_dict(recipe)).step()
    assert len(part.learned) == 2
    assert products(part.program) < 0.4 * products(whole.program)

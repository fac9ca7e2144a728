"""Learning from a teacher."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.autograd import gradcheck
from pdl.errors import ConfigError, UsageError
from pdl.program import StepProgram
from pdl.train.compression import Distillation
from pdl.train.distillation import Distilled, attention_distance, divergence
from pdl.train.task import Loss, Task


def softmax(x: Any, t: float) -> Any:
    e = np.exp(x / t - (x / t).max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_divergence_is_its_formula_and_has_its_gradient() -> None:
    draws = np.random.default_rng(0)
    s, t = draws.standard_normal((2, 4, 5)) * 3
    p, q = softmax(t, 2.0), softmax(s, 2.0)
    wanted = (p * np.log(p / q)).sum(axis=-1).mean()
    assert divergence(pdl.tensor(s), pdl.tensor(t), 2.0).item() == pytest.approx(wanted)
    assert divergence(pdl.tensor(t), pdl.tensor(t), 2.0).item() == pytest.approx(0, abs=1e-12)
    gradcheck(lambda x: divergence(x, pdl.tensor(t), 2.0), [pdl.tensor(s, requires_grad=True)])
    with pytest.raises(ConfigError, match="about the same classes"):
        divergence(pdl.tensor(s), pdl.tensor(t[:, :4]), 2.0)


def test_attention_is_where_not_what() -> None:
    draws = np.random.default_rng(0)
    ours, theirs = draws.standard_normal((2, 3, 3, 4)), draws.standard_normal((2, 3, 3, 6))

    def of(x: Any) -> Any:
        flat = np.square(x).sum(axis=-1).reshape(2, -1)
        return flat / np.linalg.norm(flat, axis=1, keepdims=True)

    made = attention_distance(pdl.tensor(ours), pdl.tensor(theirs))
    assert made.item() == pytest.approx(np.square(of(ours) - of(theirs)).mean())
    assert attention_distance(pdl.tensor(3 * ours), pdl.tensor(ours)).item() == pytest.approx(0, abs=1e-12)
    gradcheck(lambda x: attention_distance(x, pdl.tensor(theirs)), [pdl.tensor(ours, requires_grad=True)])
    with pytest.raises(ConfigError, match="not of the same places"):
        attention_distance(pdl.tensor(ours), pdl.tensor(theirs[:, :2]))


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        self.body, self.head = nn.Conv2d(1, width, 3), nn.Linear(width, 3)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.head(pdl.global_avg_pool(pdl.relu(self.body(x))))


class Classes(Task):
    def step(self, model: nn.Module, batch: Any) -> Loss:
        return Loss(pdl.cross_entropy(model(pdl.as_tensor(batch["x"])), pdl.as_tensor(batch["y"])), 4)


class Around(Task):
    def step(self, model: Any, batch: Any) -> Loss:
        return Loss(pdl.mean(model.head(pdl.ones((2, 4)))), 2)


@pytest.fixture
def batch() -> dict[str, Any]:
    return {"x": np.random.default_rng(0).standard_normal((4, 6, 6, 1)).astype(np.float32), "y": np.array([0, 1, 2, 1])}


def test_a_step_is_the_sum_of_its_parts_eager_and_compiled(batch: dict[str, Any]) -> None:
    pdl.seed(0)
    net, teacher = Net(4), Net(7)
    settings = Distillation(teacher="", weight=0.3, temperature=2.0, features={"body": "body"}, feature_weight=5.0)
    distilled = Distilled(settings, teacher, net)
    before = {name: value.data.copy() for name, value in teacher.state_dict().items()}
    loss = distilled(Classes(), net, batch)
    parts = {name: float(value) for name, value in loss.parts.items()}  # type: ignore[arg-type]
    assert loss.value.item() == pytest.approx(0.7 * parts["task"] + 0.3 * 4 * parts["teacher"] + 5 * parts["features"])
    x = pdl.as_tensor(batch["x"])
    with pdl.no_grad():
        assert parts["task"] == pytest.approx(pdl.cross_entropy(net(x), pdl.as_tensor(batch["y"])).item())
        assert parts["teacher"] == pytest.approx(divergence(net(x), teacher(x), 2.0).item())
        assert parts["features"] == pytest.approx(attention_distance(net.body(x), teacher.body(x)).item())
    loss.value.backward()
    eager = {name: p.grad.data.copy() for name, p in net.named_parameters()}  # type: ignore[union-attr]
    assert all(p.grad is None for p in teacher.parameters())
    program = StepProgram(lambda b: distilled(Classes(), net, b), net, (batch,), "step")
    assert program(batch).value.item() == pytest.approx(loss.value.item())
    for name, p in net.named_parameters():
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.data, eager[name], atol=1e-6)
    assert all((before[name] == value.data).all() for name, value in teacher.state_dict().items())


def test_what_cannot_be_compared(batch: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="the teacher: Net has no submodule 'tail'"):
        Distilled(Distillation(teacher="", features={"body": "tail"}), Net(4), Net(4))
    with pytest.raises(UsageError, match="other ways than calling it"):
        Distilled(Distillation(teacher=""), Net(4), Net(4))(Around(), Net(4), batch)


def test_a_task_that_does_not_call_its_net_compares_features(batch: dict[str, Any]) -> None:
    class Inside(Task):
        def step(self, model: Any, batch: Any) -> Loss:
            return Loss(pdl.mean(pdl.square(model.body(pdl.as_tensor(batch["x"])))), 4)

    pdl.seed(0)
    net, teacher = Net(4), Net(7)
    distilled = Distilled(Distillation(teacher="", features={"body": "body"}, feature_weight=5.0), teacher, net)
    loss = distilled(Inside(), net, batch)
    x = pdl.as_tensor(batch["x"])
    with pdl.no_grad():
        apart = attention_distance(net.body(x), teacher.body(x)).item()
        assert loss.value.item() == pytest.approx(pdl.mean(pdl.square(net.body(x))).item() + 5 * apart)
    assert "teacher" not in loss.parts
    program = StepProgram(lambda b: distilled(Inside(), net, b), net, (batch,), "step")
    assert program(batch).value.item() == pytest.approx(loss.value.item())
    assert all(p.grad is None for p in teacher.parameters())

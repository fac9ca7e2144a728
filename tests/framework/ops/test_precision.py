"""`pdl.autocast`: the policy covers every op, weights keep float32 gradients, training ends where float32 does."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.dtype import bfloat16, float32, float64
from pdl.errors import UsageError
from pdl.ops import precision
from pdl.ops.base import OPS
from pdl.ops.listeners import observed
from pdl.tensor import Tensor

RNG = np.random.default_rng(7)
BF16 = "bfloat16"


def f32(*shape: int, requires_grad: bool = False) -> Tensor:
    return Tensor(RNG.standard_normal(shape).astype(np.float32), requires_grad=requires_grad)


def bf(*shape: int, requires_grad: bool = False) -> Tensor:
    return Tensor(RNG.standard_normal(shape), dtype=BF16, requires_grad=requires_grad)


def test_policy_names_every_op_once() -> None:
    named = Counter(" ".join(precision.POLICY.values()).split())
    ops = {name for name, op in OPS.items() if op.__module__.startswith("pdl.ops")}
    assert not [name for name, count in named.items() if count > 1], "twice in pdl.ops.precision.POLICY"
    assert named.keys() - OPS.keys() == set(), "in pdl.ops.precision.POLICY, but no op"
    assert ops - named.keys() == set(), "choose their row in pdl.ops.precision.POLICY"


# function of tensors, their dtypes, the dtype of the result
RESULTS: list[tuple[Any, list[Tensor], Any]] = [
    (pdl.matmul, [f32(3, 4), f32(4, 2)], bfloat16),
    (pdl.matmul, [bf(3, 4), f32(4, 2)], bfloat16),
    (pdl.matmul, [f32(3, 4).astype("float64"), f32(4, 2).astype("float64")], float64),
    (pdl.linear, [f32(3, 4), f32(4, 2), f32(2)], bfloat16),
    (pdl.conv2d, [f32(1, 5, 5, 2), f32(3, 3, 2, 4), f32(4)], bfloat16),
    (pdl.conv_transpose2d, [bf(1, 5, 5, 2), f32(3, 3, 4, 2)], bfloat16),
    (pdl.scaled_dot_product_attention, [f32(2, 3, 4), f32(2, 5, 4), f32(2, 5, 4)], bfloat16),
    (lambda x, a, b, c: pdl.lstm(x, [(a, b, c, None)])[0], [bf(2, 3, 4), f32(4, 20), f32(5, 20), f32(20)], float32),
    (pdl.relu, [bf(4)], bfloat16),
    (pdl.relu, [f32(4)], float32),
    (pdl.add, [bf(3, 4), f32(4)], bfloat16),
    (pdl.add, [f32(3, 4), f32(4)], float32),
    (pdl.add, [bf(), f32()], float32),
    (pdl.add, [bf(3), f32(3).astype("float64")], float64),
    (lambda x: x * 2 + 1, [bf(3)], bfloat16),
    (lambda a, b: pdl.concat([a, b]), [bf(3), f32(3)], bfloat16),
    (lambda a, b: pdl.where(pdl.greater(a, 0), a, b), [bf(3), f32(3)], bfloat16),
    (pdl.exp, [bf(3)], float32),
    (pdl.pow, [bf(3), f32(3)], float32),
    (pdl.sum, [bf(3)], float32),
    (pdl.cumsum, [bf(3)], float32),
    (pdl.softmax, [bf(3)], bfloat16),
    (pdl.log_softmax, [bf(3)], float32),
    (pdl.mse_loss, [bf(3), f32(3)], float32),
    (pdl.binary_cross_entropy_with_logits, [bf(3), f32(3)], float32),
    (lambda x: pdl.cross_entropy(x, Tensor(np.array([1, 2]))), [bf(2, 3)], float32),
    (lambda x, t: pdl.cross_entropy(x, pdl.softmax(t)), [bf(2, 3), f32(2, 3)], float32),
    (lambda x, s, b: pdl.layer_norm(x, s, b), [bf(2, 3), f32(3), f32(3)], bfloat16),
    (lambda x, s, b: pdl.batch_norm(x, s, b)[0], [bf(4, 3), f32(3), f32(3)], bfloat16),
    (lambda x, s, b, r: pdl.batch_norm(x, s, b, residual=r)[0], [bf(4, 3), f32(3), f32(3), f32(4, 3)], bfloat16),
    (lambda x: pdl.max_pool(x, 2), [bf(1, 4, 4, 2)], bfloat16),
]


@pytest.mark.parametrize(("function", "inputs", "dtype"), RESULTS)
def test_dtype_of_results(function: Any, inputs: list[Tensor], dtype: Any) -> None:
    with pdl.autocast():
        assert function(*inputs).dtype == dtype


def test_comparison_of_mixed_dtypes_does_not_round() -> None:
    with pdl.autocast():
        assert not bool(pdl.equal(Tensor([1.0], dtype=BF16), Tensor(np.float32([1.001]))))


def test_master_weights_get_float32_gradients() -> None:
    pdl.seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 4)
    )
    x, labels = f32(5, 6, 6, 3), Tensor(np.array([0, 1, 2, 3, 0]))
    with pdl.autocast():
        y = net(x)
        loss = pdl.cross_entropy(y, labels)
    assert (y.dtype, loss.dtype) == (bfloat16, float32)
    loss.backward()
    mixed = {name: p.grad.data for name, p in net.named_parameters() if p.grad is not None}
    net.zero_grad()
    pdl.cross_entropy(net(x), labels).backward()
    for name, p in net.named_parameters():
        assert mixed[name].dtype == float32
        assert p.grad is not None
        gap = np.abs(mixed[name] - p.grad.data).max()
        assert gap <= 0.04 * np.abs(p.grad.data).max() + 1e-3, name


def test_a_weight_is_cast_once_in_a_block() -> None:
    casts: list[Any] = []
    w, x = f32(4, 4, requires_grad=True), bf(2, 4)
    with observed(lambda op, ins, outs: casts.append(type(op).__name__)):
        with pdl.autocast():
            y = (x @ w) @ w + x @ w
        assert casts.count("AsType") == 1
        y.astype("float32").sum().backward()
        assert w.grad is not None
        assert w.grad.dtype == float32
        with pdl.autocast():
            x @ w
        assert casts.count("AsType") >= 3  # a new block sees the weight of now


def test_a_cast_without_gradient_is_not_taken_for_one_with() -> None:
    w, x = f32(4, 4, requires_grad=True), bf(2, 4)
    with pdl.autocast():
        with pdl.no_grad():
            assert not (x @ w).requires_grad
        assert (x @ w).requires_grad


def test_gradients_inside_the_block_run_outside_its_rule() -> None:
    x = f32(3, 4, requires_grad=True)
    with pdl.autocast():
        (g,) = pdl.autograd.grad(pdl.matmul(x, f32(4, 2)).astype("float32").sum(), x, create_graph=True)
        assert g is not None
        assert g.dtype == float32
        assert (f32(2, 2) @ f32(2, 2)).dtype == bfloat16
    assert (f32(2, 2) @ f32(2, 2)).dtype == float32


def test_blocks_nest_and_belong_to_their_thread() -> None:
    seen: list[Any] = []
    with pdl.autocast():
        with pdl.autocast("float32"):
            assert (f32(2, 2) @ f32(2, 2)).dtype == float32
        other = threading.Thread(target=lambda: seen.append((f32(2, 2) @ f32(2, 2)).dtype))
        other.start()
        other.join()
        assert (f32(2, 2) @ f32(2, 2)).dtype == bfloat16
    assert seen == [float32]
    with pytest.raises(UsageError, match="'float16'; expected 'bfloat16'"), pdl.autocast("float16"):
        pass


class Residual(nn.Module):
    """A small residual net: the pieces of ResNet-8."""

    def __init__(self) -> None:
        self.stem, self.norm = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.first, self.norm1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = pdl.relu(self.norm(self.stem(x)))
        x = pdl.relu(self.norm2(self.second(pdl.relu(self.norm1(self.first(x))))) + x)
        return self.head(x.mean(axis=(1, 2)))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 4),
    )


@pytest.mark.parametrize("build", [lenet, Residual])
def test_trains_to_the_loss_of_float32(build: Any) -> None:
    pictures = RNG.standard_normal((64, 8, 8, 1)).astype(np.float32)
    labels = (pictures[:, :4].mean((1, 2, 3)) > 0) * 2 + (pictures[:, :, :4].mean((1, 2, 3)) > 0)
    losses = {}
    for name in ("float32", BF16):
        pdl.seed(3)
        net = build()
        rule = optim.Adam(net.parameters(), lr=0.01)
        for _ in range(40):
            rule.zero_grad()
            with pdl.autocast(name):
                loss = pdl.cross_entropy(net(Tensor(pictures)), Tensor(labels.astype(np.int64)))
            loss.backward()
            rule.step()
        losses[name] = loss.item()
    assert losses["float32"] < 0.7
    assert abs(losses[BF16] - losses["float32"]) < 0.1

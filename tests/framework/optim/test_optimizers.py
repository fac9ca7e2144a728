"""Every optimiser against PyTorch, then what all of them share: groups, state, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.errors import UsageError
from pdl.optim import Optimizer

START = [0.5, -1.2, 2.0, 0.03]

# The parameter after six updates with g = sin(3 p + t), t = 0 ... 5, in float64, by torch 2.13 (LAMB: written out in
# `lamb` below)
REFERENCE: list[tuple[str, dict[str, Any], list[float]]] = [
    ("SGD", {"lr": 0.1}, [0.452039854646, -1.243968678631, 1.850203996647, -0.109229194146]),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
     [-0.311141812983, -1.018015269099, 1.106871250060, -1.081243956825]),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True},
     [-1.467123450915, -1.230491675683, 0.602284879736, -1.627271928714]),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3},
     [0.083454816788, -1.124205317737, 1.655343216543, -0.480348664853]),
    ("Adam", {"lr": 0.1}, [0.186362540500, -1.177559672604, 1.838846016795, -0.464502121695]),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.9)},
     [0.218512531984, -1.102883804512, 1.746335975388, -0.454779747094]),
    ("Adam", {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.6)},
     [0.368430537192, -1.199285905126, 1.873457658163, -0.409073965956]),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.1}, [0.162746183393, -1.111463449184, 1.690663545629, -0.451068289011]),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.6)},
     [0.366136453213, -1.193844179516, 1.856094360427, -0.407559873909]),
    ("RMSprop", {"lr": 0.1}, [-1.790133989591, -3.891872756962, 2.369523404996, -1.812963808771]),
    ("RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.9, "weight_decay": 0.1},
     [-2.191731437450, -5.305003083714, 10.897735400736, 0.874044848059]),
    ("Adagrad", {"lr": 0.1}, [0.428936832313, -1.227945853232, 1.961467311831, -0.259285726694]),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2},
     [0.417119425434, -1.160801060075, 1.853535762116, -0.099669327056]),
    ("Adadelta", {"lr": 1.0}, [0.501132638365, -1.199206080547, 1.999759332457, 0.026298682885]),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "eps": 0.001},
     [0.493149351674, -1.188951547224, 1.935936274442, -0.032701438166]),
]  # fmt: skip
ALL = [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.LAMB, optim.Muon]


def run(name: str, options: dict[str, Any], dtype: str, shape: tuple[int, ...] = (4,)) -> np.ndarray:
    p = nn.Parameter(np.array(START).reshape(shape), dtype=dtype)
    optimizer = getattr(optim, name)([p], **options)
    for t in range(6):
        p.grad = pdl.Tensor(np.sin(3 * p.data.astype(np.float64) + t), dtype=dtype)
        optimizer.step()
    return p.data.astype(np.float64).reshape(-1)


def lamb(lr: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-6, decay: float = 0.0) -> np.ndarray:
    """You et al., arXiv 1904.00962, algorithm 2, line by line."""
    p = np.array(START)
    m = v = np.zeros(4)
    for t in range(6):
        g = np.sin(3 * p + t)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        m_hat, v_hat = m / (1 - b1 ** (t + 1)), v / (1 - b2 ** (t + 1))
        r = m_hat / (np.sqrt(v_hat) + eps) + decay * p
        p = p - lr * np.linalg.norm(p) / np.linalg.norm(r) * r
    return p


@pytest.mark.parametrize(("name", "options", "expected"), REFERENCE, ids=lambda v: v if isinstance(v, str) else None)
def test_matches_pytorch(name: str, options: dict[str, Any], expected: list[float]) -> None:
    np.testing.assert_allclose(run(name, options, "float64"), expected, rtol=1e-9)
    np.testing.assert_allclose(run(name, options, "float64", (2, 2)), expected, rtol=1e-9)
    np.testing.assert_allclose(run(name, options, "float32"), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("options", [{"lr": 0.1}, {"lr": 0.2, "weight_decay": 0.3, "betas": (0.7, 0.8)}])
def test_lamb(options: dict[str, Any]) -> None:
    b1, b2 = options.get("betas", (0.9, 0.999))
    expected = lamb(options["lr"], b1, b2, decay=options.get("weight_decay", 0.0))
    np.testing.assert_allclose(run("LAMB", options, "float64"), expected, rtol=1e-9)


def test_every_optimizer_is_compared() -> None:
    tested = {name for name, _, _ in REFERENCE} | {"LAMB", "Muon"}
    assert {cls.__name__ for cls in ALL} == tested
    assert {
        n for n in optim.__all__ if isinstance(getattr(optim, n), type) and issubclass(getattr(optim, n), Optimizer)
    } == tested | {"Optimizer"}


@pytest.mark.parametrize("make", ALL)
def test_bfloat16_keeps_what_rounding_would_lose(make: type[Optimizer]) -> None:
    """A thousand steps far below bfloat16's resolution add up in the float32 master copy."""
    p, q = nn.Parameter([1.0, 1.0], dtype="bfloat16"), nn.Parameter([1.0, 1.0])
    low, high = (make([x], lr=1e-3) for x in (p, q))
    for _ in range(100):
        p.grad, q.grad = pdl.Tensor([1.0, -1.0], dtype="bfloat16"), pdl.Tensor([1.0, -1.0])
        low.step(), high.step()
    np.testing.assert_allclose(p.data.astype(np.float32), q.data, rtol=2**-8)
    assert all(v.dtype == np.float32 for v in low.state["0"].values() if isinstance(v, np.ndarray))


def test_bfloat16_master_follows_a_loaded_weight() -> None:
    p = nn.Parameter([1.0], dtype="bfloat16")
    optimizer = optim.SGD([p], lr=0.5)
    for start in (1.0, 8.0):
        p.data[...] = start
        p.grad = pdl.Tensor([1.0], dtype="bfloat16")
        optimizer.step()
        assert float(p.data[0]) == start - 0.5


def test_complex_parameters_are_pairs_of_reals() -> None:
    z = nn.Parameter(np.array([1 + 2j, 3 - 1j]), dtype="complex128")
    pair = nn.Parameter(np.array([1.0, 2.0, 3.0, -1.0]), dtype="float64")
    for optimizer in (optim.Adam([z], lr=0.1), optim.Adam([pair], lr=0.1)):
        z.grad, pair.grad = (
            pdl.Tensor(np.array([1 - 1j, 2j]), dtype="complex128"),
            pdl.Tensor(np.array([1.0, -1, 0, 2]), dtype="float64"),
        )
        optimizer.step()
    np.testing.assert_allclose(z.data.view(np.float64), pair.data)


def net() -> nn.Module:
    pdl.seed(0)
    return nn.Sequential({"body": nn.Linear(3, 4), "head": nn.Linear(4, 2)})


def layout(optimizer: Optimizer) -> list[tuple[list[str], float, float]]:
    return [(g["names"], g["lr"], g["weight_decay"]) for g in optimizer.param_groups]


def test_groups_by_rule_and_no_decay() -> None:
    optimizer = optim.AdamW(net(), lr=1.0, weight_decay=0.5, no_decay=True, groups=[{"match": "head.*", "lr": 0.1}])
    assert layout(optimizer) == [
        (["body.weight"], 1.0, 0.5), (["body.bias"], 1.0, 0.0), (["head.weight"], 0.1, 0.5), (["head.bias"], 0.1, 0.0),
    ]  # fmt: skip


def test_no_decay_by_pattern() -> None:
    optimizer = optim.SGD(net().named_parameters(), lr=1.0, weight_decay=0.5, no_decay=["body.*"])
    assert layout(optimizer) == [(["head.weight", "head.bias"], 1.0, 0.5), (["body.weight", "body.bias"], 1.0, 0.0)]


def test_layer_decay_slows_each_layer_before_the_head() -> None:
    layers = {"a": nn.Linear(3, 4), "norm": nn.LayerNorm(4), "b": nn.Linear(4, 4), "head": nn.Linear(4, 2)}
    model = nn.Sequential(layers)
    optimizer = optim.AdamW(model, lr=1.0, weight_decay=0.5, no_decay=True, layer_decay=0.5)
    assert layout(optimizer) == [
        (["head.weight"], 1.0, 0.5), (["head.bias"], 1.0, 0.0), (["b.weight"], 0.5, 0.5), (["b.bias"], 0.5, 0.0),
        (["a.weight"], 0.25, 0.5), (["a.bias", "norm.weight", "norm.bias"], 0.25, 0.0),
    ]  # fmt: skip


def test_layer_decay_multiplies_the_rate_of_a_group() -> None:
    optimizer = optim.SGD(net(), lr=1.0, groups=[{"match": "*.bias", "lr": 0.1}], layer_decay=0.5)
    assert layout(optimizer) == [
        (["head.weight"], 1.0, 0.0), (["head.bias"], 0.1, 0.0), (["body.weight"], 0.5, 0.0), (["body.bias"], 0.05, 0.0),
    ]  # fmt: skip


def test_layer_decay_counts_frozen_layers() -> None:
    model = nn.Sequential({"a": nn.Linear(3, 4), "b": nn.Linear(4, 4), "head": nn.Linear(4, 2)})
    model.get_submodule("b").requires_grad_(False)
    optimizer = optim.SGD(model, lr=1.0, layer_decay=0.5)
    assert layout(optimizer) == [(["head.weight", "head.bias"], 1.0, 0.0), (["a.weight", "a.bias"], 0.25, 0.0)]


@pytest.mark.parametrize("method", ALL)
def test_every_method_takes_layer_decay(method: type[Optimizer]) -> None:
    """The first step of a twin whose rates were set by hand."""
    one, two = net(), net()
    decayed = method(one, lr=0.1, layer_decay=0.5)  # type: ignore[call-arg, arg-type]
    rule = {"match": "body.*", "lr": 0.05}
    by_hand = method(two, lr=0.1, groups=[rule])  # type: ignore[call-arg, arg-type]
    train(one, decayed, range(1))
    train(two, by_hand, range(1))
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_array_equal(p.data, q.data)


def test_groups_as_dicts() -> None:
    model = net()
    body, head = model.get_submodule("body"), model.get_submodule("head")
    optimizer = optim.SGD([{"params": body}, {"params": list(head.parameters()), "lr": 0.1}], lr=1.0)
    assert layout(optimizer) == [(["weight", "bias"], 1.0, 0.0), (["group1.0", "group1.1"], 0.1, 0.0)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"params": []}, "no parameters"),
        ({"params": [pdl.ones((2,)) * nn.Parameter([1.0, 1.0])]}, "result of an op"),
        ({"params": [1.0]}, "is a float, not a tensor"),
        ({"params": net(), "groups": [{"match": "boby.*", "lr": 1.0}]}, "matches no parameter"),
        ({"params": net(), "groups": [{"match": "body.*", "momenttum": 1.0}]}, "sets 'momenttum'"),
        ({"params": [{"params": net()}, {"params": net(), "lr": 0.1}]}, "two parameters are named"),
        ({"params": net(), "nesterov": True}, "nesterov needs momentum"),
        ({"params": net(), "layer_decay": 0.0}, r"layer_decay 0.0 is outside \(0, 1\]"),
        ({"params": net(), "layer_decay": 1.5}, r"layer_decay 1.5 is outside \(0, 1\]"),
        ({"params": net().named_parameters(), "layer_decay": 0.5}, "layer_decay needs the module itself"),
    ],
)
def test_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        optim.SGD(**arguments)


def test_one_parameter_in_two_groups() -> None:
    p = nn.Parameter([1.0])
    with pytest.raises(UsageError, match="in two groups"):
        optim.SGD([{"params": p}, {"params": [("again", p)]}])


def train(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for t in steps:
        for n, p in enumerate(model.parameters()):
            p.grad = pdl.Tensor(np.sin(p.data * 3 + t + n), dtype=p.dtype)
        optimizer.step()


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_resumed_equals_unbroken(make: type[Optimizer], dtype: str) -> None:
    whole, first, second = (net().to(dtype) for _ in range(3))
    options = {"lr": 0.05, "no_decay": True, "weight_decay": 0.1}
    train(whole, make(whole, **options), range(6))
    before = make(first, **options)
    train(first, before, range(3))
    second.load_state_dict(first.state_dict())
    after = make(second, **{**options, "lr": 9.0})
    after.load_state_dict(before.state_dict())
    train(second, after, range(3, 6))
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def test_state_is_found_by_name() -> None:
    model = net()
    one = optim.Adam(model, lr=0.1)
    train(model, one, range(2))
    other = optim.Adam(list(reversed(list(model.named_parameters()))), lr=0.1)
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(other.state["head.bias"]["exp_avg"], one.state["head.bias"]["exp_avg"])


def test_a_foreign_state_is_refused_with_all_faults() -> None:
    small, large = nn.Linear(2, 2), nn.Sequential({"weight": nn.Linear(2, 3)})
    optimizer = optim.Adam(small)
    train(small, optimizer, range(1))
    with pytest.raises(UsageError, match=r"(?s)not saved: weight\.weight.*unknown here: bias"):
        optim.Adam(large).load_state_dict(optimizer.state_dict())
    wide = nn.Linear(2, 3)
    with pytest.raises(UsageError, match="exp_avg has 4 elements, the parameter has 6"):
        optim.Adam(wide).load_state_dict(optimizer.state_dict())


def test_parameters_without_gradient_stay() -> None:
    model = net()
    before = {n: p.data.copy() for n, p in model.named_parameters()}
    optimizer = optim.AdamW(model, lr=1.0, weight_decay=0.5)
    model.get_parameter("head.bias").grad = pdl.ones((2,))
    optimizer.step()
    changed = {n for n, p in model.named_parameters() if not np.array_equal(p.data, before[n])}
    assert changed == {"head.bias"}
    optimizer.zero_grad()
    assert model.get_parameter("head.bias").grad is None

"""`Module`: registration, walking, state, modes, hooks, printing; and the containers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl.nn.module import evaluating


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        self.scale = nn.Parameter(np.ones(2, np.float32))
        self.register_buffer("mean", np.zeros(2, np.float32))
        self.register_buffer("cache", np.zeros(1, np.float32), persistent=False)
        self.none = None

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.body(x) * self.scale - self.mean  # type: ignore[no-any-return]


NAMES = ["scale", "body.0.weight", "body.0.bias", "body.2.weight", "body.2.bias"]


def test_names_and_order_are_pytorch_s() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_buffers()] == ["mean", "cache"]
    assert list(net.state_dict()) == ["scale", "mean", *NAMES[1:]]
    assert [n for n, _ in net.named_modules()] == ["", "body", "body.0", "body.1", "body.2"]
    assert [n for n, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert net.get_submodule("body.2") is list(net.body.children())[2]
    assert net.get_parameter("body.0.bias").shape == (4,)


@pytest.mark.parametrize("path", ["head", "body.7", "scale"])
def test_unknown_submodule(path: str) -> None:
    with pytest.raises(UsageError, match="has no submodule"):
        Net().get_submodule(path)


def test_tied_weights_count_once_and_save_twice() -> None:
    net = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert "1.weight" in net.state_dict()


def test_evaluating_gives_every_module_its_mode_back() -> None:
    net = Net()
    net.body.eval()  # as a part that is frozen
    with evaluating(net):
        assert not any(module.training for module in net.modules())
        assert not net(pdl.ones((5, 3))).requires_grad
    with pytest.raises(ShapeError), evaluating(net):
        net(pdl.ones((5, 4)))
    assert net.training
    assert not any(module.training for module in net.body.modules())
    assert net(pdl.ones((5, 3))).requires_grad


def test_forward_and_backward() -> None:
    net = Net().eval()
    net(pdl.ones((5, 3))).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_training_mode_reaches_all() -> None:
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    x = pdl.ones((64, 3))
    assert not np.array_equal(net(x).data, net(x).data)
    net.eval()
    assert np.array_equal(net(x).data, net(x).data)


def test_state_round_trip_copies_values_and_keeps_objects() -> None:
    one, two = Net(), Net()
    kept = list(two.parameters())
    result = two.load_state_dict(one.state_dict())
    assert result == ([], [])
    assert all(a is b for a, b in zip(kept, two.parameters(), strict=True))
    one.scale.data[...] = 7
    assert two.scale.tolist() == [1.0, 1.0]
    for name, value in two.state_dict().items():
        if name != "scale":
            np.testing.assert_array_equal(value.data, one.state_dict()[name].data)


def test_all_faults_of_a_state_are_told_at_once_and_nothing_is_changed() -> None:
    net = Net()
    before = net.scale.tolist()
    state: dict[str, Any] = {n: v.data for n, v in net.state_dict().items()}
    state["scale"] = np.full(2, 9.0)
    state["body.0.weight"] = np.zeros((4, 3))
    state["head.weight"] = state.pop("body.2.bias")
    with pytest.raises(UsageError) as error:
        net.load_state_dict(state)
    assert str(error.value).splitlines() == [
        "load_state_dict: 3 entries do not fit Net",
        "  missing: body.2.bias (2,)",
        "  not in the model: head.weight (2,)",
        "  shape: body.0.weight is (4, 3) in the state and (3, 4) in the model",
    ]
    assert net.scale.tolist() == before


def test_not_strict_tells_what_was_left() -> None:
    net = Net()
    state = {"scale": np.full(2, 9.0), "other": np.zeros(1)}
    result = net.load_state_dict(state, strict=False)
    assert result.missing == ["mean", *NAMES[1:]]
    assert result.unexpected == ["other"]
    assert net.scale.tolist() == [9.0, 9.0]
    with pytest.raises(UsageError, match=r"shape: scale is \(3,\)"):
        net.load_state_dict({"scale": np.zeros(3)}, strict=False)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float32"])
def test_to_converts_floats_in_place(dtype: str) -> None:
    net = Net()
    net.register_buffer("count", np.array(3))
    first = net.scale
    assert net.to(dtype) is net
    assert net.scale is first
    assert {p.dtype.name for p in (*net.parameters(), net.mean)} == {dtype}
    assert net.count.dtype == pdl.int64
    net(pdl.ones((2, 3), dtype=dtype)).sum().backward()
    other = Net()
    other.load_state_dict({n: v for n, v in net.state_dict().items() if n != "count"})
    np.testing.assert_allclose(other.scale.data, net.scale.data.astype(np.float32))


def test_to_an_integer_type_is_refused() -> None:
    with pytest.raises(UsageError, match="floating dtypes only"):
        Net().to("int8")


def test_frozen_parameters_get_no_gradient() -> None:
    net = Net().eval()
    net.body.requires_grad_(False)
    net(pdl.ones((1, 3))).sum().backward()
    assert [n for n, p in net.named_parameters() if p.grad is not None] == ["scale"]


def test_assignment_keeps_the_kind() -> None:
    net = Net()
    with pytest.raises(UsageError, match=r"Net\.scale is a Parameter, it cannot become a Tensor"):
        net.scale = pdl.ones((2,))
    net.mean = pdl.ones((2,))
    assert "mean" in net.state_dict()
    net.scale = None
    assert "scale" not in net.state_dict()


@pytest.mark.parametrize("value", [[nn.Identity()], (1, nn.Identity()), {"a": nn.Parameter([1.0])}])
def test_hidden_modules_are_refused(value: Any) -> None:
    net = Net()
    with pytest.raises(UsageError, match="is not found by parameters"):
        net.hidden = value
    net._elsewhere = value


def test_forward_hooks() -> None:
    net, seen = Net().eval(), []
    handles = [
        net.register_forward_pre_hook(lambda module, args: (args[0] * 0,)),
        net.body.register_forward_hook(lambda module, args, out: seen.append(out.shape)),
        net.register_forward_hook(lambda module, args, out: out + 100),
    ]
    assert net(pdl.ones((1, 3))).data.min() > 90
    for handle in handles:
        handle.remove()
        handle.remove()
    assert net(pdl.ones((1, 3))).data.max() < 90
    assert seen == [(1, 2)]


def test_apply_visits_children_first() -> None:
    order: list[str] = []
    Net().apply(lambda m: order.append(type(m).__name__))
    assert order == ["Linear", "Dropout", "Linear", "Sequential", "Net"]


def test_deepcopy_is_independent() -> None:
    net = Net()
    other = copy.deepcopy(net)
    other.scale.data[...] = 5
    assert net.scale.tolist() == [1.0, 1.0]
    assert [n for n, _ in other.named_parameters()] == NAMES


def test_parameter_owns_a_contiguous_array() -> None:
    p = nn.Parameter(np.broadcast_to(np.float32(1), (2, 3)))
    p.data[0, 0] = 2
    assert p.data.flags.c_contiguous
    assert not nn.Parameter(np.ones(2), requires_grad=False).requires_grad
    assert not isinstance(p * 2, nn.Parameter)


def test_repr_shows_the_tree() -> None:
    assert repr(Net()).splitlines() == [
        "Net(",
        "  (body): Sequential(",
        "    (0): Linear(in_features=3, out_features=4, bias=True)",
        "    (1): Dropout(p=0.5)",
        "    (2): Linear(in_features=4, out_features=2, bias=True)",
        "  )",
        ")",
    ]


def test_without_forward() -> None:
    with pytest.raises(UsageError, match="Module defines no forward"):
        nn.Module()(1)


# -- containers --------------------------------------------------------------------------------------------------------
def test_module_list() -> None:
    a, b, c = nn.Linear(1, 1), nn.Linear(2, 2), nn.Linear(3, 3)
    modules = nn.ModuleList([a]).append(c)
    modules.insert(1, b)
    assert list(modules) == [a, b, c]
    assert [n for n, _ in modules.named_children()] == ["0", "1", "2"]
    del modules[0]
    modules[0] = a
    assert list(modules) == [a, c]
    assert modules[-1] is c
    assert list(modules[1:]) == [c]


def test_sequential() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    assert net(pdl.ones((4, 2))).shape == (4, 1)
    assert isinstance(net[:1], nn.Sequential)
    assert list(nn.Sequential([nn.Identity()]).state_dict()) == []
    named = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.Identity()})
    assert list(named.state_dict()) == ["first.weight", "first.bias"]
    with pytest.raises(UsageError, match="names of their own"):
        del named[0]


def test_module_dict() -> None:
    heads = nn.ModuleDict({"a": nn.Linear(1, 1)})
    heads["b"] = nn.Linear(1, 2)
    assert list(heads) == heads.keys() == ["a", "b"]
    assert "a" in heads
    assert len(heads) == 2
    del heads["a"]
    assert list(heads.state_dict()) == ["b.weight", "b.bias"]
    with pytest.raises(UsageError, match="is a method of Module"):
        heads["train"] = nn.Identity()
    with pytest.raises(UsageError, match="contain a dot"):
        heads["a.b"] = nn.Identity()


# -- deployed form -----------------------------------------------------------------------------------------------------
class Doubled(nn.Module):
    """x w + x w, and x (2 w) when deployed."""

    def __init__(self) -> None:
        self.half = nn.Linear(2, 2, bias=False)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.half(x) + self.half(x)  # type: ignore[no-any-return]

    def deployed(self) -> nn.Linear:
        made = nn.Linear(2, 2, bias=False)
        made.load_state_dict({"weight": 2 * self.half.weight.data})
        return made


def test_a_module_without_another_form_is_deployed_as_it_is() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.ReLU()]))
    assert net.deployed() is net


def test_the_deployed_form_shares_what_stays_and_leaves_the_module_alone() -> None:
    net = nn.ModuleDict({"first": nn.Linear(2, 2), "rest": nn.Sequential(Doubled(), nn.BatchNorm1d(2))})
    made = net.deployed()
    assert type(made) is nn.ModuleDict
    assert made["first"] is net["first"]
    assert made["rest"][1] is net["rest"][1]  # type: ignore[index]
    assert isinstance(made["rest"][0], nn.Linear)  # type: ignore[index]
    assert isinstance(net["rest"][0], Doubled)  # type: ignore[index]
    x = pdl.randn((4, 2))
    np.testing.assert_allclose(made["rest"].eval()(x).data, net["rest"].eval()(x).data, rtol=1e-6)
    assert set(made.state_dict()) == {name.replace(".half", "") for name in net.state_dict()}

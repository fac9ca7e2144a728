"""Functional forms, compiled functions, and what a `StaticFunction` promises beyond single constructs."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import jit, nn
from pdl.errors import TraceError
from pdl.program import Block, Executable, Program, trace
from pdl.program.ir import Value


def tensor(*values: float, grad: bool = True) -> pdl.Tensor:
    return pdl.tensor(np.array(values, np.float32), requires_grad=grad)


CASES = [(1.0, 2.0), (-1.0, -2.0), (0.1, 5.0)]


def compare(eager: Any, static: Any, *values: float) -> None:
    xs = [tensor(*values) for _ in range(2)]
    ys = [f(x) for f, x in zip((eager, static), xs, strict=True)]
    np.testing.assert_allclose(ys[1].detach().numpy(), ys[0].detach().numpy(), rtol=1e-6)
    for y in ys:
        y.sum().backward()
    np.testing.assert_allclose(xs[1].grad.numpy(), xs[0].grad.numpy(), rtol=1e-6)


# -- functional forms --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("values", CASES)
def test_cond(values: tuple[float, ...]) -> None:
    w = tensor(3, 4)

    def f(x: Any) -> Any:
        return jit.cond(x.sum() > 0, lambda v: v * w, lambda v: v - w * w, x)

    compare(f, jit.compile(f), *values)
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.array(values if sum(values) > 0 else (-6, -8)))


@pytest.mark.parametrize("maximum", [None, 0, 2, 50])
@pytest.mark.parametrize("values", CASES)
def test_while_loop(values: tuple[float, ...], maximum: int | None) -> None:
    w = tensor(1.5, 1.1)

    def f(x: Any) -> Any:
        y, k = jit.while_loop(lambda y, k: y.sum() < 30, lambda y, k: (y * w + k, k + 1), (x, 0), maximum)
        return y + k

    compare(f, jit.compile(f), *values)
    grads = []
    for g in (f, jit.compile(f)):
        w.grad = None
        g(tensor(*values)).sum().backward()
        grads.append(np.zeros(2) if w.grad is None else w.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-6)


def test_while_loop_of_one_tensor() -> None:
    def f(x: Any) -> Any:
        return jit.while_loop(lambda y: y.sum() < 30, lambda y: y * y + 1, x)

    compare(f, jit.compile(f), 1, 2)


def test_functional_forms_refuse() -> None:
    x = tensor(1, 2)
    with pytest.raises(TraceError, match=r"body returns 2 values for a state of 1"):
        jit.while_loop(lambda y: y.sum() < 30, lambda y: (y, y), (x,))
    with pytest.raises(TraceError, match=r"state 0 is f32\[2\] before an iteration and f32\[4\] after it"):
        trace(lambda x: jit.while_loop(lambda y: y.sum() < 30, lambda y: pdl.concat([y, y]), x), x)
    with pytest.raises(TraceError, match=r"a tensor f32\[2\] in one branch and a tensor f32\[\] in the other"):
        trace(lambda x: jit.cond(x.sum() > 0, lambda: x, lambda: x.sum()), x)
    with pytest.raises(pdl.errors.UsageError, match="maximum is -1"):
        jit.while_loop(lambda y: y.sum() < 30, lambda y: y, x, -1)
    with pytest.raises(pdl.errors.UsageError, match="the state is empty"):
        jit.while_loop(lambda: True, lambda: (), ())


# -- gradients ---------------------------------------------------------------------------------------------------------
def bent(x: Any) -> Any:
    y = x
    k = 0
    while y.sum() < 30 and k < 5:
        y = pdl.tanh(y) * x + y * y if y.max() > 1 else y + x * x
        k += 1
    return y


@pytest.mark.parametrize("values", CASES)
def test_second_order(values: tuple[float, ...]) -> None:
    found = []
    for f in (bent, jit.to_static(bent)):
        x = tensor(*values)
        (g,) = pdl.autograd.grad(f(x).sum(), x, create_graph=True)
        (g * g).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_only_what_requires_a_gradient_gets_one() -> None:
    @jit.to_static
    def f(x: Any, w: Any) -> Any:
        return (x * w if x.sum() > 0 else x - w), x.detach() * 2

    x, w = tensor(1, 2), tensor(3, 4, grad=False)
    y, fixed = f(x, w)
    assert y.requires_grad
    assert not fixed.requires_grad
    y.sum().backward()
    assert w.grad is None
    np.testing.assert_array_equal(x.grad.numpy(), [3, 4])
    with pdl.no_grad():
        assert not f(x, w)[0].requires_grad


def test_calls_in_flight_do_not_disturb_each_other() -> None:
    f = jit.to_static(bent)
    xs = [tensor(*values) for values in CASES]
    ys = [f(x) for x in xs]
    f(tensor(7, 8))
    for values, x, y in zip(CASES, xs, ys, strict=True):
        expected = tensor(*values)
        bent(expected).sum().backward()
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), expected.grad.numpy(), rtol=1e-6)


def test_a_second_gradient_of_one_call() -> None:
    f = jit.to_static(bent)
    x = tensor(1, 2)
    y = f(x).sum()
    y.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    f(tensor(5, 6)).sum().backward()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)
    g = jit.to_static(lambda x: x * pdl.dropout_mask(x.shape, rate=0.5))
    y = g(x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(pdl.errors.GradientError, match="one gradient per call"):
        y.backward()


def test_memory_of_dropped_calls_is_used_again() -> None:
    f = jit.to_static(bent)
    for _ in range(5):
        f(tensor(1, 2))
    ((traced,),) = f.programs.values()
    (paired,) = traced.block.pairs.values()
    assert not paired._running
    assert len(paired._free) == 1


def test_a_call_that_fails_keeps_no_memory() -> None:
    @jit.to_static
    def f(x: Any) -> Any:
        assert x.sum() > 0, "not positive"
        return x * x

    f(tensor(1, 2))
    with pytest.raises(AssertionError, match="not positive"):
        f(tensor(-1, -2))
    ((traced,),) = f.programs.values()
    (paired,) = traced.block.pairs.values()
    assert not paired._running


@pytest.mark.parametrize("layer", [nn.Linear(6, 10, bias=False), nn.Conv1d(6, 10, 3, padding=1, bias=False)])
def test_outputs_without_a_gradient_leave_the_others_right(layer: nn.Module) -> None:
    class Net(nn.Module):  # the running statistics, and y.detach(), are outputs whose gradients nothing reads
        def __init__(self) -> None:
            self.layer, self.norm = layer, nn.BatchNorm1d(10)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.layer(x))
            return (y * y * y).sum(), y.detach() * 2

    net = Net()
    x = pdl.tensor(np.random.default_rng(0).normal(size=(2, 16, 6)).astype(np.float32))
    found = []
    for f in (net, jit.compile(net, on_fallback=pytest.fail)):
        net.zero_grad()
        f(x)[0].backward()
        found.append({name: p.grad.numpy().copy() for name, p in net.named_parameters()})
    for name, g in found[0].items():
        np.testing.assert_allclose(found[1][name], g, rtol=1e-5, atol=1e-5, err_msg=name)


def test_constants_of_gradients() -> None:
    compare(lambda x: x**3 + 2**x, jit.compile(lambda x: x**3 + 2**x, on_fallback=pytest.fail), 1, 2)


def test_gradients_are_at_the_values_that_buffers_had() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.w, self.seen = nn.Parameter(np.ones(2, np.float32)), nn.Buffer(np.array([3, 4], np.float32))

        def forward(self, x: Any) -> Any:
            y = (x * self.w * self.seen).sum()
            self.seen = self.seen + x
            return y

    nets = [Net(), jit.to_static(Net())]
    for expected in ([3, 8], [4, 12]):  # x seen
        for net in nets:
            net.zero_grad()
            y = net(tensor(1, 2, grad=False))
            y.backward(retain_graph=True)
            np.testing.assert_array_equal(net.w.grad.numpy(), expected)
            y.backward()
            np.testing.assert_array_equal(net.w.grad.numpy(), 2 * np.array(expected))


def test_inside_a_compiled_training_step() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.drop = nn.Dropout(0.5)

        @jit.to_static
        def forward(self, x: Any) -> Any:
            y = self.drop(self.a(x)) if x.sum() > 0 else self.b(x)
            while y.square().sum() > 1:
                y = self.b(y) * 0.5
            return y

    pdl.seed(0)
    net = Net()
    step = pdl.program.CompiledStep(lambda x: net(x).square().sum(), net)
    net.eval()
    for sign in (1, -1):
        x = np.full((2, 4), sign * 3, np.float32)
        loss = step(x)
        grads = {n: p.grad.numpy().copy() for n, p in net.named_parameters() if p.grad is not None}
        value = float(loss.item())
        assert float(step.eager(x).item()) == pytest.approx(value, rel=1e-5)
        for n, p in net.named_parameters():
            expected = np.zeros(p.shape) if p.grad is None else p.grad.numpy()
            np.testing.assert_allclose(grads.get(n, np.zeros(p.shape)), expected, rtol=1e-4, atol=1e-6)


def test_dropout_in_a_branch_uses_one_mask_for_both_ways() -> None:
    @jit.to_static
    def f(x: Any) -> Any:
        return x * pdl.dropout_mask(x.shape, rate=0.5) if x.sum() > 0 else -x

    pdl.seed(3)
    x = pdl.tensor(np.ones(64, np.float32), requires_grad=True)
    y = f(x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert set(np.unique(y.detach().numpy())) == {0.0, 2.0}
    assert not np.array_equal(f(x).detach().numpy(), y.detach().numpy()), "every run draws its own"


@pytest.mark.parametrize("sign", [1, -1])
def test_batch_norm_in_a_branch_keeps_its_statistics(sign: int) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.norm = nn.BatchNorm1d(3)
            self.seen = nn.Buffer(np.zeros(3, np.float32))

        def forward(self, x: Any) -> Any:
            self.seen = self.seen + x.sum(axis=0)
            if x.sum() > 0:
                x = self.norm(x)
                self.seen = self.seen * 2
            return x * 2

    nets = [Net(), jit.to_static(Net())]
    x = sign * np.arange(12, dtype=np.float32).reshape(4, 3)
    for net in nets:
        for _ in range(2):
            net(pdl.tensor(x))
    for (name, a), (_, b) in zip(nets[0].named_buffers(), nets[1].named_buffers(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6, err_msg=name)


def test_autocast_inside() -> None:
    @jit.to_static
    def f(x: Any, w: Any) -> Any:
        return pdl.matmul(x, w) if x.sum() > 0 else pdl.matmul(x, w * 2)

    x, w = pdl.tensor(np.ones((2, 4), np.float32)), pdl.tensor(np.ones((4, 2), np.float32), requires_grad=True)
    with pdl.autocast():
        y = f(x, w)
    assert y.dtype == pdl.bfloat16
    assert f(x, w).dtype == pdl.float32
    y.astype("float32").sum().backward()
    assert w.grad.dtype == pdl.float32


# -- the cache ---------------------------------------------------------------------------------------------------------
def test_one_program_for_a_kind_of_arguments() -> None:
    runs = []

    @jit.not_to_static
    def count() -> None:
        runs.append(1)

    @jit.to_static(capacity=2)
    def f(x: Any, scale: float = 1.0) -> Any:
        count()
        return x * scale

    for scale in (1.0, 1.0, 2.0, 1.0):
        f(tensor(1, 2), scale)
    assert len(runs) == 2
    f(tensor(1, 2, 3))
    f(tensor(1, 2), 2.0)
    assert len(runs) == 4
    assert len(f.programs) == 2


def test_programs_follow_mode_and_parameters() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9))

    @jit.to_static
    def f(x: Any) -> Any:
        return net(x)

    x = tensor(1, 2, grad=False)
    net.eval()
    first = f(x)
    np.testing.assert_allclose(first.detach().numpy(), net(x).detach().numpy())
    net.train()
    assert (f(pdl.tensor(np.ones((50, 2), np.float32))).detach().numpy() == 0).any()
    net.eval()
    net[0].weight.data[...] *= 2
    np.testing.assert_allclose(f(x).detach().numpy(), net(x).detach().numpy())
    setattr(net[0], "weight", nn.Parameter(np.zeros((2, 2), np.float32)))  # noqa: B010 - a new tensor in its place
    np.testing.assert_allclose(f(x).detach().numpy(), net(x).detach().numpy())


def test_containers_and_plain_results() -> None:
    @jit.to_static
    def f(batch: Any, names: Any) -> Any:
        return {"y": batch["x"] * 2, "n": len(names), "names": names}, [batch["x"], None]

    made, rest = f({"x": tensor(1, 2)}, ["a", "b"])
    assert (made["n"], made["names"], rest[1]) == (2, ["a", "b"], None)
    np.testing.assert_array_equal(made["y"].detach().numpy(), [2, 4])


# -- compile -----------------------------------------------------------------------------------------------------------
def test_compile_a_module() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    fast = jit.compile(net)
    compare(net, fast, 1, -2)
    names = [type(n.op).__name__ for n in fast.program(tensor(1, -2)).nodes]
    assert "Linear" in names or "MatMul" in names


def test_compile_falls_back_with_one_line() -> None:
    said: list[str] = []

    def f(x: Any) -> Any:
        if float(x.sum()) > 0:
            return x * 2
        return x

    fast = jit.compile(f, on_fallback=said.append)
    for values in (CASES[0], CASES[1], (1.0, 2.0, 3.0)):
        compare(f, fast, *values)
    assert len(said) == 1
    line = f.__code__.co_firstlineno + 1
    assert said[0].startswith(f"running in eager mode, {__file__}:{line} cannot be compiled: Python needs the values")
    with pytest.warns(RuntimeWarning, match="running in eager mode") as caught:
        jit.compile(f)(tensor(1, 2))
    assert caught[0].filename == __file__


def test_compile_takes_static_functions() -> None:
    fast = jit.compile(jit.to_static(bent), on_fallback=pytest.fail)
    for values in CASES:
        compare(bent, fast, *values)


def test_not_to_static() -> None:
    @jit.not_to_static
    def left(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match="Python needs the values"):
        jit.to_static(lambda x: left(x) * 2)(tensor(1, 2))


# -- the serialised form -----------------------------------------------------------------------------------------------
def test_nested_programs_are_stored() -> None:
    program = jit.to_static(bent).program(tensor(1, 2))
    for i, value in enumerate(program.captures):
        value.name = f"c{i}"
    tensors = {v.name: v.tensor for v in program.captures}
    text = json.dumps(program.to_dict())
    again = Program.from_dict(json.loads(text), lambda name: tensors[name])
    assert json.dumps(again.to_dict()) == text
    for values in CASES:
        x = np.array(values, np.float32)
        (made,) = Executable(again)(x)
        np.testing.assert_allclose(made, bent(pdl.tensor(x)).numpy(), rtol=1e-6)


def test_blocks_compare_by_content() -> None:
    def block(factor: float) -> Block:
        program = jit.to_static(lambda x: x * factor if x.sum() > 0 else x).program(tensor(1, 2))
        return next(b for n in program.nodes for b in getattr(n.op, "blocks", ()))

    assert block(2.0) == block(2.0)
    assert hash(block(2.0)) == hash(block(2.0))
    assert block(2.0) != block(3.0)
    assert isinstance(block(2.0).program.inputs[0], Value)


def test_threads_share_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """One finds its program, which another lets go before it is used."""
    f = jit.compile(lambda x: x + 1, capacity=1)
    one, two = tensor(1), tensor(1, 2)
    f(one)
    (found,) = f.programs.values()
    inside, go_on = threading.Event(), threading.Event()

    def holds() -> bool:
        inside.set()
        return go_on.wait(20)

    monkeypatch.setattr(found[0], "holds", holds)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(f, one)
        assert inside.wait(20)
        f(two)
        go_on.set()
        assert waiting.result(20).tolist() == [2]

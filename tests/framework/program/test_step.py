"""`CompiledStep` and the executor: what makes a new program, what is read anew at every run, what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import GradientError, ShapeError, TraceError, UsageError
from pdl.ops.base import assign
from pdl.program import CompiledForward, CompiledStep, Executable, Node, trace, verify
from pdl.program.memory import plan_memory

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def step_of(net: nn.Module) -> CompiledStep:
    return CompiledStep(lambda x: (net(x) ** 2).mean(), net, notify=pytest.fail)


def test_new_programs_for_new_shapes_flags_and_dtypes() -> None:
    net = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    step = step_of(net)
    for batch in (X, X[:2], X, X[:2]):
        step(pdl.tensor(batch))
    assert len(step.programs) == 2
    net.eval()
    step(pdl.tensor(X))
    next(net.parameters()).requires_grad = False
    step(pdl.tensor(X))
    assert next(net.parameters()).grad is None
    net.to("bfloat16")
    step(pdl.tensor(X, dtype="bfloat16"))
    assert len(step.programs) == 5


def test_weights_are_read_at_every_run() -> None:
    net = nn.Linear(6, 3)
    step = step_of(net)
    first = float(step(pdl.tensor(X)))
    net.weight.data[...] *= 2  # in place
    net.bias.data = net.bias.data + 1  # another array
    second = float(step(pdl.tensor(X)))
    assert second != first
    assert second == pytest.approx(float(step.eager(pdl.tensor(X))), rel=1e-6)
    assert len(step.programs) == 1


def test_a_forward_reads_the_weights_and_leaves_gradients_alone() -> None:
    net = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    table = pdl.tensor(X)  # a constant of the program
    forward = CompiledForward(lambda rows: {"y": pdl.take(net(table), rows), "n": len(rows)}, net, notify=pytest.fail)
    rows, net[0].weight.grad = np.array([2, 0]), pdl.ones((6, 3))
    net.eval()
    for scale in (1.0, 2.0):
        net[0].weight.data[...] *= scale
        found = forward(rows)
        assert found["n"] == 2
        assert not found["y"].requires_grad
        np.testing.assert_allclose(found["y"].data, net(table).data[rows], rtol=1e-6)
    assert len(forward.programs) == 1
    assert net[0].weight.grad.data.sum() == 18
    assert not forward.eager(rows)["y"].requires_grad
    net.train()
    assert (forward(rows)["y"].data == 0).any(), "another program, with dropout"


def test_a_constant_that_only_a_dead_node_and_a_gradient_read() -> None:
    net = nn.Linear(6, 3)

    def loss(x: pdl.Tensor) -> pdl.Tensor:
        y = net(x)
        y.sum() + 0.0  # is thrown away, and 0.0 with it; the gradient of logsumexp reads one
        return pdl.logsumexp(y, axis=1).mean()

    step = CompiledStep(loss, net, notify=pytest.fail)
    compiled = float(step(pdl.tensor(X)))
    assert compiled == pytest.approx(float(loss(pdl.tensor(X))), rel=1e-6)


def test_shapes_that_keep_changing_end_in_eager_mode() -> None:
    net, messages = nn.Linear(6, 3), []
    step = CompiledStep(lambda x: net(x).sum(), net, capacity=2, notify=messages.append)
    for n in range(1, 12):
        step(pdl.tensor(np.ones((n, 6), np.float32)))
    assert not step.programs
    assert len(messages) == 1
    assert "too many" in messages[0]


def test_programs_of_all_shapes_run_in_one_block() -> None:
    """It is as large as the largest needs; after it has grown, programs still give the gradients of eager mode."""
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    step = CompiledStep(lambda x: (net(x) ** 2).mean(), net, notify=pytest.fail)
    batches = [pdl.tensor(np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32)) for n in (4, 2, 9, 4, 9, 2)]
    for batch in batches:
        loss = float(step(batch))
        found = [p.grad.numpy().copy() for p in net.parameters()]
        assert loss == pytest.approx(float(step.eager(batch)), rel=1e-6)
        for gradient, p in zip(found, net.parameters(), strict=True):
            np.testing.assert_allclose(gradient, p.grad.numpy(), rtol=1e-5, atol=1e-7)
    assert step.misses == 3
    needed = [made.executable.plan.arena_bytes for made in step.programs.values()]
    assert step.arena.block.nbytes == max(needed) > min(needed)
    assert len({id(made.executable._arena) for made in step.programs.values()}) == 1


def test_code_that_reads_values_is_named() -> None:
    net, messages = nn.Linear(6, 3), []

    def loss(x: pdl.Tensor) -> pdl.Tensor:
        y = net(x).sum()
        return y if float(y) > 0 else -y

    step = CompiledStep(loss, net, notify=messages.append)
    for _ in range(3):
        step(pdl.tensor(X))
        assert net.weight.grad is not None
    assert len(messages) == 1
    assert "test_step.py:" in messages[0]
    assert "values of a tensor" in messages[0]


@pytest.mark.parametrize("code", [
    lambda net, x: net(x) * pdl.rand((3,)),
    lambda net, x: net(x) * float(net.weight.data.sum()),
    lambda net, x: pdl.nonzero(x),
    lambda net, x: x.numpy(),
    lambda net, x: bool(x.sum()),
])  # fmt: skip
def test_what_no_program_can_hold(code) -> None:
    net = nn.Linear(6, 3)
    with pytest.raises(TraceError, match=r"test_step\.py:\d+"):
        trace(lambda x: code(net, x), X, modules=[net])


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Buffer(np.array(3, np.int64))
        self.scale = nn.Parameter(np.ones(1, np.float32))


READS = {
    "data": lambda t: t.data, "numpy": lambda t: t.numpy(), "item": lambda t: t.item(), "tolist": lambda t: t.tolist(),
    "bool": bool, "float": float, "int": int, "index": operator.index, "if": lambda t: 1 if t else 2,
    "range": lambda t: range(t), "list index": lambda t: [0, 1, 2, 3][t], "format": lambda t: f"{t.item():d}",
    "asarray": np.asarray, "array": lambda t: np.array(t, np.float64), "ufunc": lambda t: np.add(np.ones(1), t),
    "tensor": pdl.tensor, "Tensor": pdl.Tensor, "of tensors": lambda t: pdl.tensor([t, t]), "state_dict": None,
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_every_way_to_read_a_buffer_in_python_is_refused(name: str) -> None:
    net = Counter()
    read = READS[name] or (lambda _: net.state_dict()["steps"].item())

    def code(x: pdl.Tensor) -> pdl.Tensor:
        read(net.steps)
        return x * net.scale

    read(net.steps)  # an ordinary read outside of a trace
    with pytest.raises(TraceError, match=r"test_step\.py:\d+: Python reads the values of (steps|scale), which change"):
        trace(code, X, modules=[net])


def test_clones_are_traced_with_their_gradient() -> None:
    net = nn.Linear(6, 3)
    step = CompiledStep(lambda x: (net.weight.clone() * net.weight + x.clone().sum()).sum(), net, notify=pytest.fail)
    step(pdl.tensor(X))
    np.testing.assert_allclose(net.weight.grad.numpy(), 2 * net.weight.detach().numpy(), rtol=1e-6)


def test_a_clone_keeps_what_a_buffer_held_before_the_program_changes_it() -> None:
    buffer = nn.Buffer(np.ones(3, np.float32))

    def code(x: pdl.Tensor) -> pdl.Tensor:
        old = buffer.clone()
        assign(buffer, x)
        return old

    run = Executable(trace(code, np.full(3, 5, np.float32)))
    (old,) = run(np.full(3, 5, np.float32))
    assert old is not None
    np.testing.assert_array_equal(old, np.ones(3))
    np.testing.assert_array_equal(buffer.numpy(), np.full(3, 5))


@pytest.mark.parametrize("read", [lambda t: t.detach().numpy(), lambda t: t.detach().item(), lambda t: t.data])
def test_values_of_a_parameter_are_refused_too(read: Callable[[pdl.Tensor], object]) -> None:
    net = Counter()
    read(net.scale)
    with pytest.raises(TraceError, match=r"test_step\.py:\d+"):
        trace(lambda x: (x * net.scale, read(net.scale))[0], X, modules=[net])


@pytest.mark.parametrize("write", [
    lambda t: t.__setitem__(..., 0), lambda t: setattr(t, "data", np.zeros(1, np.int64)),
])  # fmt: skip
def test_a_buffer_written_in_python_is_refused(write: Callable[[pdl.Tensor], None]) -> None:
    net = Counter()
    with pytest.raises(TraceError, match=r"test_step\.py:\d+: Python writes into steps.*pdl\.ops\.base\.assign"):
        trace(lambda x: (x * net.scale, write(net.steps))[0], X, modules=[net])
    assert net.steps.item() == 3


def test_constants_may_be_read_while_tracing() -> None:
    sizes = pdl.tensor(np.array([2, 3], np.int64))
    program = trace(lambda x: x.reshape(4, *sizes.tolist()) * float(sizes.sum()) if bool(sizes[0]) else x, X)
    assert Executable(program)(X)[0].shape == (4, 2, 3)


def test_a_step_that_counts_in_a_buffer_stays_eager_and_right() -> None:
    net, messages = Counter(), []

    def loss(x: pdl.Tensor) -> pdl.Tensor:
        return (x * net.scale).sum() * (1.0 if net.steps.item() < 4 else 2.0)

    step = CompiledStep(loss, net, notify=messages.append)
    first = float(step(pdl.tensor(X)))
    net.steps.data[...] = 4
    assert float(step(pdl.tensor(X))) == pytest.approx(2 * first)
    assert "test_step.py" in messages[0]
    assert "values of steps" in messages[0]


def test_a_loss_without_parameters_is_refused() -> None:
    net = nn.Linear(6, 3)
    with pytest.raises(GradientError, match="depends on no parameter"):
        CompiledStep(lambda x: x.sum(), net)(pdl.tensor(X))


def test_inputs_of_another_shape_are_refused() -> None:
    run = Executable(trace(lambda x: x * 2, X))
    with pytest.raises(ShapeError, match=r"x0 is float32 \(2, 6\); it was compiled for float32 \(4, 6\)"):
        run(X[:2])


def test_the_verifier_names_the_fault_and_the_pass() -> None:
    program = trace(lambda x: pdl.exp(x) + 1, X)
    broken = program.nodes[0]
    program.nodes[0] = Node(
        broken.op, broken.inputs, [v.spec._replace(shape=(1,)) for v in broken.outputs], where="me:1"
    )
    program.replace({broken.outputs[0]: program.nodes[0].outputs[0]})
    with pytest.raises(UsageError, match=r"after shrink: Exp \(me:1\) infers f32\[4, 6\], not f32\[1\]"):
        verify(program, after="shrink")


def test_memory_is_shared_by_what_does_not_live_together() -> None:
    def chain(x: pdl.Tensor) -> pdl.Tensor:
        for _ in range(10):
            x = pdl.tanh(x @ pdl.tensor(np.eye(6, dtype=np.float32)))
        return x

    program = trace(chain, X)
    plan = plan_memory(program)
    assert plan.arena_bytes < plan.unshared_bytes / 4
    for one in plan.storages:
        for other in plan.storages:
            if one is not other and one.first <= other.last and other.first <= one.last:
                assert one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset


def test_the_text_shows_shapes_and_places() -> None:
    net = nn.Linear(6, 3)
    text = trace(net, X).text()
    assert "weight: f32[6, 3] = captured" in text
    assert "%0: f32[4, 3] = Linear(x0, weight, bias)" in text

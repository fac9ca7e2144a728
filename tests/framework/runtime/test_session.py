"""Sessions of programs: numbers of the eager model, shapes as they come, many threads, bounded memory."""

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import float32, int64
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.runtime import Session, plan
from pdl.runtime.session import in_turns

N, H, W = Dim.symbol("n", 61), Dim.symbol("h", 40), Dim.symbol("w", 48)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    with pdl.random.fork_seed(0):
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.ReLU()
        ).eval()


@pytest.fixture(scope="module")
def program(net):
    with pdl.no_grad():
        return trace(net, Spec((N, H, W, 3), float32), name="net")


def image(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def eager(net: nn.Module, x: np.ndarray) -> np.ndarray:
    with pdl.no_grad():
        return net(pdl.as_tensor(x)).data


@pytest.mark.parametrize("shape", [(1, 8, 8, 3), (4, 31, 17, 3), (1, 64, 5, 3)])
def test_any_shape_gives_the_eager_numbers(net, program, shape):
    session = Session.of(program, inputs=["image"], outputs=["features"])
    x = image(*shape)
    np.testing.assert_allclose(session.run({"image": x})["features"], eager(net, x), rtol=1e-5, atol=1e-5)


def test_results_are_the_callers_own(program):
    session = Session.of(program, inputs=["image"], outputs=["features"])
    first = session.run({"image": image(1, 8, 8, 3)})["features"]
    kept = first.copy()
    session.run({"image": image(1, 8, 8, 3, seed=1)})
    np.testing.assert_array_equal(first, kept)


def test_threads_share_a_session(net, program):
    session = Session.of(program)
    shapes = [(1, 8, 8, 3), (2, 9, 7, 3), (1, 16, 16, 3)]
    inputs = [image(*shapes[i % 3], seed=i) for i in range(24)]
    alone = [session.run({"x0": x})["y"] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: session.run({"x0": x})["y"], inputs * 3))
    for x, y in zip(alone * 3, together, strict=True):
        np.testing.assert_array_equal(x, y)


def test_plans_used_longest_ago_are_forgotten(program):
    session = Session.of(program, memory=100_000)
    plans = session.engine
    for size in range(8, 40):
        session.run({"x0": image(1, size, size, 3)})
    assert 1 <= len(plans._plans) < 32
    assert plans.nbytes <= 100_000
    assert ((1, 39, 39, 3),) in plans._plans


def test_plans_for_all_shapes_share_a_block(program):
    plans = Session.of(program).engine
    shapes = [(1, size, 40 - size, 3) for size in range(8, 32)]
    inputs = [image(*shape, seed=shape[1]) for shape in shapes]
    first = [plans([x])[0] for x in inputs]
    needs = [plans.plan((shape,)).memory.arena_bytes for shape in shapes]
    (lane,) = plans.lanes._all
    assert lane.block.nbytes == max(needs) < sum(needs) / 10
    for x, y in zip(reversed(inputs), reversed(first), strict=True):
        np.testing.assert_array_equal(plans([x])[0], y)
    assert len(lane.bound) == len(shapes)


def test_plans_are_bounded_in_number_and_a_block_shrinks_with_them(program, monkeypatch):
    monkeypatch.setattr(plan, "PLANS", 4)
    plans = Session.of(program).engine
    plans([image(1, 64, 64, 3)])
    large = weakref.ref(plans.lanes._all[0].block)
    for size in range(8, 12):
        plans([image(1, size, size, 3)])
    assert list(plans._plans) == [((1, size, size, 3),) for size in range(8, 12)]
    (lane,) = plans.lanes._all
    assert len(lane.bound) <= 4
    assert lane.block.nbytes <= max(each.memory.arena_bytes for each in plans._plans.values())
    assert large() is None, "executables of plans that are gone keep no memory, collection of garbage or not"


def test_sessions_that_run_in_turns_share_a_block(net, program):
    first, second = Session.of(program), Session.of(program)
    x, y = image(1, 64, 40, 3), image(2, 16, 16, 3)
    alone = first.run({"x0": x})["y"], second.run({"x0": y})["y"]
    in_turns(first, None, second)
    lanes = first.engine.lanes
    assert second.engine.lanes is lanes
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            np.testing.assert_array_equal(first.run({"x0": x})["y"], alone[0])
            np.testing.assert_array_equal(pool.submit(second.run, {"x0": y}).result()["y"], alone[1])
    (lane,) = lanes._all
    needs = [made.engine.plan((given.shape,)).memory.arena_bytes for made, given in ((first, x), (second, y))]
    assert needs[0] > needs[1]
    assert lane.block.nbytes == needs[0]


def test_a_cached_shape_does_not_wait_for_a_new_one(program, monkeypatch):
    plans = Session.of(program).engine
    small, large = image(1, 8, 8, 3), image(1, 24, 24, 3)
    expected = plans([small])[0]
    compiling, finish = threading.Event(), threading.Event()
    make = plans._make

    def slowly(*arguments):
        compiling.set()
        assert finish.wait(20)
        return make(*arguments)

    monkeypatch.setattr(plans, "_make", slowly)
    with ThreadPoolExecutor(3) as pool:
        new = [pool.submit(plans, [large]) for _ in range(2)]
        assert compiling.wait(20)
        np.testing.assert_array_equal(pool.submit(plans, [small]).result(20)[0], expected)
        assert not any(future.done() for future in new)
        finish.set()
        np.testing.assert_array_equal(*[future.result(20)[0] for future in new])
    assert len(plans._plans) == 2, "both threads share the plan that one of them made"


def test_memory_of_threads_that_have_left_is_given_back(program):
    plans = Session.of(program, memory=100_000).engine
    x = image(1, 30, 30, 3)
    one = plans.plan((x.shape,)).memory.arena_bytes
    assert 8 * one > 100_000 > 3 * one
    inside = threading.Barrier(8)

    def run(_: int) -> None:
        plans([x], lambda *messages: together())

    def together() -> None:
        if not getattr(seen, "once", False):  # all eight are in the middle of a run
            seen.once = True
            inside.wait(20)

    seen = threading.local()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    assert 1 <= len(plans.lanes._idle) == len(plans.lanes._all) <= 100_000 // one
    assert one <= plans.nbytes <= 100_000
    plans([image(1, 8, 8, 3)])
    assert plans.nbytes <= 100_000


def test_symbolic_ports(program):
    session = Session.of(program, inputs=["image"])
    assert str(session.inputs[0]) == "image float32[n, h, w, 3]"
    assert str(session.outputs[0]).startswith("y float32[n, ")


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({}, UsageError, "takes the inputs x0; got none"),
        ({"x": image(1, 8, 8, 3)}, UsageError, "takes the inputs x0; got x"),
        ({"x0": image(8, 8, 3)}, ShapeError, r"float32\[n, h, w, 3\]: got an array of shape \(8, 8, 3\)"),
        ({"x0": image(1, 8, 8, 4)}, ShapeError, "dimension 3 must be 3"),
        ({"x0": np.zeros((1, 8, 8, 3), complex)}, DtypeError, "x0 is float32, got complex128"),
    ],
)
def test_inputs_that_do_not_fit(program, inputs, error, message):
    with pytest.raises(error, match=message):
        Session.of(program).run(inputs)


def test_a_program_has_no_pipeline(program):
    with pytest.raises(UsageError, match="has no pipeline"):
        Session.of(program)(image(8, 8, 3))


def test_several_inputs_and_outputs():
    with pdl.no_grad():
        program = trace(lambda x, i: (pdl.embedding(x, i), i + 1), Spec((10, 4), float32), Spec((N,), int64))
    session = Session.of(program, inputs=["table", "index"], outputs=["rows", "next"])
    table = image(10, 4)
    found = session.run({"index": np.array([3, 1], np.int32), "table": table})
    np.testing.assert_array_equal(found["rows"], table[[3, 1]])
    np.testing.assert_array_equal(found["next"], [4, 2])


def test_the_timer_sees_every_node(program):
    session = Session.of(program)
    seen = []
    session.run({"x0": image(1, 8, 8, 3)}, timer=lambda node, begin, end: seen.append((node, end - begin)))
    assert [node for node, _ in seen] == session.engine.plan(((1, 8, 8, 3),)).program.nodes
    assert all(seconds >= 0 for _, seconds in seen)

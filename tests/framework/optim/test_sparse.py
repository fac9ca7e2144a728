"""Gradients of lookup tables by rows: what they hold, and what optimisers make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, optim, threads
from pdl.autograd import grad
from pdl.errors import ShapeError, UsageError
from pdl.kernels import update as kernels
from pdl.ops.sparse import SparseGrad
from pdl.program import CompiledStep
from pdl.tensor import Tensor

RNG = np.random.default_rng(11)
INDEX = np.array([[5, 2, 5], [0, 2, 6]])


def table(*, sparse: bool, dtype: str = "float32", columns: int = 3, **options: Any) -> nn.Embedding:
    layer = nn.Embedding(7, columns, sparse=sparse, **options)
    layer.weight.data = np.arange(7 * columns, dtype=dtype).reshape(7, columns) / 7
    return layer


def loss_of(layer: nn.Embedding, index: Any = INDEX) -> Tensor:
    y = layer(pdl.tensor(index))
    return (y * y * np.linspace(-1, 1, y.size, dtype=np.float32).reshape(y.shape)).sum()


def gradients(*calls: Any, **options: Any) -> tuple[Any, Any]:
    """(sparse, dense) gradient of a sum of losses, each an index."""
    found = []
    for sparse in (True, False):
        layer = table(sparse=sparse, **options)
        for index in calls:
            loss_of(layer, index).backward()
        found.append(layer.weight.grad)
    return found[0], found[1]


@pytest.mark.parametrize("calls", [(INDEX,), (INDEX, INDEX[:, :1]), ([], [3])])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_it_is_the_dense_gradient(calls: Any, padding_idx: int | None) -> None:
    sparse, dense = gradients(*[np.array(c, np.int64) for c in calls], padding_idx=padding_idx)
    assert isinstance(sparse, SparseGrad)
    assert (sparse.shape, sparse.dtype, sparse.ndim, sparse.size) == (dense.shape, dense.dtype, 2, dense.size)
    np.testing.assert_allclose(sparse.to_dense().data, dense.data, rtol=1e-6)
    rows = sparse.rows.data
    used = rows[rows >= 0]
    np.testing.assert_array_equal(used, np.unique(used))
    assert (rows[used.size :] == -1).all()
    assert padding_idx not in used
    assert (sparse.values.data[used.size :] == 0).all()


def test_the_number_of_threads_changes_no_bit() -> None:
    index = pdl.tensor(RNG.integers(0, 500, 4000))
    g = pdl.tensor(RNG.standard_normal((4000, 70)).astype(np.float32))
    results = []
    for count in (1, 2):
        with threads.num_threads(count):
            results.append(pdl.embedding_grad_rows(index, g))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def test_second_order_goes_through_the_values() -> None:
    found = []
    for sparse in (True, False):
        layer = table(sparse=sparse, dtype="float64")
        (g,) = grad(loss_of(layer), [layer.weight], create_graph=True)
        values = g.values if isinstance(g, SparseGrad) else g
        assert values is not None
        (values * values).sum().backward()
        second = layer.weight.grad
        assert second is not None
        found.append(second.to_dense().data if isinstance(second, SparseGrad) else second.data)
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_a_tied_table_gets_a_dense_gradient() -> None:
    results = []
    for sparse in (True, False):
        layer = table(sparse=sparse)
        (layer.weight * 3).sum().backward()
        loss_of(layer).backward()
        (loss_of(layer) + (layer.weight * layer.weight).sum()).backward()
        assert layer.weight.grad is not None
        assert type(layer.weight.grad) is Tensor
        results.append(layer.weight.grad.data)
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_a_table_that_is_no_leaf_passes_a_dense_gradient_on() -> None:
    layer = table(sparse=True)
    pdl.embedding(layer.weight * 2, pdl.tensor(INDEX), sparse=True).sum().backward()
    assert type(layer.weight.grad) is Tensor


def test_it_can_be_scaled_and_has_no_array() -> None:
    g, _ = gradients(INDEX)
    np.testing.assert_array_equal((g * 2).to_dense().data, (2 * g.detach()).to_dense().data)
    assert repr(g) == "SparseGrad(7 x 3, 6 rows, dtype=float32)"
    with pytest.raises(UsageError, match=r"this gradient \(7, 3\) is sparse and has no array; take .rows and .values"):
        g.numpy()
    with pytest.raises(TypeError):
        g + 1


# -- optimisers --------------------------------------------------------------------------------------------------------
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Adagrad", {"initial_accumulator_value": 0.1}),
    ("Adagrad", {"momentum": 0.3, "eps": 1e-6, "eps_under_root": True}),
    ("Adagrad", {"rowwise": True, "weight_decay": 0.1}),
    ("Adagrad", {"rowwise": True, "momentum": 0.3, "initial_accumulator_value": 0.1}),
    ("Adadelta", {}),
]
every_method = pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)


@every_method
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_rows_in_use_move_as_with_a_dense_gradient(name: str, options: dict[str, Any], dtype: str) -> None:
    """The same rows at every step: equal to the table of these rows alone; the others stay."""
    whole, small = nn.Parameter(RNG.random((9, 20)), dtype=dtype), nn.Parameter(np.zeros((3, 20)), dtype=dtype)
    start, rows = whole.data.copy(), np.array([1, 4, 8])
    small.data = start[rows].copy()
    optimizers = [getattr(optim, name)([p], lr=0.1, **options) for p in (whole, small)]
    for _ in range(4):
        values = pdl.tensor(RNG.standard_normal((5, 20)), dtype=dtype)
        whole.grad = SparseGrad((9, 20), pdl.tensor(np.array([1, 4, 8, -1, -1])), values)
        small.grad = values[:3]
        for optimizer in optimizers:
            optimizer.step(scale=0.5)
    np.testing.assert_array_equal(whole.data[rows], small.data)
    assert (whole.data[rows] != start[rows]).any(axis=1).all()
    np.testing.assert_array_equal(np.delete(whole.data, rows, 0), np.delete(start, rows, 0))


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_methods_without_memory_of_time_give_the_dense_result(name: str) -> None:
    layers = [table(sparse=sparse, columns=40) for sparse in (True, False)]
    optimizers = [getattr(optim, name)(layer, lr=0.1) for layer in layers]
    for index in (INDEX, INDEX - 0, [[1, 1]], INDEX[:1]):
        for layer, optimizer in zip(layers, optimizers, strict=True):
            optimizer.zero_grad()
            assert layer.weight.grad is None
            loss_of(layer, index).backward()
            optimizer.step()
    np.testing.assert_allclose(layers[0].weight.data, layers[1].weight.data, rtol=1e-6)


def test_a_method_that_needs_the_whole_gradient_refuses() -> None:
    layer = table(sparse=True)
    optimizer = optim.LAMB(layer)
    loss_of(layer).backward()
    with pytest.raises(UsageError, match="LAMB: the gradient of weight is sparse, and this method needs all of it"):
        optimizer.step()


def test_rows_outside_the_table_are_refused() -> None:
    p, g = np.zeros((3, 2), np.float32), np.ones((2, 2), np.float32)
    with pytest.raises(ShapeError, match="sgd: the gradient names row 3, the parameter has 3"):
        kernels.sgd([p], [(np.array([0, 3]), g)], lr=1.0)
    with pytest.raises(ShapeError, match=r"sgd: 1 rows with values \(2, 2\) do not fit a parameter \(3, 2\)"):
        kernels.sgd([p], [(np.array([0]), g)], lr=1.0)


def test_dense_and_sparse_parameters_in_one_call() -> None:
    params = [np.ones(5, np.float32), np.ones((4, 2), np.float32), np.ones((2, 2), np.float32)]
    grads = [np.ones(5, np.float32), (np.array([3, -1]), np.full((2, 2), 2, np.float32)), np.ones((2, 2), np.float32)]
    kernels.sgd(params, grads, lr=0.5)
    np.testing.assert_array_equal(params[0], np.full(5, 0.5))
    np.testing.assert_array_equal(params[1], [[1, 1], [1, 1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(params[2], np.full((2, 2), 0.5))


# -- bounds ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [1.0, 2.0, np.inf])
def test_clipping_is_that_of_the_dense_gradient(order: float) -> None:
    norms, clipped = [], []
    for sparse in (True, False):
        layer = table(sparse=sparse)
        loss_of(layer).backward()
        norms.append(optim.clip_grad_norm_(layer.parameters(), 0.5, norm_type=order))
        optim.clip_grad_value_(layer.parameters(), 0.1)
        g = layer.weight.grad
        assert g is not None
        clipped.append(g.to_dense().data if isinstance(g, SparseGrad) else g.data)
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    np.testing.assert_allclose(*clipped, rtol=1e-5)


@pytest.mark.parametrize("bound", [0.5, 1e6])
def test_the_scale_of_a_step_is_clipping_without_a_pass(bound: float) -> None:
    layers = [table(sparse=True) for _ in range(2)]
    for layer in layers:
        loss_of(layer).backward()
    norm, scale = optim.clip_scale(layers[0].parameters(), bound)
    optim.Adam(layers[0]).step(scale=scale)
    assert norm == optim.clip_grad_norm_(layers[1].parameters(), bound)
    optim.Adam(layers[1]).step()
    np.testing.assert_allclose(layers[0].weight.data, layers[1].weight.data, rtol=1e-6)


# -- programs ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tied", [False, True])
def test_a_compiled_step_gives_the_same_gradients(tied: bool) -> None:
    layer = table(sparse=True)

    def step(index: Tensor) -> Tensor:
        y = layer(index)
        first = (layer(index[:1]) * y).sum()
        return first + (layer.weight * layer.weight).sum() if tied else first

    compiled, index = CompiledStep(step, layer), pdl.tensor(INDEX)
    for shift in (0, 1):
        compiled(index - shift * (INDEX > 0))
        found = layer.weight.grad
        compiled.eager(index - shift * (INDEX > 0))
        want = layer.weight.grad
        assert type(found) is type(want) is (Tensor if tied else SparseGrad)
        a, b = (g.to_dense() if isinstance(g, SparseGrad) else g for g in (found, want))
        assert a is not None
        assert b is not None
        np.testing.assert_array_equal(a.data, b.data)
    assert compiled.hits == 1
    assert compiled.stopped is None


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("columns", [1, 16, 37])
def test_one_sum_for_each_row(momentum: float, sparse: bool, columns: int) -> None:
    p = nn.Parameter(RNG.standard_normal((5, columns)), dtype="float64")
    optimizer = optim.Adagrad([p], lr=0.1, rowwise=True, momentum=momentum, eps=0.01, eps_under_root=True)
    want, sums, velocity = p.data.copy(), np.zeros(5), np.zeros((5, columns))
    for rows in ([0, 3], [3, 4], [1, 3]):
        g = np.zeros((5, columns))
        g[rows] = RNG.standard_normal((2, columns))
        p.grad = SparseGrad(p.shape, pdl.tensor(np.array(rows)), pdl.tensor(g[rows])) if sparse else pdl.tensor(g)
        optimizer.step()
        here = rows if sparse else slice(None)
        sums += (g**2).mean(1)
        step = 0.1 * g / np.sqrt(sums + 0.01)[:, None]
        velocity[here] = momentum * velocity[here] - step[here]
        want[here] += velocity[here]
    np.testing.assert_allclose(p.data, want, rtol=1e-12)
    assert optimizer.state["0"]["sum"].shape == (5,)
    other = optim.Adagrad([p], rowwise=True)
    other.load_state_dict(optimizer.state_dict())
    np.testing.assert_array_equal(other.state["0"]["sum"], optimizer.state["0"]["sum"])


def test_a_step_touches_the_rows_in_use_alone() -> None:
    rows = 1 << 22
    p = nn.Parameter(pdl.zeros((rows, 2)))
    optimizer = optim.Adagrad([p], lr=0.1, momentum=0.5)
    p.grad = SparseGrad((rows, 2), pdl.tensor(np.array([7, rows - 1])), pdl.ones((2, 2)))
    norm, scale = optim.clip_scale([p], 1.0)
    assert norm == 2.0
    optimizer.step(scale=scale)
    np.testing.assert_allclose(p.data[[7, rows - 1]], -0.1, rtol=1e-5)
    assert not p.data[8 : rows - 1].any()

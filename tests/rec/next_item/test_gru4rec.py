"""GRU4Rec against its equations in NumPy, item by item, and the places where implementations of it go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError, UsageError
from pdl.program import CompiledStep
from pdl_rec import GRU4Rec

ITEMS = 9
KINDS: dict[str, dict[str, Any]] = {
    "shared": {"layers": [6]},
    "separate": {"layers": [6], "embedding": "separate", "embedding_size": 4},
    "none": {"layers": [6], "embedding": "none"},
    "two layers": {"layers": [5, 6]},
    "projected": {"layers": [6], "embedding_size": 4, "bias": False},
    "none, two layers": {"layers": [4, 6], "embedding": "none"},
}
SESSIONS = np.array([[3, 1, 4, 1], [5, 9, 0, 0], [2, 6, 5, 0]])


def made(name: str = "shared", **changes: Any) -> Any:
    with pdl.random.fork_seed(1):
        model = GRU4Rec(num_items=ITEMS, **{**KINDS[name], **changes})
    rng = np.random.default_rng(0)
    for parameter_name, p in model.named_parameters():
        if "bias" in parameter_name:  # they begin at 0, which would hide a mistake
            p.data[...] = rng.standard_normal(p.shape) * 0.3
    return model


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def stated(model: Any, items: list[int], states: list[np.ndarray] | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
    """Scores after each of `items` [T, n + 1], and the states of all layers, by the equations."""
    weights = {name: p.data.astype(np.float64) for name, p in model.named_parameters()}
    hidden = [np.zeros(width) for width in model.widths] if states is None else states
    scores = []
    for item in items:
        x = weights["outputs" if model.embedding == "shared" else "inputs"][item]
        for layer, width in enumerate(model.widths):
            own = {key: weights.get(f"cells.{layer}.{key}") for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
            i = (x if own["weight_ih"] is None else x @ own["weight_ih"]) + own["bias_ih"]
            h = hidden[layer] @ own["weight_hh"] + own["bias_hh"]
            (ir, iz, i_new), (hr, hz, h_new) = np.split(i, 3), np.split(h, 3)
            r, z = sigmoid(ir + hr), sigmoid(iz + hz)
            x = hidden[layer] = (1 - z) * np.tanh(i_new + r * h_new) + z * hidden[layer]
            assert x.shape == (width,)
        top = x if model.project is None else x @ weights["project.weight"]
        bias = weights["bias"][:, 0] if model.bias is not None else 0.0
        scores.append(weights["outputs"] @ top + bias)
    return np.array(scores), hidden


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_those_of_the_equations(name: str) -> None:
    model = made(name).eval()
    steps = model.encode_steps(pdl.Tensor(SESSIONS))
    table, bias = model.item_table()
    scores = model(pdl.Tensor(SESSIONS)).data
    for row, session in enumerate(SESSIONS):
        items = session[session > 0].tolist()
        expected, _ = stated(model, items)
        np.testing.assert_allclose(scores[row], expected[-1], atol=2e-6)
        found = steps.data[row, : len(items)] @ table.data.T + (0 if bias is None else bias.data)
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_states_are_carried_on_and_forgotten_where_a_session_begins(name: str, compiled: bool) -> None:
    model = made(name, slots=2)
    batches = [([3, 5], [True, True]), ([1, 9], [False, False]), ([2, 4], [True, False]), ([6, 0], [False, False])]
    begun: list[Any] = [None, None]

    def loss(items: Any, reset: Any) -> pdl.Tensor:
        return pdl.sum(model.advance(pdl.as_tensor(items), pdl.as_tensor(reset)))

    run: Any = CompiledStep(loss, model) if compiled else loss
    for items, reset in batches:
        value = run(np.array(items), np.array(reset)).item()
        total = 0.0
        for slot in range(2):
            scores, begun[slot] = stated(model, [items[slot]], None if reset[slot] else begun[slot])
            table, bias = model.item_table()
            vector = np.linalg.lstsq(
                table.data.astype(float), scores[0] - (0 if bias is None else bias.data), rcond=None
            )[0]
            total += vector.sum()
        np.testing.assert_allclose(value, total, atol=1e-4)
    for layer in range(len(model.widths)):
        held = getattr(model, f"state{layer}").data
        np.testing.assert_allclose(held, [begun[0][layer], begun[1][layer]], atol=2e-6)
    if compiled:
        assert run.stopped is None
        assert run.misses == 1


def test_dropout_leaves_the_carried_state_whole() -> None:
    model = made("two layers", slots=2, dropout_hidden=0.9)
    model.train()
    model.advance(pdl.Tensor(np.array([3, 5])), pdl.Tensor(np.array([True, True])))
    _, states = stated(model, [3])
    np.testing.assert_allclose(model.state0.data[0], states[0], atol=2e-6)


def test_dropout_of_the_embedding_is_on_the_way_in_alone() -> None:
    model = made(dropout_embed=0.5)
    model.train()
    items = pdl.Tensor(np.arange(1, ITEMS + 1))
    looked, whole = model.look(items).data, model.outputs.data[1:]
    kept = looked != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(looked[kept], 2 * whole[kept], rtol=1e-6)
    np.testing.assert_array_equal(model.item_rows(items)[0].data, whole)


@pytest.mark.parametrize("name", KINDS)
def test_initial_values(name: str) -> None:
    with pdl.random.fork_seed(1):
        model = GRU4Rec(num_items=ITEMS, **KINDS[name])
    assert not model.outputs.data[0].any()
    assert model.inputs is None or not model.inputs.data[0].any()
    assert model.bias is None or not model.bias.data.any()
    for layer, width in enumerate(model.widths):
        cell: Any = model.cells[layer]
        for weight in (cell.weight_ih, cell.weight_hh):
            if weight is not None:
                bound = np.sqrt(6 / (weight.shape[0] + width))  # of each gate on its own, not of all three
                assert 0.8 * bound < np.abs(weight.data).max() <= bound
        assert not cell.bias_ih.data.any()
        assert not cell.bias_hh.data.any()


@pytest.mark.parametrize("sparse", [False, True])
def test_tables_get_gradients_of_rows_for_sampled_losses(sparse: bool) -> None:
    model = made("separate", sparse=sparse)
    sessions = model.encode(pdl.Tensor(SESSIONS))
    rows, bias = model.item_rows(pdl.Tensor(np.array([2, 7])))
    pdl.sum(pdl.matmul(sessions, pdl.matrix_transpose(rows)) + bias).backward()
    for table, used in ((model.outputs, {2, 7}), (model.bias, {2, 7}), (model.inputs, set(SESSIONS.flat) - {0})):
        assert hasattr(table.grad, "to_dense") == sparse
        dense = table.grad.to_dense().data if sparse else table.grad.data
        assert set(np.flatnonzero(np.abs(dense).sum(axis=1))) == used


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_items"):
        GRU4Rec([8])
    with pytest.raises(UsageError, match="slots=3"):
        made(slots=3).advance(pdl.Tensor(np.array([1, 2])), pdl.Tensor(np.array([True, True])))

"""Models of sessions: their papers' numbers, and what must hold for each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.errors import ConfigError, ShapeError, UsageError
from pdl.export.onnx import to_onnx
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.program import CompiledStep, trace
from pdl.program.executor import Executable
from pdl.program.passes import INFERENCE_ONCE, run_passes
from pdl_rec import NARM, SRGNN, SSR, SASRec
from pdl_rec.models.base import SequenceModel
from tests.rec.models import restated

ITEMS, WIDTH = 9, 6
FIELDS = {"genre": (4, 3), "year": (5, 1), "price": (0, 2)}
MODELS: dict[str, Callable[..., SequenceModel]] = {
    "sr_gnn": lambda **more: SRGNN(WIDTH, num_items=ITEMS, **more),
    "sr_gnn_2": lambda **more: SRGNN(WIDTH, steps=2, num_items=ITEMS, **more),
    "narm": lambda **more: NARM(WIDTH, hidden=5, num_items=ITEMS, **more),
    "ssr": lambda **more: SSR(WIDTH, hidden=5, num_items=ITEMS, **{"fields": FIELDS, **more}),
    "sasrec": lambda **more: SASRec(WIDTH, heads=2, max_length=50, num_items=ITEMS, **more),
}
RESTATED: dict[str, Callable[[Any, list[int]], Any]] = {
    "sr_gnn": lambda w, s: restated.sr_gnn(w, s, 1),
    "sr_gnn_2": lambda w, s: restated.sr_gnn(w, s, 2),
    "narm": restated.narm,
    "ssr": lambda w, s: restated.ssr(w, s, columns(ITEMS), 16.0),
    "sasrec": lambda w, s: restated.sasrec(w, s, 2, 2),
}
LEFT_TO_RIGHT = ("narm", "sasrec", "ssr")
TIED = ("sr_gnn", "narm", "sasrec")
SESSIONS = [[3], [1, 2, 3, 2, 4], [5, 5, 5], [7, 8, 7, 8, 7, 9], [2, 1]]
session = st.lists(st.integers(1, ITEMS), min_size=1, max_size=8)


def made(name: str, **more: Any) -> SequenceModel:
    """The model in evaluation mode, with weights far from their small beginnings."""
    pdl.seed(3)
    model = MODELS[name](**more)
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    if isinstance(model, SSR):
        model.describe(columns(ITEMS))
        for table in model.tower.children():
            if isinstance(table, nn.Embedding):
                table.weight.data[0] = 0
    return model.eval()


def columns(items: int) -> dict[str, Any]:
    """What is known of items: row i that of item i."""
    rng = np.random.default_rng(0)
    made = {
        name: rng.integers(0, n + 1, (items + 1, places)) if n else rng.standard_normal((items + 1, places), np.float32)
        for name, (n, places) in FIELDS.items()
    }
    for column in made.values():
        column[0] = 0
    return made


def padded(sessions: list[list[int]], behind: int = 0) -> pdl.Tensor:
    steps = max(map(len, sessions)) + behind
    return pdl.tensor(np.array([s + [0] * (steps - len(s)) for s in sessions], np.int64))


def weights(model: SequenceModel) -> dict[str, Any]:
    return {name: p.data.astype(np.float64) for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", MODELS)
def test_the_paper_s_formulas(name: str) -> None:
    model = made(name)
    expected = np.stack([RESTATED[name](weights(model), s) for s in SESSIONS])
    np.testing.assert_allclose(model.encode(padded(SESSIONS)).data, expected, rtol=2e-4, atol=2e-5)
    table = model.item_table()[0].data
    np.testing.assert_allclose(model(padded(SESSIONS)).data, expected @ table.T, rtol=2e-4, atol=1e-4)
    some = pdl.tensor(np.array([3, 1, 3]))
    np.testing.assert_allclose(model.item_rows(some)[0].data, table[[3, 1, 3]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=15)
@given(sessions=st.lists(session, min_size=2, max_size=5), behind=st.integers(0, 3))
def test_neither_padding_nor_the_batch_matters(name: str, sessions: list[list[int]], behind: int) -> None:
    model = made(name)
    together = model.encode(padded(sessions, behind)).data
    for one, s in zip(together, sessions, strict=True):
        np.testing.assert_allclose(one, model.encode(padded([s])).data[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEFT_TO_RIGHT)
@settings(max_examples=15)
@given(sessions=st.lists(session, min_size=1, max_size=4))
def test_each_step_is_the_session_so_far(name: str, sessions: list[list[int]]) -> None:
    model = made(name)
    steps = model.encode_steps(padded(sessions)).data
    for found, s in zip(steps, sessions, strict=True):
        for t in range(len(s)):
            np.testing.assert_allclose(found[t], model.encode(padded([s[: t + 1]])).data[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TIED)
def test_cosine_scores(name: str) -> None:
    model = made(name, cosine=16.0)
    session, (table, bias) = model.encode(padded(SESSIONS)).data, model.item_table()
    assert bias is None
    np.testing.assert_allclose(np.linalg.norm(session, axis=1), 16, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(table.data, axis=1), 1, rtol=1e-4)
    longer = model.items.weight.data  # type: ignore[attr-defined]
    before = model(padded(SESSIONS)).data
    longer *= np.linspace(1, 3, len(longer), dtype=np.float32)[:, None]
    np.testing.assert_allclose(model(padded(SESSIONS)).data, before, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", TIED)
def test_unknown_items_have_no_vector(name: str) -> None:
    """The loss moves row 0, a class that is never right; sessions must not see it."""
    model = made(name)
    items = padded([[3, 0, 4], [0, 2, 0], [0, 0, 0]])
    before = model.encode(items).data
    model.items.weight.data[0] = 100  # type: ignore[attr-defined]
    np.testing.assert_array_equal(model.encode(items).data, before)
    assert np.isfinite(before).all()


@pytest.mark.parametrize("name", TIED)
def test_padding_of_length_0_stays_finite_in_a_bundle(name: str) -> None:
    """Row 0 may be zeros: at length 1 it stays so, also in the optimised program."""
    model = made(name, cosine=16.0)
    model.items.weight.data[0] = 0  # type: ignore[attr-defined]
    items = padded([[3], [1, 2, 3]])
    program = run_passes(trace(model, Spec(items.shape, pdl.int64)), INFERENCE_ONCE)
    found = Executable(program)(items.data)[0]
    assert found is not None
    np.testing.assert_allclose(found, model(items).data, rtol=1e-4, atol=1e-4)


def test_parameter_counts() -> None:
    n, c, h, m = 7, 8, 6, 12
    counts = {
        SRGNN(c, num_items=n): (n + 1) * c + 15 * c * c + 4 * c,
        NARM(c, hidden=h, num_items=n): (n + 1) * c + 3 * h * (c + h + 2) + 2 * h * h + h + 2 * h * c,
        SSR(c, hidden=h, fields=FIELDS, num_items=n): (n + 1) * h
        + 11 * h
        + (3 * h + 2 + 1) * h
        + (h + 1) * c
        + 3 * h * (c + h + 2)
        + (h + 1) * c,
        SASRec(c, blocks=3, max_length=m, num_items=n): (n + 1 + m) * c + 3 * (6 * c * c + 10 * c) + 2 * c,
    }
    for model, expected in counts.items():
        assert sum(p.size for p in model.parameters()) == expected, type(model).__name__


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_weight(name: str) -> None:
    model = made(name).train()
    loss = pdl.cross_entropy(model(padded(SESSIONS)), pdl.tensor(np.array([1, 2, 3, 4, 5])))
    loss.backward()
    for path, p in model.named_parameters():
        assert p.grad is not None, path
        assert np.abs(p.grad.data).max() > 0, path


@pytest.mark.parametrize("name", MODELS)
def test_the_compiled_step_is_the_eager_one(name: str) -> None:
    model, items, targets = made(name), padded(SESSIONS), pdl.tensor(np.array([1, 2, 3, 4, 5]))
    messages: list[str] = []
    step = CompiledStep(lambda x, y: pdl.cross_entropy(model(x), y), model, notify=messages.append)
    found = []
    for run in (step, step.eager):
        loss = float(run(items, targets).data)
        found.append([loss, *(p.grad.data.copy() for p in model.parameters() if p.grad is not None)])
    assert not messages
    for compiled, eager in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_one_file_for_all_sizes(name: str, tmp_path: Path) -> None:
    """Batch and length stay symbolic, and ONNX Runtime finds the same scores."""
    spec = Spec((Dim.symbol("n", 3), Dim.symbol("t", 5)), pdl.int64)
    program, fixed = trace_symbolic(made(name), {"items": spec})
    assert fixed == []
    pytest.importorskip("onnxruntime")
    samples = [[padded(SESSIONS).data], [padded([[3]]).data]]
    difference = to_onnx(program, tmp_path / "net.onnx", samples=samples).difference
    assert difference is not None
    assert difference < 1e-5


def test_too_many_heads_or_clicks() -> None:
    with pytest.raises(ConfigError, match="heads=4 must divide width=6"):
        SASRec(6, heads=4, num_items=3)
    with pytest.raises(ShapeError):
        made("sasrec").encode(padded([[1] * 51]))
    with pytest.raises(ConfigError, match="SRGNN needs num_items"):
        SRGNN()


def test_new_items_get_vectors_by_their_fields() -> None:
    """An item like another but without a vector of its own scores as that one would without its own."""
    model = made("ssr")
    assert isinstance(model, SSR)
    assert model.tower.own is not None
    like = {name: column[4:6] for name, column in columns(ITEMS).items()}
    found = model.vectors(like).data
    assert np.abs(found - model.item_table()[0].data[4:6]).max() > 0.01
    model.tower.own.weight.data[4:6] = 0
    np.testing.assert_allclose(found, model.item_table()[0].data[4:6], rtol=1e-5, atol=1e-6)


def test_fields_go_with_the_weights() -> None:
    model, other = made("ssr"), SSR(WIDTH, hidden=5, num_items=ITEMS, fields=FIELDS)
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(other.eval()(padded(SESSIONS)).data, model(padded(SESSIONS)).data)


def test_fields_that_do_not_fit() -> None:
    model = made("ssr")
    assert isinstance(model, SSR)
    good = columns(ITEMS)
    for bad, words in (
        ({"genre": good["genre"]}, "built with the field 'year'"),
        ({**good, "year": good["year"][1:]}, r"shape \(9, 1\), the model has \(10, 1\)"),
        ({**good, "year": good["year"] + 5}, r"numbers 5\.\.10, its names 1\.\.5"),
    ):
        with pytest.raises(UsageError, match=words):
            model.describe(bad)
    with pytest.raises(ConfigError, match="nothing to know items by"):
        SSR(ids=False, num_items=3)

"""Models of matching against their formulas in NumPy; counts of parameters; eager against compiled steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError, UsageError
from pdl.nn import Embedding
from pdl.program import CompiledStep
from pdl_rec.models import BPRMF, DSSM, NCF, MatchingModel, SimNet, TagSpace, TwoTower, YouTubeDNN
from pdl_rec.models.matching import mean_rows

USERS, ITEMS, WORDS = 5, 7, 11
FIELDS = {"user_fields": {"age": (4, 1), "says": (WORDS, 3)}, "item_fields": {"title": (WORDS, 4), "kind": (3, 2)}}

MODELS: dict[str, Callable[[], MatchingModel]] = {
    "bpr_mf": lambda: BPRMF(USERS, ITEMS, dim=4, std=0.5),
    "bpr_mf with bias": lambda: BPRMF(USERS, ITEMS, dim=4, bias=True, std=0.5),
    "gmf": lambda: NCF(USERS, ITEMS, variant="gmf", dim=4, std=0.5),
    "mlp": lambda: NCF(USERS, ITEMS, variant="mlp", layers=(6, 3), std=0.5),
    "neumf": lambda: NCF(USERS, ITEMS, variant="neumf", dim=4, layers=(6, 3), std=0.5),
    "youtube_dnn": lambda: YouTubeDNN(
        ITEMS, dim=4, layers=(6,), user_fields=FIELDS["user_fields"], field_dim=2, example_age=True, std=0.5
    ),
    "dssm": lambda: DSSM(ITEMS, **FIELDS, history=True, identity=True, word_dim=3, layers=(6,), dim=4),
    "simnet bow": lambda: SimNet(ITEMS, **FIELDS, word_dim=3, hidden=4, dim=4),
    "simnet cnn": lambda: SimNet(ITEMS, **FIELDS, encoder="cnn", word_dim=3, hidden=4, dim=4),
    "simnet gru": lambda: SimNet(ITEMS, **FIELDS, encoder="gru", history=True, word_dim=3, hidden=4, dim=4),
    "tagspace": lambda: TagSpace(ITEMS, user_fields={"says": (WORDS, 3)}, word_dim=3, hidden=6, dim=4),
}
PARAMETERS = {
    "bpr_mf": 6 * 4 + 8 * 4,
    "bpr_mf with bias": 6 * 4 + 8 * 5,
    "gmf": (6 + 8) * 4 + 4,
    "mlp": (6 + 8) * 3 + (6 * 6 + 6) + (6 * 3 + 3) + 3,
    "neumf": (6 + 8) * 4 + (6 + 8) * 3 + (6 * 6 + 6) + (6 * 3 + 3) + 4 + 3,
    "youtube_dnn": 2 * 8 * 4 + (4 + WORDS) * 2 + (4 + 4 + 1) * 6 + 6 + 6 * 4 + 4,
    "dssm": (4 + WORDS + 8 + WORDS + 3 + 8) * 3 + 2 * (9 * 6 + 6 + 6 * 4 + 4),
    "simnet bow": (4 + WORDS + WORDS + 3) * 4 + 2 * (8 * 4 + 4),
    "simnet cnn": (4 + WORDS + WORDS + 3) * 3 + 4 * (3 * 3 * 4 + 4) + 2 * (8 * 4 + 4),
    "simnet gru": (4 + WORDS + 8 + WORDS + 3) * 3 + 5 * 12 * (3 + 4 + 2) + (12 * 4 + 4) + (8 * 4 + 4),
    "tagspace": WORDS * 3 + 3 * 3 * 6 + 6 + 6 * 4 + 4 + 8 * 4,
}


def made(name: str) -> MatchingModel:
    with pdl.random.fork_seed(0):
        model = MODELS[name]()
    if isinstance(model, DSSM | SimNet):
        rng = np.random.default_rng(1)
        model.fill({n: _bags(rng, ITEMS + 1, *shape) for n, shape in model.item_fields.items()})
    return model


def _bags(rng: np.random.Generator, n: int, rows: int, width: int) -> np.ndarray:
    """Words at the front, zeros behind; at least one word."""
    words = rng.integers(1, rows, (n, width))
    words[np.arange(width) >= rng.integers(1, width + 1, (n, 1))] = 0
    return words


def query(model: MatchingModel, n: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    known = {
        "user": rng.integers(1, USERS + 1, n),
        "history": _bags(rng, n, ITEMS + 1, 5),
        "example_age": rng.random((n, 1), np.float32),
        **{name: _bags(rng, n, *shape) for name, shape in model.user_fields.items()},
    }
    return {name: pdl.as_tensor(known[name]) for name in model.inputs}


def numpy_of(x: Any) -> np.ndarray:
    return np.asarray(x.detach().data, np.float64)


def bag(table: Embedding, words: np.ndarray) -> np.ndarray:
    rows = numpy_of(table.weight)
    return np.stack([rows[each[each > 0]].mean(axis=0) if (each > 0).any() else rows[0] * 0 for each in words])


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ numpy_of(layer.weight) + (0 if layer.bias is None else numpy_of(layer.bias))


def unit_rows(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def convolved(layer: Any, words: np.ndarray, table: Embedding) -> np.ndarray:
    """tanh of the convolution over words, and its maximum over places."""
    x = numpy_of(table.weight)[words]
    w = numpy_of(layer.weight)
    padded = np.pad(x, ((0, 0), (len(w) // 2, len(w) // 2), (0, 0)))
    y = sum(padded[:, k : k + x.shape[1]] @ w[k] for k in range(len(w))) + numpy_of(layer.bias)
    return np.tanh(y).max(axis=1)


def by_hand_mf(m: Any, q: Mapping[str, np.ndarray]) -> np.ndarray:
    scores = numpy_of(m.users.weight)[q["user"]] @ numpy_of(m.items.weight).T
    return scores if m.bias is None else scores + numpy_of(m.bias.weight)[:, 0]


def by_hand_ncf(m: Any, q: Mapping[str, np.ndarray]) -> np.ndarray:
    parts = []
    if m.product is not None:
        parts.append(numpy_of(m.product.users.weight)[q["user"]][:, None] * numpy_of(m.product.items.weight))
    if m.perceptron is not None:
        p, n = m.perceptron, len(q["user"])
        u = np.repeat(numpy_of(p.users.weight)[q["user"]][:, None], ITEMS + 1, axis=1)
        x = np.concatenate([u, np.repeat(numpy_of(p.items.weight)[None], n, axis=0)], axis=-1)
        first = np.concatenate([numpy_of(p.of_users.weight), numpy_of(p.of_items.weight)])
        x = np.maximum(x @ first + numpy_of(p.of_items.bias), 0)
        for layer in p.layers:
            x = np.maximum(dense(layer, x), 0)
        parts.append(x)
    return dense(m.out, np.concatenate(parts, axis=-1))[..., 0]


def by_hand_youtube(m: Any, q: Mapping[str, np.ndarray]) -> np.ndarray:
    fields = [bag(m.bags.tables[name], q[name]) for name in m.user_fields]
    x = np.concatenate([bag(m.history, q["history"]), *fields, q["example_age"]], axis=1)
    for layer in m.layers:
        x = np.maximum(dense(layer, x), 0)
    return dense(m.last, x) @ numpy_of(m.items.weight).T


def by_hand_dssm(m: Any, q: Mapping[str, np.ndarray]) -> np.ndarray:
    def tower(t: Any, values: Mapping[str, np.ndarray]) -> np.ndarray:
        x = np.concatenate([bag(t.bags.tables[name], values[name]) for name in t.bags.names], axis=1)
        for layer in t.layers:
            x = np.tanh(dense(layer, x))
        return unit_rows(x)

    items = {name: getattr(m.fields, f"of_{name}").data for name in m.item_fields}
    return 10 * tower(m.user_tower, q) @ tower(m.item_tower, {**items, "item": np.arange(ITEMS + 1)[:, None]}).T


def by_hand_simnet(m: Any, q: Mapping[str, np.ndarray]) -> np.ndarray:
    def view(v: Any, words: np.ndarray) -> np.ndarray:
        if v.encoder == "cnn":
            return convolved(v.conv, words, v.words)
        total = numpy_of(v.words.weight)[words].sum(axis=1)
        return total / (1 + np.abs(total))

    def side(s: Any, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return unit_rows(dense(s.layer, np.concatenate([view(s.views[n], values[n]) for n in s.names], axis=1)))

    items = {name: getattr(m.fields, f"of_{name}").data for name in m.item_fields}
    return side(m.user_tower, q) @ side(m.item_tower, items).T


def by_hand_tagspace(m: Any, q: Mapping[str, np.ndarray]) -> np.ndarray:
    return dense(m.layer, np.tanh(convolved(m.conv, q["says"], m.words))) @ numpy_of(m.tags.weight).T


BY_HAND = {
    **dict.fromkeys(("bpr_mf", "bpr_mf with bias"), by_hand_mf),
    **dict.fromkeys(("gmf", "mlp", "neumf"), by_hand_ncf),
    **dict.fromkeys(("simnet bow", "simnet cnn"), by_hand_simnet),
    "youtube_dnn": by_hand_youtube,
    "dssm": by_hand_dssm,
    "tagspace": by_hand_tagspace,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_scores_as_its_formula_says(name: str) -> None:
    model = made(name)
    requested = query(model)
    scores = numpy_of(model(requested))
    if name != "simnet gru":  # its gates: tests/framework/nn/test_layers.py
        by_hand = BY_HAND[name](model, {key: x.data for key, x in requested.items()})
        np.testing.assert_allclose(scores, by_hand, rtol=1e-4, atol=1e-5)
    assert np.ptp(scores[:, 1:], axis=1).min() > 1e-4  # the formula is not one of zeros
    items = np.array([[3, 1], [2, 2], [7, 5]])
    some = numpy_of(model.score(requested, pdl.as_tensor(items)))
    np.testing.assert_allclose(some, np.take_along_axis(scores, items, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_that_its_formula_counts(name: str) -> None:
    assert sum(p.size for p in made(name).parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["own", "shared", "batch"])
def test_comparing_is_scoring_whoever_the_others_are(name: str, kind: str) -> None:
    model = made(name)
    requested = query(model)
    fits = np.array([3, 2, 7])
    others = {"own": np.array([[1, 4], [5, 5], [6, 1]]), "shared": np.array([1, 6]), "batch": None}[kind]
    compared = model.compare(requested, pdl.as_tensor(fits), None if others is None else pdl.as_tensor(others))
    scores = numpy_of(model(requested))
    rest = np.broadcast_to(fits if others is None else others, (3, 3 if others is None else 2))
    np.testing.assert_allclose(numpy_of(compared.fitting), scores[np.arange(3), fits], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        numpy_of(compared.others), np.take_along_axis(scores, rest, axis=1), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_step_gives_the_gradients_of_an_eager_one(name: str) -> None:
    model = made(name)

    def loss(batch: Mapping[str, Any]) -> Any:
        compared = model.compare(batch["query"], pdl.as_tensor(batch["item"]), pdl.as_tensor(batch["others"]))
        return pdl.square(compared.others - pdl.expand_dims(compared.fitting, axis=1) + 1.0).mean()

    batch = {"query": query(model), "item": np.array([3, 2, 7]), "others": np.array([[1, 4], [5, 5], [6, 1]])}
    step = CompiledStep(loss, model)
    eager = step.eager(batch).item()
    expected = [None if p.grad is None else numpy_of(p.grad) for p in model.parameters()]
    compiled = step(batch).item()
    assert step.stopped is None
    assert compiled == pytest.approx(eager, rel=1e-5)
    for p, want in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(numpy_of(p.grad), want, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in MODELS if isinstance(MODELS[name](), TwoTower)])
def test_the_vectors_of_a_two_tower_model_give_its_scores(name: str) -> None:
    model: Any = made(name)
    requested = query(model)
    users, items = numpy_of(model.user_vectors(requested)), numpy_of(model.item_vectors())
    np.testing.assert_allclose(users @ items.T * model.scale, numpy_of(model(requested)), rtol=1e-4, atol=1e-5)
    assert items.shape[0] == ITEMS + 1


def test_words_behind_the_last_of_a_view_change_nothing() -> None:
    model: Any = made("simnet gru")
    requested = query(model)
    longer = {name: pdl.concat([x, pdl.zeros((3, 2), dtype=pdl.int64)], axis=1) for name, x in requested.items()}
    np.testing.assert_allclose(numpy_of(model(longer)), numpy_of(model(requested)), rtol=1e-5, atol=1e-6)


def test_an_empty_bag_is_zeros() -> None:
    table = Embedding(4, 2)
    found = numpy_of(mean_rows(table, pdl.as_tensor(np.array([[0, 0], [3, 0]]))))
    np.testing.assert_allclose(found, [[0, 0], numpy_of(table.weight)[3]], rtol=1e-6)


def test_what_a_model_cannot_read_is_told_in_full() -> None:
    with pytest.raises(ConfigError, match=r"TagSpace reads one field of words; task.user_fields names a, b"):
        TagSpace(3, user_fields={"a": (2, 2), "b": (2, 2)})
    with pytest.raises(ConfigError, match="DSSM needs something to read on both sides"):
        DSSM(3, user_fields={"a": (2, 2)})
    with pytest.raises(ConfigError, match="SimNet needs views on both sides"):
        SimNet(3, item_fields={"a": (2, 2)})
    with pytest.raises(UsageError, match=r"'title': shape \(8, 3\) is given; the model takes \(8, 4\)"):
        made("dssm").fill({"title": np.zeros((8, 3), np.int64), "kind": np.zeros((8, 2), np.int64)})

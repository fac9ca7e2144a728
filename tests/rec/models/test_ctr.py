"""The models of click-through rates against their formulas, written out in NumPy, and their numbers of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
import pdl_rec
from pdl.errors import ConfigError
from pdl_rec.models.fields import Schema

FIELDS: dict[str, Any] = {
    "tables": {"user": 7, "item": 9},
    "ids": {"user": ["user", 0], "item": ["item", 0], "seen": ["item", 3]},
    "numbers": ["age", "price"],
}
IDS = np.array([[1, 3, 4, 5, 0], [6, 0, 0, 0, 0], [2, 8, 1, 2, 3], [0, 1, 7, 0, 0]], np.int64)
NUMBERS = np.array([[0.5, -1.0], [0.0, 2.0], [1.5, 0.25], [-0.5, 1.0]], np.float32)
WIDTH, DIM = 5, 4  # fields, length of their vectors
SMALL: dict[str, dict[str, Any]] = {
    "LR": {},
    "FM": {"dim": DIM},
    "WideDeep": {"dim": DIM, "hidden": [6]},
    "DeepFM": {"dim": DIM, "hidden": [6, 5]},
    "DCNv2": {"dim": DIM, "hidden": [6]},
    "XDeepFM": {"dim": DIM, "hidden": [6], "maps": [4, 3]},
    "DIN": {"dim": DIM, "hidden": [6], "attention": [5]},
    "MMoE": {"dim": DIM, "experts": 3, "expert": [6], "tower": [5]},
    "PLE": {"dim": DIM, "expert": [6], "tower": [5]},
    "ESMM": {"dim": DIM, "hidden": [6]},
}


def made(name: str, **settings: Any) -> Any:
    """A model with weights away from their first values, so that no term is 0."""
    pdl.seed(1)
    model = getattr(pdl_rec, name)(fields=FIELDS, **{**SMALL[name], **settings})
    rng = np.random.default_rng(2)
    for p in model.parameters():
        p.data[...] = rng.normal(0, 0.5, p.shape)
    return model.eval()


def answer(model: Any) -> np.ndarray:
    return np.asarray(model(pdl.as_tensor(IDS), pdl.as_tensor(NUMBERS)).data)


def vectors(module: Any) -> np.ndarray:
    """[N, fields, dim]: user, item, the mean over seen, age, price."""
    table = module.table.weight.data
    found = []
    for ids, numbers in zip(IDS, NUMBERS, strict=True):
        seen = [table[7 + i] for i in ids[2:] if i]
        rows = [table[ids[0]], table[7 + ids[1]], np.mean(seen, axis=0) if seen else np.zeros(table.shape[1])]
        if module.numbers is not None:
            rows += [x * v for x, v in zip(numbers, module.numbers.data, strict=True)]
        found.append(rows)
    return np.array(found)


def perceptron(net: Any, x: np.ndarray) -> np.ndarray:
    layers = [layer for layer in net if type(layer).__name__ == "Linear"]
    acts = [type(layer).__name__ for layer in net]
    for number, layer in enumerate(layers):
        x = x @ layer.weight.data + (0 if layer.bias is None else layer.bias.data)
        if number < acts.count("ReLU"):
            x = np.maximum(x, 0)
    return x


def flat(model: Any) -> np.ndarray:
    """Names' vectors end to end, numbers behind them."""
    return np.concatenate([vectors(model.vectors).reshape(4, -1), NUMBERS], axis=1)


def first_order(model: Any) -> np.ndarray:
    return vectors(model.linear.vectors)[..., 0].sum(axis=1) + model.linear.bias.data


def pairs(v: np.ndarray) -> np.ndarray:
    return np.array([sum(row[i] @ row[j] for j in range(len(row)) for i in range(j)) for row in v])


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lr(m: Any) -> np.ndarray:
    return first_order(m)


def fm(m: Any) -> np.ndarray:
    return first_order(m) + pairs(vectors(m.vectors))


def wide_deep(m: Any) -> np.ndarray:
    return first_order(m) + perceptron(m.mlp, flat(m))[:, 0]


def deepfm(m: Any) -> np.ndarray:
    return fm(m) + perceptron(m.mlp, vectors(m.vectors).reshape(4, -1))[:, 0]


def crossed(m: Any, x0: np.ndarray) -> np.ndarray:
    x = x0
    for number, layer in enumerate(m.cross.full):
        low = x @ m.cross.down[number].weight.data if len(m.cross.down) else x
        x = x0 * (low @ layer.weight.data + layer.bias.data) + x
    return x


def dcn_v2(m: Any) -> np.ndarray:
    x0 = flat(m)
    if m.structure == "stacked":
        deep = perceptron(m.mlp, crossed(m, x0))
    else:
        deep = np.concatenate([crossed(m, x0), perceptron(m.mlp, x0)], axis=1)
    return perceptron([m.head], deep)[:, 0]


def xdeepfm(m: Any) -> np.ndarray:
    v = vectors(m.vectors)
    maps, sums = v, []
    for number, layer in enumerate(m.cin.layers):
        w = layer.weight.data.reshape(maps.shape[1], v.shape[1], -1)
        new = np.einsum("nid,njd,ijh->nhd", maps, v, w)
        half = m.cin.halves and number < len(m.cin.layers) - 1
        maps, kept = (new[:, : new.shape[1] // 2], new[:, new.shape[1] // 2 :]) if half else (new, new)
        sums.append(kept.sum(axis=2))
    deep = perceptron([m.out], np.concatenate(sums, axis=1)) + perceptron(m.mlp, v.reshape(4, -1))
    return first_order(m) + deep[:, 0]


def dice_net(net: Any, x: np.ndarray) -> np.ndarray:
    for layer in net:
        if type(layer).__name__ == "Dice":
            norm = layer.norm
            p = sigmoid((x - norm.running_mean.data) / np.sqrt(norm.running_var.data + norm.eps))
            x = x * (p + (1 - p) * layer.slope.data)
        else:
            x = x @ layer.weight.data + layer.bias.data
    return x


def din(m: Any) -> np.ndarray:
    v, table = vectors(m.vectors), m.vectors.table.weight.data
    for row, ids in enumerate(IDS):
        q, total = table[7 + ids[1]], np.zeros(DIM)
        for i in ids[2:]:
            if i:
                k = table[7 + i]
                total += dice_net(m.interest.score, np.concatenate([q, k, q - k, q * k])[None])[0, 0] * k
        v[row, 2] = total
    return dice_net(m.mlp, v.reshape(4, -1))[:, 0]


def mix(outputs: list[np.ndarray], gate: np.ndarray) -> np.ndarray:
    return sum(w[:, None] * out for w, out in zip(softmax(gate).T, outputs, strict=True))  # type: ignore[return-value]


def mmoe(m: Any) -> np.ndarray:
    x = flat(m)
    experts = [perceptron(e, x) for e in m.experts]
    logits = [perceptron(t, mix(experts, x @ g.weight.data)) for g, t in zip(m.gates, m.towers, strict=True)]
    return np.concatenate(logits, axis=1)


def ple(m: Any) -> np.ndarray:
    rows = [flat(m)] * 3
    for level in m.levels:
        shared = [perceptron(e, rows[2]) for e in level.shared]
        own = [[perceptron(e, rows[k]) for e in level.own[k]] for k in range(2)]
        new = [mix([*own[k], *shared], rows[k] @ level.gates[k].weight.data) for k in range(2)]
        if level.shared_gate is not None:
            new.append(mix([*own[0], *own[1], *shared], rows[2] @ level.shared_gate.weight.data))
        rows = new
    return np.concatenate([perceptron(t, row) for t, row in zip(m.towers, rows, strict=True)], axis=1)


def esmm(m: Any) -> np.ndarray:
    x = flat(m)
    click, convert = perceptron(m.click, x)[:, 0], perceptron(m.convert, x)[:, 0]
    p = sigmoid(click) * sigmoid(convert)
    return np.stack([click, np.log(p / (1 - p))], axis=1)


FORMULAS = {
    "LR": lr, "FM": fm, "WideDeep": wide_deep, "DeepFM": deepfm, "DCNv2": dcn_v2, "XDeepFM": xdeepfm, "DIN": din,
    "MMoE": mmoe, "PLE": ple, "ESMM": esmm,
}  # fmt: skip
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in FORMULAS),
    ("DCNv2", {"rank": 2}),
    ("DCNv2", {"structure": "parallel"}),
    ("XDeepFM", {"halves": False, "maps": [3, 3]}),
    ("PLE", {"levels": 1}),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_model_is_its_formula(name: str, settings: dict[str, Any]) -> None:
    model = made(name, **settings)
    np.testing.assert_allclose(answer(model), FORMULAS[name](model), rtol=2e-4, atol=2e-5)


ROWS, NAMED = 16, 3  # of both tables; fields with a table
FLAT = NAMED * DIM + 2
PARAMETERS = {
    "LR": ROWS + 2 + 1,
    "FM": (ROWS + 2) * (1 + DIM) + 1,
    "WideDeep": ROWS + 2 + 1 + ROWS * DIM + (FLAT + 1) * 6 + 7,
    "DeepFM": (ROWS + 2) * (1 + DIM) + 1 + (WIDTH * DIM + 1) * 6 + 7 * 5 + 6,
    "DCNv2": ROWS * DIM + 2 * (FLAT + 1) * FLAT + (FLAT + 1) * 6 + 7,
    "XDeepFM": (ROWS + 2) * (1 + DIM) + 1 + 5 * 5 * 4 + 2 * 5 * 3 + (2 + 3) + (WIDTH * DIM + 1) * 6 + 7,
    "DIN": (ROWS + 2) * DIM + (4 * DIM + 1) * 5 + 5 + 6 + (WIDTH * DIM + 1) * 6 + 6 + 7,
    "MMoE": ROWS * DIM + 3 * (FLAT + 1) * 6 + 2 * 3 * FLAT + 2 * (7 * 5 + 6),
    "PLE": ROWS * DIM + 6 * (FLAT + 1) * 6 + (4 + 4 + 6) * FLAT + 6 * 7 * 6 + (4 + 4) * 6 + 2 * (7 * 5 + 6),
    "ESMM": ROWS * DIM + 2 * ((FLAT + 1) * 6 + 7),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(name: str) -> None:
    assert sum(p.size for p in made(name).parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", FORMULAS)
def test_sparse_gradients_are_the_dense_ones(name: str) -> None:
    found = []
    for sparse in (False, True):
        model = made(name, sparse=sparse)
        model(pdl.as_tensor(IDS), pdl.as_tensor(NUMBERS)).square().sum().backward()
        grads = {n: p.grad for n, p in model.named_parameters()}
        assert any(isinstance(g, pdl.SparseGrad) for g in grads.values()) == sparse
        found.append({n: (g.to_dense() if isinstance(g, pdl.SparseGrad) else g).data for n, g in grads.items()})
    for name, dense in found[0].items():
        np.testing.assert_allclose(found[1][name], dense, rtol=1e-4, atol=1e-4)


def test_conversion_after_a_click_is_the_quotient() -> None:
    model = made("ESMM")
    click, both = sigmoid(answer(model)).T
    alone = sigmoid(model.conversion(pdl.as_tensor(IDS), pdl.as_tensor(NUMBERS)).data)
    np.testing.assert_allclose(alone, both / click, rtol=1e-4)


def test_logits_stay_finite_far_out() -> None:
    model = made("ESMM")
    for p in model.parameters():
        p.data[...] *= 30
    assert np.isfinite(answer(model)).all()


def test_part_of_the_fields() -> None:
    model = made("WideDeep", wide=["item", "price"], deep=["user", "age"])
    table = model.linear.vectors.table.weight.data[:, 0]
    wide = table[IDS[:, 1]] + NUMBERS[:, 1] * model.linear.vectors.numbers.data[0, 0] + model.linear.bias.data
    deep = np.concatenate([model.vectors.table.weight.data[IDS[:, 0]], NUMBERS[:, :1]], axis=1)
    np.testing.assert_allclose(answer(model), wide + perceptron(model.mlp, deep)[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("LR", {"fields": None}, "LR: fields is missing"),
        ("WideDeep", {"wide": ["colour"]}, "no field 'colour'; fields are user, item, seen, age, price"),
        ("XDeepFM", {"maps": [3, 3]}, "must be even"),
        ("DIN", {"attend": {}}, "no sequence shares its table"),
        ("DIN", {"attend": {"seen": "price"}}, "no field 'price' with a table"),
    ],
)
def test_faults_are_told(name: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        getattr(pdl_rec, name)(**{"fields": FIELDS, **SMALL[name], **settings})


def test_schema_is_plain_values_and_back() -> None:
    schema = Schema(**FIELDS)
    assert Schema(**schema.plain()) == schema
    assert (schema.width, schema.count, schema.rows) == (5, WIDTH, ROWS)
    assert schema.offsets().tolist() == [0, 7, 7, 7, 7]

"""Scores against the papers' formulas, spelled out in NumPy for (head, relation, tail)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError
from pdl_graph import ComplEx, DistMult, KnowledgeModel, RotatE, TransE

Array = np.ndarray[Any, Any]
E, R = 9, 3


def as_complex(v: Array) -> Array:
    half = len(v) // 2
    return v[:half] + 1j * v[half:]


def transe(model: Any, h: Array, r: Array, t: Array) -> float:
    u = h + r - t
    return float(model.margin - (np.abs(u).sum() if model.metric == "l1" else np.sqrt((u * u).sum())))


def distmult(model: Any, h: Array, r: Array, t: Array) -> float:
    return float((h * r * t).sum())


def complex_(model: Any, h: Array, r: Array, t: Array) -> float:
    return float((as_complex(h) * as_complex(r) * as_complex(t).conj()).sum().real)


def rotate(model: Any, h: Array, r: Array, t: Array) -> float:
    turn = np.exp(1j * r * math.pi / ((model.margin + 2) / (model.dim // 2)))
    return float(model.margin - np.abs(as_complex(h) * turn - as_complex(t)).sum())


MODELS: list[tuple[Any, dict[str, Any], Callable[..., float]]] = [
    (TransE, {"metric": "l1"}, transe),
    (TransE, {"metric": "l2"}, transe),
    (DistMult, {}, distmult),
    (ComplEx, {}, complex_),
    (RotatE, {}, rotate),
]


def made(kind: Any, **options: Any) -> KnowledgeModel:
    pdl.seed(0)
    model: KnowledgeModel = kind(E, R, dim=6, **options)
    model.entities.weight.data[...] = np.random.default_rng(1).standard_normal((E + 1, 6)) * 0.5
    return model


def queries(*columns: list[int]) -> tuple[pdl.Tensor, ...]:
    return tuple(pdl.as_tensor(np.array(column, np.int64)) for column in columns)


@pytest.mark.parametrize(("kind", "options", "formula"), MODELS, ids=lambda m: getattr(m, "__name__", ""))
def test_scores_are_the_papers(kind: Any, options: dict[str, Any], formula: Callable[..., float]) -> None:
    model = made(kind, **options)
    entity, relation = model.entities.weight.data.astype(np.float64), model.relations.weight.data.astype(np.float64)
    scores = model(*queries([2, 5, 7, 5], [1, 3, 2, 3], [0, 0, 1, 1])).data
    for row, (e, r, inverse) in enumerate([(2, 1, 0), (5, 3, 0), (7, 2, 1), (5, 3, 1)]):
        for other in range(1, E + 1):
            head, tail = (other, e) if inverse else (e, other)
            expected = formula(model, entity[head], relation[r], entity[tail])
            assert scores[row, other] == pytest.approx(expected, rel=1e-5, abs=1e-5)
    query = model.query(*model.vectors(queries([2, 7], [1, 2], [0, 1])))  # type: ignore[arg-type]
    own = model.score(query, model.entities(*queries([4, 8]))).data
    np.testing.assert_allclose(own, scores[[0, 2], [4, 8]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "options", "formula"), MODELS, ids=lambda m: getattr(m, "__name__", ""))
def test_reciprocal_relations_have_vectors_of_their_own(
    kind: Any, options: dict[str, Any], formula: Callable[..., float]
) -> None:
    model = made(kind, reciprocal=True, **options)
    entity, relation = model.entities.weight.data, model.relations.weight.data
    assert len(relation) == 2 * R + 1
    scores = model(*queries([5, 5, 5], [2, 2, 0], [0, 1, 1])).data
    for row, r in ((0, 2), (1, R + 2)):
        expected = [formula(model, entity[5], relation[r], entity[t]) for t in range(1, E + 1)]
        np.testing.assert_allclose(scores[row, 1:], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "options", "formula"), MODELS, ids=lambda m: getattr(m, "__name__", ""))
def test_gradients_are_finite_differences(kind: Any, options: dict[str, Any], formula: Callable[..., float]) -> None:
    """Of own and among, in float64, through the query."""
    model = made(kind, sparse=False, **options)
    rng = np.random.default_rng(2)
    vectors = [rng.standard_normal(shape) for shape in ((4, 6), (4, model.relations.weight.shape[1]), (3, 6), (4, 6))]

    def value(entity: pdl.Tensor, relation: pdl.Tensor, others: pdl.Tensor, answer: pdl.Tensor) -> pdl.Tensor:
        query = model.query(entity, relation)
        sizes = sum(model.moduli(v).sum() for v in (entity, relation, answer))
        return (
            pdl.sin(model.score_all(query, others)).sum() + pdl.sin(model.score(query, answer)).sum() + pdl.sin(sizes)
        )

    tensors = [pdl.tensor(v, requires_grad=True) for v in vectors]
    value(*tensors).backward()
    for number, tensor in enumerate(tensors):
        gradient = tensor.grad
        assert gradient is not None
        for at in [(0, 0), (2, 1), (1, 2)]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() for v in vectors]
                moved[number][at] += step
                ends.append(float(value(*(pdl.tensor(v) for v in moved)).data))
            assert gradient.data[at] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_what_a_model_needs_is_told() -> None:
    with pytest.raises(ConfigError, match="RotatE needs num_entities and num_relations"):
        RotatE()
    with pytest.raises(ConfigError, match=r"model.dim=5: ComplEx has complex vectors"):
        ComplEx(E, R, dim=5)

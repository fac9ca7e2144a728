"""Attributes beyond their ranges, shapes and values that do not fit them: pdl's own errors, before any kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import NumericalError, PdlError, ShapeError, UsageError
from pdl.ops.attributes import kinds
from pdl.ops.base import OPS, Op, Spec, apply, not_differentiable
from pdl.ops.conv import Conv
from pdl.ops.pool import MaxPool
from tests.fuzzing import said_by

HIGH = 2**63 - 1


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_whole_number_has_a_range(name: str) -> None:
    for attribute, kind in kinds(OPS[name]).items():
        unbounded = kind.text.replace("a whole number from", "").replace("a whole number >=", "")
        assert "a whole number" not in unbounded, f"{attribute}: {kind.text}; see pdl.ops.attributes"


def test_attributes_of_all_ops_beyond_their_ranges() -> None:
    assert said_by("tests.framework.ops.hostile", "ranges") == {}


def test_bundles_that_led_kernels_astray() -> None:
    found = said_by("tests.framework.runtime.hostile")
    assert found["crashed"] == found["hung"] == []
    assert list(found["counts"]) == ["DataError"]


def test_some_bodies_between_guarded_pages() -> None:
    found = said_by("tests.framework.ops.hostile", "0", "400")
    assert found["crashed"] == found["hung"] == found["raw"] == []
    assert found["counts"]["ran"] > 100


def of(*values: Any) -> pdl.Tensor:
    return pdl.Tensor(np.array(values))


def pool(**how: Any) -> MaxPool:
    return MaxPool(**{"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), **how})


REFUSED: list[tuple[Callable[[], object], type[PdlError], str]] = [
    (
        pool(dilation=(1, 0)).check,
        UsageError,
        r"MaxPool: dilation is \(1, 0\); expected a tuple, each a whole number fr",
    ),
    (pool(stride=(2,)).check, ShapeError, "max_pool: attributes for 1 to 3 spatial axes alike, not kernel 2, stride 1"),
    (pool(padding=2).check, UsageError, "MaxPool: padding is 2; expected a tuple"),
    (Conv((1, 1), ((0, 0),), (1, 1), 1).check, ShapeError, "one entry for each of 1 to 3 spatial axes"),
    (Conv((True, 1), ((0, 0), (0, 0)), (1, 1), 1).check, UsageError, "stride is"),
    (
        lambda: Op.from_dict({"op": "SegmentSum", "num_segments": -1}),
        UsageError,
        "num_segments is -1; expected a whole",
    ),
    (lambda: pdl.segment_count(of(0, HIGH), num_segments=5), ShapeError, f"id {HIGH} is outside the 5 segments"),
    (lambda: pdl.embedding_bag(pdl.ones((3, 2)), of(0, 1), of(0, HIGH, -100)), ShapeError, "offsets must start at 0"),
    (lambda: pdl.diagonal(pdl.ones((3, 3)), offset=-(2**31)), UsageError, "Diagonal: offset is -2147483648"),
    (lambda: pdl.svd(of([1.0, 0.0], [-np.inf, 1.0])), NumericalError, "svd: .* holds infinity or NaN"),
    (lambda: pdl.eigh(of([1.0, np.nan], [np.nan, 1.0])), NumericalError, "eigh: .* holds infinity or NaN"),
    (lambda: pdl.max_pool(pdl.ones((1, 4, 1)), 2**31), UsageError, "MaxPool: kernel is"),
    (lambda: pdl.broadcast_to(pdl.ones(()), (2**40, 2**40)), ShapeError, "too large for any array"),
    (lambda: pdl.dropout(pdl.ones((2,)), p=0.5, seed=pdl.Tensor(np.array(-1))), UsageError, "seed -1 is negative"),
]


F32, F64, I32, I64 = (np.dtype(name) for name in ("float32", "float64", "int32", "int64"))
X, W = Spec((1, 5, 5, 2), F32), Spec((3, 3, 2, 4), F32)
G = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
#: a pattern of two rows and two columns with two nonzeros, and x
STARTS, AT, ROWS = Spec((3,), I64), Spec((2,), I32), Spec((2, 4), F32)
#: calls that would once pass `infer` and fail in the body, or in `infer` with an exception that is not pdl's own
UNFIT: dict[str, tuple[str, dict[str, Any], list[Spec | None], str]] = {
    "bias of another dtype": ("Conv", {**G, "groups": 1}, [X, W, Spec((4,), F64)], "b is float64 and x float32"),
    "bias of another dtype, activated": (
        "ConvAct", {**G, "groups": 1}, [X, W, Spec((4,), I64), None], "b is int64 and x float32"),
    "no place for a bias": ("ConvStats", {**G, "groups": 1}, [X, W], "ConvStats: 2 inputs; expected 3"),
    "no place for a bias of a product": ("Linear", {}, [ROWS, ROWS], "Linear: 2 inputs; expected 3"),
    "no place for a bias, activated": ("LinearAct", {"activation": "Relu"}, [ROWS, ROWS], "LinearAct: 2 inputs"),
    "gradient of another dtype": ("CDistGrad", {"metric": "l1"}, [Spec((2, 2), F64), ROWS, ROWS], "g is float64"),
    "gradient of a loss of another dtype": (
        "CtcLossGrad", {}, [Spec((2,), F64), Spec((2, 5, 3), F32), AT._replace(shape=(2, 1)), AT, AT], "g is float64"),
    "gradient of a distribution's loss of another dtype": (
        "DistributionFocalLossGrad", {}, [Spec((2,), F64), ROWS, Spec((2,), F32), Spec((2,), F32)], "float64 \\(2,\\)"),
    "half a pattern by columns": (
        "SpMM", {"transposed": True}, [ROWS, None, STARTS, AT, AT, STARTS, None, AT], "three arrays, or none"),
    "starts of another dtype": (
        "SpMM", {"transposed": True}, [ROWS, None, STARTS, AT, AT, Spec((3,), I32), AT, AT], "t_indptr is int32"),
    "starts in two dimensions": (
        "SpMMExtremumXGrad", {}, [ROWS, ROWS._replace(dtype=I32), None, STARTS, AT, AT, Spec((3, 1), I64), AT, AT],
        "must have one dimension"),
    "nothing in a row": ("Stack", {}, [], "Stack: 0 inputs; expected 1 or more"),
    "a part that is missing": ("Concat", {}, [X, None], "the input others is missing"),
    "a place that is missing": ("GetAt", {"axes": (0,)}, [X, None], "the input index is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNFIT)
def test_inputs_that_do_not_fit(what: str) -> None:
    op, attributes, ins, message = UNFIT[what]
    with pytest.raises(PdlError, match=message):
        OPS[op](**attributes).infer(*ins)


@pytest.mark.parametrize(
    "attributes",
    [{"op": "Dropout", "p": {"float": "gelu"}}, {"op": "Cond", "then": {"program": {}}, "other": {"program": {}}},
     {"op": "Add", "axis": 3}, {"op": "AsType", "dtype": {"dtype": 3}}, {"op": "OneHot"}, {"op": "Clip", "low": {}}],
)  # fmt: skip
def test_attributes_that_cannot_be_read(attributes: dict[str, Any]) -> None:
    with pytest.raises(PdlError):
        Op.from_dict(attributes)


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_products_of_no_pairs(shape: tuple[int, ...]) -> None:
    assert pdl.pair_products(pdl.ones(shape)).numpy().tolist() == [0.0] * shape[0]


def test_attention_of_no_queries() -> None:
    made = pdl.scaled_dot_product_attention(pdl.ones((2, 0, 4)), pdl.ones((2, 3, 4)), pdl.ones((2, 3, 4)))
    assert made.shape == (2, 0, 4)


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_refusal(call: Callable[[], object], error: type[PdlError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("offset", [-(2**31) + 1, -4, -3, 0, 3, 2**31 - 1])
def test_diagonals_beyond_the_matrix_are_empty(offset: int) -> None:
    assert pdl.diagonal(pdl.ones((3, 3)), offset=offset).shape == (3 if offset == 0 else 0,)


def test_an_annotation_that_cannot_be_checked_is_an_error() -> None:
    class Doubled(Op):
        """An op that does not say what its attribute is."""

        times: Any = 2
        vjp = not_differentiable("a test")

        def infer(self, x: Spec) -> Spec:
            return x

        def cpu(self, outs: Any, ins: Any) -> None:
            outs[0][...] = ins[0] * self.times

    try:
        with pytest.raises(TypeError, match=r"attribute is annotated Any; see pdl\.ops\.attributes"):
            apply(Doubled(), pdl.ones((2,)))
    finally:
        del OPS[Doubled.op_name]

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

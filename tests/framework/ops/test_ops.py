"""Every op, from the tables: shape and dtype, value, gradients of both orders, dtypes, serialised form."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl.autograd import gradcheck, gradgradcheck
from pdl.dtype import bfloat16, is_differentiable
from pdl.ops.base import OPS, Fused, Op, observed
from pdl.tensor import no_grad

from .case import Case

TABLES = sorted(p.stem for p in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for t in TABLES for case in importlib.import_module(f"{__package__}.{t}").CASES]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    """A test of every one of these cases."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


every_case = each(CASES)
every_traceable_case = each([case for case in CASES if not case.untraceable])


def outputs(value: object) -> tuple[pdl.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)  # type: ignore[return-value]


@every_case
def test_value_and_dtype(case: Case) -> None:
    seen: list[Op] = []

    def observe(op: Op, ins: tuple, outs: tuple) -> None:
        seen.append(op)
        if not op.dynamic:
            for y, spec in zip(outs, op.specs(ins), strict=True):
                assert (y.shape, y.dtype) == spec, f"{op}: infer says {spec}, the body made {y.shape} {y.dtype}"
        assert Op.from_dict(json.loads(json.dumps(op.to_dict()))) == op

    with observed(observe), no_grad():
        found = outputs(case.call(*case.tensors()))
    assert seen or case.why, "the function ran no op"
    expected = case.expected()
    assert len(found) == len(expected)
    for y, want in zip(found, expected, strict=True):
        assert y.shape == want.shape
        np.testing.assert_allclose(y.numpy(), want, atol=case.atol, rtol=1e-7)


@every_case
def test_gradients(case: Case) -> None:
    """The outputs that should carry a gradient do, no others do, and the gradients equal central differences."""
    made = outputs(case.call(*case.tensors(grad=True, every=True)))
    assert [number for number, y in enumerate(made) if y.requires_grad] == case.carriers(made)
    inputs = case.tensors(grad=True)
    if case.carriers(made) and any(x is not None and x.requires_grad for x in inputs):
        gradcheck(case.call, inputs)
        if case.second:
            gradgradcheck(case.call, inputs)


def wide(tensor: pdl.Tensor | None) -> pdl.Tensor | None:
    """The same values in float64 or complex128; asks for a gradient if the tensor does."""
    if tensor is None or not is_differentiable(tensor.dtype):
        return tensor
    dtype = np.complex128 if tensor.dtype.kind == "c" else np.float64
    return pdl.Tensor(tensor.data.astype(dtype), requires_grad=tensor.requires_grad)


def values_and_gradients(case: Case, inputs: list[pdl.Tensor | None]) -> list[list[pdl.Tensor | None]]:
    """The outputs, and the gradients of their weighted sum for the inputs that ask for one."""
    made = outputs(case.call(*inputs))
    asked = [x for x in inputs if x is not None and x.requires_grad]
    carrying = [y for y in made if y.requires_grad]
    if not carrying:
        return [list(made), [None] * len(asked)]
    rng = np.random.default_rng(7)
    weights = [pdl.Tensor(np.asarray(rng.choice([0.5, 0.75, 1.0], y.shape), y.dtype)) for y in carrying]
    return [list(made), list(pdl.autograd.grad(carrying, asked, weights, allow_unused=True))]


@each([case for case in CASES if case.floating])
def test_narrow_dtypes(case: Case) -> None:
    """Values and gradients in float32 and bfloat16 against those of the same inputs in float64."""
    for dtype, tolerance in ((np.dtype(np.float32), case.float32), (bfloat16, case.bf16)):
        if tolerance is None:
            continue
        narrow = case.tensors(dtype, grad=True)
        found, expected = (values_and_gradients(case, inputs) for inputs in (narrow, [wide(t) for t in narrow]))
        for y, want in zip(found[0], expected[0], strict=True):
            assert y.dtype != np.float64 or want.dtype.kind != "f"
        asked = [t for t in narrow if t is not None and t.requires_grad]
        assert all(g is None or g.dtype == t.dtype for g, t in zip(found[1], asked, strict=True))
        for y, want in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
            assert (y is None) == (want is None)
            if y is not None and not is_differentiable(y.dtype):
                np.testing.assert_array_equal(y.data, want.data)
            elif y is not None:
                scale = max(1.0, float(np.abs(want.data).max(initial=0)))
                np.testing.assert_allclose(y.data.astype(want.dtype), want.data, atol=tolerance * scale, rtol=tolerance)


def test_every_op_has_a_case() -> None:
    seen: set[str] = set()

    def observe(op: Op, ins: tuple, _outs: tuple) -> None:
        new = type(op).__name__ not in seen
        seen.add(type(op).__name__)
        if new and isinstance(op, Fused):  # the ops that only gradients of gradients meet
            op.compose(*[None if x is None else pdl.Tensor(x) for x in ins])

    with observed(observe):
        for case in CASES:
            made = outputs(case.call(*case.tensors(grad=True)))
            for y in made:
                if y.requires_grad:
                    y.backward(pdl.Tensor(np.ones(y.shape, y.dtype)), retain_graph=True)
    assert not set(OPS) - seen, f"ops without a case: {sorted(set(OPS) - seen)}"

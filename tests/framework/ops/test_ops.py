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
from pdl.ops.base import OPS, Fused, Op, observers
from pdl.tensor import no_grad

from .case import Case

TABLES = sorted(p.stem for p in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for t in TABLES for case in importlib.import_module(f"{__package__}.{t}").CASES]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


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

    observers.append(observe)
    try:
        with no_grad():
            found = outputs(case.call(*case.tensors()))
    finally:
        observers.remove(observe)
    assert seen or case.why, "the function ran no op"
    expected = case.expected()
    assert len(found) == len(expected)
    for y, want in zip(found, expected, strict=True):
        assert y.shape == want.shape
        np.testing.assert_allclose(y.numpy(), want, atol=case.atol, rtol=1e-7)


def carries_gradient(case: Case) -> bool:
    return any(y.requires_grad for y in outputs(case.call(*case.tensors(grad=True))))


@every_case
def test_gradients(case: Case) -> None:
    if not carries_gradient(case):
        return
    gradcheck(case.call, case.tensors(grad=True))
    if case.second:
        gradgradcheck(case.call, case.tensors(grad=True))


@every_case
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_narrow_dtypes(case: Case, dtype: str) -> None:
    tolerance = case.float32 if dtype == "float32" else case.bf16
    if tolerance is None:
        assert case.why, "a skipped dtype needs a reason"
        return
    if not any(x is not None and x.dtype.kind == "f" for x in case.inputs):
        return
    target = bfloat16 if dtype == "bfloat16" else np.dtype(np.float32)
    narrow = case.tensors(target, grad=True)
    found = outputs(case.call(*narrow))
    with no_grad():
        wide = outputs(
            case.call(
                *[
                    None
                    if t is None
                    else pdl.Tensor(t.data.astype(np.float64))
                    if is_differentiable(t.dtype) and t.dtype.kind != "c"
                    else t
                    for t in narrow
                ]
            )
        )
    for y, want in zip(found, wide, strict=True):
        assert y.dtype != np.float64 or want.dtype.kind != "f"
        if is_differentiable(y.dtype):
            scale = max(1.0, float(np.abs(want.data).max(initial=0)))
            np.testing.assert_allclose(y.data.astype(want.dtype), want.data, atol=tolerance * scale, rtol=tolerance)
    carrying = [y for y in found if y.requires_grad]
    if carrying:
        total = sum((y.real() if y.dtype.kind == "c" else y).sum().astype("float64") for y in carrying)
        total.backward()  # type: ignore[union-attr]
        for t in narrow:
            if t is not None and t.grad is not None:
                assert t.grad.dtype == t.dtype


def test_every_op_has_a_case() -> None:
    seen: set[str] = set()

    def observe(op: Op, ins: tuple, _outs: tuple) -> None:
        new = type(op).__name__ not in seen
        seen.add(type(op).__name__)
        if new and isinstance(op, Fused):  # the ops that only gradients of gradients meet
            op.compose(*[None if x is None else pdl.Tensor(x) for x in ins])

    observers.append(observe)
    try:
        for case in CASES:
            made = outputs(case.call(*case.tensors(grad=True)))
            for y in made:
                if y.requires_grad:
                    y.backward(pdl.Tensor(np.ones(y.shape, y.dtype)), retain_graph=True)
    finally:
        observers.remove(observe)
    assert not set(OPS) - seen, f"ops without a case: {sorted(set(OPS) - seen)}"

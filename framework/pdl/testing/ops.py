"""What every case of a table of ops must pass: shape, dtype and value, gradients of both orders, narrow dtypes, the
serialised form, programs, gradients of programs, replays, ONNX.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pdl import random
from pdl.autograd import grad, gradcheck, gradgradcheck
from pdl.dtype import Array, bfloat16, float32, is_differentiable
from pdl.errors import PdlError, TraceError
from pdl.ops.base import Op, Spec
from pdl.ops.listeners import observed
from pdl.program import Executable, Program, trace, verify
from pdl.program.passes import FINAL, run_passes
from pdl.program.tracing import Recorder, symbols
from pdl.runtime.checked import program_of
from pdl.tensor import Tensor, no_grad
from pdl.testing.case import Case

#: opsets that an op is written in: the oldest, the default, and one where more operators exist
OPSETS = (13, 17, 23)
#: ops that are native but for dtypes or arguments, with what keeps them from the tape there
PARTLY_NATIVE = {
    "MatMul", "Linear",  # complex numbers, integers
    "Clip", "Add", "Subtract", "Multiply", "Divide", "Maximum", "Negative", "Abs", "Square", "Sqrt", "Exp", "Expm1",
    "Log", "Tanh", "Rsqrt", "Reciprocal",  # complex numbers, integers
    "AsType", "Where",  # complex numbers
    "DequantizeLinear",  # int32
    "Sum", "Mean", "SumTo", "Max", "Min",  # integers, complex numbers, axes that are no neighbours
    "ScaledDotProductAttention", "RelativeAttention", "AddLayerNorm",  # dropout: the seed is a value
}  # fmt: skip


def as_tuple(value: Any) -> tuple[Tensor, ...]:
    """The outputs of a function, be it one or several."""
    return value if isinstance(value, tuple) else (value,)


def check_value(case: Case) -> None:
    """`infer` gives the shape and dtype that the body makes, the op survives JSON, values equal the reference's."""
    seen: list[Op] = []

    def observe(op: Op, ins: tuple[Any, ...], outs: tuple[Array, ...]) -> None:
        seen.append(op)
        if not op.dynamic:
            for y, spec in zip(outs, op.specs(ins), strict=True):
                assert (y.shape, y.dtype) == spec, f"{op}: infer says {spec}, the body made {y.shape} {y.dtype}"
        assert Op.from_dict(json.loads(json.dumps(op.to_dict()))) == op

    with observed(observe), no_grad():
        found = as_tuple(case.call(*case.tensors()))
    assert seen or case.why, "the function ran no op"
    expected = case.expected()
    assert len(found) == len(expected)
    for y, want in zip(found, expected, strict=True):
        assert y.shape == want.shape, f"shape {y.shape}, the reference has {want.shape}"
        np.testing.assert_allclose(y.numpy(), want, atol=case.atol, rtol=1e-7)


def check_gradients(case: Case, *, fast_mode: bool = True) -> None:
    """The outputs that should carry a gradient do, no others do, and the gradients equal central differences: those of
    first order element by element, those of second order along random directions in the fast mode."""
    made = as_tuple(case.call(*case.tensors(grad=True, every=True)))
    assert [number for number, y in enumerate(made) if y.requires_grad] == case.carriers(made)
    inputs = case.tensors(grad=True)
    if case.carriers(made) and any(x is not None and x.requires_grad for x in inputs):
        gradcheck(case.call, inputs)
        if case.second:
            gradgradcheck(case.call, inputs, fast_mode=fast_mode)


def _wide(tensor: Tensor | None) -> Tensor | None:
    """The same values in float64 or complex128; with requires_grad if the tensor has it."""
    if tensor is None or not is_differentiable(tensor.dtype):
        return tensor
    dtype = np.complex128 if tensor.dtype.kind == "c" else np.float64
    return Tensor(tensor.data.astype(dtype), requires_grad=tensor.requires_grad)


def _values_and_gradients(case: Case, inputs: list[Tensor | None]) -> list[list[Tensor | None]]:
    """The outputs, and the gradients of their weighted sum for the inputs that require one."""
    made = as_tuple(case.call(*inputs))
    differentiable = [x for x in inputs if x is not None and x.requires_grad]
    carrying = [y for y in made if y.requires_grad]
    if not carrying:
        return [list(made), [None] * len(differentiable)]
    rng = np.random.default_rng(7)
    weights = [Tensor(np.asarray(rng.choice([0.5, 0.75, 1.0], y.shape), y.dtype)) for y in carrying]
    return [list(made), list(grad(carrying, differentiable, weights, allow_unused=True))]


def check_narrow_dtypes(case: Case) -> None:
    """Values and gradients in float32 and bfloat16 against those of the same inputs in float64."""
    for dtype, tolerance in ((float32, case.float32), (bfloat16, case.bf16)):
        if tolerance is None:
            continue
        narrow = case.tensors(dtype, grad=True)
        found, expected = (_values_and_gradients(case, inputs) for inputs in (narrow, [_wide(t) for t in narrow]))
        for y, want in zip(found[0], expected[0], strict=True):
            assert y is not None
            assert want is not None
            assert y.dtype != np.float64 or want.dtype.kind != "f"
        differentiable = [t for t in narrow if t is not None and t.requires_grad]
        assert all(g is None or g.dtype == t.dtype for g, t in zip(found[1], differentiable, strict=True))
        for y, want in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
            assert (y is None) == (want is None)
            if y is not None and want is not None:
                _check_close(y, want, tolerance)


def _check_close(y: Tensor, want: Tensor, tolerance: float) -> None:
    if not is_differentiable(y.dtype):
        np.testing.assert_array_equal(y.data, want.data)
    else:
        scale = max(1.0, float(np.abs(want.data).max(initial=0)))
        np.testing.assert_allclose(y.data.astype(want.dtype), want.data, atol=tolerance * scale, rtol=tolerance)


def check_refused(case: Case) -> None:
    """Tracing refuses the case, as it says in `untraceable`."""
    reason = ""
    try:
        case.traced()
    except TraceError as refused:
        reason = refused.reason
    assert reason.startswith(case.untraceable), reason or "it was traced"


def check_program(case: Case) -> None:
    """The case as a program, stored and read as bundles are, planned and run, has the bits of eager mode."""
    tensors = case.tensors()
    program = verify(case.traced())
    names = program.names()
    for value in program.captures:
        value.name = names[value]
    weights = {names[value]: value.tensor.data for value in program.captures if value.tensor is not None}
    stored = json.dumps(program.to_dict(), allow_nan=False)
    loaded = program_of(json.loads(stored), weights, "x.pdl")
    assert json.dumps(loaded.to_dict()) == stored
    run_passes(loaded, FINAL)
    found = Executable(loaded)(*[t.data for t in tensors if t is not None])
    for y, want in zip(found, as_tuple(case.call(*tensors)), strict=True):
        np.testing.assert_array_equal(y, want.data)


def check_gradient_program(case: Case) -> None:
    """Gradients that a program computes equal those of eager mode."""
    tensors = case.tensors(grad=True, every=True)
    eager = [y for y in as_tuple(case.call(*tensors)) if y.requires_grad]
    rng = np.random.default_rng(1)
    seeds = [Tensor(np.asarray(rng.standard_normal(y.shape), y.dtype)) for y in eager]
    wanted = [t for t in tensors if t is not None and t.requires_grad]
    expected = grad(eager, wanted, seeds, allow_unused=True)
    assert any(g is not None for g in expected)
    recorder = Recorder("gradient")
    with recorder.active():
        inputs = [None if t is None else symbols(recorder, t, f"x{i}") for i, t in enumerate(tensors)]
        made = [y for y in as_tuple(case.call(*inputs)) if y.requires_grad]
        learned = [x for x in inputs if x is not None and x.requires_grad]
        grads = recorder.gradient(list(zip(made, seeds, strict=True)), learned)
        recorder.program.outputs = [None if g is None else recorder.value_of(g) for g in grads]
    program = run_passes(verify(recorder.program), FINAL)
    found = Executable(program)(*[t.data for t in tensors if t is not None])
    for g, want in zip(found, expected, strict=True):
        assert (g is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(g, want.data, atol=1e-12, rtol=1e-12)  # type: ignore[arg-type]


def outcome(run: Callable[..., list[Array | None]], arrays: Sequence[Array]) -> list[bytes | None] | str:
    """The bits of a run, or its error."""
    try:
        return [None if y is None else y.tobytes() for y in run(*arrays)]
    except (PdlError, ArithmeticError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def check_replay(case: Case) -> None:
    """A replay from the tape has the bits of direct calls, also for other values; native ops are on the tape."""
    for dtype, tolerance in ((None, 0.0), (float32, case.float32), (bfloat16, case.bf16)):
        if tolerance is None:
            continue
        program = run_passes(case.traced(dtype), FINAL)
        arrays = [t.data for t in case.tensors(dtype) if t is not None]
        others = [np.ascontiguousarray(x.reshape(-1)[::-1]).reshape(x.shape) for x in arrays]
        taped, direct = Executable(program), Executable(program, native=False)
        assert len(direct.python_nodes) == len(taped._steps)
        for node in taped.python_nodes:
            name = node.op.op_name
            partly = name in PARTLY_NATIVE or dtype == bfloat16
            assert not node.op.native or partly, f"{name} is native and not on the tape"
        for values in (arrays, others, arrays):
            random.seed(0)
            expected = outcome(direct, values)
            random.seed(0)
            assert outcome(taped, values) == expected


def onnx_programs(case: Case) -> list[tuple[Program, list[Array]]]:
    """The case with all inputs given at run time, and with all but the first constant; float32."""
    tensors = case.tensors(float32)
    present = [i for i, t in enumerate(tensors) if t is not None]
    found = []
    for free in [present] if len(present) < 2 else [present, present[:1]]:

        def function(*xs: Tensor, free: list[int] = free) -> Any:
            full = list(tensors)
            for i, x in zip(free, xs, strict=True):
                full[i] = x
            return case.call(*full)

        given = [tensors[i].data for i in free]  # type: ignore[union-attr]
        found.append((trace(function, *[Spec(a.shape, a.dtype) for a in given]), given))
    return found


def check_onnx(case: Case) -> None:
    """ONNX Runtime computes what pdl does, or says why the op is not written."""
    from pdl.export.onnx import missing, to_onnx

    with tempfile.TemporaryDirectory() as folder:
        for program, given in onnx_programs(case):
            for opset in OPSETS:
                if not missing(program, opset=opset):
                    made = to_onnx(program, Path(folder) / "case.onnx", opset=opset, samples=[given])
                    assert made.difference is not None
                    assert made.difference <= 2e-5


def _dense_gradient(case: Case) -> bool:
    """Gradients of tables as rows are no arrays."""
    return case.learns and not case.untraceable and not case.kwargs.get("sparse")


def _traceable(case: Case) -> bool:
    return not case.untraceable


Body: TypeAlias = "Callable[[Case], None]"
#: each check, and the cases that it is for
CHECKS: dict[Body, Callable[[Case], bool]] = {
    check_value: lambda case: True, check_gradients: lambda case: True, check_narrow_dtypes: lambda case: case.floating,
    check_refused: lambda case: bool(case.untraceable), check_program: _traceable,
    check_gradient_program: _dense_gradient, check_replay: _traceable, check_onnx: _traceable,
}  # fmt: skip


@dataclass(frozen=True)
class OpCheck:
    """One check of one case."""

    body: Body
    case: Case

    def __call__(self) -> None:
        """Run the check; AssertionError if it fails."""
        self.body(self.case)

    def __str__(self) -> str:
        return f"{self.body.__name__.removeprefix('check_')}-{self.case.id}"


def op_checks(cases: Iterable[Case]) -> list[OpCheck]:
    """All checks of these cases, for a parametrised test; that of ONNX where onnx and onnxruntime are installed."""
    able = find_spec("onnx") is not None and find_spec("onnxruntime") is not None
    bodies = [body for body in CHECKS if able or body is not check_onnx]
    return [OpCheck(body, case) for case in cases for body in bodies if CHECKS[body](case)]

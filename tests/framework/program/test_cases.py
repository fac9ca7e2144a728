"""Every line of the op tables as a program: traced, verified, stored and loaded, planned, run; forward and gradient."""

from __future__ import annotations

import json

import numpy as np

import pdl
from pdl.dtype import is_differentiable
from pdl.errors import TraceError
from pdl.program import Executable, Program, trace, verify
from pdl.program.passes import FINAL, run_passes
from pdl.program.tracing import Recorder, symbols
from pdl.tensor import Tensor

from ..ops.case import Case
from ..ops.test_ops import every_case, outputs

#: what a program cannot hold: public functions, and the reason they give
UNTRACEABLE = {
    "the shape of the result of": {"nonzero", "unique", "unique_all"},
    "Python needs the values": {"ctc_loss", "conv", "linear"},  # the latter pack quantised weights
}


def check_refusal(case: Case, error: TraceError) -> None:
    for reason, names in UNTRACEABLE.items():
        if error.reason.startswith(reason) and case.function.__name__ in names:
            return
    raise AssertionError(f"{case.id} is not traced: {error}") from error


@every_case
def test_program_equals_eager(case: Case) -> None:
    tensors = case.tensors()
    present = [t for t in tensors if t is not None]

    def function(*given: Tensor) -> object:
        rest = iter(given)
        return case.call(*[None if t is None else next(rest) for t in tensors])

    try:
        program = trace(function, *present)
    except TraceError as error:
        return check_refusal(case, error)
    verify(program)
    constants = {f"c{i}": v for i, v in enumerate(program.captures)}
    for name, value in constants.items():
        value.name = name
    stored = json.loads(json.dumps(program.to_dict()))
    loaded = verify(Program.from_dict(stored, lambda name: constants[name].tensor))
    assert json.loads(json.dumps(loaded.to_dict())) == stored
    run_passes(loaded, FINAL)
    found = Executable(loaded)(*[t.data for t in present])
    for y, want in zip(found, outputs(case.call(*tensors)), strict=True):
        np.testing.assert_array_equal(y, want.data)


@every_case
def test_gradient_program_equals_eager(case: Case) -> None:
    tensors = case.tensors(grad=True)
    eager = [y for y in outputs(case.call(*tensors)) if y.requires_grad]
    if not eager:
        return
    rng = np.random.default_rng(1)
    seeds = [Tensor(np.asarray(rng.standard_normal(y.shape), y.dtype)) for y in eager]
    wanted = [t for t in tensors if t is not None and t.requires_grad]
    expected = pdl.autograd.grad(eager, wanted, seeds, allow_unused=True)
    recorder = Recorder("gradient")
    with recorder.active():
        inputs = [None if t is None else symbols(recorder, t, f"x{i}") for i, t in enumerate(tensors)]
        try:
            made = [y for y in outputs(case.call(*inputs)) if y.requires_grad]
            learned = [x for x in inputs if x is not None and x.requires_grad]
            grads = recorder.gradient(list(zip(made, seeds, strict=True)), learned)
        except TraceError as error:
            return check_refusal(case, error)
        recorder.program.outputs = [None if g is None else recorder.value_of(g) for g in grads]
    program = run_passes(verify(recorder.program), FINAL)
    found = Executable(program)(*[t.data for t in tensors if t is not None])
    for g, want in zip(found, expected, strict=True):
        assert (g is None) == (want is None)
        if want is not None:
            assert is_differentiable(want.dtype)
            np.testing.assert_allclose(g, want.data, atol=1e-12, rtol=1e-12)


def test_the_refusals_are_all_in_use() -> None:
    names = {name for group in UNTRACEABLE.values() for name in group}
    assert names <= {case.function.__name__ for case in _cases()}


def _cases() -> list[Case]:
    from ..ops.test_ops import CASES

    return CASES

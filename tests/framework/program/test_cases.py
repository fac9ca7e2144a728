"""Every line of the op tables as a program: traced, verified, stored and read as bundles are, planned, run; forward and
gradient.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import pdl
from pdl.errors import TraceError
from pdl.program import Executable, verify
from pdl.program.passes import FINAL, run_passes
from pdl.program.tracing import Recorder, symbols
from pdl.runtime.checked import program_of
from pdl.tensor import Tensor

from ..ops.case import Case
from ..ops.test_ops import CASES, each, every_traceable_case, outputs


@each([case for case in CASES if case.untraceable])
def test_what_no_program_holds_is_refused(case: Case) -> None:
    with pytest.raises(TraceError) as refused:
        case.traced()
    assert refused.value.reason.startswith(case.untraceable)


@every_traceable_case
def test_program_equals_eager(case: Case) -> None:
    tensors = case.tensors()
    program = verify(case.traced())
    names = program.names()
    for value in program.captures:
        value.name = names[value]
    weights = {names[value]: value.tensor.data for value in program.captures}
    stored = json.dumps(program.to_dict(), allow_nan=False)
    loaded = program_of(json.loads(stored), weights, "x.pdl")
    assert json.dumps(loaded.to_dict()) == stored
    run_passes(loaded, FINAL)
    found = Executable(loaded)(*[t.data for t in tensors if t is not None])
    for y, want in zip(found, outputs(case.call(*tensors)), strict=True):
        np.testing.assert_array_equal(y, want.data)


#: gradients of tables as rows are no arrays: tests/framework/optim/test_sparse.py has their programs
DENSE = [case for case in CASES if case.learns and not case.kwargs.get("sparse")]


@each(DENSE)
def test_gradient_program_equals_eager(case: Case) -> None:
    tensors = case.tensors(grad=True, every=True)
    eager = [y for y in outputs(case.call(*tensors)) if y.requires_grad]
    rng = np.random.default_rng(1)
    seeds = [Tensor(np.asarray(rng.standard_normal(y.shape), y.dtype)) for y in eager]
    wanted = [t for t in tensors if t is not None and t.requires_grad]
    expected = pdl.autograd.grad(eager, wanted, seeds, allow_unused=True)
    assert any(g is not None for g in expected)
    recorder = Recorder("gradient")
    with recorder.active():
        inputs = [None if t is None else symbols(recorder, t, f"x{i}") for i, t in enumerate(tensors)]
        made = [y for y in outputs(case.call(*inputs)) if y.requires_grad]
        learned = [x for x in inputs if x is not None and x.requires_grad]
        grads = recorder.gradient(list(zip(made, seeds, strict=True)), learned)
        recorder.program.outputs = [None if g is None else recorder.value_of(g) for g in grads]
    program = run_passes(verify(recorder.program), FINAL)
    found = Executable(program)(*[t.data for t in tensors if t is not None])
    for g, want in zip(found, expected, strict=True):
        assert (g is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(g, want.data, atol=1e-12, rtol=1e-12)

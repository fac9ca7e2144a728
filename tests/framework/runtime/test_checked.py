"""Every op that pdl has passes the checks of a bundle, as long as nobody changed it."""

from __future__ import annotations

import ast
import json

import pytest

import pdl
from pdl.errors import TraceError
from pdl.ops.base import OPS
from pdl.program import trace
from pdl.runtime.checked import attributes, program_of

from ..ops.case import Case
from ..ops.test_ops import every_case

KNOWN = {"int", "float", "bool", "str", "tuple", "Scalar", "DType", "Block"}


@every_case
def test_the_program_of_every_case_is_read(case: Case) -> None:
    present = [t for t in case.tensors() if t is not None]

    def function(*given: pdl.Tensor) -> object:
        rest = iter(given)
        return case.call(*[None if t is None else next(rest) for t in case.tensors()])

    try:
        program = trace(function, *present)
    except TraceError:
        pytest.skip("no program holds it")
    names = program.names()
    for value in program.captures:
        value.name = names[value]
    arrays = {names[v]: v.tensor._data for v in program.captures if v.tensor is not None}
    text = json.dumps(program.to_dict(), allow_nan=False)
    read = program_of(json.loads(text), arrays, "x.pdl")
    assert json.dumps(read.to_dict()) == text


@pytest.mark.parametrize("name", sorted(OPS))
def test_annotations_are_of_kinds_that_can_be_checked(name: str) -> None:
    hints = attributes(OPS[name])  # type: ignore[arg-type]
    assert hints.keys() == set(OPS[name].fields)
    for hint in hints.values():
        used = {node.id for node in ast.walk(hint) if isinstance(node, ast.Name)}
        assert used <= KNOWN, f"{ast.unparse(hint)}: teach pdl.runtime.checked about {used - KNOWN}"

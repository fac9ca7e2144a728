"""What the checks of a bundle know of every op; program/test_cases.py reads the programs of all cases."""

from __future__ import annotations

import ast

import pytest

from pdl.ops.base import OPS
from pdl.runtime.checked import attributes

KNOWN = {"int", "float", "bool", "str", "tuple", "Scalar", "DType", "Block"}


@pytest.mark.parametrize("name", sorted(OPS))
def test_annotations_are_of_kinds_that_can_be_checked(name: str) -> None:
    hints = attributes(OPS[name])  # type: ignore[arg-type]
    assert hints.keys() == set(OPS[name].fields)
    for hint in hints.values():
        used = {node.id for node in ast.walk(hint) if isinstance(node, ast.Name)}
        assert used <= KNOWN, f"{ast.unparse(hint)}: teach pdl.runtime.checked about {used - KNOWN}"

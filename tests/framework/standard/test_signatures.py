"""Functions have the arguments of the array API standard, 2024.12: their names, kinds and defaults."""

from __future__ import annotations

import inspect
from typing import Any

import array_api_strict as strict
import pytest

import pdl

SPACES = {"": (strict, pdl), "linalg.": (strict.linalg, pdl.linalg), "fft.": (strict.fft, pdl.fft)}
#: of array-api-strict itself, or of a later standard
OTHERS = ("broadcast_shapes", "get_array_api_strict_flags", "isin", "reset_array_api_strict_flags",
          "set_array_api_strict_flags")  # fmt: skip
#: these default to something else, which calls that leave it out cannot tell
DEFAULTS = {("take", "axis"), ("astype", "device"), ("from_dlpack", "device"), ("from_dlpack", "copy")}
FUNCTIONS = [
    (space, name)
    for space, (standard, _) in SPACES.items()
    for name in standard.__all__
    if inspect.isfunction(getattr(standard, name)) and name not in OTHERS
]
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@pytest.mark.parametrize(("space", "name"), FUNCTIONS, ids=[space + name for space, name in FUNCTIONS])
def test_signature(space: str, name: str) -> None:
    standard, ours = (getattr(module, name) for module in SPACES[space])
    asked, given = (list(inspect.signature(function).parameters.values()) for function in (standard, ours))
    for place, parameter in enumerate(asked):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            found = next(each for each in given if each.name == parameter.name)
            assert found.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        else:
            found = given[place]
            assert found.kind == parameter.kind or {found.kind, parameter.kind} == {*POSITIONAL}
            assert found.name == parameter.name or parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD
        if parameter.default is not inspect.Parameter.empty and (name, parameter.name) not in DEFAULTS:
            assert found.default == parameter.default
    assert required(given) <= required(asked)


def required(parameters: list[Any]) -> int:
    return sum(p.default is inspect.Parameter.empty and p.kind in POSITIONAL for p in parameters)


def test_results_of_several_tensors_are_named() -> None:
    x = pdl.eye(2)
    fields = {
        pdl.linalg.eigh: ("eigenvalues", "eigenvectors"), pdl.linalg.qr: ("Q", "R"),
        pdl.linalg.slogdet: ("sign", "logabsdet"), pdl.linalg.svd: ("U", "S", "Vh"),
        pdl.unique_all: ("values", "indices", "inverse_indices", "counts"),
        pdl.unique_counts: ("values", "counts"), pdl.unique_inverse: ("values", "inverse_indices"),
    }  # fmt: skip
    for function, names in fields.items():
        assert function(x)._fields == names  # type: ignore[operator]

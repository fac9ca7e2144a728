"""Every op, from the tables: shape and dtype, value, gradients of both orders, dtypes, serialised form."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from pdl.ops.base import OPS
from pdl.testing import Case, ops_run_by
from pdl.testing.ops import check_gradients, check_narrow_dtypes, check_value

TABLES = sorted(p.stem for p in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for t in TABLES for case in importlib.import_module(f"{__package__}.{t}").CASES]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    """A test of every one of these cases."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


every_case = each(CASES)
every_traceable_case = each([case for case in CASES if not case.untraceable])


@every_case
def test_an_op_in_eager_mode(case: Case) -> None:
    check_value(case)
    check_gradients(case)
    if case.floating:
        check_narrow_dtypes(case)


@pytest.mark.slow
@each([case for case in CASES if case.learns and case.second])
def test_second_gradients_element_by_element(case: Case) -> None:
    check_gradients(case, fast_mode=False)


def test_every_op_has_a_case() -> None:
    own = {name for name in OPS if "." not in name}
    assert own - ops_run_by(CASES) == set(), "ops without a case"

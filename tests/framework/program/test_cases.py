"""Every line of the op tables as a program: traced, verified, stored and read as bundles are, planned, run; forward and
gradient.
"""

from __future__ import annotations

from pdl.testing import Case
from pdl.testing.ops import CHECKS, check_gradient_program, check_program, check_refused

from ..ops.test_ops import CASES, each, every_traceable_case


@each([case for case in CASES if case.untraceable])
def test_what_no_program_holds_is_refused(case: Case) -> None:
    check_refused(case)


@every_traceable_case
def test_program_equals_eager(case: Case) -> None:
    check_program(case)


@each([case for case in CASES if CHECKS[check_gradient_program](case)])
def test_gradient_program_equals_eager(case: Case) -> None:
    check_gradient_program(case)

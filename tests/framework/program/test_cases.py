"""Every line of the op tables as a program: traced, verified, stored and read as bundles are, planned, run, replayed;
forward and gradient.
"""

from __future__ import annotations

from pdl.testing import Case
from pdl.testing.ops import CHECKS, check_gradient_program, check_program, check_refused, check_replay

from ..ops.test_ops import every_case


@every_case
def test_an_op_as_a_program(case: Case) -> None:
    for check in (check_refused, check_program, check_gradient_program, check_replay):
        if CHECKS[check](case):
            check(case)

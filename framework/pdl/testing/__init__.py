"""Tests for ops, of pdl's own and of others': a table of `Case`s, and what every case of it must pass.

    from pdl.testing import Case, draws, op_checks, op_faults

    f, i = draws(seed=1)
    CASES = [Case(scale, [f(3, 4)], lambda x, by: x * by, {"by": 2.0})]

    @pytest.mark.parametrize("check", op_checks(CASES), ids=str)
    def test_op(check):
        check()

    def test_ops_are_whole():
        assert op_faults("acme", CASES) == []

A failed check raises AssertionError; nothing here needs pytest.
"""

from pdl.testing.case import Case, draws, forward
from pdl.testing.coverage import op_faults, ops_run_by
from pdl.testing.ops import OpCheck, op_checks

__all__ = ["Case", "OpCheck", "draws", "forward", "op_checks", "op_faults", "ops_run_by"]

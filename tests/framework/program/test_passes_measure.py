"""Rules must lower a measure: where one does not, what it wrote is taken back, and rewriting ends."""

from __future__ import annotations

import pytest

import pdl
from pdl.ops.base import OPS
from pdl.ops.shape import PermuteDims
from pdl.program.ir import Node, Value
from pdl.program.passes.layout import RULES
from pdl.program.passes.measure import BYTES, PARTS, ROWS, TERMS, Measure, moves_nothing
from pdl.program.passes.rewrite import Rewriter, rewrite

from .rewriting import N, counts, size, traced

F = (4, 5)


def swap_operands(node: Node, walk: Rewriter) -> Value | None:
    """a + b = b + a, for ever."""
    a, b = (*node.inputs, None)[:2]
    return walk.emit(node.op, b, a) if type(node.op) is OPS["Add"] else None


def turn_twice(node: Node, walk: Rewriter) -> Value | None:
    """f(x) = P(f(P(x))), which can be done again."""
    if type(node.op) is not OPS["Exp"]:
        return None
    x = walk.emit(PermuteDims((1, 0)), node.inputs[0])
    return walk.emit(PermuteDims((1, 0)), walk.emit(node.op, x))


@pytest.mark.parametrize("measure", [TERMS, PARTS, BYTES, ROWS])
@pytest.mark.parametrize("rule", [swap_operands, turn_twice])
def test_a_rule_that_lowers_nothing_is_refused(rule, measure: Measure) -> None:
    program = traced(lambda x, y: pdl.exp(x + y), [F, F])
    before, captures = program.text(), list(program.captures)
    assert rewrite(program, (rule,), measure) == 0
    assert program.text() == before
    assert program.captures == captures


def test_another_rule_may_apply_where_one_is_refused() -> None:
    def shorten(node: Node, walk: Rewriter) -> Value | None:
        return node.inputs[0] if type(node.op) is OPS["Exp"] else None

    program = traced(lambda x: pdl.exp(x), [F])
    assert rewrite(program, (turn_twice, shorten)) == 1
    assert counts(program) == {}


def test_an_output_that_is_read_must_be_replaced() -> None:
    def first_alone(node: Node, walk: Rewriter) -> Value | None:
        return node.inputs[0] if len(node.outputs) > 1 else None

    program = traced(lambda x: pdl.topk(x, 2), [F])
    assert rewrite(program, (first_alone,)) == 0


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 4), (0, 4), (0, 0), (N, 1), (N, N), (N, size("l", 3))])
def test_an_array_and_itself_transposed(shape: tuple[int, ...]) -> None:
    """Permutations behind and before each other: each way would undo the other's."""

    def function(x):
        y = x.permute_dims((1, 0))
        return pdl.concat([y, y * 2.0], axis=0), x.sum() + y, pdl.exp(y).permute_dims((1, 0)) * x

    program = traced(function, [shape])
    rewrite(program, RULES)
    assert rewrite(program, RULES) == 0


def test_one_is_no_size_that_happens_to_be_one() -> None:
    assert moves_nothing((0, 2, 1), (N, 1, 7))
    assert not moves_nothing((0, 2, 1), (N, size("l", 1), 7))

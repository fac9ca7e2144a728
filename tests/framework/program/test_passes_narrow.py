"""Slices in front of what they cut."""

from __future__ import annotations

import pytest

import pdl
from pdl.program.ir import Program, show_spec

from .rewriting import N, Pattern, check, r, size

L = size("l", 8)
W, ROW, WIDE = r(12, 12), r(12), r(12, 36)
ROWS = [(N, L, 12)]
OTHER = ({"n": 1, "l": 2}, {"n": 2, "l": 5})


def attend(x):
    return pdl.scaled_dot_product_attention(x @ WIDE, heads=3)


PATTERNS = {
    "linear, norm, activation": (
        lambda x: pdl.layer_norm(pdl.gelu(x @ W + ROW) @ W, ROW, ROW)[:, 0],
        {"GetItem": 1, "LinearThen": 1, "Linear": 1, "LayerNorm": 1}, "[n, 12]"),
    "the last row": (lambda x: pdl.tanh(x @ W)[:, -1], {"GetItem": 1, "LinearThen": 1}, "[n, 12]"),
    "a residual": (
        lambda x: pdl.layer_norm(x + pdl.gelu(x @ W), ROW)[:, :1],
        {"GetItem": 1, "LinearThen": 1, "AddLayerNorm": 1}, "[n, 1, 12]"),
    "an encoder layer": (
        lambda x: pdl.layer_norm(x + attend(x) @ W)[:, 0],
        {"Linear": 2, "GetItem": 5, "ScaledDotProductAttention": 1, "LinearThen": 1, "LayerNorm": 1}, "[n, 12]"),
    "rows and numbers": (
        lambda x: (pdl.sqrt(pdl.abs(x)) * ROW - 2.0)[:, 1],
        {"GetItem": 1, "Abs": 1, "Sqrt": 1, "Multiply": 1, "Subtract": 1}, "[n, 12]"),
    "of few columns": (lambda x: (x @ W)[..., :3], {"Linear": 1, "GetItem": 1}, "[n, l, 12]"),
    "read as a whole, too": (lambda x: ((y := x @ W)[:, 0], y), {"Linear": 1, "GetItem": 1}, "[n, l, 12]"),
    "nearly all rows": (lambda x: (x @ W)[:, 1:], {"Linear": 1, "GetItem": 1}, "[n, l, 12]"),
    "a mixing op": (lambda x: pdl.softmax(x, axis=1)[:, 0], {"Softmax": 1, "GetItem": 1}, "[n, l, 12]"),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    function, wanted, shape = PATTERNS[name]
    program = check(Pattern(function, ROWS, wanted, OTHER))
    assert widest(program) == f"f32{shape}"


def widest(program: Program) -> str:
    """The shape of the last op that is no slice."""
    (*_, node) = [n for n in program.nodes if type(n.op).__name__ != "GetItem"]
    return show_spec(node.outputs[0].spec)

"""Makers of syntax-tree nodes for rewritten code; each gets the line of the code it stands for."""

from __future__ import annotations

import ast
from typing import Any, cast

HELPERS = "_pdl_jit"  # the name under which rewritten code finds `pdl.jit.runtime`


def at(node: Any, place: ast.AST) -> Any:
    """The node at the (first) line of another, so that tracebacks show that line."""
    ast.copy_location(node, place)
    if getattr(node, "end_lineno", None) != getattr(node, "lineno", None):
        node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return ast.fix_missing_locations(node)


def helper(name: str, arguments: list[ast.expr], place: ast.AST) -> ast.expr:
    """A call of a function of `pdl.jit.runtime`."""
    function = ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load())
    return cast(ast.expr, at(ast.Call(function, arguments, []), place))


def thunk(value: ast.expr) -> ast.expr:
    """``lambda: value``."""
    return cast(ast.expr, at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), value), value))


def load(function: ast.FunctionDef) -> ast.expr:
    """The function by its name."""
    return ast.Name(function.name, ast.Load())


def const(value: tuple[str, ...]) -> ast.expr:
    """A tuple of names."""
    return ast.Constant(cast(Any, value))


def line_of(node: Any) -> ast.expr:
    """The line number of a node."""
    return ast.Constant(node.lineno)

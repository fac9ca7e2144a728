"""From a function object to the syntax tree of its source."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import CodeType, FunctionType
from typing import NamedTuple, TypeAlias

from pdl.jit.errors import ConversionError, Place

FunctionNode: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"


class Source(NamedTuple):
    """The tree of one function: shared, so copy it before changing it. `owner` is the class it is written in."""

    node: FunctionNode
    owner: str | None


def locate(function: FunctionType) -> Source:
    """The tree of a function, found in its file by line; raises where the source is not available or has changed."""
    code = function.__code__
    place = Place(code.co_filename, code.co_firstlineno)
    linecache.checkcache(code.co_filename)
    named = code.co_filename != "<string>"  # under this name Python 3.13 has the text of `python -c`, whatever was run
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__)) if named else ()
    if not lines:
        raise ConversionError(
            f"the source of {function.__qualname__} is not available, so it cannot be converted", place
        )
    try:
        found = [s for s in _functions(lines).get(code.co_firstlineno, ()) if _fits(s.node, code)]
    except SyntaxError as error:
        raise ConversionError(f"the source file does not parse any more: {error}", place) from None
    if len(found) > 1:
        found = [s for s in found if _same_columns(s.node, code)]
    if len(found) != 1:
        why = "several functions stand on its line" if found else "the file has changed since it was imported"
        raise ConversionError(f"{function.__qualname__} is not found in its source: {why}", place)
    return found[0]


@lru_cache(maxsize=256)
def _functions(lines: tuple[str, ...]) -> dict[int, list[Source]]:
    """All functions of a file by their first line (that of the first decorator, as in code objects)."""
    found: dict[int, list[Source]] = {}

    def walk(node: ast.AST, owner: str | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                decorators = getattr(child, "decorator_list", [])
                first = min([child.lineno, *(d.lineno for d in decorators)])
                found.setdefault(first, []).append(Source(child, owner))
            walk(child, child.name if isinstance(child, ast.ClassDef) else owner)

    walk(ast.parse("".join(lines)), None)
    return found


def _fits(node: FunctionNode, code: CodeType) -> bool:
    """Name and arguments agree."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))]
    own = [n if not n.startswith("_") else n.rpartition("__")[2] for n in code.co_varnames[: len(names)]]
    return name == code.co_name and own == [n if not n.startswith("_") else n.rpartition("__")[2] for n in names]


def _same_columns(node: FunctionNode, code: CodeType) -> bool:
    """The code's instructions lie inside the body: distinguishes lambdas on one line."""
    body = node.body if isinstance(node, ast.Lambda) else node.body[0]
    inside = [p for p in code.co_positions() if p[0] == body.lineno and p[2] is not None and p[3] != p[2]]
    assert body.end_col_offset is not None
    end = body.end_col_offset if body.end_lineno == body.lineno else 1 << 30
    return bool(inside) and all(body.col_offset <= p[2] and (p[3] or 0) <= end for p in inside if p[2] is not None)

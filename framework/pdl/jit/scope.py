"""What a piece of code does to the names of the function around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of one scope: functions, lambdas and classes inside appear, their bodies do not."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))


def stored(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that the code binds or deletes in its own scope, and those that functions inside write by `nonlocal`."""
    found: set[str] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        found |= _binds(node)
        if isinstance(node, _COMPREHENSIONS):
            found |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        elif isinstance(node, _SCOPES):
            found |= {name for n in ast.walk(node) if isinstance(n, ast.Nonlocal) for name in n.names}
        else:
            stack.extend(ast.iter_child_nodes(node))
    return found


def _binds(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return {node.id}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name).partition(".")[0] for a in node.names}
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return {node.name} if node.name else set()
    if isinstance(node, ast.MatchMapping):
        return {node.rest} if node.rest else set()
    return set()


def parameters(args: ast.arguments) -> list[str]:
    """Names of all parameters."""
    every = (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
    return [a.arg for a in every if a is not None]


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists directly inside a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(node, name, None)
        if isinstance(part, list):
            yield part
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body


def contains(nodes: Iterable[ast.AST], *kinds: type[ast.AST]) -> bool:
    """Whether a node of these kinds lies in the scope."""
    return any(isinstance(n, kinds) for n in walk(nodes))

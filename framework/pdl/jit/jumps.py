"""`return`, `break` and `continue` written as assignments to flags, so that branches and loop bodies become functions.

What follows a statement that may jump is put into the branch that did not jump, or, where both may go on, under a test
of the flags. The value of an early return waits in `_pdl_value`.
"""

from __future__ import annotations

import ast
from typing import cast

from pdl.jit import scope
from pdl.jit.nodes import at, helper

VALUE, DONE = "_pdl_value", "_pdl_done"


def lower(function: ast.FunctionDef) -> None:
    """Rewrite the jumps of a function in place; where no `return` lies in a branch or loop, they stay as they are."""
    lowering = _Lowering(_returns_early(function.body))
    documented = int(ast.get_docstring(function) is not None)
    head, stmts = function.body[:documented], function.body[documented:] or [_pass(function)]
    if lowering.early:
        stmts = stmts if _ends(stmts) else [*stmts, _return(ast.Constant(None), stmts[-1])]
        body, _ = lowering.block(stmts)
        body = [_assign(DONE, False, function), *body, _return(ast.Name(VALUE, ast.Load()), stmts[-1])]
    else:
        body, _ = lowering.block(stmts)
    function.body = head + _without_unread(body, lowering.read)


class _Lowering:
    def __init__(self, early: bool) -> None:
        self.early = early  # whether `return` becomes an assignment
        self.read: set[str] = set()  # the flags that something tests
        self._loops: list[tuple[str, str]] = []  # (break flag, continue flag) of the loops around
        self._count = 0

    def block(self, stmts: list[ast.stmt]) -> tuple[list[ast.stmt], set[str]]:
        """The statements without jumps, and the flags they may set."""
        done: list[ast.stmt] = []
        flags: set[str] = set()
        for i, stmt in enumerate(stmts):
            rest = self._sink(stmt, stmts[i + 1 :])
            made, jumps = self._statement(stmt)
            done += made
            flags |= jumps
            if jumps and rest and not _ends([stmt]):
                self.read |= jumps
                after, more = self.block(rest)
                guarded = at(ast.If(_none_of(sorted(jumps), rest[0]), after, []), rest[0])
                return [*done, guarded], flags | more
            if not rest or _ends([stmt]):
                break
        return done, flags

    def _sink(self, stmt: ast.stmt, rest: list[ast.stmt]) -> list[ast.stmt]:
        """Move what follows into the one branch of an `if` that goes on, where the other jumps; what is left to do."""
        if not isinstance(stmt, ast.If) or not self._jumps([stmt]):
            return rest
        if _ends(stmt.body):
            stmt.orelse = [*stmt.orelse, *rest]
        elif _ends(stmt.orelse):
            stmt.body = [*stmt.body, *rest]
        else:
            return rest
        return []

    def _jumps(self, stmts: list[ast.stmt]) -> bool:
        kinds: tuple[type[ast.AST], ...] = (ast.Break, ast.Continue)
        return scope.contains(stmts, *kinds, *((ast.Return,) if self.early else ()))

    def _statement(self, stmt: ast.stmt) -> tuple[list[ast.stmt], set[str]]:
        if isinstance(stmt, ast.Return) and self.early:
            value = stmt.value or at(ast.Constant(None), stmt)
            return [at(ast.Assign([_name(VALUE, stmt, store=True)], value), stmt), _assign(DONE, True, stmt)], {DONE}
        if isinstance(stmt, ast.Break | ast.Continue):
            flag = self._loops[-1][isinstance(stmt, ast.Continue)]
            return [_assign(flag, True, stmt)], {flag}
        if isinstance(stmt, ast.For | ast.While):
            return self._loop(stmt)
        if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return [stmt], set()
        return [stmt], self._inside(stmt)

    def _inside(self, stmt: ast.stmt) -> set[str]:
        """Rewrite the blocks of a compound statement."""
        flags: set[str] = set()
        for part in scope.blocks(stmt):
            if part:
                part[:], jumps = self.block(list(part))
                flags |= jumps
        if isinstance(stmt, ast.Try | ast.TryStar) and stmt.orelse and flags:
            self.read |= flags
            stmt.orelse = [at(ast.If(_none_of(sorted(flags), stmt), stmt.orelse, []), stmt)]
        return flags

    def _loop(self, loop: ast.For | ast.While) -> tuple[list[ast.stmt], set[str]]:
        self._count += 1
        stop, skip = f"_pdl_break_{self._count}", f"_pdl_continue_{self._count}"
        self._loops.append((stop, skip))
        loop.body, flags = self.block(loop.body)
        self._loops.pop()
        ends = sorted(flags & {stop, DONE})
        self.read |= set(ends)
        if skip in flags:
            loop.body = [_assign(skip, False, loop), *loop.body]
        before: list[ast.stmt] = [_assign(stop, False, loop)] if stop in flags else []
        after, jumps = self.block(loop.orelse) if loop.orelse else ([], set())
        if after and ends:
            after = [at(ast.If(_none_of(ends, loop), after, []), loop)]
        loop.orelse = []
        _set_ends(loop, ends)
        return [*before, loop, *after], (flags & {DONE}) | jumps


def _set_ends(loop: ast.For | ast.While, flags: list[str]) -> None:
    """A loop goes on while none of the flags is set: `while` gets it in its test, `for` as the attribute `go`."""
    if not flags:
        return
    go = _none_of(flags, loop)
    if isinstance(loop, ast.While):
        loop.test = at(ast.BoolOp(ast.And(), [go, loop.test]), loop.test)
    else:
        loop.go = go  # type: ignore[attr-defined]


def _returns_early(body: list[ast.stmt]) -> bool:
    """Whether a `return` lies in a branch or loop."""
    inside = [n for n in scope.walk(body) if isinstance(n, ast.If | ast.For | ast.While)]
    return any(scope.contains([*n.body, *n.orelse], ast.Return) for n in inside)


def _ends(stmts: list[ast.stmt]) -> bool:
    """Whether control never runs off the end of the statements."""
    if not stmts:
        return False
    last = stmts[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    if isinstance(last, ast.With):
        return _ends(last.body) and scope.contains(last.body, ast.Return)
    return isinstance(last, ast.Return | ast.Break | ast.Continue | ast.Raise)


def _without_unread(stmts: list[ast.stmt], read: set[str]) -> list[ast.stmt]:
    """Flags that nothing tests are not set."""
    kept: list[ast.stmt] = []
    for stmt in stmts:
        if isinstance(stmt, ast.Assign) and getattr(stmt, "flag", None) not in (None, *read):
            continue
        if not isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in scope.blocks(stmt):
                if part:
                    part[:] = _without_unread(part, read) or [_pass(part[0])]
        kept.append(stmt)
    return kept


# -- making nodes ------------------------------------------------------------------------------------------------------
def _pass(place: ast.AST) -> ast.stmt:
    return cast(ast.stmt, at(ast.Pass(), place))


def _name(name: str, place: ast.AST, *, store: bool = False) -> ast.Name:
    return cast(ast.Name, at(ast.Name(name, ast.Store() if store else ast.Load()), place))


def _assign(name: str, value: bool, place: ast.AST) -> ast.stmt:
    made = at(ast.Assign([_name(name, place, store=True)], ast.Constant(value)), place)
    made.flag = name
    return cast(ast.stmt, made)


def _none_of(flags: list[str], place: ast.AST) -> ast.expr:
    call = helper("none_of", [_name(f, place) for f in flags], place)
    call.helper = True  # type: ignore[attr-defined]
    return call


def _return(value: ast.expr, place: ast.AST) -> ast.stmt:
    return cast(ast.stmt, at(ast.Return(value), place))

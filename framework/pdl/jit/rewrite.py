"""The rewriting of a function: branches, loops and whatever looks at truth become calls of `pdl.jit.runtime`.

    if t: A                     def then(): nonlocal names of A; A
    else: B                     def other(): nonlocal names of B; B
                                runtime.if_(t, then, other, names, line)

The helpers decide at run time: a plain value takes Python's way, a tensor in a trace becomes a node. Variables stay
ordinary Python variables (of the enclosing function, through closures), so an unbound one is unbound and a debugger
shows them. Every new node carries the line of the code it stands for.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, cast

from pdl.jit import jumps, scope
from pdl.jit.errors import ConversionError, Place
from pdl.jit.nodes import HELPERS, at, const, helper, line_of, load, thunk
from pdl.jit.source import Source

_SNAPSHOT = ("locals", "vars", "eval", "exec")
_MUTATORS = {
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault", "popitem", "add",
    "discard",
}  # fmt: skip
_COMPARE = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip


def rewrite(source: Source, file: str, free: tuple[str, ...]) -> ast.Module:
    """A module that holds ``def factory(free..., helpers): <the function, rewritten>``."""
    node = copy.deepcopy(source.node)
    if isinstance(node, ast.Lambda):
        inner: ast.stmt = at(ast.Return(node), node)
        Rewriter(file, source.owner).expression(node)
    else:
        node.decorator_list = []
        node.name = "_pdl_function"  # its own name stays global: a function may call itself
        _refuse_generators(node, file)
        inner = Rewriter(file, source.owner).function(cast(ast.FunctionDef, node))
    names = [ast.arg(n) for n in (*free, HELPERS)]
    arguments = ast.arguments([], names, None, [], [], None, [])
    factory = at(ast.FunctionDef("_pdl_factory", arguments, [inner], []), source.node)
    return ast.Module([factory], [])


class Rewriter(ast.NodeTransformer):
    """Rewrites one function and the functions in it."""

    def __init__(self, file: str, owner: str | None) -> None:
        self.file, self.owner = file, owner
        self._self: str | None = None  # the first parameter of the outermost function, for super()
        self._shared: set[str] = set()  # names that inner functions write by `nonlocal`
        self._locals: set[str] = set()  # of the function and those in it
        self._count = 0

    def function(self, node: ast.FunctionDef, *, inner: bool = False) -> ast.FunctionDef:
        """Rewrite a `def` in place."""
        if not inner:
            self._self = next(iter(scope.parameters(node.args)), None)
        self._refuse_names(node.body, inner)
        self._locals |= set(scope.parameters(node.args)) | scope.stored(cast(list[ast.AST], node.body))
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self._defaults(node.args)
        outer_shared, self._shared = self._shared, _nonlocals(node.body)
        jumps.lower(node)
        lifted = _stored_in_lifted(node.body) | self._shared
        declared = {n for s in node.body if isinstance(s, ast.Nonlocal) for n in s.names}
        node.body = self.block(node.body)
        unbound = sorted(lifted - set(scope.parameters(node.args)) - declared)
        if unbound:
            node.body.insert(_after_head(node.body), _binding(unbound, node))
        self._shared = outer_shared
        return node

    def expression(self, node: ast.Lambda) -> None:
        """Rewrite a lambda in place."""
        self._locals |= set(scope.parameters(node.args))
        self._defaults(node.args)
        node.body = self.visit(node.body)

    def block(self, stmts: list[ast.stmt]) -> list[ast.stmt]:
        """The statements, rewritten."""
        made: list[ast.stmt] = []
        for stmt in stmts:
            new = self.visit(stmt)
            made += new if isinstance(new, list) else [new]
        return made

    # -- statements ----------------------------------------------------------------------------------------------------
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function inside: rewritten too, unless it is a generator."""
        return node if scope.contains(node.body, ast.Yield, ast.YieldFrom) else self.function(node, inner=True)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Left as it is."""
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Left as it is."""
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A lambda inside."""
        self.expression(node)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """``if_(test, then, other, names, line)``."""
        names = self._names([*node.body, *node.orelse])
        test = self.visit(node.test)
        then = self._lift("then", names, self.block(node.body), node)
        other = self._lift("other", names, self.block(node.orelse), node)
        call = self._statement("if_", [test, load(then), load(other), const(names), line_of(node)], node)
        return [then, other, call]

    def visit_While(self, node: ast.While) -> Any:
        """``while_(test, body, names, line, test_writes)``."""
        names = self._names([*node.body, node.test])
        writes = any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test))
        test = self._lift("test", names, [at(ast.Return(self.visit(node.test)), node.test)], node)
        body = self._lift("body", names, self.block(node.body), node)
        arguments = [load(test), load(body), const(names), line_of(node), ast.Constant(writes)]
        return [test, body, self._statement("while_", arguments, node)]

    def visit_For(self, node: ast.For) -> Any:
        """``for_(iterable, body(item), go, names, line)``."""
        names = self._names([*node.body, node.target])
        iterable = self.visit(node.iter)
        take = at(ast.Assign([node.target], ast.Name("_pdl_item", ast.Load())), node.target)
        body = self._lift("body", names, [take, *self.block(node.body)], node, "_pdl_item")
        flags = getattr(node, "go", None)
        go: ast.expr = ast.Constant(None) if flags is None else thunk(flags)
        call = self._statement("for_", [iterable, load(body), go, const(names), line_of(node)], node)
        return [body, call]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Without its annotation, which `nonlocal` does not allow."""
        if node.value is None:
            return at(ast.Pass(), node)
        return self.visit(at(ast.Assign([node.target], node.value), node))

    def visit_Assert(self, node: ast.Assert) -> Any:
        """``assert_(test, message thunk, line)``."""
        message = ast.Constant(None) if node.msg is None else thunk(self.visit(node.msg))
        return self._statement("assert_", [self.visit(node.test), message, line_of(node)], node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """An attribute is set by a helper, which knows buffers."""
        if len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Attribute):
            return self._set_attribute(target, self.visit(node.value), node)
        return self._marked(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """``x.a += v`` where x is a plain name or path reads as ``x.a = x.a + v``."""
        target = node.target
        if isinstance(target, ast.Attribute) and _is_path(target):
            read = ast.Attribute(copy.deepcopy(target.value), target.attr, ast.Load())
            return self._set_attribute(target, at(ast.BinOp(read, node.op, self.visit(node.value)), node), node)
        return self._marked(node, [target])

    def visit_Delete(self, node: ast.Delete) -> Any:
        """Deleting an item or attribute is an effect."""
        return self._marked(node, node.targets)

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A method that changes an object held elsewhere (``self.seen.append(x)``) is an effect."""
        call = node.value
        method = call.func if isinstance(call, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in _MUTATORS and not self._is_local(method.value):
            what = f"{ast.unparse(method)}() changes an object that lives on"
            return [self._change(what, method.value, node), self.generic_visit(node)]
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """Raising depends on a tensor inside a tensor branch."""
        return [self._effect("raise cannot depend on a tensor; use assert", node), self.generic_visit(node)]

    def visit_Try(self, node: ast.Try) -> Any:
        """Not in tensor branches: no exception passes through a program."""
        return [self._effect("try has no meaning inside a program", node), self._compound(node)]

    def visit_TryStar(self, node: ast.TryStar) -> Any:
        """As `try`."""
        return [self._effect("try has no meaning inside a program", node), self._compound(node)]

    def visit_With(self, node: ast.With) -> Any:
        """Not in tensor branches, but for pdl's gradient modes: entering and leaving are effects."""
        plain = ("no_grad", "set_grad_enabled")
        known = all(ast.unparse(i.context_expr).partition("(")[0].rpartition(".")[2] in plain for i in node.items)
        if known:
            return self._compound(node)
        return [
            self._effect("a with-block enters and leaves whether or not the branch is taken", node),
            self._compound(node),
        ]

    def visit_Match(self, node: ast.Match) -> Any:
        """Plain Python; its cases are rewritten."""
        return self._compound(node)

    def _compound(self, node: Any) -> Any:
        blocks = list(scope.blocks(node))
        bodies = [self.block(part) for part in blocks]
        for part in blocks:
            part[:] = [at(ast.Pass(), part[0])] if part else []
        self.generic_visit(node)
        for part, body in zip(scope.blocks(node), bodies, strict=True):
            part[:] = body
        return node

    # -- expressions ---------------------------------------------------------------------------------------------------
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``and_(a, lambda: b)``: the second is evaluated only where Python would evaluate it."""
        if any(isinstance(n, ast.NamedExpr) for v in node.values[1:] for n in ast.walk(v)):
            return self.generic_visit(node)
        cheap = all(_cannot_fail(v) for v in node.values[1:])
        first, *rest = [self.visit(v) for v in node.values]
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return helper(name, [first, ast.Constant(cheap), line_of(node), *map(thunk, rest)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """``not_(a)``."""
        self.generic_visit(node)
        return helper("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``a < b < c``: every operand once, and the later ones only where needed."""
        self.generic_visit(node)
        if len(node.ops) == 1 or any(isinstance(n, ast.NamedExpr) for v in node.comparators for n in ast.walk(v)):
            return node
        signs = tuple(_COMPARE[type(op)] for op in node.ops)
        return helper("compare", [const(signs), line_of(node), node.left, *map(thunk, node.comparators)], node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """``choose(test, lambda: a, lambda: b, line)``."""
        self.generic_visit(node)
        if any(isinstance(n, ast.NamedExpr) for v in (node.body, node.orelse) for n in ast.walk(v)):
            return node
        return helper("choose", [node.test, thunk(node.body), thunk(node.orelse), line_of(node)], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``call(f)(...)``: user functions are rewritten in turn, some builtins have a form for tensors."""
        if getattr(node, "helper", False):
            return node
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            if node.args or self._self is None:
                return self.generic_visit(node)
            node.args = [at(ast.Name("__class__", ast.Load()), node), at(ast.Name(self._self, ast.Load()), node)]
            return node
        self.generic_visit(node)
        node.func = helper("call", [node.func], node.func)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Private names (``__x``) as the class spells them."""
        self.generic_visit(node)
        node.attr = self._mangled(node.attr)
        return node

    # -- helpers -------------------------------------------------------------------------------------------------------
    def _mangled(self, name: str) -> str:
        if self.owner is None or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.owner.lstrip('_')}{name}"

    def _names(self, nodes: list[Any]) -> tuple[str, ...]:
        return tuple(sorted(scope.stored(nodes) | self._shared))

    def _lift(
        self, kind: str, names: tuple[str, ...], body: list[ast.stmt], place: ast.AST, *parameters: str
    ) -> ast.FunctionDef:
        """``def kind(parameters): nonlocal names; body``."""
        self._count += 1
        arguments = ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, [])
        head: list[ast.stmt] = [ast.Nonlocal(list(names))] if names else []
        name = f"_pdl_{kind}_{self._count}"
        made = ast.FunctionDef(name, arguments, [*head, *(body or [ast.Pass()])], [])
        return cast(ast.FunctionDef, at(made, place))

    def _statement(self, name: str, arguments: list[ast.expr], place: ast.AST) -> ast.stmt:
        return cast(ast.stmt, at(ast.Expr(helper(name, arguments, place)), place))

    def _effect(self, what: str, place: ast.AST) -> ast.stmt:
        return self._statement("effect", [ast.Constant(what), line_of(place)], place)

    def _is_local(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._locals

    def _change(self, what: str, changed: ast.expr, place: ast.AST) -> ast.stmt:
        """A mark before a change of an object: ``change(what, object at the root, is it from outside, line)``."""
        root = changed
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        named = isinstance(root, ast.Name)
        owner: ast.expr = ast.Name(cast(ast.Name, root).id, ast.Load()) if named else ast.Constant(None)
        outside = ast.Constant(named and not self._is_local(root))
        return self._statement("change", [ast.Constant(what), owner, outside, line_of(place)], place)

    def _marked(self, node: Any, targets: list[ast.expr]) -> Any:
        """The statement, after an effect for every attribute or item that it writes beyond local containers."""
        marks = []
        for target in (n for t in targets for n in ast.walk(t) if not isinstance(getattr(n, "ctx", None), ast.Load)):
            if isinstance(target, ast.Subscript) and self._is_local(target.value):
                what = ast.Constant(f"{ast.unparse(target)} is written")
                owner = at(ast.Name(cast(ast.Name, target.value).id, ast.Load()), target)
                marks.append(self._statement("item_effect", [owner, what, line_of(node)], node))
            elif isinstance(target, ast.Subscript | ast.Attribute):
                marks.append(self._change(f"{ast.unparse(target)} is written", target.value, node))
        self.generic_visit(node)
        return [*marks, node] if marks else node

    def _set_attribute(self, target: ast.Attribute, value: ast.expr, node: ast.stmt) -> ast.stmt:
        owner = self.visit(target.value)
        arguments = [owner, ast.Constant(self._mangled(target.attr)), value, line_of(node)]
        return self._statement("set_attribute", arguments, node)

    def _defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.visit(d) for d in args.defaults]
        args.kw_defaults = [None if d is None else self.visit(d) for d in args.kw_defaults]

    def _refuse_names(self, body: list[ast.stmt], inner: bool) -> None:
        for node in scope.walk(body):
            if isinstance(node, ast.Global) or (isinstance(node, ast.Nonlocal) and not inner):
                kind = type(node).__name__.lower()
                names = ", ".join(node.names)
                reason = f"{kind} {names}: a program cannot write variables outside the function; return the value"
                raise ConversionError(reason, Place(self.file, node.lineno))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SNAPSHOT:
                reason = f"{node.func.id}() sees the variables of one frame; a converted function has several"
                raise ConversionError(reason, Place(self.file, node.lineno))


def _refuse_generators(node: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> None:
    if isinstance(node, ast.AsyncFunctionDef):
        raise ConversionError("a program cannot wait: async functions are not converted", Place(file, node.lineno))
    for part in scope.walk(node.body):
        if isinstance(part, ast.Yield | ast.YieldFrom):
            reason = "a program returns once: functions with yield are not converted; return a list"
            raise ConversionError(reason, Place(file, part.lineno))


def _nonlocals(body: list[ast.stmt]) -> set[str]:
    """Names that functions inside write."""
    inner = [n for n in scope.walk(body) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {name for f in inner for n in ast.walk(f) if isinstance(n, ast.Nonlocal) for name in n.names}


def _stored_in_lifted(body: list[ast.stmt]) -> set[str]:
    lifted = [n for n in scope.walk(body) if isinstance(n, ast.If | ast.For | ast.While)]
    return scope.stored(cast(list[ast.AST], lifted))


def _after_head(body: list[ast.stmt]) -> int:
    """Where the first statement after docstring and declarations stands."""
    at = 0
    while at < len(body) and (
        isinstance(body[at], ast.Nonlocal)
        or (at == 0 and isinstance(body[at], ast.Expr) and isinstance(cast(ast.Expr, body[at]).value, ast.Constant))
    ):
        at += 1
    return at


def _binding(names: list[str], place: ast.AST) -> ast.stmt:
    """``if 0: a = b = None``: makes the names local to the function, and runs nothing."""
    targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
    return cast(ast.stmt, at(ast.If(ast.Constant(0), [ast.Assign(targets, ast.Constant(None))], []), place))


def _cannot_fail(node: ast.expr) -> bool:
    """Whether evaluating it where Python would not does no harm: no calls, no items."""
    kinds = (
        ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Attribute, ast.expr_context, ast.cmpop,
        ast.unaryop, ast.boolop,
    )  # fmt: skip
    return all(isinstance(n, kinds) or getattr(n, "helper", False) for n in ast.walk(node))


def _is_path(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_path(node.value))

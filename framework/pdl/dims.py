"""Symbolic sizes: a `Dim` is an integer with an expression in sizes that are known only when a program runs.

Its value is the example it was made with, so every line of code that computes with shapes takes it for a number; sums,
products, quotients and remainders of it stay symbolic, and so do `maximum` and `minimum` of sizes. Expressions are
integer polynomials in canonical form whose atoms are names ("n", "h"), floored quotients, and what of an expression is
above 0; equal expressions have equal text. Names stand for sizes, which are at least 0.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from pdl.errors import UsageError

#: a name, ("//", numerator, denominator), or ("max", expression, ()): the larger of it and 0
Atom: TypeAlias = Any
#: coefficient of each product of atoms, sorted; the empty product is the constant term
Poly: TypeAlias = "tuple[tuple[tuple[Atom, ...], int], ...]"

MAX_TEXT = 2000  # characters of an expression that is read
MAX_TERMS = 64  # beyond, an expression is no size that a net computes


class Dim(int):
    """A size with the expression it stands for; as a number it is its example.

    Use ``Dim.symbol("n", 3)`` for a new name. Two Dims are equal as numbers; compare `text` for the expression.
    """

    expression: Poly

    def __new__(cls, example: int, expression: Poly) -> Dim:  # noqa: D102
        made = super().__new__(cls, example)
        made.expression = expression
        return made

    @staticmethod
    def symbol(name: str, example: int) -> Dim:
        """The size called `name`, traced as `example`."""
        if not name.isidentifier() or example < 1:
            raise UsageError(f"a symbolic size is an identifier with an example of at least 1, got {name!r}, {example}")
        return Dim(example, _symbol(name))

    @staticmethod
    def parse(text: str, examples: Mapping[str, int]) -> int:
        """The size that `text` writes, such as ``(h + 2) // 2``; a plain int where no name is in it."""
        expression = _parse(text)
        unknown = names_of(expression) - examples.keys()
        if unknown:
            raise UsageError(f"size {text!r}: {', '.join(sorted(unknown))} is not among the sizes {sorted(examples)}")
        return _sized(evaluate(expression, examples), expression)

    @property
    def text(self) -> str:
        """The expression as it is stored and read by `parse`."""
        return _show(self.expression)

    @property
    def names(self) -> set[str]:
        """The sizes it depends on."""
        return names_of(self.expression)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value where the names have these sizes."""
        return evaluate(self.expression, sizes)

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def __add__(self, other: Any) -> Any:
        return _combine(self, other, int.__add__, _add)

    def __radd__(self, other: Any) -> Any:
        return _combine(self, other, int.__add__, _add)

    def __sub__(self, other: Any) -> Any:
        return _combine(self, other, int.__sub__, lambda a, b: _add(a, _times(b, -1)))

    def __rsub__(self, other: Any) -> Any:
        return _combine(self, other, lambda a, b: int(b) - int(a), lambda a, b: _add(b, _times(a, -1)))

    def __mul__(self, other: Any) -> Any:
        return _combine(self, other, int.__mul__, _multiply)

    def __rmul__(self, other: Any) -> Any:
        return _combine(self, other, int.__mul__, _multiply)

    def __floordiv__(self, other: Any) -> Any:
        return _combine(self, other, int.__floordiv__, _divide)

    def __rfloordiv__(self, other: Any) -> Any:
        return _combine(self, other, lambda a, b: int(b) // int(a), lambda a, b: _divide(b, a))

    def __mod__(self, other: Any) -> Any:
        return _combine(self, other, int.__mod__, _remainder)

    def __rmod__(self, other: Any) -> Any:
        return _combine(self, other, lambda a, b: int(b) % int(a), lambda a, b: _remainder(b, a))

    def __neg__(self) -> Any:
        return Dim(-int(self), _times(self.expression, -1))

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


def index(value: Any) -> int:
    """`operator.index`, which would make a plain number of a Dim."""
    return value if isinstance(value, Dim) else operator.index(value)


def at(value: Any, sizes: Mapping[str, int]) -> Any:
    """A value with every Dim in its tuples replaced by its size; the same object where there is none."""
    if isinstance(value, Dim):
        return value.at(sizes)
    if isinstance(value, tuple):
        made = [at(v, sizes) for v in value]
        return value if all(a is b for a, b in zip(made, value, strict=True)) else _like(value, made)
    return value


def expression_of(value: int) -> Poly:
    """The canonical expression of a size."""
    return value.expression if isinstance(value, Dim) else _constant(int(value))


def same(a: int, b: int) -> bool:
    """Whether two sizes are equal whatever the names stand for."""
    return expression_of(a) == expression_of(b)


def maximum(a: int, b: int) -> int:
    """The larger of two sizes, whatever the names stand for."""
    return b + _above_zero(a - b)


def minimum(a: int, b: int) -> int:
    """The smaller of two sizes, whatever the names stand for."""
    return a - _above_zero(a - b)


def least(value: int) -> int | None:
    """A number that a size is never below; None where none was found."""
    return _least(expression_of(value))


def examples(sizes: Iterable[int]) -> dict[str, int]:
    """The example of each name in some sizes: those that stand alone first, then factors beside them, as in n b."""
    found: dict[str, int] = {}
    waiting = [n for n in sizes if isinstance(n, Dim)]
    found |= {n.text: int(n) for n in waiting if n.text in n.names}
    for n in waiting:
        for name in n.names - found.keys():
            found[name] = int(n) // max(1, n.at({**dict.fromkeys(n.names, 1), **found}))
    return found


def symbolic(value: Any) -> bool:
    """Whether a Dim is in a value or its tuples."""
    return isinstance(value, Dim) or (isinstance(value, tuple) and any(map(symbolic, value)))


def evaluate(expression: Poly, sizes: Mapping[str, int]) -> int:
    """The number an expression gives; ZeroDivisionError becomes a UsageError."""
    total = 0
    for product, factor in expression:
        for atom in product:
            factor *= sizes[atom] if isinstance(atom, str) else _number(atom, sizes)
        total += factor
    return total


def names_of(expression: Poly) -> set[str]:
    """The names in an expression."""
    found: set[str] = set()
    for product, _ in expression:
        for atom in product:
            found |= {atom} if isinstance(atom, str) else names_of(atom[1]) | names_of(atom[2])
    return found


# -- polynomials -------------------------------------------------------------------------------------------------------
def _symbol(name: str) -> Poly:
    return (((name,), 1),)


def _constant(value: int) -> Poly:
    return (((), value),) if value else ()


def _poly(terms: Mapping[tuple[Atom, ...], int]) -> Poly:
    return tuple(sorted(((p, c) for p, c in terms.items() if c), key=lambda term: (-len(term[0]), str(term[0]))))


def _add(a: Poly, b: Poly) -> Poly:
    terms = dict(a)
    for product, factor in b:
        terms[product] = terms.get(product, 0) + factor
    return _poly(terms)


def _times(a: Poly, factor: int) -> Poly:
    return _poly({p: c * factor for p, c in a})


def _multiply(a: Poly, b: Poly) -> Poly:
    terms: dict[tuple[Atom, ...], int] = {}
    for p, c in a:
        for q, d in b:
            product = tuple(sorted(p + q, key=str))
            terms[product] = terms.get(product, 0) + c * d
    return _poly(terms)


def _divide(a: Poly, b: Poly) -> Poly:
    """floor(a / b): terms that b divides leave the quotient, which is exact for integers, and so do whole multiples of
    b in a constant: (h - 1) // 2 + 1 is (h + 1) // 2. A quotient inside is merged: (h // 2 + n) // 3 is (h + 2 n) // 6.
    """
    if len(b) != 1:
        return _constant(1) if a == b else () if not a else (((("//", a, b),), 1),)
    (divisor, factor) = b[0]
    inner = [product[0] for product, c in a if c == 1 and len(product) == 1 and _by_number(product[0])]
    if len(inner) == 1 and not divisor and factor > 0:
        _, numerator, ((_, by),) = inner[0]
        others = _add(a, ((tuple(inner), -1),))
        return _divide(_add(numerator, _times(others, by)), _constant(by * factor))
    whole: dict[tuple[Atom, ...], int] = {}
    rest: dict[tuple[Atom, ...], int] = {}
    for product, c in a:
        left = _without(product, divisor)
        if left is not None and c % factor == 0:
            whole[left] = c // factor
        else:
            rest[product] = c
    if not divisor and () in rest:
        whole[()], rest[()] = divmod(rest[()], factor)
    if not rest:
        return _poly(whole)
    if set(rest) == {()} and not divisor:
        return _poly(whole)
    return _add(_poly(whole), (((("//", _poly(rest), b),), 1),))


def _by_number(atom: Atom) -> bool:
    """Whether an atom is a quotient by a positive number."""
    return not isinstance(atom, str) and len(atom[2]) == 1 and not atom[2][0][0] and atom[2][0][1] > 0


def _remainder(a: Poly, b: Poly) -> Poly:
    """a - b floor(a / b)."""
    return _add(a, _times(_multiply(b, _divide(a, b)), -1))


def _without(product: tuple[Atom, ...], divisor: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    left = list(product)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _above_zero(value: int) -> int:
    """The larger of a size and 0."""
    if not isinstance(value, Dim):
        return max(value, 0)
    if _is_natural(value.expression):
        return value
    if _is_natural(_times(value.expression, -1)):
        return 0
    return _sized(max(int(value), 0), _positive(value.expression))


def _positive(a: Poly) -> Poly:
    """max(a, 0) with a positive first factor inside: max(-a, 0) is max(a, 0) - a."""
    if a[0][1] < 0:
        return _add(_positive(_times(a, -1)), a)
    return (((("max", a, ()),), 1),)


def _is_natural(a: Poly) -> bool:
    bound = _least(a)
    return bound is not None and bound >= 0


def _least(a: Poly) -> int | None:
    """A number that an expression is never below: from the signs of its terms, or after quotients and maxima in it have
    been replaced by what bounds them."""
    found = [bound for bound in (_least_by_signs(a), _least_by_signs(_loosened(a))) if bound is not None]
    return max(found, default=None)


def _least_by_signs(a: Poly) -> int | None:
    total = 0
    for product, factor in a:
        bounds = [_least_atom(atom) for atom in product]
        if product and (factor < 0 or None in bounds or min(b for b in bounds if b is not None) < 0 < len(bounds) - 1):
            return None
        total += factor * math.prod(b for b in bounds if b is not None)
    return total


def _least_atom(atom: Atom) -> int | None:
    if isinstance(atom, str):
        return 0
    kind, a, b = atom
    bound = _least(a)
    if kind == "max":
        return max(bound or 0, 0)
    if _by_number(atom):
        return None if bound is None else bound // b[0][1]
    return 0 if bound is not None and bound >= 0 and _is_natural(b) else None


def _loosened(a: Poly) -> Poly:
    """An expression that is never above: c (p // q) is at least c/q (p - q + 1) for positive c, c/q p for negative;
    max(p, 0) is at least p, and -max(p, 0) at least -p where p is never below 0."""
    for product, factor in a:
        if len(product) != 1 or isinstance(product[0], str):
            continue
        kind, p, _ = product[0]
        bound, rest = None, _add(a, ((product, -factor),))
        if kind == "max" and factor > 0:
            bound = p
        elif kind == "max":
            low = _least(p)
            bound = None if low is None else _add(p, _constant(-min(low, 0)))
        elif _by_number(product[0]) and factor % product[0][2][0][1] == 0:
            by = product[0][2][0][1]
            bound, factor = _add(p, _constant(1 - by)) if factor > 0 else p, factor // by
        if bound is not None:
            a = _add(rest, _times(bound, factor))
    return a


def _number(atom: Atom, sizes: Mapping[str, int]) -> int:
    kind, a, b = atom
    if kind == "max":
        return max(evaluate(a, sizes), 0)
    divisor = evaluate(b, sizes)
    if divisor == 0:
        raise UsageError(f"size {_show_atom(atom)} divides by zero at {dict(sizes)}")
    return evaluate(a, sizes) // divisor


def _combine(a: Dim, b: Any, number: Any, symbolic: Any) -> Any:
    if not isinstance(b, int) or isinstance(b, bool):
        return NotImplemented
    value = number(a, b)
    if value is NotImplemented:
        return value
    return _sized(value, symbolic(a.expression, expression_of(b)))


def _sized(value: int, expression: Poly) -> int:
    if len(expression) > MAX_TERMS:
        raise UsageError(f"a symbolic size of {len(expression)} terms: no shape is computed like that")
    constant = all(not product for product, _ in expression)
    return int(value) if constant else Dim(value, expression)


def _like(value: tuple[Any, ...], made: list[Any]) -> Any:
    return type(value)(*made) if hasattr(value, "_fields") else tuple(made)


# -- text --------------------------------------------------------------------------------------------------------------
def _show(expression: Poly) -> str:
    parts: list[str] = []
    for product, factor in expression:
        names = [_show_atom(atom) for atom in product]
        if len(names) == 1 and abs(factor) == 1 and (parts or factor > 0):  # a sum binds less than its quotients
            names[0] = names[0].removeprefix("(").removesuffix(")") if names[0].startswith("(") else names[0]
        body = "*".join(([str(abs(factor))] if abs(factor) != 1 or not names else []) + names)
        sign = "-" if factor < 0 else "+" if parts else ""
        parts.append(f" {sign} {body}" if parts else sign + body)
    return "".join(parts) or "0"


def _show_atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    kind, a, b = atom
    return f"max({_show(a)}, 0)" if kind == "max" else f"({_inside(a)}//{_inside(b)})"


def _inside(expression: Poly) -> str:
    """A part of a quotient, in parentheses unless it is a name or a number above 0."""
    text = _show(expression)
    return text if text.isalnum() else f"({text})"


@lru_cache(1024)
def _parse(text: str) -> Poly:
    """The expression that `text` writes: names, integers, + - * // %, max(..., 0) and parentheses."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise UsageError(f"a size is text of at most {MAX_TEXT} characters, got {str(text)[:60]!r}")
    try:
        return _read(ast.parse(text, mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        raise _unreadable(text) from None


def _read(node: ast.AST, text: str) -> Poly:
    if isinstance(node, ast.Name):
        return _symbol(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1 << 62:
        return _constant(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _times(_read(node.operand, text), -1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "max":
        return _read_maximum(node, text)
    made = _OPERATORS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if made is None or not isinstance(node, ast.BinOp):
        raise _unreadable(text)
    found: Poly = made(_read(node.left, text), _read(node.right, text))
    if len(found) > MAX_TERMS:
        raise _unreadable(text)
    return found


def _read_maximum(node: ast.Call, text: str) -> Poly:
    """max(a, b), of two expressions."""
    if len(node.args) != 2 or node.keywords:
        raise _unreadable(text)
    a, b = (_read(part, text) for part in node.args)
    apart = _add(a, _times(b, -1))
    return a if _is_natural(apart) else b if _is_natural(_times(apart, -1)) else _add(b, _positive(apart))


def _unreadable(text: str) -> UsageError:
    return UsageError(f"size {text[:60]!r} is not readable; expected names, integers, + - * // % and parentheses")


_OPERATORS: dict[type, Any] = {
    ast.Add: _add,
    ast.Sub: lambda a, b: _add(a, _times(b, -1)),
    ast.Mult: _multiply,
    ast.FloorDiv: _divide,
    ast.Mod: _remainder,
}

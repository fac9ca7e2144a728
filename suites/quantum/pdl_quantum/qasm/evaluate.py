"""Expressions of OpenQASM 3's syntax tree as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.errors import DataError
from pdl_quantum.circuits import Angle, Parameter
from pdl_quantum.qasm.values import Value, binary, call, finite, lookup, negative, whole


def evaluate(node: Any, names: Mapping[str, Any]) -> Value:
    """The value of an expression; DataError where it has none before the program runs."""
    kind = type(node).__name__
    if kind in ("IntegerLiteral", "FloatLiteral", "BooleanLiteral"):
        return finite(node.value)  # type: ignore[no-any-return]
    if kind == "Identifier":
        found = lookup(node.name, names)
        if isinstance(found, Parameter):
            raise DataError(f"{node.name} is an array of inputs; name one of its entries")
        return found
    if kind == "BinaryExpression":
        return binary(_sign(node.op.name), evaluate(node.lhs, names), evaluate(node.rhs, names))
    if kind == "UnaryExpression":
        inner = evaluate(node.expression, names)
        if node.op.name == "-":
            return negative(inner)
        if node.op.name == "!" and not isinstance(inner, Angle):
            return not inner
        raise DataError(f"the operator {node.op.name} is not known here")
    if kind == "FunctionCall":
        return call(node.name.name, [evaluate(each, names) for each in node.arguments])
    if kind == "IndexExpression":
        return _entry(node, names)
    if kind == "Cast":
        return _cast(node, names)
    raise DataError(f"an expression of the kind {kind} has no value before the program runs")


def number_of(node: Any, names: Mapping[str, Any], what: str) -> int:
    """A whole number, such as an index."""
    return whole(evaluate(node, names), what)


def _sign(name: str) -> str:
    if name == "^":
        raise DataError("^ is the exclusive or of bits in OpenQASM 3; a power is **")
    return name


def _cast(node: Any, names: Mapping[str, Any]) -> Value:
    kind, inner = type(node.type).__name__, evaluate(node.argument, names)
    if kind in ("FloatType", "AngleType"):
        return inner if isinstance(inner, Angle) else float(inner)
    if kind in ("IntType", "UintType") and not isinstance(inner, Angle):
        return int(inner)
    raise DataError(f"a cast to {kind} is not known here")


def _entry(node: Any, names: Mapping[str, Any]) -> Angle:
    """theta[0, 1] or theta[0][1]: an entry of an array of inputs."""
    indices: list[Any] = []
    while type(node).__name__ == "IndexExpression":
        indices = [*(node.index if isinstance(node.index, list) else [node.index]), *indices]
        node = node.collection
    name = getattr(node, "name", "")
    held = names.get(name)
    if not isinstance(held, Parameter):
        raise DataError(f"{name!r} is no array of inputs")
    places = tuple(number_of(each, names, "an index") for each in indices)
    if len(places) != len(held.shape) or not all(-n <= k < n for k, n in zip(places, held.shape, strict=True)):
        raise DataError(f"{name}{list(places)}: {name} has the shape {held.shape}")
    flat = np.ravel_multi_index(tuple(k % n for k, n in zip(places, held.shape, strict=True)), held.shape)
    return Angle(name, int(flat))

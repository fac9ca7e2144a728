"""Conditions of OpenQASM 3 as values that bits must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdl.errors import DataError
from pdl_quantum.qasm.evaluate import evaluate, number_of

Bound = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Bits:
    """What a condition may speak of."""

    registers: Mapping[str, Sequence[int]]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """Values of bits for which a condition holds, and those for which not: None where those are several sets."""

    yes: Bound
    no: Bound | None


def condition_of(node: Any, bits: Bits) -> Found | bool:
    """The condition, or its value where it depends on no bit. A register is a number whose lowest bit is its first."""
    kind = type(node).__name__
    held = _bits(node, bits)
    if held is not None:
        if len(held) != 1:
            raise DataError(f"a condition on {len(held)} bits needs a number to compare with")
        return Found(((held[0], 1),), ((held[0], 0),))
    if kind == "UnaryExpression" and node.op.name in ("!", "~") and _speaks(node, bits):
        return _negated(condition_of(node.expression, bits))
    if kind == "BinaryExpression" and _speaks(node, bits):
        if node.op.name == "&&":
            return _and(condition_of(node.lhs, bits), condition_of(node.rhs, bits))
        if node.op.name in ("==", "!="):
            found = _compared(node, bits)
            return _negated(found) if node.op.name == "!=" else found
        raise DataError(f"a condition with {node.op.name}: known are ==, !=, ! and && of bits")
    if _speaks(node, bits):
        raise DataError("a condition that is not known here: ==, !=, ! and && of bits are")
    return bool(evaluate(node, bits.values))


def _bits(node: Any, bits: Bits) -> list[int] | None:
    """Bits that are named."""
    if type(node).__name__ == "Cast":
        return _bits(node.argument, bits)
    if type(node).__name__ == "Identifier" and node.name in bits.registers:
        return list(bits.registers[node.name])
    if type(node).__name__ == "IndexExpression" and getattr(node.collection, "name", None) in bits.registers:
        held = bits.registers[node.collection.name]
        if not isinstance(node.index, list) or len(node.index) != 1:
            raise DataError("a bit is named by one index")
        place = number_of(node.index[0], bits.values, "an index")
        if not -len(held) <= place < len(held):
            raise DataError(f"{node.collection.name}[{place}]: {node.collection.name} has {len(held)} bits")
        return [held[place]]
    return None


def _speaks(node: Any, bits: Bits) -> bool:
    """Whether it depends on bits."""
    if _bits(node, bits) is not None:
        return True
    inner = (getattr(node, name, None) for name in ("lhs", "rhs", "expression", "argument"))
    return any(_speaks(each, bits) for each in inner if each is not None)


def _compared(node: Any, bits: Bits) -> Found | bool:
    left, right = _bits(node.lhs, bits), _bits(node.rhs, bits)
    if (left is None) == (right is None):
        raise DataError("a comparison of bits is one with a number")
    held, other = (left, node.rhs) if left is not None else (right, node.lhs)
    assert held is not None
    if type(other).__name__ == "BitstringLiteral":
        value = int(other.value)
    else:
        value = number_of(other, bits.values, "what bits are compared with")
    if not 0 <= value < 1 << len(held):
        return False
    yes = tuple((bit, value >> k & 1) for k, bit in enumerate(held))
    return Found(yes, ((held[0], 1 - value),) if len(held) == 1 else None)


def _negated(found: Found | bool) -> Found | bool:
    if isinstance(found, bool):
        return not found
    if found.no is None:
        raise DataError("a condition that several bits are not so; write the cases as conditions of their own")
    return Found(found.no, found.yes)


def _and(a: Found | bool, b: Found | bool) -> Found | bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return (a and b) if isinstance(a, bool) else (b and a)
    held = dict(a.yes)
    if any(held.setdefault(bit, value) != value for bit, value in b.yes):
        return False
    return Found(tuple(sorted(held.items())), None)

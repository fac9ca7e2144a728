"""The table of emitters: which function writes an op class as C.

An emitter is ``f(c: Source, node: Node) -> None``; it adds lines to the body of the run function, and names the kernels
of `templates/` that these call. `Refused` says that this setting of the op has no C form, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from pdl.ops.base import Op
from pdl.program.ir import Node

if TYPE_CHECKING:
    from pdl.program.ir import Program

Emitter: TypeAlias = Callable[[Any, Node], None]

#: op class -> emitter; the modules emit_*.py fill it
EMITTERS: dict[type[Op], Emitter] = {}


class Refused(Exception):
    """An op, as it is set, that has no C form; the message says what of it."""


def emits(*kinds: type[Op]) -> Callable[[Emitter], Emitter]:
    """Decorator: the function writes these op classes."""

    def register(emitter: Emitter) -> Emitter:
        for kind in kinds:
            if kind in EMITTERS:
                raise TypeError(f"{kind.__name__} is written by {EMITTERS[kind].__name__} and {emitter.__name__}")
            EMITTERS[kind] = emitter
        return emitter

    return register


def missing(program: Program) -> list[tuple[str, str]]:
    """(op, "file:line") of the nodes of a program whose ops have no emitter, each once."""
    return list(dict.fromkeys((n.op.op_name, place_of(n)) for n in program.nodes if type(n.op) not in EMITTERS))


def place_of(node: Node) -> str:
    """Where a node comes from, for messages."""
    return " ".join(part for part in (node.scope, node.where) if part) or "unknown place"


def listed(faults: Iterable[tuple[str, str]]) -> str:
    """Faults, a line each."""
    return "\n".join(f"  {where}: {what}" for what, where in faults)

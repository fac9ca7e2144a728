"""The table of emitters: which function writes an op class as ONNX nodes.

An emitter is ``f(g: Graph, op, *inputs) -> result``: the inputs are program values (None where an optional one is
absent), the result is one entry per output of the op. An entry is a name (the output in the program's own layout),
`First(name)` (channels first), or None: not written, which is fine while nobody reads that output. `NOT_WRITTEN` as
the whole result says that this setting of the op has no ONNX form. An op from outside of pdl brings its emitter as its
method ``onnx(self, g, *inputs)``; g is a `Graph`, whose `node` writes a node and whose `plain` names a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pdl.ops.base import Op


@dataclass(frozen=True)
class First:
    """An ONNX value whose axes are those of the program's value in the order [N, C, *spatial]."""

    name: str


class _NotWritten:
    """The type of `NOT_WRITTEN`."""

    def __repr__(self) -> str:
        return "NOT_WRITTEN"


NOT_WRITTEN = _NotWritten()
Entry: TypeAlias = "str | First | None"
Result: TypeAlias = "Entry | tuple[Entry, ...] | _NotWritten"
Emitter: TypeAlias = Callable[..., Result]

#: op class -> emitter; the modules emit_*.py fill it
EMITTERS: dict[type[Op], Emitter] = {}


def emits(*kinds: type[Op]) -> Callable[[Emitter], Emitter]:
    """Decorator: the function writes these op classes."""

    def register(emitter: Emitter) -> Emitter:
        for kind in kinds:
            if kind in EMITTERS:
                raise TypeError(f"{kind.__name__} is written by {EMITTERS[kind].__name__} and {emitter.__name__}")
            EMITTERS[kind] = emitter
        return emitter

    return register


def emitter_of(kind: type[Op]) -> Emitter | None:
    """The emitter of an op class: of this table, or the op's own method `onnx`; None where it has neither."""
    return EMITTERS.get(kind) or (_own if callable(kind.onnx) else None)


def _own(g: Any, op: Op, *inputs: Any) -> Result:
    return op.onnx(g, *inputs)  # type: ignore[no-any-return]

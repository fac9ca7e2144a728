"""Tracing with sizes that may change, and the proof that they may: fresh traces at other sizes must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.autograd.anomaly import PACKAGE
from pdl.dims import Dim, examples
from pdl.errors import PdlError, TraceError
from pdl.nn.module import evaluating
from pdl.ops.base import Spec
from pdl.program import Node, Program, Value, specialise, trace, verify
from pdl.program.ir import show_op


def trace_symbolic(module: Any, inputs: Mapping[str, Spec]) -> tuple[Program, list[str]]:
    """The program of a module's deployed form in evaluation mode, and a line for every size that had to be fixed.

    Sizes that are `Dim` symbols in `inputs` stay symbolic where programs traced afresh at other sizes are what
    `specialise` makes of this one, op by op and constant by constant. Raises TraceError where the code cannot be
    traced at all.
    """
    with evaluating(module):
        return _trace(module.deployed().eval(), inputs)


def _trace(module: Any, inputs: Mapping[str, Spec]) -> tuple[Program, list[str]]:
    symbols = examples(_sizes(inputs))
    kept: list[str] = []
    notes: list[str] = []
    for name, size in symbols.items():
        why = _objection(module, inputs, [*kept, name], symbols)
        if why is None:
            kept.append(name)
        else:
            notes.append(f"size {name} is fixed at {size}: {why}")
    return _traced(module, inputs, {}, kept), notes


def _traced(module: Any, inputs: Mapping[str, Spec], sizes: Mapping[str, int], kept: Sequence[str]) -> Program:
    """The module's program with these sizes, those in `kept` symbolic and the others as in the example."""

    known = {**examples(_sizes(inputs)), **sizes}
    at = {name: Dim.symbol(name, n) if name in kept else n for name, n in known.items()}

    def size(n: int) -> int:
        return n.at(at) if isinstance(n, Dim) else n

    specs = [Spec(tuple(size(n) for n in spec.shape), spec.dtype) for spec in inputs.values()]
    program = trace(module, *specs, name=type(module).__name__)
    for value, name in zip(program.inputs, inputs, strict=True):
        value.name = name
    return verify(program)


def _sizes(inputs: Mapping[str, Spec]) -> list[Dim]:
    return [n for spec in inputs.values() for n in spec.shape if isinstance(n, Dim)]


def other_sizes(name: str, size: int) -> tuple[int, int, int]:
    """Sizes to try a symbolic axis at: an odd one, an even one, and twice the example, which most strides divide."""
    return (1, 4, 2 * size) if name == "n" else (size + 37, 3 * size // 2 + 2, 2 * size)


def _objection(module: Any, inputs: Mapping[str, Spec], kept: list[str], symbols: Mapping[str, int]) -> str | None:
    """Why the axes in `kept` cannot all be symbolic; None where they can."""
    try:
        program = _traced(module, inputs, {}, kept)
    except TraceError as error:
        if len(kept) == 1 and not _traces(module, inputs):
            raise
        return f"{error.reason} ({_short(error.where)})"
    worked = 0
    refused = ""
    for turn in range(3):
        sizes = {name: other_sizes(name, symbols[name])[turn] for name in kept}
        fresh, at = _attempt(lambda sizes=sizes: _traced(module, inputs, sizes, ()))  # type: ignore[misc]
        special, off = _attempt(lambda sizes=sizes: specialise(program, sizes))  # type: ignore[misc]
        if fresh is None or special is None:
            refused = refused or at
            if (fresh is None) != (special is None):
                return at or off
            continue
        differs = first_difference(special, fresh)
        if differs:
            return f"at {_shown(sizes)} {differs}"
        worked += 1
    return None if worked else refused


def _traces(module: Any, inputs: Mapping[str, Spec]) -> bool:
    try:
        _traced(module, inputs, {}, ())
    except TraceError:
        return False
    return True


def _attempt(make: Callable[[], Program]) -> tuple[Program | None, str]:
    """The program, or None and the reason, with the line of code."""
    try:
        return make(), ""
    except (PdlError, ValueError, TypeError, IndexError) as error:
        where = error.where if isinstance(error, TraceError) else place_of(error)
        said = error.reason if isinstance(error, TraceError) else str(error).splitlines()[0]
        return None, f"{said} ({_short(where)})" if where else said


def place_of(error: BaseException) -> str:
    """ "file:line" of the innermost line outside the package that an error came through."""
    found, at = "", error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            found = f"{file}:{at.tb_lineno}"
        at = at.tb_next
    return found


def first_difference(a: Program, b: Program) -> str:
    """What differs first between two programs of plain sizes, with the line of code it comes from; "" if nothing."""
    numbers: dict[Value, Any] = {}
    for program in (a, b):
        numbers |= {v: ("input", i) for i, v in enumerate(program.inputs)}
        numbers |= {v: ("captured", i) for i, v in enumerate(program.captures)}
        numbers |= {v: (i, v.index) for i, node in enumerate(program.nodes) for v in node.outputs}

    def form(node: Node) -> Any:
        return node.op, [v and numbers[v] for v in node.inputs], [v.spec for v in node.outputs]

    for mine, theirs in zip(a.nodes, b.nodes, strict=False):
        if form(mine) != form(theirs):
            return f"{show_op(theirs.op)} is another than {show_op(mine.op)} ({_short(mine.where)})"
    if len(a.nodes) != len(b.nodes):
        return f"it has {len(b.nodes)} ops and not {len(a.nodes)}"
    for left, right in zip(a.captures, b.captures, strict=False):
        if left.tensor is not right.tensor and not _equal(left, right):
            reader = next((n.where for n in b.nodes if right in n.inputs), "")
            return f"a constant depends on the size ({_short(reader)})"
    same = len(a.captures) == len(b.captures) and [numbers[v] for v in a.outputs if v] == [
        numbers[v] for v in b.outputs if v
    ]
    return "" if same else "its outputs are others"


def _equal(a: Value, b: Value) -> bool:
    assert a.tensor is not None
    assert b.tensor is not None
    return a.spec == b.spec and a.tensor._data.tobytes() == np.ascontiguousarray(b.tensor._data).tobytes()


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _short(where: str) -> str:
    """A path relative to the current folder, if it is below it."""
    file, _, line = where.rpartition(":")
    try:
        return f"{Path(file).relative_to(Path.cwd())}:{line}"
    except ValueError:
        return where

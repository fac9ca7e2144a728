"""Imported ONNX graphs that no one program can hold, run as fast as their values allow.

For each tuple of input shapes the graph is traced again, and the program planned like any other. Where values decide
shapes or branches, small integer inputs (a sampling rate, a flag) become part of the key. Where that does not help (the
boxes that a detector finds), the program ends before the values that decide, and the nodes behind them are run one by
one, by the same functions; with inputs whose shapes never repeat, all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array, DType
from pdl.errors import TraceError
from pdl.onnx.axes import named_axes, symbolic
from pdl.onnx.graph import Graph
from pdl.onnx.tracing import trace, trace_beginning
from pdl.onnx.values import dtype_named, widened_dtype
from pdl.program.ir import Program
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, log, run_passes
from pdl.program.passes.pack import PackCache
from pdl.program.passes.precision import to_bf16
from pdl.runtime.plan import MEMORY, Plan, Plans, Timer, frozen
from pdl.runtime.session import Port

#: elements of an integer input that may decide
SMALL = 16
#: traces after which the hits among the calls are looked at
PATIENCE = 64


class Part(Plan):
    """A plan of a graph, or of its beginning: `rest` takes its outputs."""

    def __init__(self, program: Program, rest: Graph | None) -> None:
        super().__init__(program)
        self.rest = rest


class Graphs(Plans):
    """``graphs(arrays)`` runs an ONNX graph on arrays in the order of its inputs; `bf16`: its programs in bfloat16."""

    def __init__(self, graph: Graph, *, bf16: bool = False, memory: int = MEMORY, **choosing: Any) -> None:
        super().__init__(Program(graph.name or "onnx"), memory=memory, **choosing)  # each plan has a program of its own
        self.graph, self.bf16 = graph, bf16
        self.deciding: tuple[int, ...] = ()  # inputs whose values are part of the key
        self.waits = ""  # why programs are of the beginning
        self.interpreted = ""  # why there are none
        self._calls = self._traces = 0

    def __call__(self, arrays: Sequence[Array], timer: Timer | None = None) -> list[Array]:
        """The outputs for these inputs, in the graph's order."""
        with self._lock:
            self._calls += 1
        found = self._found(arrays) or self._planned(arrays)
        if found is None:
            return _run(self.graph, arrays)
        plan, deciding = found
        made = self.run(plan, [a for i, a in enumerate(arrays) if i not in deciding], timer)
        rest = plan.rest if isinstance(plan, Part) else None
        return made if rest is None else _run(rest, made)

    def _found(self, arrays: Sequence[Array]) -> tuple[Plan, tuple[int, ...]] | None:
        """The plan that is kept for such inputs, and which of them decide."""
        deciding = self.deciding
        plan = self._kept(_key(arrays, deciding))
        return None if plan is None else (plan, deciding)

    def _planned(self, arrays: Sequence[Array]) -> tuple[Plan, tuple[int, ...]] | None:
        """A plan for inputs of these shapes, and of these values where they decide; None: interpret."""
        with self._making:
            while not self.interpreted:
                found = self._found(arrays)  # made by another thread in the meantime
                if found is not None:
                    return found
                try:
                    made = self._traced(arrays)
                except TraceError as error:
                    self._decide(arrays, error.reason)
                else:
                    return self._keep(_key(arrays, self.deciding), made), self.deciding
        return None

    def _traced(self, arrays: Sequence[Array]) -> Plan:
        self._traces += 1
        if self._traces > PATIENCE and self._traces * 4 > self._calls:
            raise TraceError("inputs that decide do not repeat", "ONNX")
        names = [p.name for p in self.graph.inputs]
        shapes: dict[str, Any] = {name: a.shape for name, a in zip(names, arrays, strict=True)}
        values = {names[i]: np.array(arrays[i]) for i in self.deciding}
        rest = None
        if self.waits:
            program, rest = trace_beginning(self.graph, shapes)
        else:
            program = trace(self.graph, shapes, values=values)
        # constants are made anew by each trace, so what was packed for another does not serve
        program = to_bf16(frozen(program)) if self.bf16 else frozen(program)
        program = run_passes(program, (*INFERENCE_ONCE, *PER_SHAPE, PackCache(**self.choosing)))
        log(program, f"{shapes}: traced, {len(program.nodes)} nodes{_behind(rest, self.waits)}")
        return Part(program, rest)

    def ports(self) -> tuple[list[Port], list[Port]]:
        """Inputs and outputs as a session shows them."""
        shapes = named_axes(self.graph.inputs)
        takes = [Port(p.name, symbolic(shapes[p.name]), _dtype(p)) for p in self.graph.inputs]
        return takes, [Port(p.name, None, _dtype(p)) for p in self.graph.outputs]

    def _decide(self, arrays: Sequence[Array], reason: str) -> None:
        """Make small integers part of the key, or trace the beginning alone, or nothing."""
        small = tuple(i for i, a in enumerate(arrays) if a.dtype.kind in "iub" and a.size <= SMALL)
        if self.waits:
            self.interpreted = reason
        elif self.deciding or not small or self._traces > PATIENCE:
            self.waits, self.deciding = reason, ()
            self._calls = self._traces = 0
        else:
            self.deciding = small
        with self._lock:
            self._plans.clear()
            self._evict()


def _run(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a graph whose nodes are run one by one."""
    return list(graph.run(dict(zip((p.name for p in graph.inputs), arrays, strict=True))).values())


def _behind(rest: Graph | None, reason: str) -> str:
    return "" if rest is None else f"; {len(rest.nodes)} behind them are run one by one ({reason})"


def _key(arrays: Sequence[Array], deciding: tuple[int, ...]) -> Any:
    return (*[a.shape for a in arrays], *[arrays[i].tobytes() for i in deciding])


def _dtype(port: Any) -> DType | None:
    """What a session converts arrays to; None where they go in as they are."""
    if port.dtype in (None, "string") or port.kind != "tensor":
        return None
    return widened_dtype(dtype_named(port.dtype))

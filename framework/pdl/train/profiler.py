"""Where a training step's time goes: per op, forward and backward, and per phase; as tables and as a Chrome trace.

Eager ops are timed where they run (`pdl.ops.listeners`), compiled ones by the executor. What a phase took beyond
its ops is Python, copies into the program, and, in the update, the optimiser's kernels, which are no ops.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pdl.files import write_atomic
from pdl.ops.base import Op
from pdl.ops.cost import multiply_adds, traffic
from pdl.ops.listeners import listeners
from pdl.program import Node, Program
from pdl.train.hooks import Hook
from pdl.train.loop import Trainer

WARM_UP = 3  # steps before the first recorded one: they trace, plan, allocate and fill caches
PHASES = ("data", "forward", "backward", "update")
Rows: TypeAlias = "list[tuple[Any, ...]]"


@dataclass
class Event:
    """One call of an op, or one phase of a step (`op` empty), in seconds of `time.perf_counter`."""

    phase: str
    op: str
    begin: float
    end: float
    flops: int = 0
    bytes: int = 0
    about: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.begin


class Profiler(Hook):
    """Records `steps` steps of a training after a warm-up, then ends it; `events` holds what happened, `messages` what
    the trainer said.

    A step that compiles a program (a new shape of batch) is not recorded.
    """

    def __init__(self, steps: int = 20) -> None:
        self.steps, self.recorded = steps, 0
        self.events: list[Event] = []
        self.messages: list[str] = []
        self.trace: Path | None = None  # where `write_trace` put it
        self.compiled = 0  # recorded steps that ran as programs
        self._step: list[Event] = []
        self._seen, self._misses = 0, 0
        self._phase, self._since = "", 0.0
        self._backward: dict[int, set[int]] = {}

    # -- the phases of a step ------------------------------------------------------------------------------------------
    def on_start(self, trainer: Trainer) -> None:
        listeners.timers.append(self._on_op)
        self._enter("data")

    def on_batch(self, trainer: Trainer) -> None:
        self._enter("forward")
        if trainer.compiled is not None:
            for made in trainer.compiled.programs.values():
                if made is not None and made.executable.profile is None:
                    self._watch(made)

    def on_loss(self, trainer: Trainer) -> None:
        self._enter("backward")

    def sync_gradients(self, trainer: Trainer) -> None:
        self._enter("update")

    def on_step(self, trainer: Trainer) -> None:
        self._enter("data")
        misses = trainer.compiled.misses if trainer.compiled is not None else 0
        self._seen += 1
        if self._seen > WARM_UP and misses == self._misses:
            self.recorded += 1
            self.events += self._step
            eager = trainer.compiled is None or trainer.compiled.stopped is not None
            self.compiled += not eager
        self._misses, self._step = misses, []
        if self.recorded == self.steps:
            trainer.state.stopped = "profiled"
            self.close()

    def on_epoch(self, trainer: Trainer) -> None:
        self._phase, self._step = "", []  # the evaluation is no part of the next step
        self._enter("data")

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.messages.append(line)

    def close(self) -> None:
        if self._on_op in listeners.timers:
            listeners.timers.remove(self._on_op)

    def _enter(self, phase: str, at: float | None = None) -> None:
        """The phase under way ends and another begins, now or at a given time."""
        now = time.perf_counter() if at is None else at
        if self._phase:
            self._step.append(Event(self._phase, "", self._since, now))
        self._phase, self._since = phase, now

    # -- ops -----------------------------------------------------------------------------------------------------------
    def _on_op(self, op: Op, ins: Any, outs: Any, begin: float, end: float) -> None:
        moved = 0 if op.view is not None else traffic(op, ins, outs)
        self._step.append(_event(self._phase, op, ins, outs, begin, end, moved))

    def _watch(self, made: Any) -> None:
        """Have a compiled step report the time of its nodes."""
        program = made.executable.program
        later = backward_nodes(program, len(program.outputs) - len(made.learned))

        def on_node(node: Node, begin: float, end: float) -> None:
            if self._phase == "forward" and id(node) in later:
                self._enter("backward", begin)
            ins = tuple(None if v is None else v.spec for v in node.inputs)
            outs = tuple(v.spec for v in node.outputs)
            phase = "backward" if id(node) in later else "forward"
            event = _event(phase, node.op, ins, outs, begin, end, traffic(node.op, ins, outs))
            event.about |= {"module": node.scope, "line": node.where}
            self._step.append(event)

        made.executable.profile = on_node

    # -- what it found -------------------------------------------------------------------------------------------------
    @property
    def seconds(self) -> float:
        """Time of all recorded steps."""
        return sum(e.seconds for e in self.events if not e.op)

    def phases(self) -> Rows:
        """(phase, ms a step, share, of which in ops) rows."""
        rows: Rows = []
        for phase in PHASES:
            whole = sum(e.seconds for e in self.events if not e.op and e.phase == phase)
            within = sum(e.seconds for e in self.events if e.op and e.phase == phase)
            rows.append((phase, self._ms(whole), whole / self.seconds, self._ms(within)))
        return rows

    def ops(self) -> Rows:
        """(op, phase, calls a step, ms a step, share of the step, GFLOP/s or None, GB/s or None), the slowest first.

        What a phase spent outside ops has a row "(...)".
        """
        groups: dict[tuple[str, str], list[Event]] = {}
        for e in self.events:
            if e.op:
                groups.setdefault((e.op, e.phase), []).append(e)
        rows: Rows = []
        for (op, phase), found in groups.items():
            seconds = sum(e.seconds for e in found)
            flops, moved = sum(e.flops for e in found), sum(e.bytes for e in found)
            rates = flops / seconds / 1e9 if flops else None, moved / seconds / 1e9 if moved and not flops else None
            rows.append((op, phase, len(found) / self.recorded, self._ms(seconds), seconds / self.seconds, *rates))
        for phase, ms, _, within in self.phases():
            outside = {"data": "(waiting for data)", "update": "(optimiser)"}.get(phase, "(Python and copies)")
            rows.append((outside, phase, None, ms - within, (ms - within) / self._ms(self.seconds), None, None))
        return sorted(rows, key=lambda row: -row[3])

    def _ms(self, seconds: float) -> float:
        return seconds * 1e3 / self.recorded

    def to_dict(self) -> dict[str, Any]:
        """The tables as plain values, for JSON."""
        phases = ("phase", "ms", "share", "ms_in_ops")
        ops = ("op", "phase", "calls", "ms", "share", "gflops", "gbytes_per_second")
        return {
            "steps": self.recorded,
            "compiled_steps": self.compiled,
            "ms_per_step": self._ms(self.seconds),
            "phases": [dict(zip(phases, row, strict=True)) for row in self.phases()],
            "ops": [dict(zip(ops, row, strict=True)) for row in self.ops()],
        }

    def write_trace(self, path: Path) -> None:
        """A file for chrome://tracing and ui.perfetto.dev: phases in one row, ops below."""
        start = min((e.begin for e in self.events), default=0.0)
        names = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": i, "args": {"name": name}}
                 for i, name in enumerate(("phases", "ops"))]  # fmt: skip
        lines = [
            {
                "name": e.op or e.phase,
                "cat": e.phase,
                "ph": "X",
                "ts": round((e.begin - start) * 1e6, 3),
                "dur": round(e.seconds * 1e6, 3),
                "pid": 1,
                "tid": 1 if e.op else 0,
                "args": {k: v for k, v in e.about.items() if v},
            }
            for e in self.events
        ]
        write_atomic(path, json.dumps({"displayTimeUnit": "ms", "traceEvents": [*names, *lines]}) + "\n")
        self.trace = path


def backward_nodes(program: Program, results: int) -> set[int]:
    """The nodes (by id) of a compiled step that neither its first `results` outputs nor its effects depend on."""
    wanted = [v for v in program.outputs[:results] if v is not None] + [value for _, value in program.effects]
    forward: set[int] = set()
    while wanted:
        node = wanted.pop().node
        if node is not None and id(node) not in forward:
            forward.add(id(node))
            wanted += [v for v in node.inputs if v is not None]
    return {id(node) for node in program.nodes} - forward


def _event(phase: str, op: Op, ins: Any, outs: Any, begin: float, end: float, moved: int) -> Event:
    shapes = [[list(x.shape) for x in values if x is not None] for values in (ins, outs)]
    about = {"in": str(shapes[0]), "out": str(shapes[1]), "dtype": outs[0].dtype.name, "op": repr(op)[:300]}
    return Event(phase, type(op).__name__, begin, end, 2 * multiply_adds(op, ins, outs), moved, about)

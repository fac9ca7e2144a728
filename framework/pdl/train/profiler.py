"""Where a training step's time goes: per op, forward and backward, and per phase; as tables and as a Chrome trace.

Eager ops are timed where they run (`pdl.ops.listeners`), compiled ones by the executor. What a phase took beyond
its ops is Python, copies into the program, and, in the update, the optimiser's kernels, which are no ops.

Of a job of several processes each records its own steps, and the messages between them; one trace has all, by the clock
of the first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pdl.distributed.clocks import clock_offsets, texts_on_first
from pdl.distributed.group import Group
from pdl.distributed.pipeline import Staged
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

    A step that compiles a program (a new shape of batch), on any rank of `group`, is not recorded. Of a group, `spans`
    are the messages between ranks: their phase is "messages", or "wait" for time in which this rank had nothing to do.
    """

    def __init__(self, steps: int = 20, group: Group | None = None) -> None:
        self.steps, self.recorded, self.group = steps, 0, group
        self.events: list[Event] = []
        self.spans: list[Event] = []
        self.clock = np.zeros((1, 2))  # of each rank: seconds that it is behind that of rank 0, and how sure this is
        self._messages: list[Event] = []
        self.messages: list[str] = []
        self.trace: Path | None = None  # where `write_trace` put it
        self.compiled = 0  # recorded steps that ran as programs
        self._step: list[Event] = []
        self._seen, self._misses = 0, 0
        self._phase, self._since = "", 0.0
        self._backward: dict[int, set[int]] = {}

    # -- the phases of a step ------------------------------------------------------------------------------------------
    def on_start(self, trainer: Trainer) -> None:
        if self.group is not None:
            self.clock = clock_offsets(self.group)
            self.group.spans = self._on_span
        listeners.timers.append(self._on_op)
        self._enter("data")

    def on_batch(self, trainer: Trainer) -> None:
        self._enter("forward")
        if trainer.compiled is not None:
            programs: Any = trainer.compiled.programs.values()
            for made in programs:
                if isinstance(made, Staged):
                    for stage in made.stages.values():
                        stage.profile = partial(self._on_stage, stage.number)
                elif made is not None and made.executable.profile is None:
                    self._watch(made)

    def on_loss(self, trainer: Trainer) -> None:
        self._enter("backward")

    def sync_gradients(self, trainer: Trainer) -> None:
        self._enter("update")

    def on_step(self, trainer: Trainer) -> None:
        self._enter("data")
        misses = trainer.compiled.misses if trainer.compiled is not None else 0
        self._seen += 1
        if self._seen > WARM_UP and not self._anywhere(misses != self._misses):
            self.recorded += 1
            self.events += self._step
            self.spans += self._messages
            eager = trainer.compiled is None or trainer.compiled.stopped is not None
            self.compiled += not eager
        self._misses, self._step, self._messages = misses, [], []
        if self.recorded == self.steps:
            trainer.state.stopped = "profiled"
            self.close()

    def on_epoch(self, trainer: Trainer) -> None:
        self._phase, self._step, self._messages = "", [], []  # the evaluation is no part of the next step
        self._enter("data")

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.messages.append(line)

    def close(self) -> None:
        if self._on_op in listeners.timers:
            listeners.timers.remove(self._on_op)
        if self.group is not None:
            self.group.spans = None

    def _anywhere(self, flag: bool) -> bool:
        """Whether it holds on any rank; asking is no part of a step."""
        if self.group is None:
            return flag
        self.group.spans = None
        found = self.group.any(flag)
        self.group.spans = self._on_span
        self._since = time.perf_counter()
        return found

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

    def _on_span(self, what: str, begin: float, end: float, size: int) -> None:
        about = {} if what == "wait" else {"bytes": str(size)}
        self._messages.append(Event("wait" if what == "wait" else "messages", what, begin, end, 0, size, about))

    def _watch(self, made: Any) -> None:
        """Have a compiled step report the time of its nodes."""
        program = made.executable.program
        later = backward_nodes(program, len(program.outputs) - len(made.learned))

        def on_node(node: Node, begin: float, end: float) -> None:
            if self._phase == "forward" and id(node) in later:
                self._enter("backward", begin)
            self._on_node("backward" if id(node) in later else "forward", node, begin, end)

        made.executable.profile = on_node

    def _on_stage(self, number: int, later: bool, node: Node, begin: float, end: float) -> None:
        """A node of a stage of a pipeline, which goes forward and backward by turns."""
        phase = "backward" if later else "forward"
        if self._phase in ("forward", "backward") and self._phase != phase:
            self._enter(phase, begin)
        self._on_node(phase, node, begin, end, stage=str(number))

    def _on_node(self, phase: str, node: Node, begin: float, end: float, **about: str) -> None:
        ins = tuple(None if v is None else v.spec for v in node.inputs)
        outs = tuple(v.spec for v in node.outputs)
        event = _event(phase, node.op, ins, outs, begin, end, traffic(node.op, ins, outs))
        event.about |= {"module": node.scope, "line": node.where, **about}
        self._step.append(event)

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

    def messages_between(self) -> Rows:
        """(kind, number a step, ms a step under way or waited, MB a step) rows of the messages between ranks; buckets
        together."""
        groups: dict[str, list[Event]] = {}
        for e in self.spans:
            groups.setdefault(e.op.partition(" of ")[0], []).append(e)
        return [
            (kind, len(found) / self.recorded, self._ms(sum(e.seconds for e in found)),
             sum(e.bytes for e in found) / 1e6 / self.recorded)
            for kind, found in groups.items()
        ]  # fmt: skip

    def _ms(self, seconds: float) -> float:
        return seconds * 1e3 / self.recorded

    def to_dict(self) -> dict[str, Any]:
        """The tables as plain values, for JSON."""
        phases = ("phase", "ms", "share", "ms_in_ops")
        ops = ("op", "phase", "calls", "ms", "share", "gflops", "gbytes_per_second")
        kinds = ("kind", "number", "ms", "megabytes")
        rows = [dict(zip(kinds, row, strict=True)) for row in self.messages_between()]
        return {
            "steps": self.recorded,
            "compiled_steps": self.compiled,
            "ms_per_step": self._ms(self.seconds),
            "phases": [dict(zip(phases, row, strict=True)) for row in self.phases()],
            "ops": [dict(zip(ops, row, strict=True)) for row in self.ops()],
            **({"messages": rows} if self.group is not None else {}),
        }

    def write_trace(self, path: Path) -> None:
        """A file for chrome://tracing and ui.perfetto.dev: phases in one row, ops below. Of a group, whose ranks all
        make this call, the first writes one for all: ranks one below the other, each with rows of what it waited for
        and of the messages under way, beside its ops."""
        rank, host = (0, "") if self.group is None else (self.group.rank, self.group.hosts[self.group.rank])
        lines = self._lines(rank, f"rank {rank} on {host}" if host else "training")
        if self.group is not None:
            lines = [line for text in texts_on_first(self.group, json.dumps(lines)) for line in json.loads(text)]
        if rank:
            return
        start = min((line["ts"] for line in lines if "ts" in line), default=0.0)
        for line in lines:
            if "ts" in line:
                line["ts"] = round(line["ts"] - start, 3)
        write_atomic(path, json.dumps({"displayTimeUnit": "ms", "traceEvents": lines}) + "\n")
        self.trace = path

    def _lines(self, rank: int, name: str) -> list[dict[str, Any]]:
        """The events of this rank, in microseconds by the clock of the first one."""
        later, unsure = self.clock[rank].tolist()
        waits = [e for e in self.spans if e.phase == "wait"]
        lanes = in_lanes([e for e in self.spans if e.phase != "wait"])
        rows = {"phases": [e for e in self.events if not e.op], "ops": [e for e in self.events if e.op]}
        if self.group is not None:
            rows |= {"waiting": waits, **{f"messages {i + 1}": lane for i, lane in enumerate(lanes)}}
        labels = f"clock within {unsure * 1e6:.0f} us of rank 0" if rank else ""
        about = [("process_name", 0, {"name": name}), ("process_labels", 0, {"labels": labels})]
        about += [("thread_name", tid, {"name": row}) for tid, row in enumerate(rows)]
        pid = rank + 1  # 0 stands for the idle process
        return [
            *({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args} for kind, tid, args in about),
            *(
                {
                    "name": e.op or e.phase,
                    "cat": e.phase,
                    "ph": "X",
                    "ts": (e.begin + later) * 1e6,
                    "dur": round(e.seconds * 1e6, 3),
                    "pid": pid,
                    "tid": tid,
                    "args": {k: v for k, v in e.about.items() if v},
                }
                for tid, events in enumerate(rows.values())
                for e in events
            ),
        ]


def in_lanes(events: Sequence[Event]) -> list[list[Event]]:
    """Events in as few rows as have none that overlap."""
    lanes: list[list[Event]] = []
    for event in sorted(events, key=lambda e: e.begin):
        lane = next((lane for lane in lanes if lane[-1].end <= event.begin), None)
        if lane is None:
            lanes.append([event])
        else:
            lane.append(event)
    return lanes


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

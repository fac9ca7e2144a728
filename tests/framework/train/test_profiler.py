"""Profiling: what is recorded of a step, compiled and eager, and the trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.ops.listeners import listeners
from pdl.train import TrainSettings
from pdl.train.profiler import PHASES, Profiler
from tests.framework.train.toy import regression


def profiled(steps: int = 4, **settings: Any) -> Profiler:
    profiler = Profiler(steps)
    regression(TrainSettings(epochs=100, **settings), hooks=[profiler], batch_size=15).fit()
    return profiler


@pytest.mark.parametrize("compiled", [True, False])
def test_every_op_of_every_step_is_there(compiled: bool) -> None:
    found = profiled(compile=compiled)
    assert (found.recorded, found.compiled) == (4, 4 if compiled else 0)
    calls = {(op, phase): count for op, phase, count, *_ in found.ops()}
    assert calls["Linear", "forward"] == 2
    assert calls["MatMul", "backward"] == 3  # the first layer's input needs no gradient
    flops = sum(e.flops for e in found.events if e.op) / found.recorded
    assert flops == 2 * 15 * (4 * 16 * 2 + 16 * 2 * 3)
    assert listeners.timers == []


@pytest.mark.parametrize("compiled", [True, False])
def test_phases_cover_the_step(compiled: bool) -> None:
    found = profiled(compile=compiled)
    rows = {name: (ms, share, within) for name, ms, share, within in found.phases()}
    assert tuple(rows) == PHASES
    assert sum(share for _, share, _ in rows.values()) == pytest.approx(1)
    assert all(0 <= within <= ms for ms, _, within in rows.values())
    assert sum(row[4] for row in found.ops()) == pytest.approx(1)
    assert rows["forward"][2] > 0
    assert rows["backward"][2] > 0


def test_accumulated_batches_are_one_step() -> None:
    found = profiled(compile=False, accumulate=2)
    calls = {(op, phase): count for op, phase, count, *_ in found.ops()}
    assert calls["Linear", "forward"] == 4


def test_steps_that_compile_are_not_recorded() -> None:
    profiler = Profiler(20)
    trainer = regression(TrainSettings(epochs=100), hooks=[profiler], batch_size=8)  # 90 samples: the last batch has 2
    trainer.fit()
    assert profiler.recorded == 20
    assert trainer.state.step == 20 + 3 + 1  # the warm-up, and the first short batch


def test_a_step_that_cannot_be_compiled_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.framework.train.toy import Regression

    step = Regression.step

    def reads(self: Regression, model: Any, batch: Any) -> Any:
        loss = step(self, model, batch)
        float(loss.value.item())
        return loss

    monkeypatch.setattr(Regression, "step", reads)
    found = profiled()
    assert found.compiled == 0
    assert "eager mode" in found.messages[0]
    assert {"forward", "backward"} <= {e.phase for e in found.events if e.op}


def test_the_trace_is_what_was_recorded(tmp_path: Path) -> None:
    found = profiled(2)
    found.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(found.events)
    assert {e["name"] for e in spans if e["tid"] == 0} == set(PHASES)
    assert min(e["ts"] for e in spans) == 0
    linear = next(e for e in spans if e["name"] == "Linear")
    assert linear["args"]["out"] == "[[15, 16]]"
    assert linear["args"]["module"] == "0"
    backward = [e for e in spans if e["tid"] == 1 and e["cat"] == "backward"]
    phase = [e for e in spans if e["name"] == "backward"]
    assert all(any(p["ts"] <= e["ts"] <= p["ts"] + p["dur"] for p in phase) for e in backward)


def test_tables_are_plain_values() -> None:
    found = json.loads(json.dumps(profiled(2).to_dict()))
    assert found["steps"] == 2
    assert np.isclose(sum(p["ms"] for p in found["phases"]), found["ms_per_step"])

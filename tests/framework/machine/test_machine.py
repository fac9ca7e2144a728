"""The figures of a machine: kept, read again, and not used where they are another's, damaged or switched off.

No test asserts a time: those that measure look at what was measured and written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import machine, nn, optim, watch
from pdl.cli import main
from pdl.kernels import runtime
from pdl.machine import BUILT_IN, Machine, measure
from pdl.machine import stored as module
from pdl.machine.stored import FIGURES
from pdl.program import CompiledStep

from ...test_layers import arrows

MEASURED = BUILT_IN["baseline"]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was measured, in a cache of its own; nothing takes time."""
    made: list[str] = []

    def stand_in() -> Machine:
        made.append("measured")
        return MEASURED

    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    monkeypatch.delenv("PDL_CALIBRATE", raising=False)
    monkeypatch.setattr(measure, "measure", stand_in)
    return made


def file() -> Path:
    place = module.folder()
    assert place is not None
    return place / FIGURES


def rewritten(**changes: Any) -> None:
    """The file of figures with other content, at another time."""
    file().write_text(json.dumps(json.loads(file().read_text()) | changes))
    os.utime(file(), (1, 1))


def test_measured_once_and_kept(calls: list[str]) -> None:
    assert machine.current() == BUILT_IN[runtime.isa()]
    assert calls == []
    assert machine.current(measuring=True) == MEASURED
    assert machine.current(measuring=True) == machine.current() == MEASURED
    assert calls == ["measured"]
    content = json.loads(file().read_text())
    assert content["machine"] == machine.identity()
    assert {"cpu", "flags", "isa", "cores", "available", "pdl", "kernels"} == content["machine"].keys()
    assert Machine.from_dict(content["figures"]) == MEASURED
    module._held.clear()  # another process
    assert machine.current(measuring=True) == MEASURED
    assert calls == ["measured"]
    assert machine.renewed() == MEASURED
    assert calls == ["measured", "measured"]


@pytest.mark.parametrize(
    "content",
    [
        {"machine": {"cpu": "another"}}, {"machine": None}, {"figures": None}, {"figures": {}},
        {"figures": MEASURED.to_dict() | {"hand_over": -1.0}}, {"figures": MEASURED.to_dict() | {"hand_over": True}},
        {"figures": MEASURED.to_dict() | {"rates": {"float32": "fast"}}},
        {"figures": MEASURED.to_dict() | {"together": float("nan")}},
    ],
)  # fmt: skip
def test_files_of_others_and_damaged_ones_are_made_anew(
    content: dict[str, Any], calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(watch, "note", notes.append)
    machine.renewed()
    rewritten(**content)
    assert machine.current() == machine.current() == BUILT_IN[runtime.isa()]
    assert len(notes) == 1
    assert str(file()) in notes[0]
    assert machine.current(measuring=True) == MEASURED
    assert calls == ["measured", "measured"]
    assert json.loads(file().read_text())["machine"] == machine.identity()


@pytest.mark.parametrize("text", ["", "{", "[]", "12", "\0", "[" * 100_000])
def test_what_is_no_table_is_said_once(text: str, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(watch, "note", notes.append)
    machine.renewed()
    file().write_text(text)
    os.utime(file(), (1, 1))
    assert machine.current() == machine.current() == BUILT_IN[runtime.isa()]
    assert len(notes) == 1


def test_a_cache_that_takes_no_file_is_no_matter(
    calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "file"))
    assert machine.current(measuring=True) == BUILT_IN[runtime.isa()]
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert machine.current(measuring=True) == BUILT_IN[runtime.isa()]

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(module, "cache_root", homeless)
    assert machine.current(measuring=True) == BUILT_IN[runtime.isa()]
    assert module.folder() is None
    assert not module.keep(FIGURES, {})
    assert calls == []


def test_switched_off(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    machine.renewed()
    monkeypatch.setenv("PDL_CALIBRATE", "0")
    assert machine.current(measuring=True) == BUILT_IN[runtime.isa()]
    assert not module.keep(FIGURES, {})


def test_another_machine_has_another_folder(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    machine.renewed()
    first = module.folder()
    monkeypatch.setattr(module, "_cpu", lambda: ("another CPU", "its flags"))
    assert module.folder() != first
    assert machine.current() == BUILT_IN[runtime.isa()]


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MOST_SHARED", 1 << 20)
    found = measure.measure()
    assert Machine.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found.together >= found.bandwidth["memory"]


def test_kinds_of_cpu_are_told_apart_by_their_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("3", "Unified", "?")]
    ):
        folder = tmp_path / f"index{at}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    monkeypatch.setattr(measure, "_CACHES", tmp_path)
    assert measure.cache_sizes() == {"L1": 48 << 10}


def test_the_command(calls: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["bench", "--machine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"] == MEASURED.to_dict()
    assert found["file"] == str(file())
    assert main(["bench", "--machine"]) == 0
    assert "GFLOP/s a core" in capsys.readouterr().out
    assert calls == ["measured"]
    assert main(["bench", "--machine", "--renew"]) == 0
    assert calls == ["measured", "measured"]
    assert main(["bench", "x.pdl", "--renew"]) == 2
    assert main(["bench", "x.pdl", "--machine"]) == 2
    monkeypatch.setenv("PDL_CALIBRATE", "0")
    assert main(["bench", "--machine", "--renew"]) == 2
    capsys.readouterr()
    assert main(["bench", "--machine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] is None


def test_training_reads_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bits are a function of recipe, seed, instruction set and threads: nothing that a step runs knows the machine
    package, and a step goes on where that answers nothing."""
    users = {name for name, imported in arrows().items() if any(each.startswith("pdl.machine") for each in imported)}
    users = {name for name in users if not name.startswith("pdl.machine")}
    passes = {f"pdl.program.passes.{name}" for name in ("costs", "costs_quantised", "pack", "pack_quantised", "tuning")}
    assert users == passes | {"pdl.cli.bench"}
    assert {name for name, imported in arrows().items() if imported & passes} - passes == {
        "pdl.runtime.plan", "pdl.runtime.graphs",
    }  # fmt: skip

    def nothing(*_: object, **__: object) -> Any:
        raise AssertionError("training looked at the machine")

    monkeypatch.setattr(machine, "current", nothing)
    for name in ("current", "kept", "identity"):
        monkeypatch.setattr(module, name, nothing)
    net = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 2))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    step = CompiledStep(lambda x: (net(x) ** 2).mean(), net, notify=pytest.fail)
    for _ in range(2):
        step(pdl.tensor(np.ones((2, 8, 8, 16), np.float32)))
        optimizer.step()

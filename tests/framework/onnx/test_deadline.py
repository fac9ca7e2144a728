"""Reading ONNX files ends at its deadline, at a node, whatever a file makes of functions, loops, sizes and branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import limits
from pdl.cli import deadline, main
from pdl.errors import TimeLimitError, UsageError
from pdl.export import imported
from pdl.onnx import graph as graphs
from pdl.onnx import load_model
from pdl.onnx.reader import from_proto, read
from pdl.runtime import bundle, load
from pdl.runtime.info import info

from .building import BOOL, FLOAT, INT64, conv_net, graph, helper, model, node, onnx, port

DOMAIN = "made"


def calls_doubled(deep: int = 60) -> bytes:
    """Functions that hold no node but two calls of the next: 2^60 calls."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    made = []
    for i in range(deep):
        nodes = [node(f"f{i + 1}", [], [], domain=DOMAIN) for _ in range(2 if i < deep - 1 else 0)]
        made.append(helper.make_function(DOMAIN, f"f{i}", [], [], nodes, opsets))
    nodes = [node("f0", [], [], domain=DOMAIN), node("Relu", ["x"], ["y"])]
    return model(nodes, [port("x", [1])], [port("y")], functions=made, domains={DOMAIN: 1})


def loop_without_nodes() -> bytes:
    """2^60 turns of a body that hands on its condition and does nothing else."""
    body = graph([], [port("turn", [], INT64), port("go", [], BOOL), port("v", [1])], [port("go", [], BOOL), port("v")])
    nodes = [node("Loop", ["turns", "", "x"], ["y"], body=body)]
    return model(nodes, [port("x", [1])], [port("y")], {"turns": np.int64(1 << 60)})


def branches(count: int = 3000) -> bytes:
    """Branches beside each other, each of which sees the names of all before it."""
    nodes = []
    for i in range(count):
        arms = [graph([node("Neg", [f"v{i}"], [f"{arm}{i}"])], [], [port(f"{arm}{i}")]) for arm in "ab"]
        nodes.append(node("If", ["yes"], [f"v{i + 1}"], then_branch=arms[0], else_branch=arms[1]))
    return model(nodes, [port("v0", [1])], [port(f"v{count}")], {"yes": np.array(True)})


def sizes_by_the_hundred(count: int = 400) -> bytes:
    """Inputs of so many dynamic sizes, each of which is tried alone and with the others."""
    names = [f"x{i}" for i in range(count)]
    ports = [port(name, [1, f"n{i}"]) for i, name in enumerate(names)]
    return model([node("Sum", names, ["y"])], ports, [port("y")])


def shapes_by_the_thousand(count: int = 5000) -> bytes:
    """Arithmetic on shapes, folded while it is traced, and traced at several sizes."""
    nodes = [node("Shape", ["x"], ["s0"])]
    nodes += [node("Add", [f"s{i}", "one"], [f"s{i + 1}"]) for i in range(count)]
    nodes += [node("Cast", [f"s{count}"], ["f"], to=FLOAT), node("ReduceSum", ["f"], ["r"], keepdims=0)]
    nodes += [node("Add", ["x", "r"], ["y"])]
    return model(nodes, [port("x", ["n", "h"])], [port("y")], {"one": np.array([1])})


SLOW: dict[str, Callable[[], bytes]] = {
    each.__name__: each
    for each in (calls_doubled, loop_without_nodes, branches, sizes_by_the_hundred, shapes_by_the_thousand)
}


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that goes on by a second whenever it is read; what it showed."""
    shown: list[int] = []

    def read() -> int:
        shown.append(len(shown))
        return shown[-1]

    monkeypatch.setattr(limits, "monotonic", read)
    return shown


@pytest.mark.parametrize("name", SLOW)
def test_reading_ends_at_the_deadline(name: str, ticking: list[int]) -> None:
    with pytest.raises(TimeLimitError, match="the given bytes: not done after 300 seconds, its time limit"):
        load_model(SLOW[name]())
    assert len(ticking) < 305


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("name", SLOW)
def test_commands_end_with_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(SLOW[name]())
    assert main(["import", str(file), "--timeout", "200"]) == TimeLimitError.exit_code == 3
    said = capsys.readouterr().err.strip()
    assert "net.onnx: not done after 200 seconds, its time limit; give it more (timeout=, --timeout)" in said
    assert "\n" not in said
    assert [each.name for each in tmp_path.iterdir()] == ["net.onnx"]


def test_calls_without_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl.onnx.functions.MOST_NODES", 1000)
    with pytest.raises(UsageError, match="expand to over 1,000 nodes and calls"):
        read(calls_doubled())


def test_turns_without_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_TRACED", 100)
    monkeypatch.setattr(graphs, "MOST_STEPS", 1000)
    found = load_model(loop_without_nodes())
    assert found.program is None
    assert "100 nodes have been traced" in found.notes[0]
    with pytest.raises(UsageError, match="1,000 nodes have run; a loop of this graph does not end"):
        found.graph.run({"x": np.zeros(1, np.float32)})


def bundle_of(data: bytes, name: str = "net") -> bytes:
    """The bundle of a model, kept as a graph."""
    found = load_model(data)
    found.program = None
    return imported.packed(found, name, {}, [])


def test_opening_a_bundle_has_a_deadline(tmp_path: Path, ticking: list[int]) -> None:
    file = tmp_path / "net.pdl"
    proto = onnx.ModelProto.FromString(branches(200))
    made = imported.Imported(from_proto(proto).graph, {"": 18}, "", {}, {})
    file.write_bytes(imported.packed(made, "net", {}, []))
    for open_it in (load, info):
        ticking.clear()
        with pytest.raises(TimeLimitError, match=r"net\.pdl: not done after 300 seconds"):
            open_it(file)
        assert len(ticking) < 305
    assert main(["info", str(file), "--timeout", "250"]) == 3
    assert info(file, timeout=1e9)["ops"] == "a graph of kind onnx"


def test_a_program_that_is_read_has_a_deadline(ticking: list[int]) -> None:
    data = imported.packed(load_model(conv_net()), "net", {}, [])
    bundle.read(data).build()
    with pytest.raises(TimeLimitError, match="bytes: not done after 3 seconds"):
        load(data, timeout=3)


def test_a_step_that_does_not_end_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no check between nodes can end: the timer's function, called by hand."""
    ended: list[int] = []
    timers: list[tuple[float, Callable[..., Any], Any]] = []

    class Timer:
        def __init__(self, seconds: float, function: Callable[..., Any], args: Any) -> None:
            timers.append((seconds, function, args))

        def start(self) -> None:
            pass

        def cancel(self) -> None:
            timers.clear()

    monkeypatch.setattr(deadline, "Timer", Timer)
    monkeypatch.setattr(deadline.os, "_exit", ended.append)
    with deadline.ends_within("net.onnx", 20):
        ((seconds, function, args),) = timers
        assert seconds == 20 + deadline.GRACE
        function(*args)
    assert ended == [3]
    assert not timers
    assert capsys.readouterr().err.startswith("net.onnx: not done after 20 seconds, its time limit")

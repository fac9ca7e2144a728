"""Limits of time, memory and steps: what a session runs ends at the next node, or before it takes memory."""

from __future__ import annotations

import gc
import itertools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import limits, threads
from pdl.cli import main
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.errors import DataError, LimitError, MemoryLimitError, StepLimitError, TimeLimitError, UsageError
from pdl.limits import bytes_in, limited
from pdl.ops.base import Spec
from pdl.program import executor, memory, trace
from pdl.runtime import Session, load, plan
from pdl.runtime import session as session_module
from pdl.runtime.predict import predict
from tests.framework.runtime import made
from tests.framework.runtime.hostile import BUNDLES

IMAGE = np.ones((2, *made.SHAPE), np.float32)
N = Dim.symbol("n", 3)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that goes on by a second whenever it is read; what it showed. Opening a model has no deadline."""
    shown: list[int] = []

    def read() -> int:
        shown.append(len(shown))
        return shown[-1]

    monkeypatch.setattr(limits, "monotonic", read)
    monkeypatch.setattr(session_module, "OPENING", 1e9)
    return shown


def layers(x: Any) -> Any:
    """Ten products, each one node."""
    for _ in range(10):
        x = pdl.matmul(x, pdl.ones((4, 4)) * 0.5)
    return x


def session_of(function: Callable[..., Any], **options: Any) -> Session:
    with pdl.no_grad():
        return Session.of(trace(function, Spec((N, 4), float32), name="layers"), inputs=["x"], **options)


X = {"x": np.ones((2, 4), np.float32)}


# -- time --------------------------------------------------------------------------------------------------------------
def test_a_run_without_a_limit_reads_no_clock(ticking: list[int]) -> None:
    sessions = [(session_of(layers), X), (load(made.good()), {"image": IMAGE})]  # opening them has a limit
    for session, given in sessions:
        session.run(given)
        ticking.clear()
        session.run(given)
        assert not ticking


@pytest.mark.usefixtures("ticking")
def test_a_run_ends_between_segments_of_its_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = session_of(layers).run(X)["y"]
    monkeypatch.setattr(executor, "SEGMENT", 0)
    session = session_of(layers)
    np.testing.assert_array_equal(session.run(X)["y"], expected)
    with pytest.raises(TimeLimitError, match=r"layers: not done after 5 seconds, its time limit; .*--timeout"):
        session.run(X, timeout=5)
    np.testing.assert_array_equal(session.run(X)["y"], expected)
    np.testing.assert_array_equal(session.run(X, timeout=1000)["y"], expected)


@pytest.mark.usefixtures("ticking")
def test_the_error_is_a_timeout_that_names_the_bundle(tmp_path: Path) -> None:
    file = tmp_path / "net.pdl"
    file.write_bytes(made.good("sequence"))
    session = load(file)
    assert issubclass(TimeLimitError, TimeoutError)
    with pytest.raises(TimeLimitError, match=r"net\.pdl: not done after 0\.5 seconds"):
        session.run({"image": IMAGE}, timeout=0.5)


@pytest.mark.usefixtures("ticking")
def test_loops_end_at_the_deadline_or_at_their_steps() -> None:
    data, given = BUNDLES["endless_loop_of_input"].packed()
    with pytest.raises(StepLimitError, match="bytes: its loops take more than 65,536 steps"):
        load(data).run(given)
    with pytest.raises(TimeLimitError, match="bytes: not done after 50 seconds"):
        load(data).run(given, timeout=50)


@pytest.mark.usefixtures("ticking")
def test_interpreted_graphs_end_at_the_deadline() -> None:
    session = load(made.whole("graph"))
    assert len(session(np.ones((9, 9, 3), np.uint8)))
    with pytest.raises(TimeLimitError, match="bytes: not done after 3 seconds"):
        session.run({"image": IMAGE}, timeout=3)


@pytest.mark.usefixtures("ticking")
def test_preparing_a_program_has_a_deadline() -> None:
    with pytest.raises(TimeLimitError, match="bytes: not done after 4 seconds"):
        load(made.good(), timeout=4)


@pytest.mark.usefixtures("ticking")
def test_a_pipeline_has_a_deadline() -> None:
    session = load(made.whole("conv"))
    image = np.zeros((9, 9, 3), np.uint8)
    with pytest.raises(TimeLimitError):
        session(image, timeout=2)
    with pytest.raises(TimeLimitError):
        session.batch([image] * 20, timeout=20)
    with pytest.raises(TimeLimitError):
        list(predict(session, [image, image], skip_errors=True, timeout=2))
    assert len(list(predict(session, [image, image], timeout=1000))) == 2


@pytest.mark.usefixtures("ticking")
def test_the_stricter_deadline_counts() -> None:
    session = session_of(layers, timeout=1000)
    with limited("outside", seconds=0.5), pytest.raises(TimeLimitError, match=r"after 0\.5 seconds"):
        session.run(X)
    with limited("outside", seconds=1000), pytest.raises(TimeLimitError, match=r"layers: not done after 0\.5 seconds"):
        session.run(X, timeout=0.5)
    session.run(X)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_timeouts_that_are_no_times(timeout: float) -> None:
    with pytest.raises(UsageError, match="must be above 0 seconds"):
        session_of(layers).run(X, timeout=timeout)
    with pytest.raises(UsageError, match="must be above 0 seconds"):
        load(made.good(), timeout=timeout)


def test_commands_take_a_timeout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.pdl"
    file.write_bytes(made.whole("conv"))
    for words in (["bench", str(file)], ["predict", str(file), str(file)]):
        assert main([*words, "--timeout", "1e-9"]) == LimitError.exit_code == DataError.exit_code
        said = capsys.readouterr().err.strip()
        assert said.startswith(f"{file}: not done after 1e-09 seconds")
        assert "\n" not in said


def test_ctrl_c_ends_a_run_between_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SEGMENT", 0)
    session = session_of(layers)
    expected = session.run(X)["y"]
    (lane,) = session.engine.lanes._all  # type: ignore[attr-defined]
    (executable,) = lane.bound.values()
    calls = executable._calls
    assert len(calls) > 5
    ran: list[int] = []
    own = list(calls)
    calls[:] = [lambda i=i: ran.append(i) or (i == 2 and signal.raise_signal(signal.SIGINT)) for i in range(9)]
    with pytest.raises(KeyboardInterrupt):
        session.run(X)
    assert ran == [0, 1, 2]
    calls[:] = own
    np.testing.assert_array_equal(session.run(X)["y"], expected)


def test_limits_of_commands_are_for_bundles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    for words in (["eval", "--timeout", "2"], ["eval", "--max-memory", "1G"], ["predict", "--max-memory", "1G"]):
        assert main([words[0], str(tmp_path / "run"), *words[1:]]) == UsageError.exit_code
        assert f"{words[1]} is for bundles" in capsys.readouterr().err


# -- memory ------------------------------------------------------------------------------------------------------------
def test_a_plan_over_the_limit_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    session = load(made.good(), max_memory=64 << 20)
    assert session.run({"image": IMAGE})["y"].shape == (2, 5)
    monkeypatch.setattr(plan, "pages", _took)
    with pytest.raises(DataError, match="took"):
        session.run({"image": np.broadcast_to(IMAGE[:1], (1000, *made.SHAPE))})
    monkeypatch.setattr(memory, "_find_views", _took)
    huge = np.broadcast_to(np.float32(1), (1 << 20, *made.SHAPE))
    with pytest.raises(MemoryLimitError, match=r"bytes: a run takes .* GiB, more than its limit of 64 MiB; "):
        session.run({"image": huge})


def test_the_sum_of_arrays_counts_too() -> None:
    def wide(x: Any) -> Any:
        parts = [pdl.sin(x * float(i)) for i in range(8)]
        return pdl.concat(parts, axis=1)

    x = {"x": np.ones((1 << 15, 4), np.float32)}
    session_of(wide).run(x)
    with pytest.raises(MemoryLimitError, match="layers: a run takes"):
        session_of(wide, max_memory=5 << 20).run(x)


def test_memory_that_the_machine_lacks_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: Any) -> Any:
        raise MemoryError("Unable to allocate 3 GiB")

    session = load(made.good())
    monkeypatch.setattr(session, "engine", lacking)
    with pytest.raises(MemoryLimitError, match="bytes: there is not enough memory for it: Unable to allocate 3 GiB"):
        session.run({"image": IMAGE})


@pytest.mark.parametrize(
    ("text", "count"),
    [("65536", 65536), ("3k", 3072), ("512M", 1 << 29), ("1.5 GiB", 3 << 29), ("2TB", 1 << 41), ("7 B", 7)],
)
def test_sizes_as_users_write_them(text: str, count: int) -> None:
    assert bytes_in(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "M", "12 monkeys", "0.1", "9" * 40, "nan"])
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="is no size in bytes; write 512M"):
        bytes_in(text)


def test_commands_take_a_limit_of_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.pdl"
    file.write_bytes(made.whole("conv"))
    assert main(["bench", str(file), "--batch", "4096", "--max-memory", "1M"]) == MemoryLimitError.exit_code
    assert "more than its limit of 1 MiB" in capsys.readouterr().err


def test_a_limit_of_memory_is_some() -> None:
    with pytest.raises(UsageError, match="max_memory=0 must be at least 1 byte"):
        load(made.good(), max_memory=0)


def test_the_limit_is_a_share_of_what_the_process_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "membership").write_text("0::/a\n")
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(threads, "_CGROUP", tmp_path)
    monkeypatch.setattr(threads, "_MEMBERSHIP", tmp_path / "membership")
    limits.default_memory.cache_clear()
    machine = limits.default_memory()
    (tmp_path / "a" / "memory.max").write_text(f"{1 << 20}\n")
    limits.default_memory.cache_clear()
    try:
        assert limits.default_memory() == (3 << 20) // 4 < machine
    finally:
        limits.default_memory.cache_clear()


def _took(*_: Any) -> Any:
    raise AssertionError("took memory")


def test_limits_end_with_their_block() -> None:
    for _, fail in itertools.product(range(2), (False, True)):
        try:
            with limited("a", seconds=9, nbytes=1 << 21, steps=3):
                assert limits.timed()
                if fail:
                    raise ValueError("inside")
        except ValueError:
            pass
        assert limits._thread.held is None


def test_the_collector_goes_on_after_a_load() -> None:
    assert gc.isenabled()
    with limits.uncollected():
        assert not gc.isenabled()
        with limits.uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), limits.uncollected():
        _ = 1 // 0
    assert gc.isenabled()

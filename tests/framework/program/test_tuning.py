"""Forms chosen by timing: timed once, kept, used by later sessions without timing, and by no other machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import machine, watch
from pdl.machine import stored as module
from pdl.machine.figures import is_figure
from pdl.machine.stored import TIMES
from pdl.program.passes import tuning
from pdl.program.passes.costs import Product
from pdl.runtime import Session

from .rewriting import r, traced

W3, W5, ROWS = r(3, 3, 32, 48), r(5, 5, 48, 40), r(40, 10)
SHAPE = (1, 12, 12, 32)
X = {"x0": np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)}


def net(x: pdl.Tensor) -> pdl.Tensor:
    x = pdl.conv2d(pdl.relu(pdl.conv2d(x, W3, padding=1)), W5)
    return pdl.linear(x.mean(axis=(1, 2)), ROWS)


def session(**options: Any) -> Session:
    return Session.of(traced(net, [SHAPE]), **options)


def form_of(made: Session) -> list[str]:
    """The forms of the convolutions of the session's only plan."""
    (plan,) = made.engine._plans.values()  # type: ignore[attr-defined]
    return [node.op.form for node in plan.program.nodes if type(node.op).__name__ == "PackedConv"]


@pytest.fixture
def raced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Product]:
    """The products that were timed, in a cache of its own: the last of the forms wins by far."""
    found: list[Product] = []

    def race(product: Product, tried: list[str], weights: Any) -> dict[str, float]:
        found.append(product)
        return {form: 1.0 / (at + 1) for at, form in enumerate(sorted(tried))}

    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    monkeypatch.delenv("PDL_CALIBRATE", raising=False)
    monkeypatch.setattr(tuning, "race", race)
    monkeypatch.setattr(tuning, "HOPELESS", 1e9)
    monkeypatch.setattr(tuning, "_found", {})
    monkeypatch.setattr(module, "renewed", lambda: machine.BUILT_IN["avx2"])
    return found


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets what this process knows, as another process would."""

    def forget() -> None:
        monkeypatch.setattr(tuning, "_found", {})
        module._held.clear()

    return forget


def file() -> Path:
    place = module.folder()
    assert place is not None
    return place / TIMES


def test_timed_once_and_used_by_all_sessions(raced: list[Product], afresh: Callable[[], None]) -> None:
    expected = session(tune=False).run(X)["y"]
    first = session(tune=True)
    np.testing.assert_allclose(first.run(X)["y"], expected, atol=1e-3)
    assert len(raced) == 2  # the linear layer has one form
    assert form_of(first) == ["winograd4", "rows"]  # the last by name, of three and of two
    content = json.loads(file().read_text())
    assert content["machine"] == machine.identity()
    assert len(content["times"]) == 2
    afresh()
    for again in (session(tune=True), session()):
        again.run(X)
        assert form_of(again) == form_of(first)
    assert len(raced) == 2
    plain = session(tune=False)
    plain.run(X)
    assert plain.run(X).keys() == {"y"}
    assert len(raced) == 2


def test_times_of_other_threads_and_precisions_are_others(raced: list[Product]) -> None:
    session(tune=True, threads=1).run(X)
    session(tune=True, threads=2).run(X)
    session(tune=True, threads=2, precision="bf16").run(X)
    assert len(raced) == 6
    assert {product.dtype.name for product in raced} == {"float32", "bfloat16"}


@pytest.mark.parametrize(
    "change",
    [
        {"machine": {"cpu": "another"}}, {"times": None}, {"times": {"x": "import os"}}, {"times": {"x": {}}},
        {"times": {"x": {"rows": "1"}}}, {"times": {"x": {"rows": -1}}}, {"times": [1]},
    ],
)  # fmt: skip
def test_times_of_another_machine_and_damaged_ones_are_not_used(
    change: dict[str, Any], raced: list[Product], afresh: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(watch, "note", notes.append)
    session(tune=True).run(X)
    file().write_text(json.dumps(json.loads(file().read_text()) | change))
    os.utime(file(), (1, 1))
    afresh()
    session().run(X)
    assert len(raced) == 2
    assert len(notes) == 1
    session(tune=True).run(X)
    assert len(raced) == 4
    assert json.loads(file().read_text())["machine"] == machine.identity()


def test_a_form_that_does_not_fit_a_product_is_not_used(raced: list[Product], afresh: Callable[[], None]) -> None:
    session(tune=True).run(X)
    times = json.loads(file().read_text())
    times["times"] = {name: {"winograd9": 1e-9, "winograd2": 1e-8} for name in times["times"]}
    file().write_text(json.dumps(times))
    os.utime(file(), (1, 1))
    afresh()
    made = session()
    made.run(X)
    assert form_of(made)[0] == "winograd2"


def test_without_a_cache_times_hold_for_the_process(
    raced: list[Product], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "file"))
    first, second = session(tune=True), session()
    first.run(X)
    second.run(X)
    assert form_of(first) == form_of(second) == ["winograd4", "rows"]
    assert len(raced) == 2


def test_switched_off(raced: list[Product], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_CALIBRATE", "0")
    session(tune=True).run(X)
    assert raced == []


def test_a_race_tries_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "ROUNDS", 1)
    window = (1, 1), ((1, 1), (1, 1)), (1, 1)
    given = Product(np.dtype(np.float32), (1, 8, 8, 16), (3, 3, 16, 16), (1, 8, 8, 16), *window)
    tried = ["rows", "winograd4", "winograd2", "plain"]
    found = tuning.race(given, tried, np.ones(1 << 12, np.uint8))
    assert list(found) == tried
    assert all(map(is_figure, found.values()))


def test_the_log_says_why(
    raced: list[Product], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PDL_LOG", "plan")
    session(tune=True, threads=1).run(X)
    said = capsys.readouterr().err
    assert "float32 1x12x12x32 * 3x3x32x48, padding 1+1, 1+1: winograd4; timed on 1 threads, microseconds: " in said
    assert "float32 1x40 * 40x10: rows; estimated on 1 threads" in said

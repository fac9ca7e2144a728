"""Drawings of circuits: characters as expected, pictures whose shapes keep apart."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit, Parameter, amplitude_damping, depolarizing
from pdl_quantum.drawing import histogram, svg, text
from pdl_quantum.drawing.labels import Labels, number
from pdl_quantum.drawing.layout import columns
from tests.quantum.circuits.reference import random_circuit

THETA = Parameter("theta", (2, 3))


def shared() -> Circuit:
    circuit = Circuit(3)
    circuit.parameter("theta", (2, 3))
    return circuit.h(0).cx(0, 2).ry(THETA[1, 2] / -2, 1).rzz(np.pi / 4, 0, 2).swap(1, 2)


def test_characters() -> None:
    assert text(shared(), width=80).splitlines() == [
        "    ┌───┐                     ┌────────┐",
        "q0 ─┤ H ├─●───────────────────┤ Z(π/4) ├───",
        "    └───┘ │ ┌───────────────┐ └────┬───┘",
        "q1 ───────┼─┤ RY(-θ[1,2]/2) ├──────┼─────╳─",  # noqa: RUF001
        "          │ └───────────────┘ ┌────┴───┐ │",
        "q2 ───────⊕───────────────────┤   Z    ├─╳─",  # noqa: RUF001
        "                              └────────┘",
    ]
    assert "RY(-0.3571)" in text(shared(), np.arange(6) / 7, width=80)
    assert text(Circuit(2), width=80) == "q0 ──\nq1 ──"


def test_a_word_is_one_box() -> None:
    """Letters on neighbouring wires stand in one box, on others in boxes with a line between."""
    assert text(Circuit(4).pauli("a", "XYIZ").h(1, 2), width=80).splitlines() == [
        "    ┌──────┐",
        "q0 ─┤ X(a) ├───────",
        "    │   │  │ ┌───┐",
        "q1 ─┤  Y   ├─┤ H ├─",
        "    └───┬──┘ ├───┤",
        "q2 ─────┼────┤ H ├─",
        "    ┌───┴──┐ └───┘",
        "q3 ─┤  Z   ├───────",
        "    └──────┘",
    ]


def test_characters_of_blocks() -> None:
    """Controls at 0, boxes over neighbours, ports where qubits are not in order or not side by side."""
    circuit = Circuit(4).controlled([0], Circuit(4).x(3), [0]).unitary(np.eye(4), 3, 1).iswap(2, 3)
    assert text(circuit, width=80).splitlines() == [
        "q0 ─○───────────────────",
        "    │ ┌─────┐",
        "q1 ─┼─┤1  U ├───────────",
        "    │ └──┬──┘ ┌───────┐",
        "q2 ─┼────┼────┤       ├─",
        "    │ ┌──┴──┐ │ iSWAP │",
        "q3 ─⊕─┤0  U ├─┤       ├─",
        "      └─────┘ └───────┘",
    ]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_covers_anything(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, int(rng.integers(1, 9)), 40)
    wide = int(rng.integers(60, 150))
    drawn = text(circuit, width=wide)
    longest = max(len(line) for line in drawn.splitlines())
    assert longest <= wide

    picture = ElementTree.fromstring(svg(circuit, width=8.0 * wide))
    groups = [g for g in picture if g.tag.endswith("}g")]
    assert len(groups) == len(circuit)
    spans = [_span(group) for group in groups]
    for a, b in combinations(spans, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    right, bottom = (float(v) for v in picture.attrib["viewBox"].split()[2:])
    assert all(min(x, y) > 0 and x2 < right and y2 < bottom for x, y, x2, y2 in spans)


def noisy() -> Circuit:
    """Measurements, conditions, a barrier, channels."""
    circuit = Circuit(3).h(0).channel(depolarizing(0.01, 2), 0, 1).barrier(0, 1)
    circuit.measure(0, 1, confusion=[[1, 0], [0.03, 0.97]])
    return circuit.when({1: 1, 0: 0}, lambda c: c.cx(0, 2)).channel(amplitude_damping(0.1), 1).reset(2)


def test_characters_of_what_is_no_gate() -> None:
    assert text(noisy(), width=80).splitlines() == [
        "     ┌───┐ ┌───────────┐ ░ ┌────────────┐",
        "q0  ─┤ H ├─┤           ├─░─┤ M(0, 0.03) ├────●────────────────",
        "     └───┘ │ Dep(0.01) │ ░ └──────┬─────┘    │    ┌─────────┐",
        "q1  ───────┤           ├─░────────┼──────────┼────┤ AD(0.1) ├─",
        "           └───────────┘ ░        │          │    ├─────────┤",
        "q2  ──────────────────────────────┼──────────⊕────┤   |0⟩   ├─",
        "                                  │          │    └─────────┘",
        "c/2 ══════════════════════════════╩══════════╩════════════════",
        "                                  1       0=0,1=1",
    ]
    assert re.findall(r"<title>(.*?)</title>", svg(noisy()))[2:] == [
        "depolarizing(0.01) on q0, q1", "barrier on q0, q1", "measure(0, 0.03) on q0 into c1",
        "x on q2 where q0 is 1 if c0 is 0, c1 is 1", "amplitude_damping(0.1) on q1", "reset on q2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (np.pi, "π"), (-np.pi / 2, "-π/2"), (0.75 * np.pi, "3π/4"), (np.pi / 1024, "π/1024"), (0.3, "0.3"),
     (-2.14461, "-2.145"), (1e-9, "1e-09"), (7 * np.pi, "7π")],
)  # fmt: skip
def test_numbers(value: float, expected: str) -> None:
    assert number(value) == expected


def _span(group: ElementTree.Element) -> tuple[float, float, float, float]:
    """What a gate takes: left, top, right, bottom."""
    xs, ys = list[float](), list[float]()
    for each in group:
        at = each.attrib
        if each.tag.endswith("rect"):
            x, y = float(at["x"]), float(at["y"])
            xs += [x, x + float(at["width"])]
            ys += [y, y + float(at["height"])]
        elif each.tag.endswith("circle"):
            x, y, r = (float(at[k]) for k in ("cx", "cy", "r"))
            xs += [x - r, x + r]
            ys += [y - r, y + r]
        elif each.tag.endswith("line"):
            xs += [float(at["x1"])]
            ys += [float(at["y1"]), float(at["y2"])]
        elif each.tag.endswith("path"):
            x, y = (float(v) for v in re.findall(r"M(\S+) (\S+?)[lh]", at["d"])[0])
            xs.append(x)
            ys.append(y)
    return min(xs), min(ys), max(xs), max(ys)


def test_columns_are_tight() -> None:
    """A brick of neighbours takes as many columns as it is deep; a line over other wires waits for these."""
    circuit = Circuit(6).ry(0.1)
    for k in (0, 2, 4, 1, 3):
        circuit.cz(k, k + 1)
    assert len(columns(circuit, Labels.of(circuit))) == circuit.depth == 3
    crossing = Circuit(3).cx(0, 2).h(1)
    assert (len(columns(crossing, Labels.of(crossing))), crossing.depth) == (2, 1)


def test_picture_says_each_gate_in_words() -> None:
    messages = re.findall(r"<title>(.*?)</title>", svg(shared()))
    assert messages[1:] == [
        "h on q0", "x on q2 where q0 is 1", "ry(-θ[1,2]/2) on q1", "rzz(π/4) on q0, q2", "swap on q1, q2",
    ]  # fmt: skip


def test_values_must_be_one_row() -> None:
    with pytest.raises(UsageError, match="not a batch of 3"):
        svg(shared(), np.zeros((3, 6)))
    with pytest.raises(UsageError, match="5 values for the circuit's 6"):
        text(shared(), np.zeros(5))


def _columns(picture: str) -> dict[str, float]:
    """Heights by outcome, of the axis' height."""
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    lines = [float(line.attrib["y1"]) for line in root.findall(f"{space}line")]
    found = {}
    for group in root.findall(f"{space}g"):
        title, box = group.find(f"{space}title"), group.find(f"{space}rect")
        assert title is not None
        assert box is not None
        found[str(title.text)] = float(box.attrib["height"]) / (max(lines) - min(lines))
    return found


def test_histogram() -> None:
    """Columns are as high as their share of the axis, which ends at the next round number."""
    found = _columns(histogram({"10": 1, "00": 6, "11": 3}, expected={"00": 0.5, "11": 0.5}))
    assert found == pytest.approx({
        "00: 60%, expected 50%": 1.0, "10: 10%, expected 0%": 1 / 6, "11: 30%, expected 50%": 0.5,
    }, abs=1e-3)  # fmt: skip
    many = {f"{k:08b}": 1 + k % 7 for k in range(256)}
    picture = histogram(many, most=16)
    assert len(_columns(picture)) == 16
    others = sum(many.values()) - 16 * 7
    assert f"240 other outcomes: {100 * others / sum(many.values()):.3g}%" in picture
    assert "&lt;0&gt;" in histogram({"<0>": 1})
    for wrong in ({}, {"0": 0}, {"0": -1, "1": 2}):
        with pytest.raises(UsageError, match="counts from 0 on"):
            histogram(wrong)

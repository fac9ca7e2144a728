"""Circuits as programs of the state-vector engine: gates fused and ordered into sweeps over memory.

What depends on a circuit's gates alone is done here, once; what depends on parameters, `Compiled.bind`, is a few NumPy
calls. `pdl/kernels/src/statevector.h` says what the stream of a program means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pdl_quantum.circuits.angles import Angle
from pdl_quantum.circuits.gates import Dense, Fixed, Flip, Gate, Parity, Phase, Primitive, Turn, lower
from pdl_quantum.circuits.program import Compiled, Form, Forms, Runs, zyz
from pdl_quantum.circuits.schedule import LOCAL, PHASE, RUN, Item, Writer, sweeps

Array = np.ndarray
HALF = float(np.pi / 2)


class _Builder:
    """From primitives to items, slots and forms."""

    def __init__(self, n: int, columns: Mapping[tuple[str, int], int]) -> None:
        self.n, self.columns = n, columns
        self.forms, self.items = Forms(), []  # type: ignore[var-annotated]
        self.slots = self.gradients = 0
        self.units: list[tuple[int, int]] = []
        self.halves: list[tuple[int, int]] = []
        self.gradient_forms: list[tuple[int, int]] = []
        self.fixed: list[tuple[int, Array]] = []
        self.common: list[int] = []
        self.open: dict[int, list[tuple[str, Form]]] = {}  # runs of one-qubit gates, by qubit
        self.fused: dict[int, list[tuple[list[int], tuple[int, int, int], int]]] = {}

    def bit(self, qubit: int) -> int:
        return self.n - 1 - qubit

    def form(self, angle: Angle) -> Form:
        if angle.parameter is None:
            return Form(angle.offset)
        return Form(angle.offset, {self.columns[angle.parameter, angle.index]: angle.factor})

    def slot(self, words: int = 2) -> int:
        self.slots += words
        return self.slots - words

    def bound(self, form: Form, table: list[tuple[int, int]]) -> tuple[int, int]:
        """(slot, gradient) of a form whose cos and sin the engine reads, of the whole or the half as `table` says."""
        slot, number, gradient = self.slot(), self.forms.add(form), -1
        table.append((slot, number))
        if form.terms:
            gradient, self.gradients = self.gradients, self.gradients + 1
            self.gradient_forms.append((gradient, number))
        return slot, gradient

    # -- one-qubit runs ------------------------------------------------------------------------------------------------
    def append(self, qubit: int, kind: str, form: Form) -> None:
        """P ("p") or RY ("y") of a form at the end of the qubit's run."""
        run = self.open.setdefault(qubit, [])
        if run and run[-1][0] == kind:
            run[-1] = (kind, run[-1][1].plus(form))
        else:
            run.append((kind, form))

    def turn(self, one: Turn) -> None:
        form = self.form(one.angle)
        if one.axis == "z":
            self.scalar(Form().plus(form, -0.5))
        if one.axis == "x":
            self.append(one.qubit, "p", Form(HALF))
        self.append(one.qubit, "y" if one.axis in "xy" else "p", form)
        if one.axis == "x":
            self.append(one.qubit, "p", Form(-HALF))

    def fixed_gate(self, one: Fixed) -> None:
        phi, gamma, beta, alpha = (float(x) for x in zyz(one.matrix))
        self.scalar(Form(phi))
        for kind, angle in (("p", gamma), ("y", beta), ("p", alpha)):
            self.append(one.qubit, kind, Form(angle))

    def close(self, qubits: Iterable[int]) -> None:
        for qubit in qubits:
            run = [each for each in self.open.pop(qubit, []) if each[1]]
            merged: list[tuple[str, Form]] = []
            for kind, form in run:
                if merged and merged[-1][0] == kind:
                    merged[-1] = (kind, merged[-1][1].plus(form))
                else:
                    merged.append((kind, form))
            if sum(kind == "y" for kind, _ in merged) < 2:
                for kind, form in merged:
                    self._single(qubit, kind, form)
            else:
                self._fuse(qubit, merged)

    def _single(self, qubit: int, kind: str, form: Form) -> None:
        bit = self.bit(qubit)
        if kind == "p":
            self.phase((bit,), form)
            return
        self.items.append(Item("turn", 1 << bit, 0, (bit,), *self.bound(form, self.halves)))

    def _fuse(self, qubit: int, run: list[tuple[str, Form]]) -> None:
        if run[0][0] == "y":
            run = [("p", Form()), *run]
        if run[-1][0] == "y":
            run = [*run, ("p", Form())]
        bit, slots = self.bit(qubit), (self.slot(), self.slot(), self.slot())
        learned = any(form.terms for _, form in run)
        gradient = -1
        if learned:
            gradient, self.gradients = self.gradients, self.gradients + 3
        self.fused.setdefault(len(run), []).append(([self.forms.add(form) for _, form in run], slots, gradient))
        self.items.append(Item("phase", 0, 1 << bit, (bit,), slots[0]))
        self.items.append(Item("turn", 1 << bit, 0, (bit,), slots[1], gradient, learned))
        self.items.append(Item("phase", 0, 1 << bit, (bit,), slots[2]))

    # -- the others ----------------------------------------------------------------------------------------------------
    def scalar(self, form: Form) -> None:
        if form:
            self.common.append(self.forms.add(form))

    def phase(self, bits: tuple[int, ...], form: Form) -> None:
        if not form:
            return
        self.items.append(Item("phase", 0, sum(1 << bit for bit in bits), bits, *self.bound(form, self.units)))

    def phases(self, one: Phase) -> None:
        form, values = self.form(one.angle), one.values or (1,) * len(one.qubits)
        bits = tuple(self.bit(q) for q in one.qubits)
        if len(bits) > 2:
            mask, value = sum(1 << bit for bit in bits), sum(v << bit for bit, v in zip(bits, values, strict=True))
            placed = self.bound(form, self.units)
            self.items.append(Item("masked", 0, mask, (), *placed, mask=mask, value=value))
            return
        terms: dict[tuple[int, ...], float] = {(): 1.0}  # products of x and 1 - x, multiplied out
        for bit, value in zip(bits, values, strict=True):
            grown: dict[tuple[int, ...], float] = {}
            for held, factor in terms.items():
                grown[(*held, bit)] = grown.get((*held, bit), 0.0) + (factor if value else -factor)
                if not value:
                    grown[held] = grown.get(held, 0.0) + factor
            terms = grown
        for held, factor in terms.items():
            scaled = Form().plus(form, factor)
            if held:
                self.phase(held, scaled)
            else:
                self.scalar(scaled)

    def parity(self, one: Parity) -> None:
        form, bits = self.form(one.angle), tuple(self.bit(q) for q in one.qubits)
        if len(bits) <= 2:  # -angle/2 (1 - 2x)(1 - 2y) multiplied out
            self.scalar(Form().plus(form, -0.5))
            for bit in bits:
                self.phase((bit,), form)
            if len(bits) == 2:
                self.phase(bits, Form().plus(form, -2.0))
            return
        mask = sum(1 << bit for bit in bits)
        self.items.append(Item("parity", 0, mask, (), *self.bound(form, self.halves), mask=mask))

    def controlled(self, one: Flip | Dense) -> None:
        mask = sum(1 << self.bit(q) for q in one.controls)
        value = sum(v << self.bit(q) for q, v in zip(one.controls, one.values, strict=True))
        if isinstance(one, Flip):
            bit = self.bit(one.qubit)
            self.items.append(Item("flip", 1 << bit, mask, (bit,), mask=mask, value=value))
            return
        bits = tuple(self.bit(q) for q in reversed(one.qubits))  # the engine's first bit is the least significant
        slot = self.slot(2 * one.matrix.size)
        self.fixed.append((slot, np.stack([one.matrix.real, one.matrix.imag], -1).ravel()))
        self.items.append(Item("dense", sum(1 << bit for bit in bits), mask, bits, slot, mask=mask, value=value))

    def add(self, one: Primitive) -> None:
        if isinstance(one, Turn):
            self.turn(one)
        elif isinstance(one, Fixed):
            self.fixed_gate(one)
        elif isinstance(one, Phase | Parity):  # phases stay behind runs that are phases, too
            self.close(one.qubits)
            self.phases(one) if isinstance(one, Phase) else self.parity(one)
        else:
            qubits = (one.qubit,) if isinstance(one, Flip) else one.qubits
            self.close((*qubits, *one.controls))
            self.controlled(one)


def compile_gates(
    gates: Sequence[Gate], n: int, columns: Mapping[tuple[str, int], int], *, local: int = LOCAL, run: int = RUN
) -> Compiled:
    """The program of gates on n qubits.

    columns     the place of every parameter's entry (name, index) in a row of parameters
    local, run  qubits of a tile, and how many of them lie side by side in memory
    """
    builder = _Builder(n, columns)
    for gate in gates:
        for one in lower(gate):
            builder.add(one)
    builder.close(list(builder.open))
    scalar = builder.slot() if builder.common or builder.fused else -1
    writer, placed = Writer(n), scalar < 0
    for bits, items in sweeps(builder.items, n, local, run):
        placed = writer.sweep(bits, items, run, -1 if placed else scalar) or placed
    if not placed:  # no phase to take it along
        bits = list(range(min(local, n)))
        body = [len(bits), len(bits), *bits, 1, PHASE, 6, scalar, 0, 0, 0, 0, 0]
        writer.words += [len(body), *body]
        writer.words[0] += 1
    fixed = [(slot + i, value) for slot, values in builder.fixed for i, value in enumerate(values)]
    runs = tuple(
        Runs(*(np.array(part, np.int64) for part in zip(*group, strict=True))) for group in builder.fused.values()
    )
    return Compiled(
        stream=np.array(writer.words, np.int64),
        n=n,
        columns=len(columns),
        slots=builder.slots,
        gradients=builder.gradients,
        forms=builder.forms,
        units=_table(builder.units),
        halves=_table(builder.halves),
        fixed=(np.array([s for s, _ in fixed], np.int64), np.array([v for _, v in fixed])),
        scalar=(scalar, np.array(builder.common, np.int64)),
        gradient_forms=_table(builder.gradient_forms),
        runs=runs,
    )


def _table(rows: list[tuple[int, int]]) -> Array:
    return np.array(rows, np.int64).reshape(-1, 2)

"""Circuits as programs of the state-vector engine: gates fused, ordered into sweeps over memory, parameters bound.

What depends on a circuit's gates alone is done once (`compile_gates`); what depends on parameters, `Compiled.bind`, is a
few NumPy calls. `pdl/kernels/src/statevector.h` says what the stream of a program means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pdl_quantum.angles import Angle
from pdl_quantum.gates import Dense, Fixed, Flip, Gate, Parity, Phase, Primitive, Turn, lower

Array = np.ndarray
HALF = float(np.pi / 2)
LOCAL, RUN = 13, 4
"""Qubits of a tile, and how many of these lie side by side in memory: 128 kB of complex128, in strips of 256 bytes."""
TURN, PHASE, MASKED, PARITY, FLIP, DENSE = range(6)


# -- angles ------------------------------------------------------------------------------------------------------------
@dataclass
class Form:
    """offset + sum of coefficient * parameter, parameters by column."""

    offset: float = 0.0
    terms: dict[int, float] = field(default_factory=dict)

    def plus(self, angle: Form, factor: float = 1.0) -> Form:
        terms = dict(self.terms)
        for column, value in angle.terms.items():
            terms[column] = terms.get(column, 0.0) + factor * value
        return Form(self.offset + factor * angle.offset, terms)

    def __bool__(self) -> bool:
        return bool(self.terms) or self.offset != 0.0


class Forms:
    """All forms of a program, evaluated at once."""

    def __init__(self) -> None:
        self.forms: list[Form] = []

    def add(self, form: Form) -> int:
        self.forms.append(form)
        return len(self.forms) - 1

    @cached_property
    def _sparse(self) -> tuple[Array, Array, Array, Array]:
        """(offsets [K], then of every term: its form, column and coefficient)."""
        entries = [(k, c, v) for k, form in enumerate(self.forms) for c, v in form.terms.items()]
        which, column, value = (np.array(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
        return (
            np.array([form.offset for form in self.forms]),
            np.asarray(which, np.int64), np.asarray(column, np.int64), np.asarray(value, np.float64),
        )  # fmt: skip

    def evaluate(self, parameters: Array) -> Array:
        """[B, P] -> [B, K]."""
        offsets, which, column, value = self._sparse
        made = np.tile(offsets, (len(parameters), 1))
        if len(which):
            products = parameters[:, column] * value
            if len(np.unique(which)) == len(which):
                made[:, which] += products
            else:
                np.add.at(made.T, which, products.T)
        return made

    def pull(self, gradient: Array, columns: int) -> Array:
        """[B, K] -> [B, P]."""
        _, which, column, value = self._sparse
        made = np.zeros((len(gradient), columns))
        if len(which):
            np.add.at(made.T, column, (gradient[:, which] * value).T)
        return made


def zyz(matrix: Array) -> tuple[Array, Array, Array, Array]:
    """(phi, gamma, beta, alpha) with matrix [..., 2, 2] = exp(i phi) P(alpha) RY(beta) P(gamma), P(x) = diag(1, e^ix)."""
    corner = matrix[..., 0, 0]
    phi = np.angle(corner)
    alpha = np.angle(matrix[..., 1, 0]) - phi
    sine, cosine = np.abs(matrix[..., 1, 0]), np.abs(corner)
    gamma = np.where(sine > cosine, np.angle(-matrix[..., 0, 1]) - phi, np.angle(matrix[..., 1, 1]) - phi - alpha)
    return phi, gamma, 2 * np.arctan2(sine, cosine), alpha


# -- what is scheduled -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Item:
    """One op of the engine. Bit k of a mask is bit k of an amplitude's index.

    moves   bits whose amplitudes it mixes;    reads  bits it only looks at
    what    "turn", "phase", "masked", "parity", "flip", "dense";    bits  of its kind
    slot    where its values are;    gradient  where its derivative goes, or -1;    all  whether of x, y and z
    """

    what: str
    moves: int
    reads: int
    bits: tuple[int, ...] = ()
    slot: int = -1
    gradient: int = -1
    all: bool = False
    mask: int = 0
    value: int = 0


def sweeps(items: Sequence[Item], n: int, local: int, run: int) -> Iterable[tuple[list[int], list[Item]]]:
    """(bits, items) of every sweep: as many items as fit, in the order given but for those that commute with all that
    are left behind."""
    left = list(items)
    low = (1 << min(run, n)) - 1
    while left:
        chosen, moved, read = low, 0, 0
        taken: list[Item] = []
        rest: list[Item] = []
        for item in left:
            free = not (item.moves | item.reads) & moved and not item.moves & read
            if free and (chosen | item.moves).bit_count() <= min(local, n):
                chosen |= item.moves
                taken.append(item)
            else:
                rest.append(item)
                moved |= item.moves
                read |= item.reads
        for bit in range(n):
            if chosen.bit_count() >= min(local, n):
                break
            chosen |= 1 << bit
        yield [bit for bit in range(n) if chosen >> bit & 1], taken
        left = rest


def levels(items: Sequence[Item]) -> Iterable[tuple[str, list[Item]]]:
    """The items of a sweep as groups that act at once: all phases that may, then all turns of distinct bits, then one
    of the others."""
    left = list(items)
    while left:
        for kind in ("phase", "turn", "other"):
            moved = read = 0
            taken: list[Item] = []
            rest: list[Item] = []
            for item in left:
                own = "phase" if not item.moves else "turn" if item.what == "turn" else "other"
                free = not (item.moves | item.reads) & moved and not item.moves & read
                if own == kind and free and not (kind == "other" and taken):
                    taken.append(item)
                    if kind != "phase":  # it has moved: what follows on these bits waits
                        moved |= item.moves
                        read |= item.reads
                else:
                    rest.append(item)
                    moved |= item.moves
                    read |= item.reads
            if taken:
                yield kind, taken
                left = rest


class _Writer:
    """The stream of a program."""

    def __init__(self, n: int) -> None:
        self.n, self.words, self.count = n, [0], 0

    def sweep(self, bits: list[int], items: Sequence[Item], run: int, scalar: int) -> bool:
        """Write a sweep; True where the program's common factor found a place in it."""
        place = {bit: k for k, bit in enumerate(bits)}
        ops: list[int] = []
        count, used = 0, False
        for kind, group in levels(items):
            for code, payload in self._ops(kind, group, place, scalar if not used else -1):
                used = used or (code == PHASE and scalar >= 0)
                ops += [code, len(payload), *payload]
                count += 1
        side = len(bits) if len(bits) == self.n else min(run, len(bits))
        body = [len(bits), side, *bits, count, *ops]
        self.words += [len(body), *body]
        self.words[0] += 1
        return used

    def _ops(self, kind: str, group: Sequence[Item], place: Mapping[int, int], scalar: int) -> list[tuple[int, list[int]]]:
        if kind == "turn":
            rows = [[place[item.bits[0]], item.slot, item.gradient, int(item.all)] for item in group]
            return [(TURN, [len(rows), *(word for row in rows for word in row)])]
        made: list[tuple[int, list[int]]] = []
        phases = [item for item in group if item.what == "phase"]
        if phases:
            made.append((PHASE, _phase_words(phases, place, scalar)))
        for item in group:
            inner, inner_value = _local(item.mask, place), _local(item.value, place)
            outer, outer_value = _outside(item.mask, place), _outside(item.value, place)
            masks = [inner, inner_value, outer, outer_value]
            if item.what == "masked":
                made.append((MASKED, [*masks, item.slot, item.gradient]))
            elif item.what == "parity":
                made.append((PARITY, [inner, outer, item.slot, item.gradient]))
            elif item.what == "flip":
                made.append((FLIP, [place[item.bits[0]], *masks]))
            elif item.what == "dense":
                bits = [place[bit] for bit in item.bits]
                made.append((DENSE, [len(bits), *bits, *masks, item.slot, item.gradient]))
        return made


def _local(mask: int, place: Mapping[int, int]) -> int:
    return sum(1 << k for bit, k in place.items() if mask >> bit & 1)


def _outside(mask: int, place: Mapping[int, int]) -> int:
    return mask & ~sum(1 << bit for bit in place)


def _phase_words(items: Sequence[Item], place: Mapping[int, int], scalar: int) -> list[int]:
    lists: list[list[list[int]]] = [[], [], [], [], []]
    for item in items:
        inner = [place[bit] for bit in item.bits if bit in place]
        outer = [bit for bit in item.bits if bit not in place]
        kind = {(1, 0): 0, (2, 0): 1, (1, 1): 2, (0, 1): 3, (0, 2): 4}[len(inner), len(outer)]
        lists[kind].append([*inner, *outer, item.slot, item.gradient])
    words = [scalar]
    for each in lists:
        words += [len(each), *(word for row in each for word in row)]
    return words


# -- a program ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Runs:
    """One-qubit runs of `count` rotations about y between phases, fused: P Y P Y ... P.

    forms     [R, 2 count + 1], the form of each; alternating phases and rotations, in the order of time
    slots     [R, 3]: of the phase before, the rotation, the phase behind;    gradients  [R] of x, y, z, or -1
    """

    forms: Array
    slots: Array
    gradients: Array


@dataclass(frozen=True, eq=False)
class Compiled:
    """A circuit's program.

    stream    int64;    n  qubits;    columns  parameters;    gradients  places of derivatives
    units     [U, 2]: slot and form of cos and sin of a form;    halves  the same of half a form
    fixed     (slots, values) of what does not change
    scalar    slot of the common factor, or -1, and the forms that it is the sum of
    pulls     [G, 2]: gradient place and form
    """

    stream: Array
    n: int
    columns: int
    slots: int
    gradients: int
    forms: Forms
    units: Array
    halves: Array
    fixed: tuple[Array, Array]
    scalar: tuple[int, Array]
    pulls: Array
    runs: tuple[Runs, ...]

    def bind(self, parameters: Array) -> Array:
        """Parameters float64 [B, P] -> values float64 [B, slots]."""
        angles = self.forms.evaluate(parameters)
        values = np.zeros((len(parameters), self.slots))
        values[:, self.fixed[0]] = self.fixed[1]
        common = angles[:, self.scalar[1]].sum(1)
        for table, factor in ((self.units, 1.0), (self.halves, 0.5)):
            turned = angles[:, table[:, 1]] * factor
            _put(values, table[:, 0], turned)
        for run in self.runs:
            phi, gamma, beta, alpha = self._fused(angles, run)
            common = common + phi.sum(1)
            _put(values, run.slots[:, 0], gamma)
            _put(values, run.slots[:, 1], beta / 2)
            _put(values, run.slots[:, 2], alpha)
        if self.scalar[0] >= 0:
            values[:, self.scalar[0]], values[:, self.scalar[0] + 1] = np.cos(common), np.sin(common)
        return values

    @staticmethod
    def _fused(angles: Array, run: Runs) -> tuple[Array, Array, Array, Array]:
        a = angles[:, run.forms]  # [B, R, 2 count + 1]
        u = np.zeros((*a.shape[:2], 2, 2), complex)
        u[..., 0, 0], u[..., 1, 1] = 1, np.exp(1j * a[..., 0])
        for k in range(1, a.shape[2], 2):
            c, s = np.cos(a[..., k] / 2)[..., None], np.sin(a[..., k] / 2)[..., None]
            top, bottom = u[..., 0, :], u[..., 1, :]
            u = np.stack([c * top - s * bottom, (s * top + c * bottom) * np.exp(1j * a[..., k + 1])[..., None]], axis=-2)
        return zyz(u)

    def pull(self, sums: Array, parameters: Array) -> Array:
        """Derivatives by parameter [B, P] from those that the engine gathered, [B, gradients]."""
        back = np.zeros((len(sums), len(self.forms.forms)))
        if len(self.pulls):
            np.add.at(back.T, self.pulls[:, 1], sums[:, self.pulls[:, 0]].T)
        angles = self.forms.evaluate(parameters) if self.runs else None
        for run in self.runs:
            assert angles is not None
            self._pull_run(back, sums, angles, run)
        return self.forms.pull(back, self.columns)

    def _pull_run(self, back: Array, sums: Array, angles: Array, run: Runs) -> None:
        """d/dangle of exp(-i angle/2 sigma) inside a run is Im <l| n.sigma |z> behind its rotation, n being sigma's axis
        turned by what follows in the run, but for the phase behind the fused rotation."""
        wanted = run.gradients >= 0
        forms, at = run.forms[wanted], run.gradients[wanted]
        if not len(forms):
            return
        _, _, _, alpha = self._fused(angles, run)
        a = angles[:, forms]
        y, x, z = sums[:, at], sums[:, at + 1], sums[:, at + 2]
        turn = -alpha[:, wanted]
        vector = np.stack([x * np.cos(turn) + y * np.sin(turn), -x * np.sin(turn) + y * np.cos(turn), z], -1)  # R^T v
        for k in range(forms.shape[1] - 1, -1, -1):
            axis = 2 if k % 2 == 0 else 1
            np.add.at(back.T, forms[:, k], vector[..., axis].T)
            c, s = np.cos(a[..., k]), np.sin(a[..., k])
            i, j = ((0, 1), (2, 0))[k % 2]  # the plane that the rotation turns: about z from x to y, about y from z to x
            p, q = vector[..., i], vector[..., j]
            vector[..., i], vector[..., j] = c * p + s * q, -s * p + c * q


def _put(values: Array, slots: Array, angles: Array) -> None:
    values[:, slots], values[:, slots + 1] = np.cos(angles), np.sin(angles)


class _Builder:
    """From primitives to items, slots and forms."""

    def __init__(self, n: int, columns: Mapping[tuple[str, int], int]) -> None:
        self.n, self.columns = n, columns
        self.forms, self.items = Forms(), []  # type: ignore[var-annotated]
        self.slots = self.gradients = 0
        self.units: list[tuple[int, int]] = []
        self.halves: list[tuple[int, int]] = []
        self.pulls: list[tuple[int, int]] = []
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

    def gradient(self, form: Form, words: int = 1) -> int:
        if not form.terms:
            return -1
        self.gradients += words
        return self.gradients - words

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
        slot, gradient, number = self.slot(), self.gradient(form), self.forms.add(form)
        self.halves.append((slot, number))
        if gradient >= 0:
            self.pulls.append((gradient, number))
        self.items.append(Item("turn", 1 << bit, 0, (bit,), slot, gradient))

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
        slot, gradient, number = self.slot(), self.gradient(form), self.forms.add(form)
        self.units.append((slot, number))
        if gradient >= 0:
            self.pulls.append((gradient, number))
        self.items.append(Item("phase", 0, sum(1 << bit for bit in bits), bits, slot, gradient))

    def phases(self, one: Phase) -> None:
        form, values = self.form(one.angle), one.values or (1,) * len(one.qubits)
        bits = tuple(self.bit(q) for q in one.qubits)
        if len(bits) > 2:
            slot, gradient, number = self.slot(), self.gradient(form), self.forms.add(form)
            self.units.append((slot, number))
            if gradient >= 0:
                self.pulls.append((gradient, number))
            mask, value = sum(1 << bit for bit in bits), sum(v << bit for bit, v in zip(bits, values, strict=True))
            self.items.append(Item("masked", 0, mask, (), slot, gradient, mask=mask, value=value))
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
        slot, gradient, number = self.slot(), self.gradient(form), self.forms.add(form)
        self.halves.append((slot, number))
        if gradient >= 0:
            self.pulls.append((gradient, number))
        mask = sum(1 << bit for bit in bits)
        self.items.append(Item("parity", 0, mask, (), slot, gradient, mask=mask))

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
    writer, placed = _Writer(n), scalar < 0
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
        pulls=_table(builder.pulls),
        runs=runs,
    )


def _table(rows: list[tuple[int, int]]) -> Array:
    return np.array(rows, np.int64).reshape(-1, 2)


__all__ = ["Compiled", "Form", "Forms", "LOCAL", "RUN", "compile_gates", "zyz"]

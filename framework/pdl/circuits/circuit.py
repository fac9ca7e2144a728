"""`Circuit`: gates on qubits, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.circuits.angles import Angle, Parameter, angle_of
from pdl.circuits.compile import compile_gates
from pdl.circuits.gates import CONTROLLED, KINDS, Gate, inverse_of
from pdl.circuits.program import Compiled
from pdl.circuits.schedule import LOCAL, RUN
from pdl.errors import UsageError
from pdl.suites import suggest

Array = np.ndarray
MOST_DENSE = 4


class Circuit:
    """Gates on n qubits; every method that adds one returns the circuit.

        theta = Parameter("theta", (2,))
        bell = Circuit(2).h(0).cnot(0, 1).ry(theta, 0, 1)

    Qubit 0 is the most significant: |q0 q1 ...> is entry q0 2^(n-1) + q1 2^(n-2) + ... of a state. Gates of one qubit
    take several, and without any all; an angle is a number in radians, a `Parameter`, its name or one of its entries,
    or an array of these, one for each qubit.

    num_qubits   n;    gates  in order;    parameters  in the order in which they came
    """

    def __init__(self, num_qubits: int) -> None:
        if num_qubits < 1:
            raise UsageError(f"a circuit of {num_qubits} qubits; give it one or more")
        self.num_qubits = int(num_qubits)
        self.gates: list[Gate] = []
        self.parameters: dict[str, Parameter] = {}
        self._compiled: dict[tuple[int, int], Compiled] = {}

    # -- adding gates --------------------------------------------------------------------------------------------------
    def add(self, gate: Gate) -> Circuit:
        """Add a gate; UsageError where its qubits are not there or one stands twice."""
        for qubit in gate.touched:
            if not 0 <= qubit < self.num_qubits:
                raise UsageError(f"{gate.kind}: there is no qubit {qubit}, only 0 to {self.num_qubits - 1}")
        if len(set(gate.touched)) < len(gate.touched):
            raise UsageError(f"{gate.kind}: qubits {gate.touched} must be different ones")
        for angle in gate.angles:
            self._know(angle)
        self.gates.append(gate)
        self._compiled.clear()
        return self

    def _know(self, angle: Angle) -> None:
        if angle.parameter is None:
            return
        known = self.parameters.get(angle.parameter)
        size = 0 if angle.index < 0 else angle.index + 1
        if known is None:
            self.parameters[angle.parameter] = Parameter(angle.parameter, (size,) if size else ())
        elif bool(known.shape) != bool(size):
            raise UsageError(f"parameter {angle.parameter} is one number in one gate and an array in another")
        elif known.size < size and len(known.shape) == 1:
            self.parameters[angle.parameter] = Parameter(angle.parameter, (size,))
        elif known.size < size:
            raise UsageError(f"parameter {angle.parameter} has {known.size} entries, and a gate asks for number {size}")

    def parameter(self, name: str, shape: tuple[int, ...] = ()) -> Parameter:
        """A parameter of this circuit with a shape that it keeps, whatever gates use of it."""
        made = Parameter(name, shape)
        if name in self.parameters:
            raise UsageError(f"the circuit has a parameter {name} already")
        self.parameters[name] = made
        self._compiled.clear()
        return made

    def gate(self, name: str, *arguments: Any) -> Circuit:
        """The gate of this name (`KINDS`, or with controls `CONTROLLED`): its angles, then its controls and qubits."""
        kind, controls = CONTROLLED.get(name, (name, 0))
        if kind not in KINDS:
            raise UsageError(f"there is no gate {name!r}{suggest(name, [*KINDS, *CONTROLLED])}")
        count = KINDS[kind].angles
        angles, qubits = arguments[:count], arguments[count:]
        wanted = controls + KINDS[kind].qubits
        if len(angles) < count or len(qubits) != wanted:
            raise UsageError(f"{name} takes {count} angles and {wanted} qubits, not {arguments}")
        numbers = tuple(_qubit(q) for q in qubits)
        told = tuple(angle_of(a) for a in angles)
        return self.add(Gate(kind, numbers[controls:], told, numbers[:controls], (1,) * controls))

    def _each(self, kind: str, angles: Sequence[Any], qubits: Sequence[Any]) -> Circuit:
        """A gate of one qubit on several."""
        flat = [q for each in qubits for q in (each if isinstance(each, Sequence | range | np.ndarray) else (each,))]
        numbers = [_qubit(q) for q in flat] or list(range(self.num_qubits))
        rows = []
        for angle in angles:
            if isinstance(angle, Parameter) and angle.shape:
                angle = angle.angles
            if isinstance(angle, Sequence | np.ndarray) and not isinstance(angle, str):
                row = list(np.asarray(angle, object).ravel())
                if len(row) != len(numbers):
                    raise UsageError(f"{kind}: {len(row)} angles for {len(numbers)} qubits; give one, or one for each")
            else:
                row = [angle] * len(numbers)
            rows.append([angle_of(a) for a in row])
        for place, qubit in enumerate(numbers):
            self.add(Gate(kind, (qubit,), tuple(row[place] for row in rows)))
        return self

    def id(self, *qubits: Any) -> Circuit:
        """Nothing."""
        return self._each("id", (), qubits)

    def x(self, *qubits: Any) -> Circuit:
        """X: |0> and |1> exchanged."""
        return self._each("x", (), qubits)

    def y(self, *qubits: Any) -> Circuit:
        """Y = i X Z."""
        return self._each("y", (), qubits)

    def z(self, *qubits: Any) -> Circuit:
        """Z = diag(1, -1)."""
        return self._each("z", (), qubits)

    def h(self, *qubits: Any) -> Circuit:
        """Hadamard: (X + Z) / sqrt 2."""
        return self._each("h", (), qubits)

    def s(self, *qubits: Any) -> Circuit:
        """S = diag(1, i)."""
        return self._each("s", (), qubits)

    def sdg(self, *qubits: Any) -> Circuit:
        """The inverse of S."""
        return self._each("sdg", (), qubits)

    def t(self, *qubits: Any) -> Circuit:
        """T = diag(1, exp(i pi/4))."""
        return self._each("t", (), qubits)

    def tdg(self, *qubits: Any) -> Circuit:
        """The inverse of T."""
        return self._each("tdg", (), qubits)

    def sx(self, *qubits: Any) -> Circuit:
        """The root of X."""
        return self._each("sx", (), qubits)

    def sxdg(self, *qubits: Any) -> Circuit:
        """The inverse of SX."""
        return self._each("sxdg", (), qubits)

    def rx(self, theta: Any, *qubits: Any) -> Circuit:
        """exp(-i theta/2 X)."""
        return self._each("rx", (theta,), qubits)

    def ry(self, theta: Any, *qubits: Any) -> Circuit:
        """exp(-i theta/2 Y)."""
        return self._each("ry", (theta,), qubits)

    def rz(self, theta: Any, *qubits: Any) -> Circuit:
        """exp(-i theta/2 Z)."""
        return self._each("rz", (theta,), qubits)

    def p(self, theta: Any, *qubits: Any) -> Circuit:
        """diag(1, exp(i theta))."""
        return self._each("p", (theta,), qubits)

    def u(self, theta: Any, phi: Any, lam: Any, *qubits: Any) -> Circuit:
        """OpenQASM's U(theta, phi, lambda)."""
        return self._each("u", (theta, phi, lam), qubits)

    def swap(self, a: int, b: int) -> Circuit:
        """Exchange two qubits."""
        return self.gate("swap", a, b)

    def iswap(self, a: int, b: int) -> Circuit:
        """Exchange two qubits, with a factor i where they differ."""
        return self.gate("iswap", a, b)

    def cx(self, control: int, target: int) -> Circuit:
        """X where the control is 1."""
        return self.gate("cx", control, target)

    cnot = cx

    def cy(self, control: int, target: int) -> Circuit:
        """Y where the control is 1."""
        return self.gate("cy", control, target)

    def cz(self, a: int, b: int) -> Circuit:
        """-1 where both are 1."""
        return self.gate("cz", a, b)

    def ch(self, control: int, target: int) -> Circuit:
        """Hadamard where the control is 1."""
        return self.gate("ch", control, target)

    def cp(self, theta: Any, a: int, b: int) -> Circuit:
        """exp(i theta) where both are 1."""
        return self.gate("cp", theta, a, b)

    def crx(self, theta: Any, control: int, target: int) -> Circuit:
        """RX where the control is 1."""
        return self.gate("crx", theta, control, target)

    def cry(self, theta: Any, control: int, target: int) -> Circuit:
        """RY where the control is 1."""
        return self.gate("cry", theta, control, target)

    def crz(self, theta: Any, control: int, target: int) -> Circuit:
        """RZ where the control is 1."""
        return self.gate("crz", theta, control, target)

    def ccx(self, a: int, b: int, target: int) -> Circuit:
        """X where both controls are 1 (Toffoli)."""
        return self.gate("ccx", a, b, target)

    toffoli = ccx

    def ccz(self, a: int, b: int, c: int) -> Circuit:
        """-1 where all three are 1."""
        return self.gate("ccz", a, b, c)

    def cswap(self, control: int, a: int, b: int) -> Circuit:
        """Exchange two qubits where the control is 1 (Fredkin)."""
        return self.gate("cswap", control, a, b)

    def rxx(self, theta: Any, a: int, b: int) -> Circuit:
        """exp(-i theta/2 X X)."""
        return self.gate("rxx", theta, a, b)

    def ryy(self, theta: Any, a: int, b: int) -> Circuit:
        """exp(-i theta/2 Y Y)."""
        return self.gate("ryy", theta, a, b)

    def rzz(self, theta: Any, a: int, b: int) -> Circuit:
        """exp(-i theta/2 Z Z)."""
        return self.gate("rzz", theta, a, b)

    def rzx(self, theta: Any, a: int, b: int) -> Circuit:
        """exp(-i theta/2 Z X)."""
        return self.gate("rzx", theta, a, b)

    def pauli(self, theta: Any, word: str, *qubits: int) -> Circuit:
        """exp(-i theta/2 P), P the product of the word's Pauli matrices on the qubits (all of them, without any)."""
        numbers = tuple(_qubit(q) for q in qubits) or tuple(range(self.num_qubits))
        if set(word) - set("IXYZ") or len(word) != len(numbers):
            raise UsageError(f"pauli: {word!r} must have one of I, X, Y, Z for each of {len(numbers)} qubits")
        return self.add(Gate("pauli", numbers, (angle_of(theta),), about=word))

    def unitary(self, matrix: Any, *qubits: int) -> Circuit:
        """A unitary matrix of one to four qubits, the first of which is the most significant of its index."""
        made, numbers = np.array(matrix, complex), tuple(_qubit(q) for q in qubits)
        size = 1 << len(numbers)
        if not 1 <= len(numbers) <= MOST_DENSE or made.shape != (size, size):
            raise UsageError(f"unitary: a matrix {made.shape} on {len(numbers)} qubits; give 2^k rows and columns for "
                             f"k = 1 to {MOST_DENSE} qubits")  # fmt: skip
        if not np.allclose(made @ made.conj().T, np.eye(size), atol=1e-8):
            raise UsageError("unitary: the matrix times its conjugate transpose is not the identity")
        return self.add(Gate("unitary", numbers, about=made))

    def controlled(self, controls: Sequence[int], circuit: Circuit, values: Sequence[int] | None = None) -> Circuit:
        """All gates of another circuit on as many qubits, where the controls are 1, or have these values."""
        told, numbers = tuple(values or (1,) * len(controls)), tuple(_qubit(q) for q in controls)
        if len(told) != len(numbers) or set(told) - {0, 1}:
            raise UsageError(f"controlled: {len(numbers)} controls with the values {told}; give each 0 or 1")
        for gate in circuit.gates:
            self.add(replace(gate, controls=(*numbers, *gate.controls), values=(*told, *gate.values)))
        return self

    def append(self, circuit: Circuit, qubits: Sequence[int] | None = None) -> Circuit:
        """All gates of another circuit, on these qubits in its order (by default the first)."""
        numbers = tuple(range(circuit.num_qubits)) if qubits is None else tuple(_qubit(q) for q in qubits)
        if len(numbers) != circuit.num_qubits:
            raise UsageError(f"append: {len(numbers)} qubits for a circuit of {circuit.num_qubits}")
        for name, parameter in circuit.parameters.items():
            held = self.parameters.setdefault(name, parameter)
            if held.shape != parameter.shape:
                raise UsageError(f"append: parameter {name} has the shape {parameter.shape}, here {held.shape}")
        for gate in circuit.gates:
            qubits, controls = (tuple(numbers[q] for q in each) for each in (gate.qubits, gate.controls))
            self.add(replace(gate, qubits=qubits, controls=controls))
        return self

    # -- other circuits ------------------------------------------------------------------------------------------------
    def copy(self) -> Circuit:
        """Another circuit with the same gates."""
        made = Circuit(self.num_qubits)
        made.gates, made.parameters = list(self.gates), dict(self.parameters)
        return made

    def inverse(self) -> Circuit:
        """The circuit that undoes it, with the same parameters."""
        made = self.copy()
        made.gates = [inverse_of(gate) for gate in reversed(self.gates)]
        return made

    # -- facts ---------------------------------------------------------------------------------------------------------
    @property
    def num_parameters(self) -> int:
        """How many numbers its parameters have."""
        return sum(parameter.size for parameter in self.parameters.values())

    @property
    def depth(self) -> int:
        """Gates on the longest way through it."""
        return max((layer + 1 for layer, _ in self.layers()), default=0)

    def layers(self) -> Iterator[tuple[int, Gate]]:
        """(layer, gate): each in the first layer in which its qubits are free."""
        busy = [0] * self.num_qubits
        for gate in self.gates:
            layer = max(busy[q] for q in gate.touched)
            yield layer, gate
            for q in gate.touched:
                busy[q] = layer + 1

    def count(self) -> dict[str, int]:
        """How many gates there are, by name."""
        found: dict[str, int] = {}
        for gate in self.gates:
            name = "c" * len(gate.controls) + gate.kind
            found[name] = found.get(name, 0) + 1
        return dict(sorted(found.items()))

    def columns(self) -> dict[tuple[str, int], int]:
        """The place of every parameter's entry in a row of all of them; the entry of a single number is -1."""
        made: dict[tuple[str, int], int] = {}
        for name, parameter in self.parameters.items():
            for index in range(parameter.size) if parameter.shape else (-1,):
                made[name, index] = len(made)
        return made

    def compiled(self, *, local: int = LOCAL, run: int = RUN) -> Compiled:
        """Its program, made once."""
        if (local, run) not in self._compiled:
            self._compiled[local, run] = compile_gates(
                self.gates, self.num_qubits, self.columns(), local=local, run=run
            )
        return self._compiled[local, run]

    def row(self, values: Any = None) -> Array:
        """Parameters as rows float64 [B, P], from a mapping by name or an array of all in order; each may have a batch
        axis in front. UsageError where some are missing or too many."""
        if not isinstance(values, Mapping):
            flat = np.atleast_1d(np.asarray([] if values is None else values, np.float64))
            if flat.shape[-1] != self.num_parameters:
                raise UsageError(
                    f"{flat.shape[-1]} values for the circuit's {self.num_parameters} parameters"
                    + (f" ({', '.join(self.parameters)})" if self.parameters else "")
                )
            return flat if flat.ndim == 2 else flat[None]
        strange = [name for name in values if name not in self.parameters]
        if strange:
            raise UsageError(f"the circuit has no parameter {strange[0]!r}{suggest(strange[0], self.parameters)}")
        parts, batch = [], 1
        for name, parameter in self.parameters.items():
            if name not in values:
                raise UsageError(f"parameter {name} has no value")
            held = np.asarray(values[name], np.float64)
            batched = held.ndim == len(parameter.shape) + 1
            if held.shape[batched:] != parameter.shape:
                raise UsageError(f"parameter {name} has the shape {parameter.shape}, its value {held.shape}")
            part = held.reshape(len(held) if batched else 1, -1)
            if len(part) > 1 < batch and len(part) != batch:
                raise UsageError(f"parameter {name} has a batch of {len(part)}, another of {batch}")
            batch = max(batch, len(part))
            parts.append(part)
        return np.concatenate([np.broadcast_to(part, (batch, part.shape[1])) for part in parts], axis=1)

    def __len__(self) -> int:
        return len(self.gates)

    def __repr__(self) -> str:
        return f"Circuit({self.num_qubits} qubits, {len(self)} gates, {self.num_parameters} parameters)"


def _qubit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(f"{value!r:.40} is no qubit; give its number")
    return int(value)


__all__ = ["Circuit"]

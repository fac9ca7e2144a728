"""What a circuit is built with: its gates by name, the parameters in their angles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pdl.errors import UsageError
from pdl.suites import suggest
from pdl_quantum.circuits.angles import Angle, Parameter, angle_of
from pdl_quantum.circuits.gates import CONTROLLED, KINDS, Gate
from pdl_quantum.circuits.program import Compiled

MOST_DENSE = 4


class Building:
    """Gates in order, and methods that add one and return the circuit; `Circuit` says how they are called."""

    def __init__(self, num_qubits: int, num_bits: int = 0) -> None:
        if num_qubits < 1:
            raise UsageError(f"a circuit of {num_qubits} qubits; give it one or more")
        if num_bits < 0:
            raise UsageError(f"a circuit of {num_bits} classical bits; give 0 or more")
        self.num_qubits, self.num_bits = int(num_qubits), int(num_bits)
        self.gates: list[Gate] = []
        self.parameters: dict[str, Parameter] = {}
        self._compiled: dict[tuple[int, int], Compiled] = {}
        self.made_once: dict[str, Any] = {}  # by others from the gates; forgotten with the next one

    def add(self, gate: Gate) -> Self:
        """Add a gate; UsageError where its qubits are not there or one stands twice, or a condition reads a bit that is
        not there. A bit that it writes is there from now on."""
        for qubit in gate.touched:
            if not 0 <= qubit < self.num_qubits:
                raise UsageError(f"{gate.kind}: there is no qubit {qubit}, only 0 to {self.num_qubits - 1}")
        if len(set(gate.touched)) < len(gate.touched):
            raise UsageError(f"{gate.kind}: qubits {gate.touched} must be different ones")
        for bit, _ in gate.condition:
            if not 0 <= bit < self.num_bits:
                raise UsageError(f"{gate.kind}: there is no classical bit {bit}, only {self.num_bits} of them; measure "
                                 "into it first, or say Circuit(qubits, bits)")  # fmt: skip
        for angle in gate.angles:
            self._know(angle)
        self.num_bits = max(self.num_bits, *(bit + 1 for bit in gate.bits), 0)
        self.gates.append(gate)
        self._compiled.clear()
        self.made_once.clear()
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
        self.made_once.clear()
        return made

    def gate(self, name: str, *arguments: Any) -> Self:
        """The gate of this name (`KINDS`, or with controls `CONTROLLED`): its angles, then its controls and qubits."""
        kind, controls = CONTROLLED.get(name, (name, 0))
        if kind not in KINDS:
            raise UsageError(f"there is no gate {name!r}{suggest(name, [*KINDS, *CONTROLLED])}")
        count = KINDS[kind].angles
        angles, qubits = arguments[:count], arguments[count:]
        wanted = controls + KINDS[kind].qubits
        if len(angles) < count or len(qubits) != wanted:
            raise UsageError(f"{name} takes {count} angles and {wanted} qubits, not {arguments}")
        numbers = tuple(qubit_of(q) for q in qubits)
        made = tuple(angle_of(a) for a in angles)
        return self.add(Gate(kind, numbers[controls:], made, numbers[:controls], (1,) * controls))

    def _each(self, kind: str, angles: Sequence[Any], qubits: Sequence[Any]) -> Self:
        """A gate of one qubit on several."""
        numbers = qubits_of(qubits, self.num_qubits)
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

    def id(self, *qubits: Any) -> Self:
        """Nothing."""
        return self._each("id", (), qubits)

    def x(self, *qubits: Any) -> Self:
        """X: |0> and |1> exchanged."""
        return self._each("x", (), qubits)

    def y(self, *qubits: Any) -> Self:
        """Y = i X Z."""
        return self._each("y", (), qubits)

    def z(self, *qubits: Any) -> Self:
        """Z = diag(1, -1)."""
        return self._each("z", (), qubits)

    def h(self, *qubits: Any) -> Self:
        """Hadamard: (X + Z) / sqrt 2."""
        return self._each("h", (), qubits)

    def s(self, *qubits: Any) -> Self:
        """S = diag(1, i)."""
        return self._each("s", (), qubits)

    def sdg(self, *qubits: Any) -> Self:
        """The inverse of S."""
        return self._each("sdg", (), qubits)

    def t(self, *qubits: Any) -> Self:
        """T = diag(1, exp(i pi/4))."""
        return self._each("t", (), qubits)

    def tdg(self, *qubits: Any) -> Self:
        """The inverse of T."""
        return self._each("tdg", (), qubits)

    def sx(self, *qubits: Any) -> Self:
        """The root of X."""
        return self._each("sx", (), qubits)

    def sxdg(self, *qubits: Any) -> Self:
        """The inverse of SX."""
        return self._each("sxdg", (), qubits)

    def rx(self, theta: Any, *qubits: Any) -> Self:
        """exp(-i theta/2 X)."""
        return self._each("rx", (theta,), qubits)

    def ry(self, theta: Any, *qubits: Any) -> Self:
        """exp(-i theta/2 Y)."""
        return self._each("ry", (theta,), qubits)

    def rz(self, theta: Any, *qubits: Any) -> Self:
        """exp(-i theta/2 Z)."""
        return self._each("rz", (theta,), qubits)

    def p(self, theta: Any, *qubits: Any) -> Self:
        """diag(1, exp(i theta))."""
        return self._each("p", (theta,), qubits)

    def u(self, theta: Any, phi: Any, lam: Any, *qubits: Any) -> Self:
        """OpenQASM's U(theta, phi, lambda)."""
        return self._each("u", (theta, phi, lam), qubits)

    def swap(self, a: int, b: int) -> Self:
        """Exchange two qubits."""
        return self.gate("swap", a, b)

    def iswap(self, a: int, b: int) -> Self:
        """Exchange two qubits, with a factor i where they differ."""
        return self.gate("iswap", a, b)

    def cx(self, control: int, target: int) -> Self:
        """X where the control is 1."""
        return self.gate("cx", control, target)

    cnot = cx

    def cy(self, control: int, target: int) -> Self:
        """Y where the control is 1."""
        return self.gate("cy", control, target)

    def cz(self, a: int, b: int) -> Self:
        """-1 where both are 1."""
        return self.gate("cz", a, b)

    def ch(self, control: int, target: int) -> Self:
        """Hadamard where the control is 1."""
        return self.gate("ch", control, target)

    def cp(self, theta: Any, a: int, b: int) -> Self:
        """exp(i theta) where both are 1."""
        return self.gate("cp", theta, a, b)

    def crx(self, theta: Any, control: int, target: int) -> Self:
        """RX where the control is 1."""
        return self.gate("crx", theta, control, target)

    def cry(self, theta: Any, control: int, target: int) -> Self:
        """RY where the control is 1."""
        return self.gate("cry", theta, control, target)

    def crz(self, theta: Any, control: int, target: int) -> Self:
        """RZ where the control is 1."""
        return self.gate("crz", theta, control, target)

    def ccx(self, a: int, b: int, target: int) -> Self:
        """X where both controls are 1 (Toffoli)."""
        return self.gate("ccx", a, b, target)

    toffoli = ccx

    def ccz(self, a: int, b: int, c: int) -> Self:
        """-1 where all three are 1."""
        return self.gate("ccz", a, b, c)

    def cswap(self, control: int, a: int, b: int) -> Self:
        """Exchange two qubits where the control is 1 (Fredkin)."""
        return self.gate("cswap", control, a, b)

    def rxx(self, theta: Any, a: int, b: int) -> Self:
        """exp(-i theta/2 X X)."""
        return self.gate("rxx", theta, a, b)

    def ryy(self, theta: Any, a: int, b: int) -> Self:
        """exp(-i theta/2 Y Y)."""
        return self.gate("ryy", theta, a, b)

    def rzz(self, theta: Any, a: int, b: int) -> Self:
        """exp(-i theta/2 Z Z)."""
        return self.gate("rzz", theta, a, b)

    def rzx(self, theta: Any, a: int, b: int) -> Self:
        """exp(-i theta/2 Z X)."""
        return self.gate("rzx", theta, a, b)

    def pauli(self, theta: Any, word: str, *qubits: int) -> Self:
        """exp(-i theta/2 P), P the product of the word's Pauli matrices on the qubits (all of them, without any)."""
        numbers = tuple(qubit_of(q) for q in qubits) or tuple(range(self.num_qubits))
        if set(word) - set("IXYZ") or len(word) != len(numbers):
            raise UsageError(f"pauli: {word!r} must have one of I, X, Y, Z for each of {len(numbers)} qubits")
        return self.add(Gate("pauli", numbers, (angle_of(theta),), about=word))

    def unitary(self, matrix: Any, *qubits: int) -> Self:
        """A unitary matrix of one to four qubits, the first of which is the most significant of its index."""
        made, numbers = np.array(matrix, complex), tuple(qubit_of(q) for q in qubits)
        size = 1 << len(numbers)
        if not 1 <= len(numbers) <= MOST_DENSE or made.shape != (size, size):
            raise UsageError(f"unitary: a matrix {made.shape} on {len(numbers)} qubits; give 2^k rows and columns for "
                             f"k = 1 to {MOST_DENSE} qubits")  # fmt: skip
        if not np.allclose(made @ made.conj().T, np.eye(size), atol=1e-8):
            raise UsageError("unitary: the matrix times its conjugate transpose is not the identity")
        return self.add(Gate("unitary", numbers, about=made))


def qubit_of(value: Any) -> int:
    """A qubit's number, as an int; UsageError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(f"{value!r:.40} is no qubit; give its number")
    return int(value)


def qubits_of(given: Sequence[Any], num_qubits: int) -> list[int]:
    """Qubits given one by one or as sequences, flat; without any all."""
    flat = [q for each in given for q in (each if isinstance(each, Sequence | range | np.ndarray) else (each,))]
    return [qubit_of(q) for q in flat] or list(range(num_qubits))

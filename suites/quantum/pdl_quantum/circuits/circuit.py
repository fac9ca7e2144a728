"""`Circuit`: gates on qubits, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.suites import suggest
from pdl_quantum.circuits.building import Building, qubit_of, qubits_of
from pdl_quantum.circuits.channels import Channel, channel_of
from pdl_quantum.circuits.compile import compile_gates
from pdl_quantum.circuits.gates import Gate, check_unitary, inverse_of
from pdl_quantum.circuits.program import Compiled
from pdl_quantum.circuits.schedule import LOCAL, RUN

Array = np.ndarray
MOST_MATRIX = 12
"""The most qubits for which `matrix` works: 268 MB."""


class Circuit(Building):
    """Gates on n qubits; every method that adds one returns the circuit.

        theta = Parameter("theta", (2,))
        bell = Circuit(2).h(0).cnot(0, 1).ry(theta, 0, 1)

    Qubit 0 is the most significant: |q0 q1 ...> is entry q0 2^(n-1) + q1 2^(n-2) + ... of a state. Gates of one qubit
    take several, and without any all; an angle is a number in radians, a `Parameter`, its name or one of its entries,
    or an array of these, one for each qubit.

    Beside gates a circuit holds what is no unitary: measurements into classical bits, resets, gates on the condition of
    bits, channels. `run` plays those by chance, `density` computes their average; states, gradients, inverses and
    controls are for circuits of gates alone and refuse the others.

        teleport = Circuit(3).h(1).cx(1, 2).cx(0, 1).h(0).measure(0, 0).measure(1, 1)
        teleport.when({1: 1}, lambda c: c.x(2)).when({0: 1}, lambda c: c.z(2))

    num_qubits   n;    num_bits  classical bits, which start as 0
    gates        in order;    parameters  in the order in which they came
    """

    # -- what is no unitary --------------------------------------------------------------------------------------------
    def measure(self, qubit: int, bit: int | None = None, *, confusion: Any = None) -> Circuit:
        """Measure a qubit (Z) into a classical bit, by default that of the same number.

        confusion   [2, 2], row by row what is read where the qubit is 0, is 1: [[0.99, 0.01], [0.03, 0.97]]
        """
        made = None
        if confusion is not None:
            made = np.array(confusion, np.float64)
            if made.shape != (2, 2) or (made < 0).any() or not np.allclose(made.sum(1), 1, atol=1e-8):
                raise UsageError(f"measure: a confusion matrix {made.tolist()}; give [2, 2], each row probabilities "
                                 "that sum to 1")  # fmt: skip
        number = qubit_of(qubit)
        return self.add(Gate("measure", (number,), about=made, bits=(number if bit is None else _bit(bit),)))

    def measure_all(self) -> Circuit:
        """Measure every qubit into the bit of its number."""
        for qubit in range(self.num_qubits):
            self.measure(qubit)
        return self

    def reset(self, *qubits: Any) -> Circuit:
        """Put qubits back to |0>, whatever they were."""
        return self._each("reset", (), qubits)

    def barrier(self, *qubits: Any) -> Circuit:
        """A mark that gates in drawings and OpenQASM stay on their side of; it does nothing."""
        return self.add(Gate("barrier", tuple(qubits_of(qubits, self.num_qubits))))

    def channel(self, what: Channel | Sequence[Any] | Array, *qubits: Any) -> Circuit:
        """A `Channel`, or Kraus operators [K, d, d]; one of a single qubit on each of several, without any on all."""
        made, numbers = channel_of(what), qubits_of(qubits, self.num_qubits)
        if made.num_qubits == 1:
            for qubit in numbers:
                self.add(Gate("channel", (qubit,), about=made))
            return self
        if len(numbers) != made.num_qubits:
            raise UsageError(f"channel {made.name}: {len(numbers)} qubits, and it is of {made.num_qubits}")
        return self.add(Gate("channel", tuple(numbers), about=made))

    def when(self, bits: Mapping[int, int], what: Circuit | Callable[[Circuit], object]) -> Circuit:
        """Gates that act where classical bits have these values, of a circuit on as many qubits or added by a function.

            circuit.when({0: 1, 1: 1}, lambda c: c.x(2))     # OpenQASM: if (c == 3) x q[2];

        UsageError where there is no such bit, or a gate inside writes one: conditions are looked at gate by gate.
        """
        condition = tuple(sorted((_bit(bit), int(value)) for bit, value in bits.items()))
        if not condition or {value for _, value in condition} - {0, 1}:
            raise UsageError(f"when: a condition {dict(bits)}; give bits with the values 0 or 1")
        if isinstance(what, Circuit):
            inner = what
        else:
            inner = Circuit(self.num_qubits, self.num_bits)
            inner.parameters = dict(self.parameters)
            what(inner)
        written = {bit for gate in inner.gates for bit in gate.bits} & {bit for bit, _ in condition}
        if written:
            raise UsageError(f"when: the gates write bit {min(written)}, which their own condition reads")
        conditioned = inner.copy()
        conditioned.num_bits = max(inner.num_bits, condition[-1][0] + 1)
        conditioned.gates = [replace(gate, condition=_both(condition, gate.condition)) for gate in inner.gates]
        return self.append(conditioned)

    # -- circuits in circuits ------------------------------------------------------------------------------------------
    def controlled(self, controls: Sequence[int], circuit: Circuit, values: Sequence[int] | None = None) -> Circuit:
        """All gates of another circuit on as many qubits, where the controls are 1, or have these values."""
        wanted, numbers = tuple(values or (1,) * len(controls)), tuple(qubit_of(q) for q in controls)
        if len(wanted) != len(numbers) or set(wanted) - {0, 1}:
            raise UsageError(f"controlled: {len(numbers)} controls with the values {wanted}; give each 0 or 1")
        for gate in circuit.gates:
            if gate.kind == "barrier":
                continue
            check_unitary(gate, "controlled")
            self.add(replace(gate, controls=(*numbers, *gate.controls), values=(*wanted, *gate.values)))
        return self

    def append(
        self, circuit: Circuit, qubits: Sequence[int] | None = None, bits: Sequence[int] | None = None
    ) -> Circuit:
        """All gates of another circuit, on these qubits and classical bits in its order (by default the first)."""
        numbers = tuple(range(circuit.num_qubits)) if qubits is None else tuple(qubit_of(q) for q in qubits)
        places = tuple(range(circuit.num_bits)) if bits is None else tuple(_bit(b) for b in bits)
        if len(numbers) != circuit.num_qubits:
            raise UsageError(f"append: {len(numbers)} qubits for a circuit of {circuit.num_qubits}")
        if len(places) != circuit.num_bits:
            raise UsageError(f"append: {len(places)} bits for a circuit of {circuit.num_bits}")
        for name, parameter in circuit.parameters.items():
            held = self.parameters.setdefault(name, parameter)
            if held.shape != parameter.shape:
                raise UsageError(f"append: parameter {name} has the shape {parameter.shape}, here {held.shape}")
        for gate in circuit.gates:
            on, controls = (tuple(numbers[q] for q in each) for each in (gate.qubits, gate.controls))
            written = tuple(places[b] for b in gate.bits)
            condition = tuple(sorted((places[b], value) for b, value in gate.condition))
            self.add(replace(gate, qubits=on, controls=controls, bits=written, condition=condition))
        return self

    # -- other circuits ------------------------------------------------------------------------------------------------
    def copy(self) -> Circuit:
        """Another circuit with the same gates."""
        made = Circuit(self.num_qubits, self.num_bits)
        made.gates, made.parameters = list(self.gates), dict(self.parameters)
        return made

    def inverse(self) -> Circuit:
        """The circuit that undoes it, with the same parameters."""
        made = self.copy()
        made.gates = [inverse_of(gate) for gate in reversed(self.gates)]
        return made

    def renamed(self, names: Mapping[str, str]) -> Circuit:
        """The same gates, with other names for some of the parameters."""
        strange = [name for name in names if name not in self.parameters]
        if strange:
            raise UsageError(f"the circuit has no parameter {strange[0]!r}{suggest(strange[0], self.parameters)}")
        made = Circuit(self.num_qubits, self.num_bits)
        for name, parameter in self.parameters.items():
            made.parameter(names.get(name, name), parameter.shape)
        for gate in self.gates:
            angles = (replace(a, parameter=names.get(a.parameter or "", a.parameter)) for a in gate.angles)
            made.add(replace(gate, angles=tuple(angles)))
        return made

    # -- facts ---------------------------------------------------------------------------------------------------------
    @property
    def num_parameters(self) -> int:
        """How many numbers its parameters have."""
        return sum(parameter.size for parameter in self.parameters.values())

    @property
    def is_unitary(self) -> bool:
        """Whether it is of gates alone: no measurement, reset, condition or channel."""
        return all(gate.is_unitary for gate in self.gates)

    @property
    def depth(self) -> int:
        """Gates on the longest way through it, barriers not counted."""
        return max((layer + (gate.kind != "barrier") for layer, gate in self.layers()), default=0)

    @property
    def two_qubit_depth(self) -> int:
        """The same of gates on two qubits or more, which are what costs on a machine."""
        joining = self.copy()
        joining.gates = [gate for gate in self.gates if len(gate.touched) > 1]
        return joining.depth

    def layers(self) -> Iterator[tuple[int, Gate]]:
        """(layer, gate): each in the first layer in which its qubits and classical bits are free. A barrier takes none,
        and what follows it is in later layers than what stands before it."""
        busy: dict[tuple[str, int], int] = {}
        for gate in self.gates:
            bits = {*gate.bits, *(bit for bit, _ in gate.condition)}
            wires = [*(("qubit", q) for q in gate.touched), *(("bit", b) for b in bits)]
            layer = max(busy.get(wire, 0) for wire in wires)
            yield layer, gate
            busy |= dict.fromkeys(wires, layer + (gate.kind != "barrier"))

    def count(self) -> dict[str, int]:
        """How many gates there are, by name."""
        found: dict[str, int] = {}
        for gate in self.gates:
            name = "c" * len(gate.controls) + gate.kind
            found[name] = found.get(name, 0) + 1
        return dict(sorted(found.items()))

    def summary(self) -> dict[str, Any]:
        """Its facts as plain values: qubits, bits, parameters, gates, two_qubit_gates, depth, two_qubit_depth, and
        `counts` by name. "two_qubit" means two or more; barriers are no gates."""
        counts = {name: number for name, number in self.count().items() if name != "barrier"}
        joining = sum(len(gate.touched) > 1 for gate in self.gates if gate.kind != "barrier")
        return {
            "qubits": self.num_qubits, "bits": self.num_bits, "parameters": self.num_parameters,
            "gates": sum(counts.values()), "two_qubit_gates": joining, "depth": self.depth,
            "two_qubit_depth": self.two_qubit_depth, "counts": counts,
        }  # fmt: skip

    def matrix(self, values: Any = None) -> Array:
        """Its unitary matrix, complex [2^n, 2^n], for up to `MOST_MATRIX` qubits and one set of values."""
        from pdl_quantum.circuits.simulate import states  # stands on this module

        if self.num_qubits > MOST_MATRIX:
            raise UsageError(f"a matrix of {self.num_qubits} qubits has 4^{self.num_qubits} entries; `states` and "
                             f"`expectations` need none, and this is for up to {MOST_MATRIX}")  # fmt: skip
        rows = self.row(values)
        if len(rows) != 1:
            raise UsageError(f"a matrix is that of one set of values, not of a batch of {len(rows)}")
        size = 1 << self.num_qubits
        return states(self, np.repeat(rows, size, axis=0), initial=np.eye(size, dtype=complex)).T

    def draw(self, values: Any = None, *, width: int | None = None) -> str:
        """The circuit in box characters, as `pdl_quantum.drawing.text` has it; `str(circuit)` is the same."""
        from pdl_quantum.drawing.text import text  # stands on this module

        return text(self, values, width=width)

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

    def __str__(self) -> str:
        return self.draw()

    def __repr__(self) -> str:
        bits = f"{self.num_bits} bits, " if self.num_bits else ""
        return f"Circuit({self.num_qubits} qubits, {bits}{len(self)} gates, {self.num_parameters} parameters)"


def _bit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise UsageError(f"{value!r:.40} is no classical bit; give its number")
    return int(value)


def _both(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The condition of both."""
    held = dict(a)
    for bit, value in b:
        if held.setdefault(bit, value) != value:
            raise UsageError(f"when: bit {bit} would have to be 0 and 1")
    return tuple(sorted(held.items()))

"""Circuits as OpenQASM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import Angle, Circuit, Gate
from pdl_quantum.circuits.gates import KINDS
from pdl_quantum.qasm.bodies import body_of, falls_into
from pdl_quantum.qasm.literals import number
from pdl_quantum.qasm.names import BUILT_IN_3, QELIB, STDGATES
from pdl_quantum.qasm.values import CONSTANTS, FUNCTIONS

NAMES = {"x": "cx", "y": "cy", "z": "cz", "h": "ch", "p": "cp", "rx": "crx", "ry": "cry", "rz": "crz", "swap": "cswap"}
"""Names of stdgates.inc for gates with one control."""
PLAIN = ("id", "x", "y", "z", "h", "s", "sdg", "t", "tdg", "sx", "rx", "ry", "rz", "p", "swap")
"""Gates that stdgates.inc has."""
QELIB_NAMES = {("p", 0): "u1", ("u", 0): "u3", ("p", 1): "cu1", ("u", 1): "cu3", ("x", 1): "cx", ("z", 1): "cz",
               ("y", 1): "cy", ("h", 1): "ch", ("x", 2): "ccx", ("rz", 1): "crz"}  # fmt: skip
WORDS = """q c gphase array angle barrier bit bool box break cal case complex const continue creg ctrl def default
defcal defcalgrammar delay duration durationof else end extern false float for gate if im in include input int inv let
measure mutable negctrl opaque output pragma qreg qubit readonly reset return sizeof stretch switch true uint void
while"""
TAKEN = {*STDGATES, *BUILT_IN_3, *CONSTANTS, *FUNCTIONS, *KINDS, *WORDS.split()}
"""Names that an input may not have."""


def dumps(circuit: Circuit, values: Any = None, *, version: Literal[2, 3] = 3) -> str:
    """The circuit as an OpenQASM program.

    values    numbers for the parameters, as `Circuit.row` takes them; without them they are inputs of the program,
              `input float[64] theta` or `input array[float[64], 2, 3] theta`, which only OpenQASM 3 has
    version   3 says everything, the common phase too (`gphase`); 2 leaves out a common phase

    Qubit k is q[k], classical bit k is c[k]. Gates that the standard library lacks are defined in the program, matrices
    by rotations and CX (arXiv quant-ph/0406176); in OpenQASM 2 gates with many controls are written out.
    Programs say nothing of the order of qubits in a state: see `loads` for what is reversed in Qiskit.

    Errors: UsageError for channels and errors of readout, which OpenQASM has no word for; for parameters without values
    in version 2; for conditions that version 2 cannot say.
    """
    if version not in (2, 3):
        raise UsageError(f"OpenQASM {version!r}: there are versions 2 and 3")
    if version == 2 and circuit.parameters and values is None:
        raise UsageError(
            f"OpenQASM 2 has no inputs: give values for {', '.join(circuit.parameters)}, or write version 3"
        )
    row = None
    if values is not None:
        rows = circuit.row(values)
        if len(rows) != 1:
            raise UsageError(f"a program has one set of values, not a batch of {len(rows)}")
        row = rows[0]
    return (_Two if version == 2 else _Three)(circuit, row).write()


class _Writer:
    """What both versions share: angles, names, definitions gathered on the way."""

    def __init__(self, circuit: Circuit, row: np.ndarray | None) -> None:
        self.circuit, self.row, self.columns = circuit, row, circuit.columns()
        self.defined: dict[str, str] = {}
        self.matrices: dict[bytes, str] = {}
        self.inputs = _free(circuit.parameters)

    def head(self) -> list[str]:
        raise NotImplementedError

    def gate(self, gate: Gate) -> Iterable[str]:
        raise NotImplementedError

    def write(self) -> str:
        body = [line for gate in self.circuit.gates for line in self.statement(gate)]
        return "\n".join([*self.head(), *body]) + "\n"

    def statement(self, gate: Gate) -> Iterable[str]:
        """A line, or more, for one gate."""
        if gate.kind == "channel" or (gate.kind == "measure" and gate.about is not None):
            what = f"the channel {gate.about.name}" if gate.kind == "channel" else "a measurement that errs"
            raise UsageError(f"OpenQASM has no word for {what}; write the circuit without noise")
        bare = self.bare(replace(gate, condition=()))
        return bare if gate.kind == "barrier" or not gate.condition else self.conditioned(gate, bare)

    def conditioned(self, gate: Gate, lines: Iterable[str]) -> Iterable[str]:
        raise NotImplementedError

    def bare(self, gate: Gate) -> Iterable[str]:
        if gate.kind == "barrier":
            return [f"barrier {self.qubits(gate.qubits)};"]
        if gate.kind == "reset":
            return [f"reset q[{gate.qubits[0]}];"]
        if gate.kind == "measure":
            return [self.measured(gate.qubits[0], gate.bits[0])]
        return self.gate(gate)

    def measured(self, qubit: int, bit: int) -> str:
        raise NotImplementedError

    @staticmethod
    def qubits(numbers: Sequence[int]) -> str:
        return ", ".join(f"q[{q}]" for q in numbers)

    def angle(self, angle: Angle) -> str:
        """An expression."""
        if angle.parameter is None:
            return number(angle.offset)
        if self.row is not None:
            return number(angle.factor * float(self.row[self.columns[angle.parameter, angle.index]]) + angle.offset)
        shape = self.circuit.parameters[angle.parameter].shape
        name = self.inputs[angle.parameter]
        if shape:
            name += "[" + ", ".join(str(int(i)) for i in np.unravel_index(angle.index, shape)) + "]"
        times = {1.0: name, -1.0: f"-{name}"}.get(angle.factor) or f"{number(angle.factor)}*{name}"
        return times + (f" {'-' if angle.offset < 0 else '+'} {number(abs(angle.offset))}" if angle.offset else "")

    def called(self, name: str, gate: Gate, modifiers: str = "") -> str:
        text = f"({', '.join(map(self.angle, gate.angles))})" if gate.angles else ""
        return f"{modifiers}{name}{text} {self.qubits(gate.touched)};"

    def define(self, name: str, gate: Gate, *, version: int) -> str:
        """The name, once the program has a definition of it."""
        if name not in self.defined:
            body = body_of(gate, version=version)
            if any(line.startswith("u(") for line in body.lines):
                self.define("u", Gate("u", (0,)), version=version)
            angles = f"({', '.join(body.angles)})" if body.angles else ""
            qubits = ", ".join(f"q{k}" for k in range(body.qubits))
            lines = "".join(f"  {line}\n" for line in body.lines)
            self.defined[name] = f"gate {name}{angles} {qubits} {{\n{lines}}}"
        return name

    def defined_name(self, gate: Gate) -> str:
        """That of a definition of a gate without its controls."""
        if gate.kind == "pauli":
            return f"pauli_{gate.about.lower()}"
        if gate.kind == "unitary":
            key = np.asarray(gate.about).tobytes()
            return self.matrices.setdefault(key, f"unitary_{len(self.matrices) + 1}")
        return gate.kind


class _Three(_Writer):
    """OpenQASM 3."""

    def head(self) -> list[str]:
        inputs = []
        for name, parameter in self.circuit.parameters.items() if self.row is None else ():
            kind = f"array[float[64], {', '.join(map(str, parameter.shape))}]" if parameter.shape else "float[64]"
            inputs.append(f"input {kind} {self.inputs[name]};")
        bits = [f"bit[{self.circuit.num_bits}] c;"] if self.circuit.num_bits else []
        return ["OPENQASM 3.0;", 'include "stdgates.inc";', *self.defined.values(), *inputs,
                f"qubit[{self.circuit.num_qubits}] q;", *bits]  # fmt: skip

    def conditioned(self, gate: Gate, lines: Iterable[str]) -> Iterable[str]:
        text = " && ".join(f"c[{bit}] == {value}" for bit, value in gate.condition)
        if len(gate.condition) == self.circuit.num_bits:
            text = f"c == {sum(value << bit for bit, value in gate.condition)}"
        return [f"if ({text}) {{ {' '.join(lines)} }}"]

    def measured(self, qubit: int, bit: int) -> str:
        return f"c[{bit}] = measure q[{qubit}];"

    def gate(self, gate: Gate) -> Iterable[str]:
        if gate.kind == "pauli" and set(gate.about) <= {"I"}:
            phase = self.angle(gate.angles[0] * -0.5)
            return [f"{_controls(gate.values)}gphase({phase}){' ' * bool(gate.controls)}{self.qubits(gate.controls)};"]
        ones = gate.values == (1,) * len(gate.values)
        if len(gate.controls) == 1 and ones and gate.kind in NAMES:
            return [self.called(NAMES[gate.kind], gate)]
        if len(gate.controls) == 2 and ones and gate.kind == "x":
            return [self.called("ccx", gate)]
        if len(gate.controls) == 1 and ones and gate.kind == "u":
            text = ", ".join(map(self.angle, gate.angles))
            return [f"cu({text}, 0) {self.qubits(gate.touched)};"]
        return [self.called(self.name(gate), gate, _controls(gate.values))]

    def name(self, gate: Gate) -> str:
        """That of a gate without its controls."""
        if gate.kind in PLAIN:
            return gate.kind
        return self.define(self.defined_name(gate), gate, version=3)


def _controls(values: Sequence[int]) -> str:
    """Modifiers, a run of equal ones as one."""
    made, at = "", 0
    while at < len(values):
        end = at
        while end < len(values) and values[end] == values[at]:
            end += 1
        made += ("ctrl" if values[at] else "negctrl") + (f"({end - at})" if end - at > 1 else "") + " @ "
        at = end
    return made


class _Two(_Writer):
    """OpenQASM 2."""

    def head(self) -> list[str]:
        bits = [f"creg c[{self.circuit.num_bits}];"] if self.circuit.num_bits else []
        return ["OPENQASM 2.0;", 'include "qelib1.inc";', *self.defined.values(),
                f"qreg q[{self.circuit.num_qubits}];", *bits]  # fmt: skip

    def conditioned(self, gate: Gate, lines: Iterable[str]) -> Iterable[str]:
        if len(gate.condition) < self.circuit.num_bits:
            raise UsageError(f"OpenQASM 2 compares a whole register, and a {gate.kind} asks for "
                             f"{len(gate.condition)} of {self.circuit.num_bits} bits; write version 3")  # fmt: skip
        number = sum(value << bit for bit, value in gate.condition)
        return [f"if (c == {number}) {line}" for line in lines]

    def measured(self, qubit: int, bit: int) -> str:
        return f"measure q[{qubit}] -> c[{bit}];"

    def gate(self, gate: Gate) -> Iterable[str]:
        ones = gate.values == (1,) * len(gate.values)
        name = QELIB_NAMES.get((gate.kind, len(gate.controls)), gate.kind if not gate.controls else "")
        if ones and name in QELIB:
            return [self.called(name, gate)]
        if gate.kind in ("swap", "sx") and len(gate.controls) == 1 and ones:
            return [self.called(self.define("c" + gate.kind, gate, version=2), gate)]
        if gate.kind == "pauli" and set(gate.about) <= {"I"} and not gate.controls:
            return []  # a phase common to all amplitudes
        if not gate.controls:
            return [self.called(self.define(self.defined_name(gate), gate, version=2), gate)]
        bound = replace(gate, angles=tuple(self.bound(angle) for angle in gate.angles))
        return [line for inner in falls_into(bound) for line in self.gate(inner)]

    def bound(self, angle: Angle) -> Angle:
        """With the parameter's value."""
        if angle.parameter is None or self.row is None:
            return angle
        value = float(self.row[self.columns[angle.parameter, angle.index]])
        return Angle(None, 0, 1.0, angle.factor * value + angle.offset)


def _free(names: Iterable[str]) -> dict[str, str]:
    """Names of inputs that are no words of OpenQASM: with _ behind those that are."""
    made: dict[str, str] = {}
    for name in names:
        written = name
        while (
            written in TAKEN
            or written in KINDS
            or written.startswith(("pauli_", "unitary_"))
            or (written != name and written in names)
        ):
            written += "_"
        made[name] = written
    return made

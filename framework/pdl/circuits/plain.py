"""Circuits and sums of Pauli products as text (JSON), for bundles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pdl.circuits.angles import Angle, Parameter
from pdl.circuits.circuit import Circuit
from pdl.circuits.gates import KINDS, Gate
from pdl.circuits.paulis import PauliSum
from pdl.errors import DataError, UsageError


def dumps(circuit: Circuit) -> str:
    """A circuit as text that `loads` reads."""
    gates = []
    for gate in circuit.gates:
        each: dict[str, Any] = {"gate": gate.kind, "qubits": gate.qubits}
        if gate.angles:
            each["angles"] = [[a.parameter, a.index, a.factor, a.offset] for a in gate.angles]
        if gate.controls:
            each |= {"controls": gate.controls, "values": gate.values}
        if gate.kind == "pauli":
            each["word"] = gate.about
        if gate.kind == "unitary":
            matrix = np.asarray(gate.about)
            each["matrix"] = [matrix.real.tolist(), matrix.imag.tolist()]
        gates.append(each)
    parameters = {name: parameter.shape for name, parameter in circuit.parameters.items()}
    return json.dumps({"qubits": circuit.num_qubits, "parameters": parameters, "gates": gates}, separators=(",", ":"))


def loads(text: str) -> Circuit:
    """The circuit that `dumps` wrote; DataError where the text is none."""
    try:
        told = json.loads(text)
        circuit = Circuit(int(told["qubits"]))
        for name, shape in told["parameters"].items():
            circuit.parameters[name] = Parameter(name, tuple(int(n) for n in shape))
        for each in told["gates"]:
            _read(circuit, each)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise DataError(f"this is no circuit as pdl writes it: {type(error).__name__}: {error}") from None
    return circuit


def _read(circuit: Circuit, each: Mapping[str, Any]) -> None:
    kind, qubits = str(each["gate"]), tuple(int(q) for q in each["qubits"])
    angles = tuple(
        Angle(None if a[0] is None else str(a[0]), int(a[1]), float(a[2]), float(a[3])) for a in each.get("angles", ())
    )
    controls, values = (tuple(int(v) for v in each.get(name, ())) for name in ("controls", "values"))
    if len(controls) != len(values) or set(values) - {0, 1}:
        raise ValueError(f"{len(controls)} controls with the values {values}")
    for angle in angles:
        if angle.parameter is not None and angle.index >= circuit.parameters[angle.parameter].size:
            raise ValueError(f"parameter {angle.parameter} has no entry {angle.index}")
    if kind == "pauli":
        circuit.pauli(angles[0], str(each["word"]), *qubits)
    elif kind == "unitary":
        real, imaginary = each["matrix"]
        circuit.unitary(np.array(real, np.float64) + 1j * np.array(imaginary, np.float64), *qubits)
    elif kind not in KINDS or len(qubits) != KINDS[kind].qubits or len(angles) != KINDS[kind].angles:
        raise ValueError(f"gate {kind!r} on {len(qubits)} qubits with {len(angles)} angles")
    else:
        circuit.add(Gate(kind, qubits, angles))
    if controls:
        last = circuit.gates.pop()
        circuit.add(replace(last, controls=controls, values=values))


def sums_as_text(observables: list[PauliSum]) -> str:
    """Sums with real coefficients as text."""
    terms = [{word: float(complex(c).real) for word, c in each.terms.items()} for each in observables]
    return json.dumps(terms, separators=(",", ":"))


@lru_cache(64)
def held_circuit(text: str) -> Circuit:
    """The circuit of a text, read and compiled once. Not to be changed."""
    return loads(text)


@lru_cache(64)
def held_sums(text: str, num_qubits: int) -> tuple[PauliSum, ...]:
    """The sums of a text, read once."""
    try:
        return tuple(PauliSum(num_qubits, terms) for terms in json.loads(text))
    except (AttributeError, TypeError, ValueError, UsageError) as error:
        raise DataError(f"these are no observables as pdl writes them: {error}") from None


__all__ = ["dumps", "held_circuit", "held_sums", "loads", "sums_as_text"]

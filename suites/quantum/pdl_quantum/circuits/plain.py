"""Circuits and sums of Pauli products as text (JSON), for bundles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl_quantum.circuits.angles import Angle, Parameter
from pdl_quantum.circuits.channels import Channel, kraus_channel, named_channel
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import INSTRUCTIONS, KINDS, Gate
from pdl_quantum.circuits.observables import Observables
from pdl_quantum.circuits.paulis import PauliSum


def dumps(circuit: Circuit) -> str:
    """A circuit as text that `loads` reads; written once, until a gate is added."""
    if "text" not in circuit.made_once:
        circuit.made_once["text"] = _written(circuit)
    return str(circuit.made_once["text"])


def _written(circuit: Circuit) -> str:
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
            each["matrix"] = _as_plain(matrix)
        if gate.kind == "channel":
            each["channel"] = channel_as_plain(gate.about)
        if gate.kind == "measure" and gate.about is not None:
            each["confusion"] = np.asarray(gate.about).tolist()
        if gate.bits:
            each["bits"] = gate.bits
        if gate.condition:
            each["condition"] = gate.condition
        gates.append(each)
    parameters = {name: parameter.shape for name, parameter in circuit.parameters.items()}
    plain: dict[str, Any] = {"qubits": circuit.num_qubits, "parameters": parameters, "gates": gates}
    if circuit.num_bits:
        plain["bits"] = circuit.num_bits
    return json.dumps(plain, separators=(",", ":"))


def _as_plain(matrix: np.ndarray) -> list[Any]:
    return [matrix.real.tolist(), matrix.imag.tolist()]


def _matrix(plain: Any) -> np.ndarray:
    real, imaginary = plain
    return np.array(real, np.float64) + 1j * np.array(imaginary, np.float64)


def channel_as_plain(channel: Channel) -> dict[str, Any]:
    """A channel as plain values: its name and arguments, or its Kraus operators' real and imaginary parts."""
    if channel.name == "kraus":
        return {"kraus": _as_plain(channel.kraus)}
    return {"name": channel.name, **channel.arguments}


def channel_of_plain(plain: Mapping[str, Any]) -> Channel:
    """The channel of `channel_as_plain`, or as configs say it: {name: depolarizing, p: 0.01}."""
    if not isinstance(plain, Mapping) or ("kraus" in plain) == ("name" in plain):
        raise UsageError(f"a channel {plain!r:.80}; say {{name: depolarizing, p: 0.01}}, or its Kraus operators")
    if "kraus" in plain:
        return kraus_channel(_matrix(plain["kraus"]))
    return named_channel(str(plain["name"]), {key: value for key, value in plain.items() if key != "name"})


def loads(text: str) -> Circuit:
    """The circuit that `dumps` wrote; DataError where the text is none."""
    try:
        plain = json.loads(text)
        circuit = Circuit(int(plain["qubits"]), int(plain.get("bits", 0)))
        for name, shape in plain["parameters"].items():
            circuit.parameters[name] = Parameter(name, tuple(int(n) for n in shape))
        for each in plain["gates"]:
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
        circuit.unitary(_matrix(each["matrix"]), *qubits)
    elif kind == "channel":
        channel = channel_of_plain(each["channel"])
        if len(qubits) != channel.num_qubits:
            raise ValueError(f"channel {channel.name} on {len(qubits)} qubits")
        circuit.channel(channel, *qubits)
    elif kind == "measure":
        (qubit,), (bit,) = qubits, each["bits"]
        circuit.measure(qubit, int(bit), confusion=each.get("confusion"))
    elif kind in ("reset", "barrier"):
        if not qubits or (kind == "reset" and len(qubits) > 1):
            raise ValueError(f"{kind} on {len(qubits)} qubits")
        circuit.add(Gate(kind, qubits))
    elif kind not in KINDS or len(qubits) != KINDS[kind].qubits or len(angles) != KINDS[kind].angles:
        raise ValueError(f"gate {kind!r} on {len(qubits)} qubits with {len(angles)} angles")
    else:
        circuit.add(Gate(kind, qubits, angles))
    condition = tuple((int(bit), int(value)) for bit, value in each.get("condition", ()))
    if controls and kind in INSTRUCTIONS:
        raise ValueError(f"a {kind} with controls")
    if {value for _, value in condition} - {0, 1}:
        raise ValueError(f"a condition {condition}")
    if controls or condition:
        last = circuit.gates.pop()
        circuit.add(replace(last, controls=controls, values=values, condition=condition))


def sums_as_text(observables: list[PauliSum]) -> str:
    """Sums with real coefficients as text."""
    return f"[{','.join(each.real_text for each in observables)}]"


@lru_cache(64)
def held_circuit(text: str) -> Circuit:
    """The circuit of a text, read and compiled once. Not to be changed."""
    return loads(text)


@lru_cache(64)
def held_observables(text: str, num_qubits: int) -> Observables:
    """The sums of a text, read once."""
    try:
        return Observables([PauliSum(num_qubits, terms) for terms in json.loads(text)])
    except (AttributeError, TypeError, ValueError, UsageError) as error:
        raise DataError(f"these are no observables as pdl writes them: {error}") from None

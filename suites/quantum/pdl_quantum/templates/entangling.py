"""Layers of rotations of every qubit, with pairs joined between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl.suites import suggest
from pdl_quantum.circuits import Angle, Circuit
from pdl_quantum.circuits.gates import CONTROLLED, KINDS
from pdl_quantum.templates.patterns import Pattern, pairs, require_count

Qubits = Annotated[int, Range(1)]
Layers = Annotated[int, Range(1)]


@part
def strongly_entangling(
    num_qubits: Qubits,
    layers: Layers,
    *,
    ranges: Sequence[int] | None = None,
    entangler: Literal["cx", "cz"] = "cx",
    name: str = "theta",
) -> Circuit:
    """Strongly entangling layers (Schuld et al., arXiv 1804.00633): on every qubit RZ(phi), RY(theta), RZ(omega), then
    qubit k joined with k + r, modulo n, for every k.

    ranges   r of every layer, 1 to n - 1; by default 1, 2, ..., n - 1, 1, ...
    name     of the parameters [layers, num_qubits, 3]: phi, theta, omega

    Errors: UsageError for counts below 1, and for other ranges.
    """
    require_count("strongly_entangling", num_qubits=num_qubits, layers=layers)
    steps = max(num_qubits - 1, 1)
    chosen = [layer % steps + 1 for layer in range(layers)] if ranges is None else [int(r) for r in ranges]
    if len(chosen) != layers or not all(1 <= r <= steps for r in chosen):
        raise UsageError(f"strongly_entangling: ranges {chosen}; give {layers}, each from 1 to {steps}")
    circuit = Circuit(num_qubits)
    theta = circuit.parameter(name, (layers, num_qubits, 3))
    for layer, r in enumerate(chosen):
        for axis, kind in enumerate(("rz", "ry", "rz")):
            _turn(circuit, kind, theta[layer, :, axis])
        if num_qubits > 1:
            _join(circuit, entangler, ((k, (k + r) % num_qubits) for k in range(num_qubits)))
    return circuit


@part
def basic_entangler(
    num_qubits: Qubits, layers: Layers, *, rotation: Literal["rx", "ry", "rz"] = "rx", name: str = "theta"
) -> Circuit:
    """One rotation of every qubit and a ring of CNOTs from each to the next, layer after layer; of two qubits one CNOT.

    name     of the parameters [layers, num_qubits]

    Errors: UsageError for counts below 1.
    """
    require_count("basic_entangler", num_qubits=num_qubits, layers=layers)
    circuit = Circuit(num_qubits)
    theta = circuit.parameter(name, (layers, num_qubits))
    around = pairs(num_qubits, "ring")
    for layer in range(layers):
        _turn(circuit, rotation, theta[layer])
        _join(circuit, "cx", around[1:] + around[:1])
    return circuit


@part
def hardware_efficient(
    num_qubits: Qubits,
    layers: Layers,
    *,
    rotations: Sequence[str] = ("ry", "rz"),
    entangler: str = "cx",
    entanglement: Pattern = "linear",
    final: bool = True,
    name: str = "theta",
) -> Circuit:
    """Layers of rotations and of gates between pairs, as a machine has them (Kandala et al., arXiv 1704.05018).

    rotations      gates of one qubit with one angle, in order: "rx", "ry", "rz", "p"
    entangler      a gate of two qubits, without angles ("cx", "cz", "cy", "ch", "swap", "iswap"), or with one ("crx",
                   "cp", "rzz", ...), which then is a parameter `name`_pair [layers, pairs]
    entanglement   which pairs: see `pairs`
    final          whether rotations follow the last layer of pairs
    name           of the parameters [layers + final, len(rotations), num_qubits]

    Errors: UsageError for counts below 1, and for names of gates that do not fit.
    """
    require_count("hardware_efficient", num_qubits=num_qubits, layers=layers)
    for kind in rotations:
        _require_kind("rotations", kind, 1, (1,))
    _require_kind("entangler", entangler, 2, (0, 1))
    turned = KINDS[CONTROLLED.get(entangler, (entangler, 0))[0]].angles
    circuit = Circuit(num_qubits)
    theta = circuit.parameter(name, (layers + final, len(rotations), num_qubits)) if rotations else None
    count = len(pairs(num_qubits, entanglement))
    phi = circuit.parameter(f"{name}_pair", (layers, count)) if turned and count else None
    for layer in range(layers + final):
        for place, turn in enumerate(rotations):
            assert theta is not None
            _turn(circuit, turn, theta[layer, place])
        if layer < layers:
            joined = pairs(num_qubits, entanglement, layer)
            _join(circuit, entangler, joined, () if phi is None else phi[layer])
    return circuit


@part
def real_amplitudes(
    num_qubits: Qubits, layers: Layers, *, entanglement: Pattern = "reverse_linear", name: str = "theta"
) -> Circuit:
    """RY and CNOTs: a hardware-efficient ansatz (arXiv 1704.05018) whose states have real amplitudes.

    entanglement   which pairs: see `pairs`; "reverse_linear" makes the states that "full" makes with fewer gates
    name           of the parameters [layers + 1, num_qubits]: rotations follow the last layer of CNOTs

    Errors: UsageError for counts below 1.
    """
    require_count("real_amplitudes", num_qubits=num_qubits, layers=layers)
    circuit = Circuit(num_qubits)
    theta = circuit.parameter(name, (layers + 1, num_qubits))
    for layer in range(layers):
        _turn(circuit, "ry", theta[layer])
        _join(circuit, "cx", pairs(num_qubits, entanglement, layer))
    _turn(circuit, "ry", theta[layers])
    return circuit


@part
def excitation_preserving(
    num_qubits: Qubits, layers: Layers, *, entanglement: Pattern = "linear", name: str = "theta"
) -> Circuit:
    """RZ of every qubit and, for pairs, exp(-i theta/2 (XX + YY)), which turns |01> into |10> and nothing else: how
    many qubits are 1 stays (Barkoutsos et al., arXiv 1805.04340).

    name   of the parameters of RZ [layers + 1, num_qubits], and `name`_pair [layers, pairs]

    Errors: UsageError for counts below 1.
    """
    require_count("excitation_preserving", num_qubits=num_qubits, layers=layers)
    circuit = Circuit(num_qubits)
    theta = circuit.parameter(name, (layers + 1, num_qubits))
    count = len(pairs(num_qubits, entanglement))
    phi = circuit.parameter(f"{name}_pair", (layers, count)) if count else None
    for layer in range(layers):
        _turn(circuit, "rz", theta[layer])
        for place, (a, b) in enumerate(pairs(num_qubits, entanglement, layer)):
            assert phi is not None
            circuit.rxx(phi[layer, place], a, b).ryy(phi[layer, place], a, b)
    _turn(circuit, "rz", theta[layers])
    return circuit


def _turn(circuit: Circuit, kind: str, angles: Sequence[Angle]) -> None:
    for qubit, angle in enumerate(angles):
        circuit.gate(kind, angle, qubit)


def _join(circuit: Circuit, kind: str, joined: Iterable[tuple[int, int]], angles: Sequence[Angle] = ()) -> None:
    for place, (a, b) in enumerate(joined):
        circuit.gate(kind, *angles[place : place + 1], a, b)


def _require_kind(argument: str, name: str, qubits: int, angles: tuple[int, ...]) -> None:
    known = [
        each for each, (inner, more) in ({k: (k, 0) for k in KINDS} | CONTROLLED).items()
        if KINDS[inner].qubits + more == qubits and KINDS[inner].angles in angles
    ]  # fmt: skip
    if name not in known:
        raise UsageError(f"hardware_efficient: {argument}: {name!r} is no gate of {qubits} qubits with "
                         f"{' or '.join(map(str, angles))} angles{suggest(name, known)}")  # fmt: skip

"""Classical bits of circuits: which are still read, and which measurements can be deferred to the end."""

from __future__ import annotations

from collections.abc import Iterable

from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import Gate


def live_behind(gates: list[Gate], keep: Iterable[int] = ()) -> list[frozenset[int]]:
    """For every gate the bits whose values a condition behind it reads, or that are to be kept."""
    live, found = frozenset(keep), list[frozenset[int]]()
    for gate in reversed(gates):
        found.append(live)
        if gate.bits and not gate.condition:  # what stood in the bits before is lost
            live = live - set(gate.bits)
        live = live | {bit for bit, _ in gate.condition}
    return found[::-1]


def last_measurements(circuit: Circuit) -> tuple[list[Gate], list[Gate]]:
    """(gates, measurements): a circuit's gates without the measurements that may be made after all of them, and these
    in order. They have no condition, nothing later acts on their qubit, and nothing later reads or writes their bit."""
    rest, last = list[Gate](), list[Gate]()
    qubits, bits = set[int](), set[int]()
    for gate in reversed(circuit.gates):
        free = gate.kind == "measure" and not gate.condition
        if free and gate.qubits[0] not in qubits and gate.bits[0] not in bits:
            last.append(gate)
            bits.add(gate.bits[0])
        elif gate.kind != "barrier":
            rest.append(gate)
            qubits |= set(gate.touched)
            bits |= {*gate.bits, *(bit for bit, _ in gate.condition)}
    return rest[::-1], last[::-1]

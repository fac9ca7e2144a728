"""What `quantum.py` measures, in pdl, Qulacs, PennyLane Lightning and Qiskit Aer: the same gates, each in the form that
its documentation advises. An interpreter needs those of them only that it measures.

A side is (what is timed, what it gave): circuits are built, optimised and compiled beforehand, once. Amplitudes have
qubit 0 as the most significant; Qulacs and Aer count from the other end, so their qubits are reversed.

pdl          `states` and `gradients`, parameters bound in every run, a new array for every state
qulacs       QuantumCircuitOptimizer.optimize_light; ParametricQuantumCircuit.backprop, and a run for the value
lightning    the device's `execute` and adjoint `execute_and_compute_derivatives` of a finished tape, without QNode
aer          statevector with its fusion; its own clock (`time_taken`), without its Python around it
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Gate = tuple[str, int, int]  # rx, ry, rz with (qubit, number of the angle); cz, cx with two qubits
Timed = Callable[[], float]
Given = Callable[[], Array]
Side = tuple[Timed, Given]


def random_gates(n: int, depth: int) -> tuple[list[Gate], Array]:
    """RX, RY, RZ on every qubit, then a brick of CZ, `depth` times; the angles, drawn with the seed 7."""
    gates: list[Gate] = []
    for layer in range(depth):
        gates += [(kind, q, 3 * (layer * n + q) + k) for q in range(n) for k, kind in enumerate(("rx", "ry", "rz"))]
        gates += [("cz", q, q + 1) for q in range(layer % 2, n - 1, 2)]
    return gates, np.random.default_rng(7).uniform(0, 2 * np.pi, 3 * n * depth)


def ansatz_gates(n: int, layers: int) -> tuple[list[Gate], Array]:
    """RY and RZ on every qubit, then a chain of CNOT, `layers` times; angles as above."""
    gates: list[Gate] = []
    for layer in range(layers):
        gates += [(kind, q, 2 * (layer * n + q) + k) for q in range(n) for k, kind in enumerate(("ry", "rz"))]
        gates += [("cx", q, q + 1) for q in range(n - 1)]
    return gates, np.random.default_rng(7).uniform(0, 2 * np.pi, 2 * n * layers)


def seconds(step: Callable[[], Any]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def strided(state: Array) -> Array:
    """At most 2^16 amplitudes, spread over all of them."""
    return np.array(state.ravel()[:: max(1, state.size >> 16)])


# -- pdl ---------------------------------------------------------------------------------------------------------------
def pdl_circuit(n: int, gates: list[Gate], count: int) -> Any:
    """The circuit, its angles entries of one parameter."""
    from pdl_quantum.circuits import Circuit, Parameter

    theta, circuit = Parameter("theta", (count,)), Circuit(n)
    for kind, a, b in gates:
        if kind in ("cz", "cx"):
            circuit.gate(kind, a, b)
        else:
            circuit.gate(kind, theta[b], a)
    return circuit


def pdl_run(n: int, gates: list[Gate], angles: Array) -> Side:
    from pdl_quantum.circuits import states

    circuit = pdl_circuit(n, gates, len(angles))
    return lambda: seconds(lambda: states(circuit, angles)), lambda: strided(states(circuit, angles))


def pdl_gradient(n: int, gates: list[Gate], angles: Array) -> Side:
    from pdl_quantum.circuits import PauliSum, gradients

    circuit = pdl_circuit(n, gates, len(angles))
    chain = PauliSum(n, {"I" * q + "ZZ" + "I" * (n - q - 2): 1.0 for q in range(n - 1)})

    def given() -> Array:
        value, slope = gradients(circuit, chain, angles)
        return np.concatenate([value, slope[0]])

    return lambda: seconds(lambda: gradients(circuit, chain, angles)), given


# -- Qulacs ------------------------------------------------------------------------------------------------------------
def qulacs_run(n: int, gates: list[Gate], angles: Array) -> Side:
    from qulacs import QuantumCircuit, QuantumState
    from qulacs.circuit import QuantumCircuitOptimizer

    circuit = QuantumCircuit(n)
    add = {"rx": circuit.add_RotX_gate, "ry": circuit.add_RotY_gate, "rz": circuit.add_RotZ_gate}
    for kind, a, b in gates:
        if kind in add:
            add[kind](n - 1 - a, angles[b])
        else:
            (circuit.add_CZ_gate if kind == "cz" else circuit.add_CNOT_gate)(n - 1 - a, n - 1 - b)
    QuantumCircuitOptimizer().optimize_light(circuit)
    state = QuantumState(n)

    def step() -> None:
        state.set_zero_state()
        circuit.update_quantum_state(state)

    return lambda: seconds(step), lambda: strided(state.get_vector())


def qulacs_gradient(n: int, gates: list[Gate], angles: Array) -> Side:
    from qulacs import Observable, ParametricQuantumCircuit, QuantumState

    circuit, chain, state = ParametricQuantumCircuit(n), Observable(n), QuantumState(n)
    for kind, a, b in gates:
        if kind == "cx":
            circuit.add_CNOT_gate(n - 1 - a, n - 1 - b)
        else:  # its rotations turn the other way
            add = circuit.add_parametric_RY_gate if kind == "ry" else circuit.add_parametric_RZ_gate
            add(n - 1 - a, -angles[b])
    for q in range(n - 1):
        chain.add_operator(1.0, f"Z {q} Z {q + 1}")

    def step() -> Array:
        state.set_zero_state()
        circuit.update_quantum_state(state)
        return np.array([chain.get_expectation_value(state), *circuit.backprop(chain)])

    return lambda: seconds(step), lambda: step() * np.array([1.0, *[-1.0] * len(angles)])


# -- PennyLane Lightning -----------------------------------------------------------------------------------------------
def _tape(n: int, gates: list[Gate], angles: Array, measured: Any) -> Any:
    import pennylane as qml

    made = {"rx": qml.RX, "ry": qml.RY, "rz": qml.RZ}
    ops = [
        made[kind](angles[b], a) if kind in made else (qml.CZ if kind == "cz" else qml.CNOT)([a, b])
        for kind, a, b in gates
    ]
    return qml.tape.QuantumScript(ops, [measured], trainable_params=range(len(angles)))


def lightning_run(n: int, gates: list[Gate], angles: Array) -> Side:
    import pennylane as qml

    device = qml.device("lightning.qubit", wires=n)
    tape, whole = _tape(n, gates, angles, qml.expval(qml.Z(0))), _tape(n, gates, angles, qml.state())
    return lambda: seconds(lambda: device.execute([tape])), lambda: strided(np.asarray(device.execute([whole])[0]))


def lightning_gradient(n: int, gates: list[Gate], angles: Array) -> Side:
    import pennylane as qml
    from pennylane.devices import ExecutionConfig

    chain = qml.Hamiltonian([1.0] * (n - 1), [qml.Z(q) @ qml.Z(q + 1) for q in range(n - 1)])
    device, config = qml.device("lightning.qubit", wires=n), ExecutionConfig(gradient_method="adjoint")
    tape = _tape(n, gates, angles, qml.expval(chain))

    def step() -> Array:
        (value,), (slope,) = device.execute_and_compute_derivatives([tape], config)
        return np.array([float(value), *(float(x) for x in slope)])

    return lambda: seconds(step), step


# -- Qiskit Aer --------------------------------------------------------------------------------------------------------
def aer_run(n: int, gates: list[Gate], angles: Array) -> Side:
    import os

    from qiskit import QuantumCircuit, transpile
    from qiskit_aer import AerSimulator

    simulator = AerSimulator(method="statevector", max_parallel_threads=int(os.environ["OMP_NUM_THREADS"]))
    circuit = QuantumCircuit(n)
    for kind, a, b in gates:
        if kind in ("cz", "cx"):
            getattr(circuit, kind)(n - 1 - a, n - 1 - b)
        else:
            getattr(circuit, kind)(float(angles[b]), n - 1 - a)
    one, whole = circuit.copy(), circuit.copy()
    one.save_amplitudes([0])  # something to ask for, without a copy of the state
    whole.save_statevector()
    one, whole = transpile(one, simulator, optimization_level=0), transpile(whole, simulator, optimization_level=0)

    def timed() -> float:
        done = simulator.run(one, shots=1).result()
        if not done.success:
            raise RuntimeError(done.status)
        return float(done.results[0].time_taken)

    return timed, lambda: strided(np.asarray(simulator.run(whole, shots=1).result().get_statevector()))


RUNS = {"pdl": pdl_run, "qulacs": qulacs_run, "lightning": lightning_run, "aer": aer_run}
GRADIENTS = {"pdl": pdl_gradient, "qulacs": qulacs_gradient, "lightning": lightning_gradient}
"""By side; Aer has no gradients of its own."""

__all__ = ["GRADIENTS", "RUNS", "ansatz_gates", "random_gates"]

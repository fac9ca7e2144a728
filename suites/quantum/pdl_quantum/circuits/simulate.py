"""Circuits on state vectors: the state, expectations and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.kernels import memory
from pdl.kernels import statevector as kernels
from pdl.threads import get_num_threads
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.paulis import PauliSum
from pdl_quantum.circuits.program import Compiled
from pdl_quantum.circuits.schedule import local_qubits

Array = np.ndarray


def zero_states(num_qubits: int, batch: int = 1, dtype: Any = np.complex128) -> Array:
    """|0...0>, complex [batch, 2^n]."""
    made = np.zeros((batch, 1 << num_qubits), dtype)
    made[:, 0] = 1
    return made


def states(circuit: Circuit, values: Any = None, *, initial: Any = None, dtype: Any = np.complex128) -> Array:
    """The states [B, 2^n] that a circuit makes of |0...0>, or of `initial` [2^n] or [B, 2^n]."""
    return evolved(circuit, circuit.row(values), initial, dtype)[0]


def program_of(circuit: Circuit, batch: int) -> Compiled:
    """The program that makes `batch` states fastest with the threads that there are."""
    return circuit.compiled(local=local_qubits(circuit.num_qubits, batch, get_num_threads()))


def evolved(circuit: Circuit, rows: Array, initial: Any, dtype: Any) -> tuple[Array, Compiled, Array]:
    """(states, their program, the values that it was bound to), for rows of parameters."""
    made = None if initial is None else start(circuit.num_qubits, len(rows), initial, dtype)
    program = program_of(circuit, len(rows) if made is None else len(made))
    bound = program.bind(rows)
    if made is None:
        made = memory.empty((len(rows), 1 << circuit.num_qubits), np.dtype(dtype))
        kernels.run(made, program.stream, bound, True)
    else:
        kernels.run(made, program.stream, bound)
    return made, program, bound


def start(num_qubits: int, batch: int, initial: Any, dtype: Any) -> Array:
    """States to begin with, of the caller's own."""
    if initial is None:
        return zero_states(num_qubits, batch, dtype)
    given = np.atleast_2d(np.asarray(initial))
    if given.shape[1] != 1 << num_qubits or (batch > 1 and len(given) not in (1, batch)):
        raise UsageError(f"an initial state {given.shape} for {num_qubits} qubits and {batch} rows of parameters; give "
                         f"{1 << num_qubits} amplitudes")  # fmt: skip
    return np.array(np.broadcast_to(given, (max(batch, len(given)), given.shape[1])), dtype, order="C")


def expectations(circuit: Circuit, observable: PauliSum, values: Any = None, *, initial: Any = None,
                 dtype: Any = np.complex128) -> Array:  # fmt: skip
    """<H> of the states, float64 [B]."""
    return observable.expectation(states(circuit, values, initial=initial, dtype=dtype))


def gradients(circuit: Circuit, observable: PauliSum, values: Any = None, *, initial: Any = None,
              dtype: Any = np.complex128) -> tuple[Array, Array]:  # fmt: skip
    """(<H> [B], its derivatives by all parameters [B, P]) by adjoint differentiation (arXiv 2009.02823): twice the
    memory of a state, the time of a few runs."""
    rows = circuit.row(values)
    z, program, bound = evolved(circuit, rows, initial, dtype)
    l, found = observable.applied(z)  # noqa: E741
    sums = np.zeros((len(z), program.gradients))
    kernels.backward(z, l, program.stream, bound, sums)
    return found, program.vjp(sums, rows if len(rows) == len(z) else np.broadcast_to(rows, (len(z), rows.shape[1])))

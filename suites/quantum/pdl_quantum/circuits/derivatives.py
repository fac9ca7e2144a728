"""Derivatives beside adjoint gradients: shift rules, differences, second derivatives, the metric of states.

`gradients` is what training uses. These check it, hold under noise, or are of second order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.density import density_expectations
from pdl_quantum.circuits.lowering import Unshared, unshared
from pdl_quantum.circuits.paulis import PauliSum
from pdl_quantum.circuits.simulate import expectations, gradients, states

Array = np.ndarray
AT_ONCE = 1 << 22
"""Amplitudes of the states that are computed in one batch."""
EIGHTH = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""Central differences of order 8: sum_k a_k (f(kh) - f(-kh)) / h."""
STEP = 0.05
"""Their step in `hessian_vector`, times the bandwidth."""


def parameter_shift(circuit: Circuit, observable: PauliSum, values: Any = None, *, initial: Any = None) -> Array:
    """Derivatives of <H> by all parameters [B, P] from values of <H> alone, exact for every gate.

    Each use of a parameter is an angle of a gate whose generator has two eigenvalues 1 apart (controlled rotations and
    others fall into such gates), and so dE/dangle = (E(angle + pi/2) - E(angle - pi/2)) / 2 (Mitarai et al.,
    arXiv 1803.00745; Schuld et al., arXiv 1811.11184); factors and repeated uses are the chain rule. A controlled
    rotation is two uses, hence its rule of four terms.

    Circuits with channels, measurements and conditions are taken as density matrices, initial states as `density` and
    `expectations` take them, one for all rows.
    """
    apart, rows = _unshared(circuit), circuit.row(values)
    slopes = np.zeros((len(rows), len(apart.columns)))
    for b, angles in enumerate(apart.angles(rows)):
        up = np.tile(angles, (2 * len(angles), 1))
        up[: len(angles)] += np.pi / 2 * np.eye(len(angles))
        up[len(angles) :] -= np.pi / 2 * np.eye(len(angles))
        found = _energies(apart.circuit, observable, up, initial)
        slopes[b] = (found[: len(angles)] - found[len(angles) :]) / 2
    return apart.vjp(slopes, circuit.num_parameters)


def finite_differences(circuit: Circuit, observable: PauliSum, values: Any = None, *, step: float = 1e-2,
                       initial: Any = None) -> Array:  # fmt: skip
    """Derivatives of <H> by all parameters [B, P] by central differences of order 8: an estimate, whose error grows as
    step^8 and as rounding/step."""
    if not step > 0:
        raise UsageError(f"finite_differences: a step of {step}; give a positive one")
    rows = circuit.row(values)
    made = np.zeros((len(rows), circuit.num_parameters))
    for b, row in enumerate(rows):
        total = np.zeros(len(row))
        for k, factor in enumerate(EIGHTH, 1):
            moved = k * step * np.eye(len(row))
            found = _energies(circuit, observable, np.concatenate([row + moved, row - moved]), initial)
            total += factor / step * (found[: len(row)] - found[len(row) :])
        made[b] = total
    return made


def bandwidths(circuit: Circuit) -> Array:
    """For each parameter a bound on the frequencies of <H> in it [P]: the sum of |factor| over its uses, each by a
    generator whose eigenvalues are at most 1 apart."""
    apart = _unshared(circuit)
    made = np.zeros(circuit.num_parameters)
    np.add.at(made, apart.columns, np.abs(apart.factors))
    return made


def hessian_vector(circuit: Circuit, observable: PauliSum, values: Any, v: Any, *, initial: Any = None) -> Array:
    """The Hessian of <H> times v [P] or [B, P], by 8 adjoint gradients of each row: [B, P].

    Along v every component g of the gradient is a trigonometric polynomial of t whose frequencies are at most
    W = sum_i |v_i| R_i, R the `bandwidths`. The 9 points of central differences of order 8 interpolate g, and their
    error is h^8/630 |g^(9)| at some point; by Bernstein's inequality |g^(9)| <= W^9 sup|g|. With h = 0.05/W this is
    at most (0.05^8/630) W sup|g| = 6.2e-14 W sup|g|; gradients that are rounded by e add 2.1 e/h = 42 e W. Since
    W sup|g| bounds |dg/dt| itself, what is lost is about 1e-13 of the largest value it could have.
    """
    rows, along = circuit.row(values), np.asarray(v, np.float64)
    if along.shape not in ((rows.shape[1],), rows.shape):
        raise UsageError(f"hessian_vector: a vector {along.shape} for {rows.shape[1]} parameters and {len(rows)} rows")
    along = np.broadcast_to(along, rows.shape)
    width = np.abs(along) @ bandwidths(circuit)
    step = STEP / np.where(width > 0, width, 1.0)
    points = [k for k in range(-len(EIGHTH), len(EIGHTH) + 1) if k]
    factors = np.array([np.sign(k) * EIGHTH[abs(k) - 1] for k in points])
    moved = np.concatenate([rows + k * step[:, None] * along for k in points])
    found = _slopes(circuit, observable, moved, initial).reshape(len(points), *rows.shape)
    made: Array = np.einsum("k,kbp->bp", factors, found) / step[:, None]
    made[width == 0] = 0
    return made


def hessian(circuit: Circuit, observable: PauliSum, values: Any = None, *, initial: Any = None) -> Array:
    """All second derivatives of <H> [B, P, P], exact: the shift rule on adjoint gradients, two of these for each use of
    a parameter. For small P; products with vectors are `hessian_vector`'s."""
    apart, rows = _unshared(circuit), circuit.row(values)
    made = np.zeros((len(rows), circuit.num_parameters, circuit.num_parameters))
    for b, angles in enumerate(apart.angles(rows)):
        turn = np.pi / 2 * np.eye(len(angles))
        found = _slopes(apart.circuit, observable, np.concatenate([angles + turn, angles - turn]), initial)
        by_angle = (found[: len(angles)] - found[len(angles) :]) / 2
        half = apart.vjp(by_angle, circuit.num_parameters)
        made[b] = apart.vjp(np.ascontiguousarray(half.T), circuit.num_parameters)
    return (made + made.swapaxes(1, 2)) / 2


def metric_tensor(circuit: Circuit, values: Any = None, *, initial: Any = None) -> Array:
    """Fubini-Study's metric of the circuit's states z, float64 [B, P, P]: Re(<d_i z|d_j z> - <d_i z|z><z|d_j z>), the
    natural gradient's (Stokes et al., arXiv 1909.02108). It takes one state for each use of a parameter, exactly: the
    derivative by an angle is half the state at angle + pi, but for a phase."""
    apart, rows = _unshared(circuit), circuit.row(values)
    count = circuit.num_parameters
    kinds = [gate.kind for gate in apart.circuit.gates if any(angle.parameter for angle in gate.angles)]
    phases = np.where(np.array(kinds) == "p", -0.5j, 0.5)  # exp(i angle) on a subspace is diag(1, -1) at pi: not -i
    made = np.zeros((len(rows), count, count))
    for b, angles in enumerate(apart.angles(rows)):
        z = states(apart.circuit, angles, initial=initial)[0]
        slopes = np.zeros((count, len(z)), complex)
        turned = angles + np.pi * np.eye(len(angles))
        for part in _batches(len(angles), circuit.num_qubits):
            found = states(apart.circuit, turned[part], initial=initial) * phases[part, None]
            np.add.at(slopes, apart.columns[part], found * apart.factors[part, None])
        overlap = slopes.conj() @ z
        made[b] = (slopes.conj() @ slopes.T - np.outer(overlap, overlap.conj())).real
    return made


def quantum_fisher(circuit: Circuit, values: Any = None, *, initial: Any = None) -> Array:
    """The quantum Fisher information of the circuit's pure states, four times `metric_tensor` [B, P, P]."""
    return 4 * metric_tensor(circuit, values, initial=initial)


# -- helpers -----------------------------------------------------------------------------------------------------------
def _unshared(circuit: Circuit) -> Unshared:
    if "unshared" not in circuit.made_once:
        circuit.made_once["unshared"] = unshared(circuit)
    found: Unshared = circuit.made_once["unshared"]
    return found


def _batches(count: int, qubits: int) -> Iterator[slice]:
    size = max(1, AT_ONCE >> qubits)
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


def _energies(circuit: Circuit, observable: PauliSum, rows: Array, initial: Any) -> Array:
    pure = circuit.is_unitary and (initial is None or np.ndim(initial) == 1)
    of, qubits = (expectations, circuit.num_qubits) if pure else (density_expectations, 2 * circuit.num_qubits)
    parts = [of(circuit, observable, rows[part], initial=initial) for part in _batches(len(rows), qubits)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _slopes(circuit: Circuit, observable: PauliSum, rows: Array, initial: Any) -> Array:
    parts = [gradients(circuit, observable, rows[part], initial=initial)[1]
             for part in _batches(len(rows), circuit.num_qubits)]  # fmt: skip
    return np.concatenate(parts) if parts else np.zeros(rows.shape)

"""Expectations and states of circuits against dense matrices: every check of `pdl.testing`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.ops.base import Spec, apply
from pdl.testing import Case, OpCheck, draws, op_checks, op_faults
from pdl_quantum import Layer
from pdl_quantum.circuits import Circuit, Parameter, PauliSum
from pdl_quantum.circuits.plain import dumps, sums_as_text
from pdl_quantum.ops.circuit import CircuitExpectationGrad, CircuitStateGrad, circuit_expectation, circuit_state
from pdl_quantum.ops.pauli_words import pauli_words
from tests.quantum.circuits.reference import dense_state, dense_sum

f, i = draws(21)
THETA = Parameter("theta", (4,))
CIRCUIT = Circuit(3).h(0).ry(THETA[0], 0).rx(THETA[1], 1).crz(THETA[2], 0, 2).cnot(1, 2).rz(THETA[3], 2)
CIRCUIT.rxx(THETA[0], 0, 1)
SUMS = [PauliSum(3, {"ZII": 1.0, "XYI": 0.5}), PauliSum(3, {"IZZ": -1.0})]


def expectation(p, s=None):
    return circuit_expectation(CIRCUIT, SUMS, p, s)


def by_matrices(p, s=None):
    states = [dense_state(CIRCUIT, row, None if s is None else s[i]) for i, row in enumerate(p)]
    return np.array([[np.vdot(z, dense_sum(h) @ z).real for h in SUMS] for z in states]).astype(p.dtype)


def gradient(g, p, s):
    return apply(CircuitExpectationGrad(dumps(CIRCUIT), sums_as_text(SUMS)), g, p, s)[1]


def gradient_by_matrices(g, p, s):
    unitary = [np.stack([dense_state(CIRCUIT, row, e) for e in np.eye(8)], 1) for row in p]
    total = [sum(w * dense_sum(h) for w, h in zip(row, SUMS, strict=True)) for row in g]
    back = [2 * (u.conj().T @ t @ u @ x).real for u, t, x in zip(unitary, total, s, strict=True)]
    return np.stack(back).astype(p.dtype)


def state(p, s=None):
    return circuit_state(CIRCUIT, p, s)


def state_by_matrices(p, s=None):
    z = np.stack([dense_state(CIRCUIT, row, None if s is None else s[i]) for i, row in enumerate(p)])
    return np.stack([z.real, z.imag], 1).astype(p.dtype)


def state_gradient(g, p, s):
    return apply(CircuitStateGrad(dumps(CIRCUIT)), g, p, s)[1]


def state_gradient_by_matrices(g, p, s):
    unitary = [np.stack([dense_state(CIRCUIT, row, e) for e in np.eye(8)], 1) for row in p]
    back = [(u.conj().T @ (each[0] + 1j * each[1])).real for u, each in zip(unitary, g, strict=True)]
    return np.stack(back).astype(p.dtype)


def words(p, w):
    return pauli_words(CIRCUIT, p, w)


def words_by_matrices(p, w):
    sums = [dense_sum(PauliSum(3, {"".join("IXYZ"[letter] for letter in word): 1.0})) for word in w]
    found = [[np.vdot(z, h @ z).real for z in (dense_state(CIRCUIT, row) for row in p)] for h in sums]
    return np.array(found).astype(p.dtype)


COARSE = {"bf16": None, "why": "bfloat16 angles are coarse"}
CASES = [
    Case(expectation, [f(2, 4)], by_matrices, second=False, **COARSE),
    Case(expectation, [f(2, 4), f(2, 8)], by_matrices, second=False, **COARSE),
    Case(gradient, [f(2, 2), f(2, 4), f(2, 8)], gradient_by_matrices, differentiable=(), **COARSE),
    Case(state, [f(2, 4)], state_by_matrices, second=False, **COARSE),
    Case(state, [f(2, 4), f(2, 8)], state_by_matrices, second=False, **COARSE),
    Case(state_gradient, [f(2, 2, 8), f(2, 4), f(2, 8)], state_gradient_by_matrices, differentiable=(), **COARSE),
    Case(words, [f(2, 4), i(5, 3, high=4)], words_by_matrices, differentiable=(), **COARSE),
]


@pytest.mark.parametrize("check", op_checks(CASES), ids=str)
def test_op(check: OpCheck) -> None:
    check()


def test_every_op_has_a_case_and_is_found_by_bundles() -> None:
    assert op_faults("pdl_quantum", CASES) == []


def test_a_bundle_of_a_circuit_imports_its_ops_alone(tmp_path: Path) -> None:
    net = Layer(CIRCUIT, SUMS, inputs=("theta",)).eval()
    deployment = Deployment(
        net, {"x": Spec((1, 4), np.dtype(np.float32))}, ("y",), pre={}, post={},
        samples=[np.ones((1, 4), np.float32)], prepare=lambda x: {"x": x[0]},
    )  # fmt: skip
    path = write(tmp_path / "net.pdl", deployment).path
    code = (
        f"import numpy, pdl.runtime, sys; session = pdl.runtime.load({str(path)!r})\n"
        "print(session.bundle.meta['requires'], session.run({'x': numpy.ones((1, 4), 'f')})['y'].shape)\n"
        "print({'hydra', 'cv2', 'scipy', 'pdl.nn', 'pdl.train', 'pdl_quantum.api'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['pdl-quantum'] (1, 2)", "set()"]

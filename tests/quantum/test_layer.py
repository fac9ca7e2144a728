"""Circuits among modules, encodings, quantum kernels: against states by dense matrices and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.autograd import gradcheck
from pdl.errors import ConfigError, PdlError, ShapeError, UsageError
from pdl.nn import Linear, Sequential
from pdl_quantum import AmplitudeEncoding, AngleEncoding, BasisEncoding, IQPEncoding, Layer, kernels
from pdl_quantum.circuits import Circuit, Parameter, PauliSum, states
from tests.quantum.circuits.reference import dense_state, dense_sum

RNG = np.random.default_rng(0)


def net() -> Layer:
    x, theta = Parameter("x", (2,)), Parameter("theta", (3,))
    circuit = Circuit(3).ry(theta[0], 0).ry(x[0], 1).cnot(0, 1).rz(theta[1], 1).rx(x[1], 2).crx(theta[2], 1, 2)
    return Layer(circuit, [PauliSum(3, {"ZII": 1.0, "XYI": 0.5}), PauliSum(3, {"IIZ": 1.0})])


def test_a_layer_puts_inputs_and_weights_where_the_circuit_has_them() -> None:
    layer = net()
    x = RNG.normal(size=(4, 2))
    made = layer(pdl.as_tensor(x)).data
    weight = layer.weight.data.astype(np.float64)
    for row, found in zip(x, made, strict=True):
        z = dense_state(layer.circuit, [weight[0], weight[1], weight[2], *row])
        np.testing.assert_allclose(found, [np.vdot(z, dense_sum(h) @ z).real for h in layer.observables], atol=1e-12)


def test_gradients_flow_through_a_layer() -> None:
    layer = net()
    layer.to(dtype=pdl.float64)
    gradcheck(lambda x: layer(x), [pdl.Tensor(RNG.normal(size=(3, 2)), requires_grad=True)])
    both = Sequential(Linear(5, 2), net(), Linear(2, 4))
    both(pdl.randn((6, 5))).sum().backward()
    assert all(np.abs(p.grad.data).max() > 0 for p in both.parameters())


def test_a_layer_says_what_it_reads() -> None:
    with pytest.raises(ShapeError, match=r"inputs of the shape \(3, 4\); its circuit reads \[B, 2\]"):
        net()(pdl.zeros((3, 4)))
    with pytest.raises(ShapeError, match="no inputs"):
        net()()
    with pytest.raises(UsageError, match="no parameters"):
        Layer(Circuit(1).h(0))()
    assert Layer(Circuit(2).ry("a", 0).ry("b", 1))().shape == (1, 2)


def test_layers_are_compiled_for_any_batch() -> None:
    layer = net()
    quick = pdl.jit.compile(layer)
    for size in (1, 3, 8):
        x = pdl.randn((size, 2))
        np.testing.assert_allclose(quick(x).data, layer(x).data, atol=1e-6)


# -- encodings ---------------------------------------------------------------------------------------------------------
def encoded(encoding, x: np.ndarray) -> np.ndarray:
    given = pdl.as_tensor(x)
    start, angles = encoding.states(given), encoding.angles(given)
    circuit = encoding.circuit(x.shape[1])
    return states(circuit, None if angles is None else angles.numpy(), initial=None if start is None else start.numpy())


def test_basis_and_amplitude_encoding() -> None:
    bits = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(np.abs(encoded(BasisEncoding(), bits)), np.eye(8)[[5, 1]], atol=1e-12)
    numbers = np.array([[3.0, 0.0, -4.0], [0.0, 0.0, 0.0]])
    found = encoded(AmplitudeEncoding(), numbers)
    np.testing.assert_allclose(found, [[0.6, 0, -0.8, 0], [1, 0, 0, 0]], atol=1e-12)


@pytest.mark.parametrize("axes", ["y", "xz", "zyz"])
def test_angle_encoding_is_a_product_state(axes: str) -> None:
    x = RNG.normal(size=(3, 2))
    turned = {
        "x": lambda t: np.array([[np.cos(t / 2), -1j * np.sin(t / 2)], [-1j * np.sin(t / 2), np.cos(t / 2)]]),
        "y": lambda t: np.array([[np.cos(t / 2), -np.sin(t / 2)], [np.sin(t / 2), np.cos(t / 2)]]),
        "z": lambda t: np.diag([np.exp(-0.5j * t), np.exp(0.5j * t)]),
    }
    found = encoded(AngleEncoding(axes=axes, num_qubits=3), x)
    for row, z in zip(x, found, strict=True):
        parts = []
        for value in (row[0], row[1], row[0]):
            one = np.array([1, 0], complex)
            for axis in axes:
                one = turned[axis](value) @ one
            parts.append(one)
        np.testing.assert_allclose(z, np.kron(np.kron(*parts[:2]), parts[2]), atol=1e-12)


def test_iqp_encoding_is_phases_between_hadamards() -> None:
    x = RNG.normal(size=(2, 3))
    found = encoded(IQPEncoding(repeats=2), x)
    signs = np.array([[1 - 2 * (k >> (2 - q) & 1) for q in range(3)] for k in range(8)])
    hadamard = np.array([[(-1) ** bin(a & b).count("1") for a in range(8)] for b in range(8)]) / np.sqrt(8)
    for row, z in zip(x, found, strict=True):
        pairs = sum(row[a] * row[b] * signs[:, a] * signs[:, b] for a, b in ((0, 1), (0, 2), (1, 2)))
        phases = np.exp(-0.5j * (signs @ row + pairs))
        expected = phases * (hadamard @ (phases * hadamard[0]))
        np.testing.assert_allclose(z, expected, atol=1e-12)


def test_too_few_qubits_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 numbers on num_qubits=2"):
        AngleEncoding(num_qubits=2).circuit(5)


# -- kernels -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", [AngleEncoding(axes="xz"), IQPEncoding(), AmplitudeEncoding()])
def test_kernels_against_density_matrices(encoding) -> None:
    x, y = RNG.normal(size=(3, 3)), RNG.normal(size=(2, 3))
    a, b = encoded(encoding, x), encoded(encoding, y)
    overlaps = np.abs(a @ b.conj().T) ** 2
    np.testing.assert_allclose(kernels.kernel_matrix(encoding, x, y), overlaps, atol=1e-12)
    found = kernels.kernel_matrix(encoding, x, y, kind="projected", gamma=0.7)
    n = encoding.qubits(3)
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            far = sum(np.linalg.norm(reduced(one, q, n) - reduced(other, q, n)) ** 2 for q in range(n))
            assert found[i, j] == pytest.approx(np.exp(-0.7 * far), abs=1e-12)


def reduced(z: np.ndarray, q: int, n: int) -> np.ndarray:
    moved = np.moveaxis(z.reshape((2,) * n), q, 0).reshape(2, -1)
    return moved @ moved.conj().T


def test_a_kernel_is_the_chance_of_zero_behind_its_circuit() -> None:
    encoding, x = IQPEncoding(), RNG.normal(size=(2, 3))
    circuit = kernels.circuit_of(encoding, 3)
    x_angles, y_angles = (encoding.angles(pdl.as_tensor(x[i : i + 1])).numpy() for i in range(2))
    chance = np.abs(states(circuit, {"x": x_angles[0], "y": y_angles[0]})[0, 0]) ** 2
    assert chance == pytest.approx(kernels.kernel_matrix(encoding, x)[0, 1], abs=1e-12)


def test_alignment_is_one_for_the_perfect_kernel() -> None:
    labels = np.array([0, 1, 1, 0, 1])
    y = 2.0 * labels - 1
    assert kernels.alignment(np.outer(y, y), labels) == pytest.approx(1.0)
    with pytest.raises(PdlError, match="two classes"):
        kernels.alignment(np.eye(3), np.array([0, 1, 2]))

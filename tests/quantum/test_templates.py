"""Templates beside what they are by definition: dense matrices, published formulas, symmetries."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from pdl import config
from pdl.errors import UsageError
from pdl_quantum import templates
from pdl_quantum.circuits import Circuit, PauliSum, states
from tests.quantum.circuits.reference import dense_sum, random_sum

Array = np.ndarray


def unitary(circuit: Circuit, values: Any = None) -> Array:
    """Column by column."""
    size = 1 << circuit.num_qubits
    rows = np.repeat(circuit.row(values), size, axis=0)
    return states(circuit, rows, initial=np.eye(size, dtype=complex)).T


def random_values(circuit: Circuit, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_qft_is_the_dft(n: int) -> None:
    size = 1 << n
    dft = np.exp(2j * np.pi * np.outer(range(size), range(size)) / size) / np.sqrt(size)
    np.testing.assert_allclose(unitary(templates.qft(n)), dft, atol=1e-12)
    np.testing.assert_allclose(unitary(templates.qft(n, inverse=True)), dft.conj().T, atol=1e-12)
    reverse = [int(f"{k:0{n}b}"[::-1], 2) for k in range(size)]
    np.testing.assert_allclose(unitary(templates.qft(n, swaps=False)), dft[reverse], atol=1e-12)


def test_approximate_qft_drops_the_smallest_phases() -> None:
    whole, less = templates.qft(5), templates.qft(5, approximation=2)
    assert (whole.count()["cp"], less.count()["cp"]) == (10, 7)
    left_out = np.pi / 8 * 2 + np.pi / 16  # each phase a moves the matrix by |1 - exp(i a)| < a at most
    assert 0.1 < np.linalg.norm(unitary(whole) - unitary(less), 2) < left_out
    assert "cp" not in templates.qft(4, approximation=4).count()


@pytest.mark.parametrize("phi", [5 / 16, 0.3])
def test_phase_estimation(phi: float) -> None:
    """An exact fraction is read for certain, another one with the probabilities of Cleve et al."""
    bits = 4
    circuit = Circuit(bits + 1).x(bits).append(templates.phase_estimation(Circuit(1).p(2 * np.pi * phi, 0), bits))
    found = np.abs(states(circuit)[0].reshape(16, 2)[:, 1]) ** 2
    k = np.arange(16)
    expected = np.abs(np.exp(2j * np.pi * np.outer(phi - k / 16, k)).sum(1) / 16) ** 2
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found.argmax() == 5


def test_phase_estimation_of_an_evolution_keeps_its_constant() -> None:
    energy = PauliSum(1, {"Z": 0.25, "I": 0.5})
    circuit = Circuit(4).append(templates.phase_estimation(templates.trotter(energy, -np.pi), 3))
    weights = np.abs(states(circuit)[0].reshape(8, 2)[:, 0]) ** 2
    assert weights.argmax() == 3  # exp(i pi 0.75) = exp(2 pi i 3/8)
    assert weights[3] == pytest.approx(1)


def test_trotter_converges_with_its_order() -> None:
    hamiltonian = random_sum(np.random.default_rng(3), 3, 6)
    exact = expm(-0.7j * dense_sum(hamiltonian))
    for order, steps in ((1, 16), (2, 8), (4, 4), (6, 2)):
        coarse, fine = (
            np.linalg.norm(unitary(templates.trotter(hamiltonian, 0.7, n, order=order)) - exact, 2)
            for n in (steps, 2 * steps)
        )
        assert np.log2(coarse / fine) == pytest.approx(order, abs=0.25)
        assert fine < 0.1
    made = templates.trotter(hamiltonian, "t", 8, order=4)
    assert np.linalg.norm(unitary(made, {"t": 0.7}) - exact, 2) < 1e-3
    assert made.num_parameters == 1


def test_neighbouring_terms_of_trotter_are_one() -> None:
    hamiltonian = PauliSum(2, {"XI": 1.0, "ZZ": 0.5})
    assert len(templates.trotter(hamiltonian, 1.0, 10, order=2)) == 21  # half, whole, ..., half
    with pytest.raises(UsageError, match="order 3; give 1, 2, 4"):
        templates.trotter(hamiltonian, 1.0, order=3)


@pytest.mark.parametrize("mixer", ["x", "sum", "xy"])
def test_qaoa_layers_are_exponentials(mixer: str) -> None:
    n, gamma, beta = 3, [0.4, -0.8], [0.9, 0.3]
    cost = PauliSum(n, {"ZZI": 0.5, "IZZ": -1.5, "ZII": 0.3, "ZZZ": 0.2, "III": 4.0})
    phase = dense_sum(cost - 4.0)
    if mixer == "xy":
        pair = [dense_sum(PauliSum(n, {a: 0.5, b: 0.5})) for a, b in (("XXI", "YYI"), ("IXX", "IYY"), ("XIX", "YIY"))]
        state = np.zeros(8, complex)
        state[[1, 2, 4]] = 3**-0.5
    else:
        mix = PauliSum(n, {"XII": 1, "IXI": 1, "IIX": 1} if mixer == "x" else {"XXI": 0.5, "IXX": 2.0})
        pair, state = [dense_sum(mix)], np.full(8, 8**-0.5, complex)
    for g, b in zip(gamma, beta, strict=True):
        state = expm(-1j * g * phase) @ state
        for each in pair:
            state = expm(-1j * b * each) @ state
    made = templates.qaoa(cost, 2, mixer=mix if mixer == "sum" else mixer)
    np.testing.assert_allclose(states(made, {"gamma": gamma, "beta": beta})[0], state, atol=1e-12)


def test_qaoa_in_groups_keeps_one_of_each() -> None:
    cost = PauliSum(5, {"ZIIZI": 1.0, "IZIIZ": 0.5, "IIZZI": -0.7})
    made = templates.qaoa(cost, 2, mixer="xy", groups=[[0, 2, 1], [3, 4]])
    weights = np.abs(states(made, random_values(made))[0]) ** 2
    allowed = [k for k in range(32) if (k >> 2).bit_count() == 1 and (k & 3).bit_count() == 1]
    assert weights[allowed].sum() == pytest.approx(1)
    assert (weights[allowed] > 1e-3).sum() > 3


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda: templates.qaoa(PauliSum(2, {"XZ": 1.0}), 1), "term XZ"),
        (lambda: templates.qaoa(PauliSum(2, {"ZZ": 1.0}), 0), "layers is 0"),
        (lambda: templates.qaoa(PauliSum(2, {"ZZ": 1.0}), 1, mixer=PauliSum(2, {"XI": 1.0, "ZI": 1.0})), "not commute"),
        (lambda: templates.qaoa(PauliSum(2, {"ZZ": 1.0}), 1, mixer="xy", groups=[[0, 1], [1]]), "groups"),
        (lambda: templates.strongly_entangling(3, 2, ranges=[1, 3]), "from 1 to 2"),
        (lambda: templates.hardware_efficient(3, 1, entangler="rx"), "no gate of 2 qubits"),
        (lambda: templates.hardware_efficient(3, 1, rotations=["cx"]), "no gate of 1 qubits"),
        (lambda: templates.real_amplitudes(3, 1, entanglement="rings"), "did you mean 'ring'"),
        (lambda: templates.iqp(2, order=3), "order up to 2"),
        (lambda: templates.grover(2, [4]), "from 0 to 3"),
        (lambda: templates.template("real_amplitude", 2, layers=1), "did you mean 'real_amplitudes'"),
        (lambda: templates.template("real_amplitudes", 2, layer=1), "did you mean 'layers'"),
        (lambda: templates.template("real_amplitudes", 2), "missing a required argument: 'layers'"),
        (lambda: templates.qft(2.5), "num_qubits is 2.5"),
    ],
)  # fmt: skip
def test_faults(wrong: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        wrong()


@pytest.mark.parametrize("n", [1, 2, 4])
def test_shapes_of_parameters(n: int) -> None:
    shapes = {
        name: {k: p.shape for k, p in templates.template(name, n, 3).parameters.items()}
        for name in ("strongly_entangling", "basic_entangler", "real_amplitudes")
    }
    assert shapes == {
        "strongly_entangling": {"theta": (3, n, 3)}, "basic_entangler": {"theta": (3, n)},
        "real_amplitudes": {"theta": (4, n)},
    }  # fmt: skip
    made = templates.hardware_efficient(n, 3, entangler="crx", entanglement="full", final=False, name="w")
    pairs = {"w_pair": (3, n * (n - 1) // 2)} if n > 1 else {}
    assert {k: p.shape for k, p in made.parameters.items()} == {"w": (3, 2, n)} | pairs
    assert np.isfinite(states(made, random_values(made))).all()


def test_strongly_entangling_by_hand() -> None:
    """One layer of three qubits with r = 2, gate by gate."""
    made = templates.strongly_entangling(3, 1, ranges=[2])
    w = random_values(made)
    by_hand = Circuit(3)
    for q, (phi, theta, omega) in enumerate(w.reshape(3, 3)):
        by_hand.rz(phi, q).ry(theta, q).rz(omega, q)
    by_hand.cx(0, 2).cx(1, 0).cx(2, 1)
    np.testing.assert_allclose(unitary(made, w), unitary(by_hand), atol=1e-12)


def test_patterns() -> None:
    assert templates.pairs(5, "pairwise") == [(0, 1), (2, 3), (1, 2), (3, 4)]
    assert templates.pairs(3, "ring") == [(2, 0), (0, 1), (1, 2)]
    assert templates.pairs(2, "ring") == [(0, 1)]
    assert templates.pairs(4, "sca", 1) == [(3, 2), (0, 3), (1, 0), (2, 1)]
    assert all(sorted(map(sorted, templates.pairs(4, "sca", k))) == sorted(map(sorted, templates.pairs(4, "ring")))
               for k in range(6))  # fmt: skip
    assert [templates.pairs(1, each) for each in ("linear", "ring", "full", "sca")] == [[]] * 4


def test_reverse_linear_makes_what_full_makes() -> None:
    """CNOTs from every qubit to all behind it are a line of CNOTs from the end."""
    full, line = (templates.real_amplitudes(4, 2, entanglement=e) for e in ("full", "reverse_linear"))
    np.testing.assert_allclose(unitary(full, np.arange(12.0)), unitary(line, np.arange(12.0)), atol=1e-12)
    assert np.abs(states(full, np.arange(12.0)).imag).max() < 1e-15


def test_excitation_preserving_commutes_with_the_number() -> None:
    made = templates.excitation_preserving(4, 2, entanglement="ring")
    number = np.diag([bin(k).count("1") for k in range(16)])
    u = unitary(made, random_values(made))
    assert np.abs(u @ number - number @ u).max() < 1e-12
    assert np.abs(u[1, 2]) > 1e-3


def test_iqp_is_diagonal_between_hadamards() -> None:
    made = templates.iqp(3, order=3)
    theta = random_values(made)
    words = ["ZII", "IZI", "IIZ", "ZZI", "ZIZ", "IZZ", "ZZZ"]
    h = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    every = np.kron(h, np.kron(h, h))
    phases = expm(-0.5j * dense_sum(PauliSum(3, dict(zip(words, theta, strict=True)))))
    np.testing.assert_allclose(unitary(made, theta), every @ phases @ every, atol=1e-12)


@pytest.mark.parametrize(("n", "marked"), [(1, [1]), (4, [11]), (5, [3, 30])])
def test_grover_finds_with_the_published_probability(n: int, marked: list[int]) -> None:
    turn = np.arcsin(np.sqrt(len(marked) / (1 << n)))
    for rounds in (0, 1, 2, None):
        found = np.abs(states(templates.grover(n, marked, rounds))[0][marked]) ** 2
        k = int(np.pi / (4 * turn)) if rounds is None else rounds
        assert found.sum() == pytest.approx(np.sin((2 * k + 1) * turn) ** 2)


def test_w_state() -> None:
    made = states(templates.w_state(4))[0]
    np.testing.assert_allclose(made, [0.5 if k.bit_count() == 1 else 0 for k in range(16)], atol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (3, 1), (5, 2), (5, 3), (6, 6)])
def test_dicke_states(n: int, k: int) -> None:
    made = states(templates.dicke_state(n, k))[0]
    even = [comb(n, k) ** -0.5 if i.bit_count() == k else 0 for i in range(1 << n)]
    np.testing.assert_allclose(made, even, atol=1e-12)


def test_a_config_names_them() -> None:
    node = {"_target_": "pdl_quantum.templates.real_amplitudes", "num_qubits": 2, "layers": 1}
    assert config.build(node).num_parameters == 4

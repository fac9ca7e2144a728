"""Quantum circuits on state vectors: gates, programs, expectations and their gradients. NumPy in, NumPy out.

    theta = Parameter("theta", (2,))
    circuit = Circuit(2).ry(theta, 0, 1).cnot(0, 1)
    value, slope = gradients(circuit, PauliSum(2, {"ZZ": 1.0}), {"theta": [0.1, 0.2]})

Beside gates a circuit holds measurements, resets, conditions and channels; shots and density matrices are for these:

    model = NoiseModel().after("cx", depolarizing(0.01, 2)).readout([[0.99, 0.01], [0.03, 0.97]])
    counts = run(Circuit(2).h(0).cx(0, 1).measure_all(), 1000, noise=model).counts()
    rho = density(noisy(circuit, model), {"theta": [0.1, 0.2]})

`pdl_quantum.ops.circuit` has the same as an op of tensors; `pdl_quantum` what is built of them.
"""

from pdl_quantum.circuits.angles import Angle, Parameter
from pdl_quantum.circuits.channels import (
    Channel,
    amplitude_damping,
    bit_flip,
    bit_phase_flip,
    depolarizing,
    generalized_amplitude_damping,
    kraus_channel,
    pauli_channel,
    phase_damping,
    phase_flip,
    reset_channel,
    thermal_relaxation,
)  # fmt: skip
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.density import bit_probabilities, density, density_expectations, density_of, mixed_expectation
from pdl_quantum.circuits.derivatives import (
    bandwidths,
    finite_differences,
    hessian,
    hessian_vector,
    metric_tensor,
    parameter_shift,
    quantum_fisher,
)
from pdl_quantum.circuits.gates import Gate
from pdl_quantum.circuits.information import (
    entropy,
    fidelity,
    partial_trace,
    purity,
    root_fidelity,
    state_fidelity,
    trace_distance,
)
from pdl_quantum.circuits.noise import NoiseModel, noisy
from pdl_quantum.circuits.outcomes import bitstrings, counts, probabilities, sample
from pdl_quantum.circuits.paulis import PauliSum
from pdl_quantum.circuits.simulate import expectations, gradients, states, zero_states
from pdl_quantum.circuits.trajectories import Shots, run

"""Algorithms on circuits: evolution in time, Gibbs states, diagonalisation, autoencoders, learning
of states and matrices, shadows."""

from pdl_quantum.algorithms.autoencoder import QuantumAutoencoder
from pdl_quantum.algorithms.clifford_shadows import CliffordShadow
from pdl_quantum.algorithms.descent import Fit, descend
from pdl_quantum.algorithms.dynamics import dynamics, magnetization
from pdl_quantum.algorithms.gibbs import GibbsState, gibbs_state
from pdl_quantum.algorithms.learning import learn_state, learn_unitary
from pdl_quantum.algorithms.linear import LinearSolver
from pdl_quantum.algorithms.shadows import PauliShadow, shots_needed
from pdl_quantum.algorithms.vqsd import StateDiagonalization

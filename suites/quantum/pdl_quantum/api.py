"""The names of pdl_quantum: `pdl_quantum` exports all that this module imports, on first use."""

from pdl_quantum.adapt_vqe import AdaptAnsatz, AdaptVQE
from pdl_quantum.algorithms import (
    CliffordShadow,
    GibbsState,
    LinearSolver,
    PauliShadow,
    QuantumAutoencoder,
    StateDiagonalization,
    dynamics,
    learn_state,
    learn_unitary,
)
from pdl_quantum.chemistry import FermionSum, uccsd
from pdl_quantum.circuits import *
from pdl_quantum.classifier import QuantumClassifier
from pdl_quantum.data.eigenproblems import Eigenproblems
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.encodings import AmplitudeEncoding, AngleEncoding, BasisEncoding, Encoding, IQPEncoding
from pdl_quantum.excited import SubspaceAnsatz
from pdl_quantum.gibbs import GibbsPreparation
from pdl_quantum.kernel import QuantumKernel
from pdl_quantum.layer import Layer
from pdl_quantum.mixed import PreparedAnsatz
from pdl_quantum.models import VSQL, KernelClassifier, VariationalClassifier
from pdl_quantum.ops import circuit_expectation, circuit_state, pauli_words
from pdl_quantum.problems import QUBO, TSP, MaxCut, Portfolio
from pdl_quantum.qaoa import QAOA, QAOACircuit, solve
from pdl_quantum.ssvqe import SSVQE
from pdl_quantum.variational import Ansatz, Variational
from pdl_quantum.vqd import VQD
from pdl_quantum.vqe import VQE
from pdl_quantum.vqsd import VQSD

"""pdl-quantum: quantum circuits that train. Recipes name its parts: `pdl_quantum.VQE`, `pdl_quantum.data.Molecule`."""

from __future__ import annotations

from pdl.circuits import Angle, Circuit, Parameter, PauliSum
from pdl_quantum.algorithms import (
    GibbsState,
    PauliShadow,
    QuantumAutoencoder,
    StateDiagonalization,
    dynamics,
    learn_state,
    learn_unitary,
)
from pdl_quantum.chemistry import FermionSum, uccsd
from pdl_quantum.classifier import QuantumClassifier, QuantumKernel
from pdl_quantum.encodings import AmplitudeEncoding, AngleEncoding, BasisEncoding, Encoding, IQPEncoding
from pdl_quantum.layer import Layer
from pdl_quantum.models import VSQL, KernelClassifier, VariationalClassifier
from pdl_quantum.problems import QUBO, TSP, MaxCut, Portfolio
from pdl_quantum.variational import Ansatz, Eigenproblem, Eigenproblems, Variational
from pdl_quantum.vqe import VQE

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_quantum.OldName": "pdl_quantum.NewName"}; recipes with the old ones keep working."""

INIT = {"rows": "pdl_quantum.classifier.init:write_recipe"}
"""What `pdl init quantum.TASK` writes recipes with."""

__all__ = [
    "AmplitudeEncoding",
    "Angle",
    "AngleEncoding",
    "Ansatz",
    "BasisEncoding",
    "Circuit",
    "Eigenproblem",
    "Eigenproblems",
    "Encoding",
    "FermionSum",
    "GibbsState",
    "IQPEncoding",
    "KernelClassifier",
    "Layer",
    "MOVED",
    "MaxCut",
    "Parameter",
    "PauliShadow",
    "PauliSum",
    "Portfolio",
    "QUBO",
    "QuantumAutoencoder",
    "QuantumClassifier",
    "QuantumKernel",
    "StateDiagonalization",
    "TSP",
    "VQE",
    "VSQL",
    "Variational",
    "VariationalClassifier",
    "dynamics",
    "learn_state",
    "learn_unitary",
    "uccsd",
]

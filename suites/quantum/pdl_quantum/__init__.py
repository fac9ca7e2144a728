"""pdl-quantum: quantum circuits that train, for pdl."""

from __future__ import annotations

from pdl_quantum.angles import Angle, Parameter
from pdl_quantum.circuit import Circuit
from pdl_quantum.paulis import PauliSum
from pdl_quantum.simulate import expectations, gradients, sample, states

__version__ = "0.1.0"

__all__ = ["Angle", "Circuit", "Parameter", "PauliSum", "expectations", "gradients", "sample", "states"]

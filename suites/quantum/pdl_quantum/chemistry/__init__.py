"""Quantum chemistry: fermions as qubits, molecules, circuits that keep the number of electrons."""

from pdl_quantum.chemistry.encodings import bravyi_kitaev, encoded, encoding, jordan_wigner, parity
from pdl_quantum.chemistry.excitations import Excitation, excitations
from pdl_quantum.chemistry.fermions import FermionSum
from pdl_quantum.chemistry.uccsd import uccsd

__all__ = [
    "Excitation", "FermionSum", "bravyi_kitaev", "encoded", "encoding", "excitations", "jordan_wigner", "parity",
    "uccsd",
]  # fmt: skip

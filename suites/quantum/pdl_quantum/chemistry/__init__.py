"""Quantum chemistry: fermions as qubits, molecules, circuits that keep the number of electrons."""

from pdl_quantum.chemistry.conserving import givens, k_upccgsd
from pdl_quantum.chemistry.encodings import bravyi_kitaev, encoded, encoding, jordan_wigner, parity
from pdl_quantum.chemistry.excitations import Excitation, excitations
from pdl_quantum.chemistry.fermions import FermionSum
from pdl_quantum.chemistry.operators import electron_number, spin_squared, spin_z
from pdl_quantum.chemistry.pool import Pool, excitation_pool, qubit_pool
from pdl_quantum.chemistry.uccsd import after_hartree_fock, hartree_fock, uccsd

__all__ = [
    "Excitation", "FermionSum", "Pool", "after_hartree_fock", "bravyi_kitaev", "electron_number", "encoded", "encoding",
    "excitation_pool", "excitations", "givens", "hartree_fock", "jordan_wigner", "k_upccgsd", "parity", "qubit_pool",
    "spin_squared", "spin_z", "uccsd",
]  # fmt: skip

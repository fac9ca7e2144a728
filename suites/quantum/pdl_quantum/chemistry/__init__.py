"""Quantum chemistry: fermions as qubits, molecules, circuits that keep the number of electrons."""

from pdl_quantum.chemistry.conserving import givens, k_upccgsd
from pdl_quantum.chemistry.excitations import Excitation, excitations
from pdl_quantum.chemistry.fermions import FermionSum
from pdl_quantum.chemistry.hamiltonian import MolecularHamiltonian
from pdl_quantum.chemistry.integrals import Integrals
from pdl_quantum.chemistry.mappings import bravyi_kitaev, jordan_wigner, mapped, mapping_matrix, parity
from pdl_quantum.chemistry.operators import electron_number, spin_squared, spin_z
from pdl_quantum.chemistry.pool import Pool, excitation_pool, qubit_pool
from pdl_quantum.chemistry.tapering import tapered
from pdl_quantum.chemistry.uccsd import after_hartree_fock, hartree_fock, uccsd

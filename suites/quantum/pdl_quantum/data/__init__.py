"""Data sets and problems, by the names that recipes give them."""

from pdl_quantum.data.atoms import Atoms
from pdl_quantum.data.combinatorial import CostFunction, MaxCutGraph, PortfolioAssets, TSPCities
from pdl_quantum.data.digits import Digits
from pdl_quantum.data.hamiltonian import Hamiltonian, RandomHamiltonian
from pdl_quantum.data.mixed import MixedState, ThermalState
from pdl_quantum.data.molecule import DissociationCurve, Molecule
from pdl_quantum.data.table import Circle, Moons, Table, TableFile

"""Molecules by their atoms, whose integrals PySCF computes (extra `pdl-quantum[chemistry]`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from pdl.errors import DataError, PackageError
from pdl.hints import Range
from pdl_quantum.chemistry.integrals import Integrals
from pdl_quantum.chemistry.mappings import MappingName
from pdl_quantum.data.eigenproblems import Eigenproblems


class Atoms(Eigenproblems):
    """A molecule by its atoms, in orbitals of a restricted Hartree-Fock calculation by PySCF.

    atoms    "Li 0 0 0; H 0 0 1.45": element and place, in angstrom;    basis  as PySCF calls it
    charge   of the molecule;    spin  unpaired electrons
    active   (electrons, orbitals) of an active space; by default all
    mapping, reduced, tapered   as in `Molecule`
    """

    def __init__(
        self,
        atoms: str,
        basis: str = "sto-3g",
        *,
        charge: int = 0,
        spin: Annotated[int, Range(0)] = 0,
        active: Sequence[Annotated[int, Range(1)]] | None = None,
        mapping: MappingName = "jordan_wigner",
        reduced: bool = False,
        tapered: bool = False,
    ) -> None:
        found = integrals(atoms, basis, charge=charge, spin=spin)
        if active is not None and len(active) != 2:
            raise DataError(f"active={list(active)} must be two numbers: electrons and orbitals")
        self.integrals = found if active is None else found.active(*active)
        self.molecule = self.integrals.hamiltonian()
        super().__init__([self.molecule.problem(mapping, reduced=reduced, tapered=tapered)])


@lru_cache(8)
def integrals(atoms: str, basis: str, *, charge: int = 0, spin: int = 0) -> Integrals:
    """Integrals over the molecular orbitals, computed once, on one thread: sums then have one order, and runs that are
    resumed the same numbers. PackageError without PySCF, DataError where it refuses the molecule or its self-consistent
    field does not converge."""
    try:
        from pyscf import ao2mo, gto, lib, scf
    except ImportError:
        raise PackageError("molecules by their atoms need PySCF: pip install 'pdl-quantum[chemistry]'") from None
    try:
        molecule: Any = gto.M(atom=atoms, basis=basis, charge=charge, spin=spin, verbose=0)
    except Exception as error:  # PySCF raises what it likes
        raise DataError(f"{atoms!r:.60} in {basis}: PySCF takes it for no molecule: {str(error)[:120]}") from None
    with lib.with_omp_threads(1):
        field: Any = (scf.ROHF if spin else scf.RHF)(molecule).run(verbose=0, conv_tol=1e-12)
        if not field.converged:
            raise DataError(f"{atoms!r:.60} in {basis}: the self-consistent field does not converge")
        orbitals = np.asarray(field.mo_coeff)
        one = orbitals.T @ field.get_hcore() @ orbitals
        two = np.asarray(ao2mo.restore(1, ao2mo.kernel(molecule, orbitals), orbitals.shape[1]))
    return Integrals(f"{atoms} ({basis})", one, two, float(molecule.energy_nuc()), int(molecule.nelectron), spin)

"""Molecules as data sets: one problem, or one for each bond length."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pdl.errors import DataError
from pdl.hints import Range
from pdl.suites import suggest
from pdl_quantum.chemistry.hamiltonian import MolecularHamiltonian
from pdl_quantum.chemistry.mappings import MappingName
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.eigenproblems import Eigenproblems
from pdl_quantum.data.molecule_file import read_molecule

NEAR = 1e-6


class Molecule(Eigenproblems):
    """One molecule.

    source   the name of one that comes with pdl-quantum ("H2", "LiH", "H3+", "BeH2", all in STO-3G), or a file: *.json
             of Pauli words, *.npz of integrals, or FCIDUMP (any other; see `pdl_quantum.data.molecule_file`)
    length   of the bond, in angstrom, for a name with several; by default the one near equilibrium
    active   (electrons, orbitals) of an active space, for files of integrals
    mapping  of spin orbitals to qubits: jordan_wigner, parity or bravyi_kitaev
    reduced  leave the two qubits out that hold parities of electrons (parity only)
    tapered  leave out a qubit for each symmetry, those of the molecule's shape among them (jordan_wigner only)
    """

    def __init__(
        self,
        source: str | Path = "H2",
        length: float | None = None,
        *,
        active: Sequence[Annotated[int, Range(1)]] | None = None,
        mapping: MappingName = "jordan_wigner",
        reduced: bool = False,
        tapered: bool = False,
    ) -> None:
        self.molecule = one(source, length, active)
        super().__init__([self.molecule.problem(mapping, reduced=reduced, tapered=tapered)])


class DissociationCurve(Eigenproblems):
    """One molecule at several bond lengths, each with parameters of its own.

    name      as in `Molecule`;    lengths  in angstrom, by default all there are
    mapping, reduced, tapered   as in `Molecule`
    """

    def __init__(
        self,
        name: str = "H2",
        lengths: Sequence[float] | None = None,
        *,
        mapping: MappingName = "jordan_wigner",
        reduced: bool = False,
        tapered: bool = False,
    ) -> None:
        if name not in names():
            raise DataError(_unknown(name))
        self.molecules = shipped(name) if lengths is None else [one(name, length) for length in lengths]
        super().__init__([each.problem(mapping, reduced=reduced, tapered=tapered) for each in self.molecules])


def one(source: str | Path, length: float | None = None, active: Sequence[int] | None = None) -> MolecularHamiltonian:
    """The molecule of a name or a file."""
    if active is not None and len(active) != 2:
        raise DataError(f"active={list(active)} must be two numbers: electrons and orbitals")
    source = str(source)
    if source not in names():
        if length is not None:
            raise DataError(f"{source}: a file holds one molecule; leave length out")
        if "/" not in source and not Path(source).exists():
            raise DataError(_unknown(source))
        return read_molecule(source, None if active is None else (active[0], active[1]))
    if active is not None:
        raise DataError(f"{source}: comes as Pauli words, of which no active space can be cut; give integrals")
    found = shipped(source)
    if length is None:
        return min(found, key=lambda each: each.exact or 0.0)
    near = next((each for each in found if abs((each.length or 0.0) - length) < NEAR), None)
    if near is None:
        have = ", ".join(f"{each.length:g}" for each in found)
        raise DataError(f"{source}: there is no length of {length:g} angstrom, only {have}")
    return near


def _unknown(name: str) -> str:
    return f"{name}: no molecule of pdl-quantum ({', '.join(names())}) and no file{suggest(name, names())}"


@cache
def _library() -> list[dict[str, Any]]:
    raw = files("pdl_quantum.data").joinpath("files/sto3g.json.gz").read_bytes()
    found: list[dict[str, Any]] = json.loads(gzip.decompress(raw))["molecules"]
    return found


def names() -> list[str]:
    """Of the molecules that come with pdl-quantum."""
    return list(dict.fromkeys(each["molecule"] for each in _library()))


def shipped(name: str) -> list[MolecularHamiltonian]:
    """A molecule that comes with pdl-quantum at all its lengths, ascending."""
    return [
        MolecularHamiltonian(
            f"{name} {each['length']:g}",
            PauliSum(each["num_qubits"], each["terms"]),
            each["num_electrons"],
            hartree_fock=each["hartree_fock"],
            exact=each["exact"],
            length=each["length"],
        )
        for each in _library()
        if each["molecule"] == name
    ]

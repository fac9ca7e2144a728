"""Mixed states to be made or taken apart, as data sets of one problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.hints import Range
from pdl.runtime.arrays import read_array
from pdl_quantum.algorithms.states import checked_density
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.eigenproblems import Eigenproblems
from pdl_quantum.mixed.problem import Spectral, Thermal, spectral, thermal
from pdl_quantum.problems.spins import heisenberg, transverse_ising


class ThermalState(Eigenproblems):
    """The Gibbs state of a Hamiltonian: exp(-beta H) over its trace.

    terms   of H, {"ZZI": -1.0, ...}: a letter for each qubit; or
    chain   "transverse_ising" (-ZZ over neighbours, less `field` X) or "heisenberg" (XX + YY + ZZ, and `field` Z) of so
            many `spins`, closed to a `ring` if wanted
    beta    inverse temperature
    extra   qubits in front that are traced out; as many as the others can make any state, fewer only those of low rank
    """

    def __init__(
        self,
        *,
        terms: Mapping[str, float] | None = None,
        chain: Literal["transverse_ising", "heisenberg"] | None = None,
        spins: Annotated[int, Range(2)] = 3,
        field: float = 1.0,
        ring: bool = False,
        beta: Annotated[float, Range(above=0)] = 1.0,
        extra: Annotated[int, Range(1)] | None = None,
    ) -> None:
        if (terms is None) == (chain is None):
            raise DataError("ThermalState: give either terms or chain")
        if terms is not None:
            try:
                system = PauliSum(len(next(iter(terms), "")), terms)
            except UsageError as error:
                raise DataError(f"ThermalState: {error}") from None
            name = f"{system.num_qubits} qubits at beta {beta:g}"
        else:
            make = transverse_ising if chain == "transverse_ising" else heisenberg
            system, name = make(spins, field=field, ring=ring), f"{spins} spins, {chain}, at beta {beta:g}"
        self.problem: Thermal = thermal(name, system, beta, system.num_qubits if extra is None else extra)
        super().__init__([self.problem])


class MixedState(Eigenproblems):
    """A density matrix whose eigenvalues and eigenvectors are looked for.

    file       *.npy, complex [2^n, 2^n]; or
    spectrum   eigenvalues of a matrix with eigenvectors at random, of this `seed`
    """

    def __init__(
        self, *, file: str | Path | None = None, spectrum: Sequence[float] | None = None, seed: int = 0
    ) -> None:
        if (file is None) == (spectrum is None):
            raise DataError("MixedState: give either file or spectrum")
        if file is not None:
            try:
                name, density = str(file), read_array(file)
            except (OSError, ValueError) as error:
                raise DataError(f"{file}: no array of NumPy's: {error}") from None
        else:
            name, density = (
                f"spectrum {', '.join(f'{v:g}' for v in spectrum or ())}, seed {seed}",
                random_density(spectrum, seed),
            )
        try:
            self.problem: Spectral = spectral(name, checked_density(density))
        except UsageError as error:
            raise DataError(f"MixedState: {error}") from None
        super().__init__([self.problem])


def random_density(spectrum: Sequence[float] | None, seed: int) -> np.ndarray:
    """A density matrix with these eigenvalues and Haar-random eigenvectors, by a QR decomposition."""
    values, rng = np.asarray(spectrum, np.float64), np.random.default_rng(seed)
    if values.ndim != 1 or len(values) < 2 or len(values) & (len(values) - 1):
        raise DataError(f"MixedState: {values.size} eigenvalues; give 2^n")
    q, r = np.linalg.qr(rng.normal(size=(len(values),) * 2) + 1j * rng.normal(size=(len(values),) * 2))
    turn = q * (np.diag(r) / np.abs(np.diag(r)))
    made: np.ndarray = (turn * values) @ turn.conj().T
    return made

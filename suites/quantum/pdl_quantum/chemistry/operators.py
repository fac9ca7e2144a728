"""Operators of the number and the spin of electrons. Even modes are spin up, odd ones spin down."""

from __future__ import annotations

from pdl_quantum.chemistry.fermions import FermionSum


def electron_number(num_modes: int) -> FermionSum:
    """N = sum a_p^+ a_p."""
    return FermionSum.number(num_modes)


def spin_z(num_modes: int) -> FermionSum:
    """S_z = (N_up - N_down) / 2."""
    up, down = (FermionSum.number(num_modes, range(first, num_modes, 2)) for first in (0, 1))
    return (up - down) * 0.5


def spin_squared(num_modes: int) -> FermionSum:
    """S^2 = S_- S_+ + S_z (S_z + 1), with S_+ = sum a_(p up)^+ a_(p down): 0 for singlets, 2 for triplets."""
    raising = FermionSum(num_modes, ((((mode, True), (mode + 1, False)), 1.0) for mode in range(0, num_modes, 2)))
    z = spin_z(num_modes)
    return raising.adjoint() * raising + z * (z + 1.0)

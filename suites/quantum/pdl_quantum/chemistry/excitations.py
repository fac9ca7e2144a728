"""Excitations: electrons that go from occupied to empty spin orbitals. Even orbitals hold spins up, odd ones down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from pdl.errors import UsageError
from pdl_quantum.chemistry.fermions import FermionSum
from pdl_quantum.chemistry.mappings import jordan_wigner
from pdl_quantum.circuits import PauliSum


@dataclass(frozen=True)
class Excitation:
    """A_0 = a_(to0)^+ a_(to1)^+ ... a_(from1) a_(from0), and the generator A = A_0 - A_0^+ of a rotation exp(theta A).

    before, after   modes that electrons leave, and go to, ascending
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    def generator(self, num_modes: int, *, strings: bool = True) -> PauliSum:
        """A by Jordan-Wigner: imaginary coefficients of words that commute. Without `strings` the Z of modes between
        are left out: excitations of qubits, which are Givens rotations (Arrazola et al., arXiv 2104.05695)."""
        product = (*((mode, True) for mode in self.after), *((mode, False) for mode in reversed(self.before)))
        forth = FermionSum(num_modes, {product: 1.0})
        made = jordan_wigner(forth - forth.adjoint())
        return made if strings else PauliSum(num_modes, {w.replace("Z", "I"): c for w, c in made.terms.items()})

    def flipped(self) -> tuple[Excitation, int]:
        """The same with all spins turned around, and the sign that it takes to have the modes ascend again."""
        sign, sides = 1, []
        for modes in (self.before, self.after):
            turned = [mode ^ 1 for mode in modes]
            sign *= 1 if turned == sorted(turned) else -1  # there are two at most
            sides.append(tuple(sorted(turned)))
        return Excitation(*sides), sign

    def keeps(self, symmetries: Sequence[str]) -> bool:
        """Whether it commutes with products of Z, words such as "ZIZI"."""
        touched = [*self.before, *self.after]
        return all(sum(word[mode] == "Z" for mode in touched) % 2 == 0 for word in symmetries)

    def __str__(self) -> str:
        return f"{','.join(map(str, self.before))} -> {','.join(map(str, self.after))}"


def excitations(
    num_modes: int, num_electrons: int, *, doubles: bool = True, symmetries: Sequence[str] = (),
    generalized: bool = False,
) -> list[Excitation]:  # fmt: skip
    """Single excitations of the Hartree-Fock state, then double ones, that keep the spin along z.

    symmetries   products of Z that the Hamiltonian commutes with, as words: excitations that do not keep them have no
                 gradient and are left out
    generalized  from any orbital to any other, not only from occupied to empty ones (Lee et al., arXiv 1810.02327)
    """
    if not 0 < num_electrons < num_modes:
        raise UsageError(f"{num_electrons} electrons in {num_modes} spin orbitals leave nothing to excite")
    ground = range(num_modes) if generalized else range(num_electrons)
    above = range(num_modes) if generalized else range(num_electrons, num_modes)
    found = [Excitation((i,), (a,)) for i in ground for a in above if (i - a) % 2 == 0 and (i < a or not generalized)]
    if doubles:
        for before in combinations(ground, 2):
            for after in combinations(above, 2):
                same_spin = sum(mode % 2 for mode in before) == sum(mode % 2 for mode in after)
                fresh = before < after and not set(before) & set(after) if generalized else True
                if same_spin and fresh:
                    found.append(Excitation(before, after))
    return [each for each in found if each.keeps(symmetries)]

"""The variational quantum eigensolver for molecules."""

from __future__ import annotations

from pdl.train import Reporter
from pdl_quantum.variational.task import Variational
from pdl_quantum.vqe.report import VQEReporter


class VQE(Variational):
    """The ground state of a molecule (Peruzzo et al., arXiv 1304.3061): `Variational`, with energies in Hartree. The
    report counts the electrons of the states and their spin."""

    def reporter(self) -> Reporter:
        return VQEReporter(self)

    def title(self) -> str:
        return "Ground state of a molecule, by a circuit that was trained (VQE)"

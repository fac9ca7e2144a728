"""The variational quantum eigensolver for molecules."""

from __future__ import annotations

from typing import Any

from pdl_quantum.variational import Variational


class VQE(Variational):
    """The ground state of a molecule (Peruzzo et al., arXiv 1304.3061): `Variational`, with energies in Hartree."""

    def title(self, cfg: Any) -> str:
        return "Ground state of a molecule, by a circuit that was trained (VQE)"


__all__ = ["VQE"]

"""Mixed states on the shared trainer: Gibbs states, and the eigenvalues of density matrices."""

from pdl_quantum.mixed.ansatz import PreparedAnsatz
from pdl_quantum.mixed.gibbs import GibbsPreparation
from pdl_quantum.mixed.vqsd import VQSD

__all__ = ["VQSD", "GibbsPreparation", "PreparedAnsatz"]

"""Mixed states on the shared trainer: what Gibbs states and the eigenvalues of density matrices share."""

from pdl_quantum.mixed.ansatz import PreparedAnsatz

"""ADAPT-VQE: circuits that grow while they are trained."""

from pdl_quantum.adapt_vqe.ansatz import AdaptAnsatz
from pdl_quantum.adapt_vqe.task import AdaptVQE

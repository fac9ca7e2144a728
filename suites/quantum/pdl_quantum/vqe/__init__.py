"""The variational quantum eigensolver for molecules."""

from pdl_quantum.vqe.task import VQE

"""Subspace-search VQE."""

from pdl_quantum.ssvqe.task import SSVQE

"""Subspace-search VQE."""

from pdl_quantum.ssvqe.task import SSVQE

__all__ = ["SSVQE"]

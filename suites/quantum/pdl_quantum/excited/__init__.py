"""Excited states: SSVQE, which turns several basis states at once, and VQD, which keeps states apart by a penalty."""

from pdl_quantum.excited.ansatz import SubspaceAnsatz
from pdl_quantum.excited.task import SSVQE, VQD

__all__ = ["SSVQE", "VQD", "SubspaceAnsatz"]

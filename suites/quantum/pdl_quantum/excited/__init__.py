"""Excited states: what SSVQE and VQD share."""

from pdl_quantum.excited.ansatz import SubspaceAnsatz
from pdl_quantum.excited.task import Levels

"""Variational quantum state diagonalisation."""

from pdl_quantum.vqsd.task import VQSD

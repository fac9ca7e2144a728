"""Variational problems on the shared trainer: they minimise the energy of a circuit's state."""

from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.variational.task import Variational

"""ADAPT-VQE: circuits that grow while they are trained."""

from pdl_quantum.adapt.ansatz import AdaptAnsatz
from pdl_quantum.adapt.task import AdaptVQE

__all__ = ["AdaptAnsatz", "AdaptVQE"]

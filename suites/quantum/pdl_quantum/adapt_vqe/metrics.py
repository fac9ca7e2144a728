"""How large a circuit has grown."""

from __future__ import annotations

from pdl.train import Metric
from pdl_quantum.adapt_vqe.ansatz import AdaptAnsatz


class Operators(Metric):
    """How many a circuit has that grows."""

    def __init__(self, model: AdaptAnsatz) -> None:
        self.model = model

    def compute(self) -> float:
        return float(len(self.model.operators_chosen))

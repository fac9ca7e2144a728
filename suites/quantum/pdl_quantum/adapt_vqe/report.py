"""What the report says of a circuit that grew: its operators."""

from __future__ import annotations

from typing import Any

from pdl.report import Section, table
from pdl.train import Evaluation
from pdl_quantum.adapt_vqe.ansatz import AdaptAnsatz
from pdl_quantum.vqe.report import VQEReporter


class AdaptVQEReporter(VQEReporter):
    """As of VQE, and the operators in the order in which they came."""

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        made, model = super().sections(evaluation, dataset), self.task.ansatz
        if not isinstance(model, AdaptAnsatz):
            return made
        theta, slopes = model.theta.detach().numpy()[0], model.slopes.numpy()
        rows = [
            (place + 1, model.pool.names[number], f"{slopes[place]:.3e}", f"{theta[place]:+.6f}")
            for place, number in enumerate(model.operators_chosen)
        ]
        head = ("", "operator", "slope when it was chosen", "angle")
        return [*made, Section("Operators", table(rows, head=head))]

"""What the report says of a density matrix made diagonal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.report import Section, table
from pdl.train import Evaluation
from pdl_quantum.variational.report import VariationalReporter

if TYPE_CHECKING:
    from pdl_quantum.vqsd.task import VQSD


class VQSDReporter(VariationalReporter):
    """The spectrum beside the eigenvalues, then as of any variational problem."""

    task: VQSD

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        found, made = evaluation.details.get("spectrum"), super().sections(evaluation, dataset)
        if found is None:
            return made
        rows = [
            (k, f"{value:.6f}", f"{exact:.6f}", f"{value - exact:+.1e}")
            for k, (value, exact) in enumerate(zip(found, self.task.spectral.spectrum, strict=True))
        ]
        return [Section("Spectrum", table(rows, head=("", "found", "exact", "difference"))), *made]

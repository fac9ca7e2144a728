"""What the report says of several levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pdl.report import Section
from pdl_quantum.variational.report import history
from pdl_quantum.vqe.report import VQEReporter


class LevelsReporter(VQEReporter):
    """As of VQE; over the epochs the energy of the lowest level, beside its exact one."""

    def log_sections(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
        exact = self.task.exact
        return history(lines, None if exact is None else exact[:1])

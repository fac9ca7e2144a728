"""Which class numbers or pictures are of, by a circuit or by a quantum kernel."""

from __future__ import annotations

from pdl_quantum.classifier.kernel import QuantumKernel
from pdl_quantum.classifier.task import QuantumClassifier

__all__ = ["QuantumClassifier", "QuantumKernel"]

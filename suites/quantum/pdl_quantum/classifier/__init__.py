"""Classification of numbers or images by a circuit."""

from __future__ import annotations

from pdl_quantum.classifier.task import QuantumClassifier

__all__ = ["QuantumClassifier"]

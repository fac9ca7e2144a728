"""Classification of numbers or images by a circuit."""

from pdl_quantum.classifier.task import QuantumClassifier

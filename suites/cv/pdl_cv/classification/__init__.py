"""Image classification: one class for each picture."""

from pdl_cv.classification.task import Classification

__all__ = ["Classification"]

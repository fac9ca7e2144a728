"""Image classification: one class for each image."""

from pdl_cv.classification.task import Classification

__all__ = ["Classification"]

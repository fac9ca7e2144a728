"""Object detection: boxes around the objects on an image, and their classes."""

from pdl_cv.detection.task import Detection

__all__ = ["Detection"]

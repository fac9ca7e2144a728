"""Semantic segmentation: the class of each pixel."""

from pdl_cv.segmentation.task import Segmentation

__all__ = ["Segmentation"]

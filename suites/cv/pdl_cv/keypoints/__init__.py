"""Keypoints: named points of each object of an image, such as the joints of a person."""

from pdl_cv.keypoints.task import Keypoints

__all__ = ["Keypoints"]

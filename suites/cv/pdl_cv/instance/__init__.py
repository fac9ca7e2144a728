"""Instance segmentation: the objects on an image, each with the pixels that are its own."""

from pdl_cv.instance.task import InstanceSegmentation

__all__ = ["InstanceSegmentation"]

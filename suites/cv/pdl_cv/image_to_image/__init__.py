"""Image-to-image translation: a picture made of another one."""

from pdl_cv.image_to_image.task import ImageToImage

__all__ = ["ImageToImage"]

"""Transforms of images on OpenCV, under the names of torchvision's v2 transforms where it has them.

Those that move pixels move all annotations of the sample, too: boxes, masks, keypoints and points (see
`pdl.data.transforms.annotations`). Images are [H, W, C], uint8 until `ToFloat` or `Normalize`. All arguments are
checked when a transform is built.
"""

from pdl.data.pipeline import Compose, Transform
from pdl.data.transforms.augment import RandAugment, RandomApply, RandomChoice, TrivialAugmentWide, UntilEpoch
from pdl.data.transforms.boxes import DataAnchorSampling, RandomIoUCrop, RandomZoomOut, SanitizeBoundingBoxes
from pdl.data.transforms.colour import (
    AutoContrast,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    RandomGamma,
    RandomGrayscale,
)
from pdl.data.transforms.crop import CenterCrop, Pad, PadTo, RandomCrop, RandomHorizontalFlip, RandomVerticalFlip
from pdl.data.transforms.erase import RandomErasing
from pdl.data.transforms.geometry import (
    Letterbox,
    RandomAffine,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomShortestSize,
    RandomView,
    Resize,
    ResizeHeight,
    ResizeShort,
    ResizeWithin,
)
from pdl.data.transforms.join import CopyPaste, MixUpDetection, Mosaic
from pdl.data.transforms.mix import BatchRandomResize, CutMix, MixUp
from pdl.data.transforms.numeric import Normalize, ToFloat

__all__ = [
    "AutoContrast", "BatchRandomResize", "CenterCrop", "ColorJitter", "Compose", "CopyPaste", "CutMix",
    "DataAnchorSampling", "GaussianBlur", "Grayscale", "Letterbox", "MixUp", "MixUpDetection", "Mosaic", "Normalize",
    "Pad", "PadTo", "RandAugment", "RandomAffine", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing",
    "RandomGamma", "RandomGrayscale", "RandomHorizontalFlip", "RandomIoUCrop", "RandomPerspective",
    "RandomResizedCrop", "RandomRotation", "RandomShortestSize", "RandomVerticalFlip", "RandomView", "RandomZoomOut",
    "Resize", "ResizeHeight", "ResizeShort", "ResizeWithin", "SanitizeBoundingBoxes", "ToFloat", "Transform",
    "TrivialAugmentWide", "UntilEpoch",
]

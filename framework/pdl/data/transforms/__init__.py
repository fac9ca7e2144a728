"""Transforms of images on OpenCV, under the names of torchvision's v2 transforms where it has them.

Images are [H, W, C], uint8 until `ToFloat` or `Normalize`. All arguments are checked when a transform is built.
"""

from pdl.data.pipeline import Compose, Transform
from pdl.data.transforms.augment import RandAugment, RandomApply, RandomChoice, TrivialAugmentWide
from pdl.data.transforms.colour import ColorJitter, GaussianBlur, Grayscale, RandomGrayscale
from pdl.data.transforms.crop import CenterCrop, Pad, RandomCrop, RandomHorizontalFlip, RandomVerticalFlip
from pdl.data.transforms.erase import RandomErasing
from pdl.data.transforms.geometry import (
    RandomAffine,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    Resize,
    ResizeShort,
)
from pdl.data.transforms.mix import CutMix, MixUp
from pdl.data.transforms.numeric import Normalize, ToFloat

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "CutMix", "GaussianBlur", "Grayscale", "MixUp", "Normalize", "Pad",
    "RandAugment", "RandomAffine", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing", "RandomGrayscale",
    "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize",
    "ResizeShort", "ToFloat", "Transform", "TrivialAugmentWide",
]

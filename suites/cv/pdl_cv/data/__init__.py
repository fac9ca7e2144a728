"""Data sets: of images with a class each (samples {"image", "label"}), of images with objects in them (samples
{"image", "boxes", "labels", ...}), and of images with a class for each pixel (samples {"image", "mask"}). Each has
`classes` and a `fingerprint`."""

from pdl_cv.data.cifar import CIFAR10
from pdl_cv.data.detection import DetectionFolder
from pdl_cv.data.digits import Digits
from pdl_cv.data.folder import ImageFolder
from pdl_cv.data.idx import MNIST, FashionMNIST, read_idx
from pdl_cv.data.listing import ImageList
from pdl_cv.data.medmnist import MedMNIST
from pdl_cv.data.segmentation import SegmentationFolder
from pdl_cv.data.turned import QuarterTurns

__all__ = [
    "CIFAR10", "MNIST", "DetectionFolder", "Digits", "FashionMNIST", "ImageFolder", "ImageList", "MedMNIST",
    "QuarterTurns", "SegmentationFolder", "read_idx",
]  # fmt: skip

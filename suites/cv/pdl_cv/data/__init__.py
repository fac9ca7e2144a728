"""Data sets for image classification. Each has `classes`, `labels`, `fingerprint`, and samples {"image", "label"}."""

from pdl_cv.data.cifar import CIFAR10
from pdl_cv.data.digits import Digits
from pdl_cv.data.folder import ImageFolder
from pdl_cv.data.idx import MNIST, FashionMNIST, read_idx
from pdl_cv.data.listing import ImageList
from pdl_cv.data.medmnist import MedMNIST

__all__ = ["CIFAR10", "MNIST", "Digits", "FashionMNIST", "ImageFolder", "ImageList", "MedMNIST", "read_idx"]

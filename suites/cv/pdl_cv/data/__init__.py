"""Data sets: of images with a class each (samples {"image", "label"}), of images with objects in them (samples
{"image", "boxes", "labels", ...}), of images with a class for each pixel (samples {"image", "mask"}), of pairs of
pictures (samples {"image", "picture"}), and of clips and skeletons with a class each (samples {"clip", "label"},
{"skeleton", "label"}). Each has a `fingerprint`, and `classes` where there are some."""

from pdl_cv.data.cifar import CIFAR10
from pdl_cv.data.clip_archive import ClipArchive
from pdl_cv.data.detection import DetectionFolder
from pdl_cv.data.digits import Digits
from pdl_cv.data.folder import ImageFolder
from pdl_cv.data.idx import MNIST, FashionMNIST, read_idx
from pdl_cv.data.listing import ImageList
from pdl_cv.data.medmnist import MedMNIST
from pdl_cv.data.moving_digits import MovingDigits
from pdl_cv.data.msr_action3d import MSRAction3D
from pdl_cv.data.outlines import Outlines
from pdl_cv.data.paired import PairedFolder
from pdl_cv.data.segmentation import SegmentationFolder
from pdl_cv.data.skeletons import SkeletonArrays, SkeletonFolder
from pdl_cv.data.turned import QuarterTurns
from pdl_cv.data.video_folder import VideoFolder, VideoList

__all__ = [
    "CIFAR10", "ClipArchive", "MNIST", "DetectionFolder", "Digits", "FashionMNIST", "ImageFolder", "ImageList",
    "MSRAction3D", "MedMNIST", "MovingDigits", "Outlines", "PairedFolder", "QuarterTurns", "SegmentationFolder",
    "SkeletonArrays", "SkeletonFolder", "VideoFolder", "VideoList", "read_idx",
]  # fmt: skip

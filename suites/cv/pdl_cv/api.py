"""The names of pdl_cv: `pdl_cv` exports all that this module imports, on first use."""

from pdl_cv.cascade import Cascade
from pdl_cv.classification import Classification
from pdl_cv.detection import Detection
from pdl_cv.generation import Generation
from pdl_cv.image_to_image import ImageToImage
from pdl_cv.instance import InstanceSegmentation
from pdl_cv.keypoints import Keypoints
from pdl_cv.models import *
from pdl_cv.retrieval import Retrieval
from pdl_cv.segmentation import Segmentation
from pdl_cv.video import VideoClassification

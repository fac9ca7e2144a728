"""The models: one file per family."""

from pdl_ocr.models.crnn import CRNN
from pdl_ocr.models.db import DB
from pdl_ocr.models.detector import TextDetector
from pdl_ocr.models.east import EAST
from pdl_ocr.models.line_transformer import LineTransformer
from pdl_ocr.models.parseq import PARSeq
from pdl_ocr.models.ppocr import PPOCRRecogniser
from pdl_ocr.models.ppocr_detector import PPOCRDetector
from pdl_ocr.models.ppocr_v6 import PPOCRv6Recogniser
from pdl_ocr.models.ppocr_v6_detector import PPOCRv6Detector
from pdl_ocr.models.recogniser import Recogniser
from pdl_ocr.models.svtr import SVTR
from pdl_ocr.models.svtr_lcnet import SVTRLCNet

__all__ = [
    "CRNN", "DB", "EAST", "SVTR", "LineTransformer", "PARSeq", "PPOCRDetector", "PPOCRRecogniser",
    "PPOCRv6Detector", "PPOCRv6Recogniser", "Recogniser", "SVTRLCNet", "TextDetector",
]  # fmt: skip

"""The names of pdl_ocr: `pdl_ocr` exports all that this module imports, on first use."""

from pdl_ocr.detection import TextDetection
from pdl_ocr.extraction import InformationExtraction
from pdl_ocr.models import (
    CRNN,
    DB,
    EAST,
    SVTR,
    LineTransformer,
    PARSeq,
    PPOCRDetector,
    PPOCRRecogniser,
    PPOCRv6Detector,
    PPOCRv6Recogniser,
    Recogniser,
    SVTRLCNet,
    TextDetector,
)
from pdl_ocr.reading import Reader
from pdl_ocr.recognition import TextRecognition

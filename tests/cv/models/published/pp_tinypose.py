"""PaddleDetection's keypoint zoo: 1.32 million parameters."""

from tests.cv.models.published import Fact

QUICK = "pp_tinypose"
FACTS = {"pp_tinypose": Fact(1_318_625, "PaddleDetection 2.6", None, (128, 96))}

"""The authors' model zoo (34.0, 53.0 and 68.6 million parameters), and mmpose's for MobileNetV2 (9.57)."""

from tests.cv.models.published import Fact

ZOO = "microsoft/human-pose-estimation.pytorch"
QUICK = "simple_baseline_mobilenet_v2"
FACTS = {
    "simple_baseline_resnet50": Fact(33_999_697, ZOO, None, (256, 192)),
    "simple_baseline_resnet101": Fact(52_991_825, ZOO, None, (256, 192)),
    "simple_baseline_resnet152": Fact(68_635_473, ZOO, None, (256, 192)),
    "simple_baseline_mobilenet_v2": Fact(9_569_809, "mmpose 0.29", None, (256, 192)),
}

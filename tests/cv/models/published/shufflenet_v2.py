"""torchvision; its nets are those of table 5 of arXiv 1807.11164."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "shufflenet_v2_x0_5"
FACTS = {
    "shufflenet_v2_x0_5": Fact(1_366_792, TORCHVISION, 40),
    "shufflenet_v2_x1_0": Fact(2_278_604, TORCHVISION, 145),
    "shufflenet_v2_x1_5": Fact(3_503_624, TORCHVISION, 296),
    "shufflenet_v2_x2_0": Fact(7_393_996, TORCHVISION, 583),
}

"""torchvision's nets are the paper's (arXiv 1905.02244)."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "mobilenet_v3_small"
FACTS = {
    "mobilenet_v3_large": Fact(5_483_032, TORCHVISION, 217),
    "mobilenet_v3_small": Fact(2_542_856, TORCHVISION, 57),
}

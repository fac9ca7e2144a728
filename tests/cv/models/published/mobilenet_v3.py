"""torchvision's nets are the paper's (arXiv 1905.02244); the narrow ones are the authors' (research/slim/nets/mobilenet
in github.com/tensorflow/models), whose parameters timm counts exactly.
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "mobilenet_v3_small"
TIMM, SLIM = "timm 1.0.31", "TF-slim, research/slim/nets/mobilenet/README.md"
FACTS = {
    "mobilenet_v3_large": Fact(5_483_032, TORCHVISION, 217),
    "mobilenet_v3_large_075": Fact(3_993_528, TIMM, 155, counted_by=SLIM),
    "mobilenet_v3_small": Fact(2_542_856, TORCHVISION, 57),
    "mobilenet_v3_small_075": Fact(2_041_872, TIMM, None),
}

"""The published widths: github.com/tensorflow/models, research/slim/nets/mobilenet."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "mobilenet_v2_050"
TIMM, SLIM = "timm 1.0.31", "TF-slim, research/slim/nets/mobilenet/README.md"
FACTS = {
    "mobilenet_v2": Fact(3_504_872, TORCHVISION, 301),
    "mobilenet_v2_140": Fact(6_108_776, SLIM, 582),
    "mobilenet_v2_130": Fact(5_386_792, SLIM, 509),
    "mobilenet_v2_075": Fact(2_636_424, TIMM, 209, counted_by=SLIM),
    "mobilenet_v2_050": Fact(1_968_680, SLIM, 97),
    "mobilenet_v2_035": Fact(1_677_128, TIMM, 59, counted_by=SLIM),
}

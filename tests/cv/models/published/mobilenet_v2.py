"""The published widths 1.4 and 0.5: github.com/tensorflow/models, research/slim/nets/mobilenet."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "mobilenet_v2_050"
SLIM = "TF-slim, research/slim/nets/mobilenet/README.md"
FACTS = {
    "mobilenet_v2": Fact(3_504_872, TORCHVISION, 301),
    "mobilenet_v2_140": Fact(6_108_776, SLIM, 582),
    "mobilenet_v2_050": Fact(1_968_680, SLIM, 97),
}

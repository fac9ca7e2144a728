"""mmaction2 1.2 (24.33 M with ResNet-50); the others are the nets' own parameters (torchvision), with 400 classes."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = None
FACTS = {
    "tsn_resnet18": Fact(11_689_512 - 600 * 513, TORCHVISION, None),
    "tsn_resnet50": Fact(25_557_032 - 600 * 2049, "mmaction2 1.2", None, millions="24.33"),
    "tsn_mobilenet_v2": Fact(3_504_872 - 600 * 1281, TORCHVISION, None),
}

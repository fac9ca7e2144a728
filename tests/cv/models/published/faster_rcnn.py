"""torchvision's own counts, for 90 classes and the background. The norms of its first three nets are frozen, so that
their scales and shifts, 53,120 values of a ResNet-50 and 24,400 of a MobileNetV3, are not counted there.
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "fasterrcnn_mobilenet_v3_large_320_fpn"
FACTS = {
    "fasterrcnn_resnet50_fpn": Fact(41_755_286 + 53_120, TORCHVISION, None, image=800),
    "fasterrcnn_resnet50_fpn_v2": Fact(43_712_278, TORCHVISION, None, image=800),
    "fasterrcnn_mobilenet_v3_large_fpn": Fact(19_386_354 + 24_400, TORCHVISION, None, image=800),
    "fasterrcnn_mobilenet_v3_large_320_fpn": Fact(19_386_354 + 24_400, TORCHVISION, None, image=320),
}

"""torchvision's own counts, for 90 classes and the background; those of the first net leave out the 53,120 scales and
shifts of its frozen norms.
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "maskrcnn_resnet50_fpn_v2"
FACTS = {
    "maskrcnn_resnet50_fpn": Fact(44_401_393 + 53_120, TORCHVISION, None, image=800),
    "maskrcnn_resnet50_fpn_v2": Fact(46_359_409, TORCHVISION, None, image=800),
}

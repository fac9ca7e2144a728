"""With the heads that only training has; the paper counts none of these, and prunes its backbone to half."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {
    "icnet_resnet50": Fact(24_588_505, "counted here", None, 512),
    "icnet_mobilenet_v2": Fact(2_388_377, "counted here", None, 512),
}

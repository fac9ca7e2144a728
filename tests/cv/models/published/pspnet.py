"""As MMSegmentation counts them (48.97 and 67.97 million), with the auxiliary head, which only training has."""

from tests.cv.models.published import Fact

QUICK = None
SOURCE = "MMSegmentation 1.2, pspnet_r50-d8 and pspnet_r101-d8"
FACTS = {
    "pspnet_resnet50": Fact(48_975_494, SOURCE, None, 512, millions="48.97"),
    "pspnet_resnet101": Fact(67_967_622, SOURCE, None, 512, millions="67.97"),
}

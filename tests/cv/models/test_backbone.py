"""Classification nets as backbones of detectors."""

from __future__ import annotations

import pytest

import pdl
from pdl.errors import ConfigError
from pdl_cv.models.detector import Backbone

#: channels of the maps of strides 8, 16 and 32, as timm's features_only has them
CHANNELS = {
    "mobilenet_v1": (256, 512, 1024),
    "mobilenet_v2": (32, 96, 320),
    "mobilenet_v3_small": (24, 48, 96),
    "mobilenet_v3_large": (40, 112, 160),
    "lcnet_100": (128, 256, 512),
    "shufflenet_v2_x1_0": (116, 232, 464),
    "resnet18": (128, 256, 512),
    "tf_efficientnet_lite0": (40, 112, 320),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_maps_of_a_backbone(name: str) -> None:
    net = pdl.create_model(name)
    trained = Backbone(net)
    assert trained.channels == CHANNELS[name]
    assert [each.shape for each in trained.eval()(pdl.zeros(1, 64, 96, 3))] == [
        (1, 64 // s, 96 // s, c) for s, c in zip((8, 16, 32), trained.channels, strict=True)
    ]


def test_a_backbone_has_no_layers_that_only_its_classifier_needs() -> None:
    backbone = Backbone(pdl.create_model("mobilenet_v2"), strides=(16, 32))
    assert not [name for name, _ in backbone.named_parameters() if "classifier" in name or "features.18" in name]
    assert backbone.training


#: parameters of the maps of strides 8 and 16 alone; those of all three are more than these
FINE = {"mobilenet_v1": 1_613_120, "mobilenet_v2": 542_528, "lcnet_100": 435_360, "shufflenet_v2_x1_0": 275_068}


@pytest.mark.parametrize("name", FINE)
def test_a_backbone_has_no_layers_behind_its_last_map(name: str) -> None:
    whole = Backbone(pdl.create_model(name)).eval()
    fine = Backbone(pdl.create_model(name), strides=(8, 16)).eval()
    assert sum(p.size for p in fine.parameters()) == FINE[name] < sum(p.size for p in whole.parameters())
    fine.load_state_dict({key: value for key, value in whole.state_dict().items() if key in fine.state_dict()})
    with pdl.no_grad():
        for one, other in zip(fine(x := pdl.randn((1, 64, 64, 3))), whole(x), strict=False):
            assert (one.data == other.data).all()


def test_a_stride_that_a_net_does_not_have_is_named() -> None:
    with pytest.raises(ConfigError, match="ResNet has feature maps of strides 2, 4, 8, 16, 32, none of 64"):
        Backbone(pdl.create_model("resnet18"), strides=(32, 64))

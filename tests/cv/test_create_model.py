"""Models by name, as users of timm make them."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError, ShapeError, UsageError


def test_models_are_listed() -> None:
    assert {"resnet18", "gcn", "deepfm"} <= {*pdl.list_models()}
    assert pdl.list_models("vgg1?") == ["vgg11", "vgg13", "vgg16", "vgg19"]
    assert {"mobilenet_v2", "tf_efficientnet_lite0"} <= {*pdl.list_models(pretrained=True)}


def test_head_and_channels() -> None:
    net = pdl.create_model("resnet18", num_classes=7, in_chans=1).eval()
    assert net(pdl.zeros(2, 32, 32, 1)).shape == (2, 7)
    assert pdl.create_model("resnet18", num_classes=0).eval()(pdl.zeros(1, 32, 32, 3)).shape == (1, 512)
    assert pdl.create_model("lenet_8", num_classes=3, hidden=[8, 6])(pdl.zeros(1, 8, 8, 1)).shape == (1, 3)


#: sizes and channels of timm's features_only, for images of 64 pixels (the last of a net with a wide last convolution
#: is that one's)
MAPS = {
    "resnet18": [(32, 64), (16, 64), (8, 128), (4, 256), (2, 512)],
    "convnext_tiny": [(16, 96), (8, 192), (4, 384), (2, 768)],
    "mobilenet_v2_035": [(32, 8), (16, 8), (8, 16), (4, 32), (2, 1280)],
    "densenet121": [(8, 128), (4, 256), (2, 512)],
    "vgg11": [(64, 64), (32, 128), (16, 256), (8, 512), (4, 512), (2, 512)],
}


@pytest.mark.parametrize("name", MAPS)
def test_feature_maps(name: str) -> None:
    net = pdl.create_model(name, features_only=True).eval()
    with pdl.no_grad():
        maps = net(pdl.zeros(1, 64, 64, 3))
    assert [(each.shape[1], each.shape[3]) for each in maps] == MAPS[name]


def test_feature_maps_are_learned_through_and_compiled() -> None:
    net = pdl.create_model("resnet18", features_only=True, in_chans=1).eval()
    x = pdl.rand(1, 32, 32, 1)
    maps = net(x)
    maps[2].sum().backward()
    assert net.get_submodule("net").get_parameter("conv1.weight").grad is not None
    compiled = pdl.jit.compile(net)(x)
    assert all(np.allclose(a.data, b.data, atol=1e-4) for a, b in zip(maps, compiled, strict=True))


@pytest.mark.parametrize(
    ("name", "given", "error", "said"),
    [
        ("resnet81", {}, ConfigError, "did you mean 'resnet18'"),
        ("resnet18", {"pretrained": True}, UsageError, "no weights for it; it has some for"),
        ("resnet18", {"nosuch": 1}, UsageError, "takes no nosuch"),
        ("resnet18", {"dropout": 2.0}, UsageError, "dropout"),
        ("deepfm", {"num_classes": 3}, UsageError, "takes no num_classes"),
        ("gcn", {"num_classes": 3}, UsageError, "num_features"),
    ],
)
def test_what_cannot_be_made(name: str, given: dict[str, object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        pdl.create_model(name, **given)  # type: ignore[arg-type]


def test_nets_without_maps_say_so() -> None:
    with pytest.raises(ShapeError, match="no feature maps"):
        pdl.create_model("vit_tiny_patch16_224", features_only=True).eval()(pdl.zeros(1, 224, 224, 3))

"""What only ConvNeXt has: names that differ between those who publish weights, and a scale near 0."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl_cv.models import convnext
from pdl_cv.models.convnext import Block, ConvNeXt

AUTHORS = [
    (r"features\.0\.", "downsample_layers.0."),
    (r"features\.([246])\.", lambda m: f"downsample_layers.{int(m[1]) // 2}."),
    (r"features\.([1357])\.(\d)\.block\.0", lambda m: f"stages.{int(m[1]) // 2}.{m[2]}.dwconv"),
    (r"features\.([1357])\.(\d)\.block\.2", lambda m: f"stages.{int(m[1]) // 2}.{m[2]}.norm"),
    (r"features\.([1357])\.(\d)\.block\.3", lambda m: f"stages.{int(m[1]) // 2}.{m[2]}.pwconv1"),
    (r"features\.([1357])\.(\d)\.block\.5", lambda m: f"stages.{int(m[1]) // 2}.{m[2]}.pwconv2"),
    (r"features\.([1357])\.(\d)\.layer_scale", lambda m: f"stages.{int(m[1]) // 2}.{m[2]}.gamma"),
    (r"classifier\.0", "norm"), (r"classifier\.2", "head"),
]  # fmt: skip
TIMM = [
    (r"features\.0\.", "stem."), (r"features\.([246])\.", lambda m: f"stages.{int(m[1]) // 2}.downsample."),
    (r"features\.([1357])\.(\d)\.block\.0", lambda m: f"stages.{int(m[1]) // 2}.blocks.{m[2]}.conv_dw"),
    (r"features\.([1357])\.(\d)\.block\.2", lambda m: f"stages.{int(m[1]) // 2}.blocks.{m[2]}.norm"),
    (r"features\.([1357])\.(\d)\.block\.3", lambda m: f"stages.{int(m[1]) // 2}.blocks.{m[2]}.mlp.fc1"),
    (r"features\.([1357])\.(\d)\.block\.5", lambda m: f"stages.{int(m[1]) // 2}.blocks.{m[2]}.mlp.fc2"),
    (r"features\.([1357])\.(\d)\.layer_scale", lambda m: f"stages.{int(m[1]) // 2}.blocks.{m[2]}.gamma"),
    (r"classifier\.0", "head.norm"), (r"classifier\.2", "head.fc"),
]  # fmt: skip


def tiny() -> ConvNeXt:
    pdl.seed(0)
    return ConvNeXt((1, 1, 2, 1), (4, 4, 8, 8), num_classes=3, layer_scale=0.5)


@pytest.mark.parametrize("names", [AUTHORS, TIMM], ids=["authors", "timm"])
def test_names_of_others(names: list[tuple[str, str]]) -> None:
    net, other = tiny(), tiny()
    state = {}
    for name, value in nn.to_torch(net).items():
        pattern, to = next((p, t) for p, t in names if re.match(p, name))
        state[re.sub(pattern, to, name, count=1)] = value
    for p in other.parameters():
        nn.init.zeros_(p)
    other.load_state_dict(convnext.remap(other, state))
    x = pdl.randn((2, 64, 64, 3))
    np.testing.assert_array_equal(other.eval()(x).data, net.eval()(x).data)


def test_torchvision_s_scale_has_three_axes() -> None:
    net = tiny()
    state = nn.to_torch(net)
    tall = {name: v.reshape(-1, 1, 1) if name.endswith("layer_scale") else v for name, v in state.items()}
    net.load_state_dict(convnext.remap(net, tall))


def test_a_block_starts_near_the_identity() -> None:
    x = pdl.randn((1, 8, 8, 4))
    np.testing.assert_allclose(Block(4, 1e-6, 0.0)(x).data, x.data, atol=1e-5)


def test_each_block_is_a_layer() -> None:
    """Stem; five blocks and three layers between the stages; head. Norms belong to the layer before them."""
    layers = nn.stages(tiny())
    assert len(layers) == 1 + 5 + 3 + 1
    assert {name.rpartition(".")[0] for name in layers[1]} >= {"features.1.0", "features.2.0"}
    assert layers[-1] == ["classifier.2.weight", "classifier.2.bias"]


def test_four_stages() -> None:
    with pytest.raises(UsageError, match="must name four stages each"):
        ConvNeXt((1, 1), (4, 8))

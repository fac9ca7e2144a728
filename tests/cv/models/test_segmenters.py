"""Nets that classify pixels: logits on a coarser grid, gradients everywhere, programs of any batch."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.errors import ConfigError, ShapeError, UsageError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl_cv.models import STDC, DeepLabV3Plus, EfficientNet, ICNet, MobileNetV2, PSPNet, ResNet, ShuffleNetV2, UNet
from pdl_cv.models.blocks import Auxiliary
from pdl_cv.models.detector import Backbone
from pdl_cv.models.pyramids import dilated
from tests.cv.models.published import facts
from tests.cv.models.test_zoo import F32, make

FACTS = facts("segmentation")
COARSE = {
    "unet": 1, "pp_liteseg_t": 8, "pp_liteseg_b": 8, "bisenet_v2": 8, "pspnet_resnet50": 8, "pspnet_resnet101": 8,
}  # fmt: skip
QUICK = ("deeplab_v3_plus_mobilenet_v2", "segformer_b0", "pp_liteseg_t", "bisenet_v2", "icnet_mobilenet_v2")
VARIANTS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FACTS]


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_gradients(name: str) -> None:
    pdl.seed(0)
    net = make(name, num_classes=5)
    x = pdl.tensor(np.random.default_rng(0).standard_normal((2, 64, 32, 3)).astype(np.float32))
    made = net(x)
    logits = made.logits if isinstance(made, Auxiliary) else made
    stride = COARSE.get(name, 4)
    assert logits.shape == (2, 64 // stride, 32 // stride, 5)
    every = [logits, *(made.others if isinstance(made, Auxiliary) else ())]
    sum(((y * y).mean() for y in every), start=pdl.zeros(())).backward()
    without = [path for path, p in net.named_parameters() if p.grad is None or not np.isfinite(p.grad.data).all()]
    assert not without
    assert isinstance(net.eval()(x), pdl.Tensor)


@pytest.mark.parametrize("name", VARIANTS)
def test_programs_take_any_number_of_images(name: str) -> None:
    with nn.init.skipped():
        net = make(name).eval()
    program, notes = trace_symbolic(net, {"image": Spec((Dim.symbol("n", 3), 64, 32, 3), F32)})
    assert not notes
    assert list(program.sizes()) == ["n"]


def test_stdc_has_the_parameters_of_the_paper() -> None:
    """Table 5 of arXiv 2104.13188: 8.44 and 12.47 million."""
    with nn.init.skipped():
        counts = [sum(p.size for p in STDC(size).parameters()) / 1e6 for size in ("stdc1", "stdc2")]
    assert [f"{count:.2f}" for count in counts] == ["8.44", "12.47"]


@pytest.mark.parametrize(
    ("net", "first"),
    [(MobileNetV2, 0), (lambda: ResNet(18), 0), (lambda: EfficientNet("lite0", tensorflow=True), 1)],
)
def test_dilated_nets_see_the_same_neighbours(net: object, first: int) -> None:
    """Of every second place of the dilated map, from the first on, or from the second with TensorFlow's padding, which
    is larger behind the image, the values are those of the plain net, whose steps are not left out."""
    pdl.seed(0)
    plain, wide = net().eval(), net().eval()  # type: ignore[operator]
    wide.load_state_dict(plain.state_dict())
    x = pdl.tensor(np.random.default_rng(0).standard_normal((1, 64, 64, 3)).astype(np.float32))
    (ours,) = Backbone(dilated(wide, 16), (16,)).eval()(x)
    (theirs,) = Backbone(plain, (32,)).eval()(x)
    assert ours.shape[1:3] == (4, 4)
    np.testing.assert_allclose(ours.data[:, first::2, first::2], theirs.data, atol=1e-5)


def test_sizes_and_backbones_that_do_not_fit() -> None:
    with nn.init.skipped():
        with pytest.raises(ShapeError, match="H and W multiples of 16"):
            DeepLabV3Plus()(pdl.zeros((1, 64, 40, 3)))
        with pytest.raises(ShapeError, match="H and W multiples of 4"):
            UNet(depth=2, width=8)(pdl.zeros((1, 64, 42, 3)))
        with pytest.raises(UsageError, match="a pooling goes beyond a stride of 2"):
            dilated(ResNet(18), 2)
        with pytest.raises(ConfigError, match=r"model.after: MobileNetV2 has no module 'layer3'"):
            PSPNet(backbone=MobileNetV2())
        with pytest.raises(ConfigError, match="ICNet takes ResNet or MobileNetV2, not ShuffleNetV2"):
            ICNet(backbone=ShuffleNetV2())


def test_pspnet_pools_any_net() -> None:
    net = PSPNet(backbone=MobileNetV2(), after=["features.13", "features.17"], channels=32, num_classes=3)
    made = net(pdl.zeros((2, 64, 64, 3)))
    assert [y.shape for y in (made.logits, *made.others)] == [(2, 8, 8, 3)] * 2

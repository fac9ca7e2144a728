"""RepVGG: the deployed form."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl_cv.models import repvgg
from pdl_cv.models.repvgg import Plain, RepVGG, RepVGGBlock
from tests.cv.models.published.repvgg import DEPLOYED
from tests.cv.models.test_zoo import make, small
from tests.cv.test_export import shaken


@pytest.mark.parametrize(
    ("inside", "outputs", "stride", "groups"), [(8, 8, 1, 1), (8, 8, 1, 4), (4, 8, 1, 2), (8, 8, 2, 1)]
)
def test_a_block_becomes_one_convolution(inside: int, outputs: int, stride: int, groups: int) -> None:
    pdl.seed(3)
    block = shaken(RepVGGBlock(inside, outputs, stride=stride, groups=groups)).eval()
    assert isinstance(block, RepVGGBlock)
    assert (block.rbr_identity is not None) == (stride == 1 and inside == outputs)
    plain = block.deployed()
    assert isinstance(plain, Plain)
    x = pdl.randn((2, 7, 6, inside))
    with pdl.no_grad():
        wanted, found = block(x).data, plain(x).data
    assert wanted.max() > 0.1
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", DEPLOYED)
def test_deployed_sizes_are_the_paper_s(name: str) -> None:
    with nn.init.skipped():
        net = make(name)
    millions = sum(p.size for p in net.deployed().parameters()) / 1e6
    assert int(millions * 100) / 100 == DEPLOYED[name]  # cut off there, not rounded


def test_deploying_leaves_the_net_in_training_alone() -> None:
    net, size = small("repvgg_a0")
    before = {name: value.data.copy() for name, value in net.state_dict().items()}
    deployed = net.deployed().eval()
    kinds = {type(module) for module in deployed.modules()}
    assert nn.BatchNorm2d not in kinds
    assert RepVGGBlock not in kinds
    assert isinstance(net, RepVGG)
    assert isinstance(net.stage1[0], RepVGGBlock)
    assert net.training
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.data, before[name])
    x = pdl.tensor(np.random.default_rng(0).standard_normal((2, size, size, 2)).astype(np.float32))
    with pdl.no_grad():
        wanted, found = net.eval()(x).data, deployed(x).data
    assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max())
    assert np.ptp(wanted, axis=0).max() > 0.1


def test_exports_hold_the_deployed_form() -> None:
    net, size = small("repvgg_a0")
    spec = Spec((Dim.symbol("n", 3), size, size, 2), np.dtype(np.float32))
    program, notes = trace_symbolic(net, {"image": spec})
    assert not notes
    kinds = [type(node.op).__name__ for node in program.nodes]
    assert kinds.count("Conv") == 22
    assert not any("Norm" in kind for kind in kinds)
    assert net.training


def test_remap_takes_timm_s_names() -> None:
    with nn.init.skipped():
        net = RepVGG("a0")
    names = [
        ("stem.conv_kxk.conv.weight", "stage0.rbr_dense.conv.weight"),
        ("stem.conv_1x1.bn.running_mean", "stage0.rbr_1x1.bn.running_mean"),
        ("stages.3.0.conv_1x1.bn.bias", "stage4.0.rbr_1x1.bn.bias"),
        ("stages.0.1.identity.weight", "stage1.1.rbr_identity.weight"),
        ("head.fc.bias", "linear.bias"),
        ("stage2.1.rbr_dense.bn.weight", "stage2.1.rbr_dense.bn.weight"),
    ]
    own = net.state_dict()
    for theirs, ours in names:
        value = nn.to_torch(net)[ours]
        assert list(repvgg.remap(net, {theirs: value})) == [ours]
        assert repvgg.remap(net, {theirs: value})[ours].shape == own[ours].shape

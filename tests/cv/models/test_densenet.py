"""DenseNet: the shared statistics are those of a norm over everything that it reads."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl_cv.models.densenet import DenseBlock, DenseNet, Transition, remap


def plain(block: DenseBlock, transition: Transition, x: pdl.Tensor) -> pdl.Tensor:
    """The block and the transition in single layers."""
    maps = x
    for layer in block.children():
        y = layer.conv1(pdl.relu(layer.norm1(maps)))  # type: ignore[attr-defined]
        maps = pdl.concat([maps, layer.conv2(pdl.relu(layer.norm2(y)))], axis=-1)  # type: ignore[attr-defined]
    return pdl.avg_pool(transition.conv(pdl.relu(transition.norm(maps))), 2)


@pytest.mark.parametrize("training", [True, False])
def test_a_block_is_its_layers_one_by_one(training: bool) -> None:
    pdl.seed(0)
    nets = [(DenseBlock(6, 3, 4, 0.0), Transition(18)) for _ in range(2)]
    for a, b in zip(*nets, strict=True):
        b.load_state_dict(a.state_dict())
    x = np.random.default_rng(0).standard_normal((3, 6, 5, 6), np.float32)
    found = []
    for number, (block, transition) in enumerate(nets):
        block.train(training)
        transition.train(training)
        given = pdl.tensor(x, requires_grad=True)
        y = plain(block, transition, given) if number else transition(block(given))
        (y * y).sum().backward()
        assert given.grad is not None
        found.append([y.data, given.grad.data])
        found[-1] += [p.grad.data for m in (block, transition) for p in m.parameters() if p.grad is not None]
        found[-1] += [b.data for m in (block, transition) for name, b in m.named_buffers() if "var" in name]
    assert len(found[0]) == len(found[1]) == 2 + 3 * 6 + 3 + 3 * 2 + 1
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


def test_dropout_is_seen_by_the_norms_behind_it() -> None:
    pdl.seed(0)
    block = DenseBlock(6, 3, 4, 0.5)
    maps = block(pdl.randn((2, 4, 4, 6)))
    assert all((each.value.data == 0).mean() > 0.2 for each in maps[1:])
    later = block.get_submodule("denselayer2.norm1")
    assert isinstance(later, nn.BatchNorm2d)
    assert later.running_mean is not None
    means = np.concatenate([each.value.data.mean((0, 1, 2)) for each in maps[:2]])
    np.testing.assert_allclose(later.running_mean.data, 0.1 * means, rtol=1e-4, atol=1e-6)


def test_small_images() -> None:
    net = DenseNet(121, small_images=True, num_classes=5, in_channels=1)
    assert nn.summary(net, (2, 32, 32, 1)).rows[-1].output_shape == (2, 5)
    assert net.get_parameter("features.conv0.weight").shape == (3, 3, 1, 64)


def test_names_of_the_published_files() -> None:
    with nn.init.skipped():
        net = DenseNet(num_classes=3)
    state = nn.to_torch(net)
    old = {name.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2."): value for name, value in state.items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    assert set(remap(net, old)) == set(net.state_dict())

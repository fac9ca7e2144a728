"""GoogLeNet's auxiliary classifiers."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl_cv import Classification, GoogLeNet
from pdl_cv.models import googlenet
from pdl_cv.models.blocks import Auxiliary


def test_parameters_with_auxiliary_classifiers() -> None:
    with nn.init.skipped():
        net = GoogLeNet(aux_logits=True)
    assert sum(p.size for p in net.parameters()) == 13_004_888  # torchvision 0.29, aux_logits=True


def test_their_losses_count_three_tenths_in_training_only() -> None:
    pdl.seed(0)
    net = GoogLeNet(aux_logits=True, num_classes=3, dropout=0, dropout_aux=0)
    batch = {"image": np.random.default_rng(0).standard_normal((4, 32, 32, 3), np.float32), "label": np.arange(4) % 3}
    made = net(pdl.tensor(batch["image"]))
    assert isinstance(made, Auxiliary)
    alone = [float(pdl.cross_entropy(y, pdl.tensor(batch["label"])).data) for y in (made.logits, *made.others)]
    task = Classification()
    loss = task.step(net, batch)
    assert float(loss.value.data) == pytest.approx(alone[0] + 0.3 * (alone[1] + alone[2]), rel=1e-4)
    loss.value.backward()
    assert all(p.grad is not None for p in net.parameters())
    y = net.eval()(pdl.tensor(batch["image"]))
    assert isinstance(y, pdl.Tensor)
    expected = float(pdl.cross_entropy(y, pdl.tensor(batch["label"])).data)
    assert float(task.evaluate(net, batch).value.data) == pytest.approx(expected)


def test_a_net_without_them_leaves_their_weights_out() -> None:
    whole, net = GoogLeNet(aux_logits=True, num_classes=3), GoogLeNet(num_classes=3)
    assert whole.head == ("fc", "aux1.fc2", "aux2.fc2")
    state = nn.to_torch(whole)
    net.load_state_dict(googlenet.remap(net, state))
    np.testing.assert_array_equal(net.fc.weight.data, whole.fc.weight.data)
    other = GoogLeNet(aux_logits=True, num_classes=3)
    other.load_state_dict(googlenet.remap(other, state))
    assert other.aux1 is not None
    assert whole.aux1 is not None
    np.testing.assert_array_equal(other.aux1.fc1.weight.data, whole.aux1.fc1.weight.data)

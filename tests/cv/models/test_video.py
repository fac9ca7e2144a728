"""Nets for clips and skeletons: what they see of the order of time, and of frames that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl_cv.models import TSM, TSN, AttentionClusters, CifarResNet, LeNet, MobileNetV2, R2Plus1D
from pdl_cv.models.attention_clusters import AttentionUnits
from pdl_cv.models.r2plus1d import factored
from pdl_cv.models.st_gcn import STGCN, STGCNStreams, partition
from pdl_cv.models.tsm import TemporalShift


def said(net: Any, x: Any) -> Any:
    with pdl.no_grad():
        return net.eval()(pdl.Tensor(x)).numpy()


def noise(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_an_eighth_of_the_channels_comes_from_the_next_frame_and_one_from_the_last() -> None:
    x = noise(2 * 5, 2, 3, 16)
    found = TemporalShift(nn.Identity(), 5, 8).shift(pdl.Tensor(x)).numpy().reshape(2, 5, 2, 3, 16)
    clips = x.reshape(found.shape)
    expected = clips.copy()
    expected[:, :-1, ..., :2], expected[:, -1, ..., :2] = clips[:, 1:, ..., :2], 0
    expected[:, 1:, ..., 2:4], expected[:, 0, ..., 2:4] = clips[:, :-1, ..., 2:4], 0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "make", [lambda: CifarResNet(8, num_classes=4), lambda: MobileNetV2(width=0.35, num_classes=9)]
)
def test_tsm_sees_the_order_of_frames_and_tsn_does_not(make: Any) -> None:
    x = noise(2, 4, 32, 32, 3)
    order = [2, 0, 3, 1]
    pdl.seed(0)
    bag, shifted = TSN(make(), num_classes=4), TSM(make(), frames=4, num_classes=4)
    for net in (bag, shifted):
        for norm in (each for each in net.modules() if isinstance(each, nn.BatchNorm2d)):
            norm.momentum = 1.0
        with pdl.no_grad():  # running statistics of these frames, so that what they show reaches the end
            net(pdl.Tensor(x))
    assert sum(p.size for p in bag.parameters()) == sum(p.size for p in shifted.parameters())
    assert said(bag, x).shape == said(shifted, x).shape == (2, 4)
    np.testing.assert_allclose(said(bag, x), said(bag, x[:, order]), atol=1e-5)
    assert np.abs(said(shifted, x) - said(shifted, x[:, order])).max() > 1e-5
    with pytest.raises(ShapeError, match=r"model.frames=4 frames"):
        said(shifted, x[:, :3])


def test_nets_that_cannot_be_shifted_are_named() -> None:
    with pytest.raises(UsageError, match="LeNet has no residual blocks"):
        TSM(LeNet(), num_classes=3)


def test_factored_convolutions_are_those_over_space_and_over_time() -> None:
    both, _ = factored(2, 4, 3, 2)
    x = noise(1, 5, 6, 7, 2)
    frames = said(nn.Sequential(*list(both)[:3]), x)
    one = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False)
    one.weight._data[:] = both[0].weight.data[0]
    by_frame = np.maximum(said(one, x[0]) / np.sqrt(1 + 1e-5), 0)
    np.testing.assert_allclose(frames[0], by_frame, atol=1e-5)
    found, weight = said(both, x)[0], both[3].weight.data[:, 0, 0]  # [3, 3, 4]
    padded = np.pad(by_frame, ((1, 1), (0, 0), (0, 0), (0, 0)))
    expected = sum(padded[k : k + 5] @ weight[k] for k in range(3))[::2]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_r2plus1d_answers_for_clips() -> None:
    net = R2Plus1D(width=8, in_channels=1, num_classes=3)
    assert said(net, noise(2, 4, 24, 20, 1)).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"must be clips \[N, T, H, W, C\]"):
        net(pdl.zeros((2, 24, 20, 1)))


def test_attention_units_weigh_frames() -> None:
    units = AttentionUnits(6, 2)
    units.alpha._data[:], units.beta._data[:] = [[2.0], [0.5]], [[0.1], [-0.3]]
    x = noise(1, 5, 6)
    scores = x[0] @ units.weights.weight.data + units.weights.bias.data
    weights = np.exp(scores) / np.exp(scores).sum(axis=0)
    seen = [2.0 * weights[:, 0] @ x[0] + 0.1, 0.5 * weights[:, 1] @ x[0] - 0.3]
    expected = np.concatenate([v / np.linalg.norm(v) / np.sqrt(2) for v in seen])
    np.testing.assert_allclose(said(units, x)[0], expected, atol=1e-5)
    net = AttentionClusters(CifarResNet(8), units=3, num_classes=5)
    assert said(net, noise(2, 4, 16, 16, 3)).shape == (2, 5)


def test_a_joint_hears_from_itself_from_nearer_and_from_further_ones() -> None:
    same, nearer, further = partition(4, [(0, 1), (1, 2), (1, 3)], 1)
    np.testing.assert_allclose(same, np.diag([1 / 2, 1 / 4, 1 / 2, 1 / 2]))
    assert {tuple(at) for at in np.argwhere(nearer).tolist()} == {(0, 1), (2, 1), (3, 1)}
    assert nearer[0, 1] == 1 / 4
    assert {tuple(at) for at in np.argwhere(further).tolist()} == {(1, 0), (1, 2), (1, 3)}
    assert further[1, 0] == 1 / 2
    for edges, centre, what in (
        ([(0, 9)], 0, "leads to no joint"),
        ([(0, 1)], 0, "joint 2 is not joined"),
        ([], 7, "is no joint"),
    ):
        with pytest.raises(UsageError, match=what):
            partition(3, edges, centre)


def test_streams_learn_apart_and_answer_together() -> None:
    pdl.seed(0)
    shape: Any = {"joints": 3, "edges": [(0, 1), (1, 2)], "centre": 1, "num_classes": 4, "widths": (8,)}
    net: Any = STGCNStreams(**shape, streams=[["place", "motion"], ["direction"]])
    x = noise(2, 6, 3, 3)
    first, second = net.streams
    each = [np.exp(pdl.log_softmax(pdl.Tensor(said(one, x)), axis=-1).numpy()) for one in (first, second)]
    np.testing.assert_allclose(np.exp(said(net, x)), np.mean(each, axis=0), rtol=1e-5)
    centre = x[:, :, 1:2]
    larger = (x - centre) * 3 + centre  # joints 0 and 2 hang on 1
    np.testing.assert_allclose(said(second, larger), said(second, x), atol=1e-5)
    made = net.train()(pdl.Tensor(x))
    assert (len(made.others), made.weight) == (1, 1.0)
    made.logits.sum().backward()
    assert all(p.grad is None for p in second.parameters())
    with pytest.raises(UsageError, match="streams must name"):
        STGCNStreams(**shape, streams=[])


def test_frames_of_zeros_are_none() -> None:
    pdl.seed(0)
    net = STGCN(joints=3, edges=[(0, 1), (1, 2)], centre=1, num_classes=4, widths=(8, 16, 16, 32),
                fields=("place", "motion", "bone"))  # fmt: skip
    for p in net.parameters():
        if p.ndim == 1:
            p._data += 0.2
    x = noise(2, 12, 3, 3)
    longer = np.concatenate([x, np.zeros((2, 9, 3, 3), np.float32)], axis=1)
    np.testing.assert_allclose(said(net, longer), said(net, x), atol=1e-5)
    assert np.abs(said(net, x[:, ::-1]) - said(net, x)).max() > 1e-4
    with pytest.raises(ShapeError, match=r"must be \[N, T, 3, 3\]"):
        net(pdl.zeros((2, 12, 4, 3)))

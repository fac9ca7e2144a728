"""The nets that read lines: sizes as published, shapes, gradients, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl.config.building import build
from pdl.errors import ShapeError
from pdl_ocr.models import CRNN, SVTR, Recogniser, SVTRLCNet, crnn, svtr, svtr_lcnet

VARIANTS: dict[str, dict[str, Any]] = {**crnn.VARIANTS, **svtr.VARIANTS, **svtr_lcnet.VARIANTS}
SMALL = [name for name in VARIANTS if name not in ("svtr_base", "svtr_large", "crnn_resnet34_vd")]


def lines(net: Recogniser, n: int = 2, steps: int = 25) -> pdl.Tensor:
    width = net.width or steps * net.stride
    return pdl.as_tensor(np.random.default_rng(0).normal(size=(n, net.heights[-1], width, 3)).astype(np.float32))


@pytest.mark.parametrize("name", SMALL)
def test_a_net_gives_a_step_for_every_stride_columns(name: str) -> None:
    net: Recogniser = build({**VARIANTS[name], "num_classes": 12}).eval()
    x = lines(net)
    assert net(x).shape == (2, net.steps(x.shape[2]), 12) == (2, 25, 12)


@pytest.mark.parametrize(("size", "millions"), [("tiny", 4.15), ("small", 8.45), ("base", 22.66), ("large", 38.81)])
def test_svtr_has_the_parameters_of_the_paper(size: Any, millions: float) -> None:
    """Table 1 of arXiv 2205.00159, for 36 characters."""
    count = sum(p.size for p in SVTR(size, num_classes=37).parameters()) / 1e6
    assert count == pytest.approx(millions, rel=0.02)


def test_local_mixing_sees_seven_rows_and_eleven_columns() -> None:
    seen = svtr.local(8, 25).reshape(8, 25, 8, 25)
    assert seen[4, 12].sum() == 7 * 11
    assert seen[0, 0].sum() == 4 * 6


@pytest.mark.parametrize("net", [CRNN(width=0.25, num_classes=5), SVTRLCNet(width=0.125, dim=16, num_classes=5)])
def test_every_parameter_learns(net: Recogniser) -> None:
    x, labels = lines(net), pdl.as_tensor(np.array([[1, 2, 3], [4, 4, -1]], np.int64))
    logs = pdl.log_softmax(net(x))
    loss = pdl.ctc_loss(logs, labels, pdl.as_tensor(np.array([25, 25])), pdl.as_tensor(np.array([3, 2])))
    loss.backward()
    still = [name for name, p in net.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).max() > 0]
    assert still == []


def test_lines_of_another_height_are_told() -> None:
    with pytest.raises(ShapeError, match="images are 40 pixels high, expected 32: set the height of ResizeHeight"):
        CRNN(width=0.25)(pdl.zeros((1, 40, 64, 3)))
    with pytest.raises(ShapeError, match="64 pixels wide, but the net was built for 100"):
        SVTR("tiny")(pdl.zeros((1, 32, 64, 3)))

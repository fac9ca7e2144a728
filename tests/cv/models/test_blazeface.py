"""BlazeFace: its squares, its losses as one program, and Paddle's names."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl_cv.models import blazeface
from pdl_cv.models.blazeface import BlazeFace, squares
from tests.cv.models.scenes import scenes
from tests.cv.models.test_detectors import stepper


def test_squares_are_around_the_middles_of_cells() -> None:
    found = squares([(1, 2), (1, 1)], (8, 16), ((16, 24), (32,)))
    assert found.tolist() == [[-4, -4, 12, 12], [-8, -8, 16, 16], [4, -4, 20, 12], [0, -8, 24, 16], [-8, -8, 24, 24]]


def test_it_learns_and_answers() -> None:
    pdl.seed(0)
    net, drawn = BlazeFace(num_classes=2), scenes(3)
    step = stepper(net)
    eager = float(step.eager(*drawn).data)
    for path, parameter in net.named_parameters():
        assert parameter.grad is not None, path
        assert np.isfinite(parameter.grad.data).all(), path
    assert float(step(*drawn).data) == pytest.approx(eager, rel=1e-4)
    with pdl.no_grad():
        boxes, scores, labels, masks = net.eval()(pdl.tensor(drawn.images))
    assert boxes.shape == (3, 750, 4)
    assert scores.shape == labels.shape == (3, 750)
    assert masks is None


def test_paddle_s_names_and_its_last_class_is_the_background() -> None:
    net, other = BlazeFace(num_classes=2), BlazeFace(num_classes=2)
    state = {}
    for name, value in nn.to_torch(net).items():
        owner, _, kind = name.rpartition(".")
        parts = owner.split(".")
        if parts[0] == "backbone":
            if parts[1] == "blocks":
                number = int(parts[2])
                block = f"blaze_{number}" if number < 5 else f"double_blaze_{number - 5}"
                layer = {"dw": f"{block}1_dw", "dw2": f"{block}2_dw", "shortcut": f"{block}_shortcut_conv"}
                parts[1:4] = [block, layer.get(parts[3], parts[3].replace("pw", "conv_pw"))]
            parts[-1] = {"conv": "_conv", "bn": "_batch_norm"}[parts[-1]]
        else:
            parts = ["blaze_head", {"classes": "scores", "boxes": "boxes"}[parts[0]] + parts[1]]
            if parts[1].startswith("scores"):
                by_class = value.reshape(-1, 3, *value.shape[1:])
                value = np.roll(by_class, -1, axis=1).reshape(value.shape)
        kind = {"running_mean": "_mean", "running_var": "_variance"}.get(kind, kind)
        state[".".join([*parts, kind])] = value
    assert {"backbone.conv1._conv.weight", "backbone.double_blaze_3.double_blaze_32_dw._conv.weight"} <= set(state)
    other.load_state_dict(blazeface.remap(other, state))
    theirs = other.state_dict()
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.data, theirs[key].data)

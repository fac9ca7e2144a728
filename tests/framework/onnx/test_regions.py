"""Grids, regions of interest and boxes, against ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pdl
from pdl.onnx import load_model
from pdl.onnx.reader import read
from pdl.runtime import Session

from .building import FLOAT, INT64, model, node, port

runtime = pytest.importorskip("onnxruntime")
R = np.random.default_rng(0)


def theirs(data: bytes, feed: dict[str, Any]) -> Any:
    (found,) = runtime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feed)
    return found


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids_of_any_size_are_one_program(mode, padding, corners):
    made = node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=corners)
    data = model([made], [port("x", ["n", 3, "h", "w"]), port("g", ["n", "a", "b", 2])], ["y"])
    imported = load_model(data)
    assert imported.program is not None, imported.notes
    session = Session.of(imported.program)
    for n, h, w in ((1, 4, 5), (2, 7, 3)):
        x = R.standard_normal((n, 3, h, w)).astype(np.float32)
        feed = {"x": x, "g": R.uniform(-1.5, 1.5, (n, 6, 2, 2)).astype(np.float32)}
        assert_allclose(next(iter(session.run(feed).values())), theirs(data, feed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("corners", [0, 1])
def test_affine_grids_are_programs(corners):
    data = model(
        [node("AffineGrid", ["t", "size"], ["y"], align_corners=corners)],
        [port("t", ["n", 2, 3])],
        ["y"],
        {"size": np.array([2, 3, 4, 5])},
        opset=20,
    )
    feed = {"t": R.standard_normal((2, 2, 3)).astype(np.float32)}
    assert_allclose(read(data).graph.run(feed)["y"], theirs(data, feed), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("mode", "ratio"), list(itertools.product(("avg", "max"), (0, 1, 3))))
@pytest.mark.parametrize("opset", [10, 16])
def test_regions_of_any_number_are_one_program(opset, mode, ratio):
    how = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5, "sampling_ratio": ratio, "mode": mode}
    data = model(
        [node("RoiAlign", ["x", "rois", "at"], ["y"], **how)],
        [port("x", [2, 5, 9, 8]), port("rois", ["r", 4]), port("at", ["r"], INT64)],
        ["y"],
        opset=opset,
    )
    imported = load_model(data)
    assert imported.program is not None, imported.notes
    session = Session.of(imported.program)
    for count in (0, 1, 9):
        corner = R.uniform(-3, 20, (count, 2))
        rois = np.concatenate([corner, corner + R.uniform(0, 15, (count, 2))], axis=1).astype(np.float32)
        x = R.standard_normal((2, 5, 9, 8)).astype(np.float32)
        feed = {"x": x, "rois": rois, "at": R.integers(0, 2, count)}
        assert_allclose(next(iter(session.run(feed).values())), theirs(data, feed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", range(24))
def test_the_same_boxes_are_kept_in_the_same_order(case):
    """Scores of one digit: many are equal."""
    images, kinds, n = R.integers(1, 3), R.integers(1, 4), R.integers(1, 60)
    boxes = R.uniform(0, 10, (images, n, 4)).astype(np.float32)
    feed = {
        "boxes": np.round(boxes) if case % 3 == 0 else boxes,
        "scores": np.round(R.uniform(size=(images, kinds, n)), 1 if case % 2 else 4).astype(np.float32),
        "most": R.integers(0, 12, 1),
        "iou": R.uniform(0, 0.8, 1).astype(np.float32),
    }
    ports = [port(k, [None] * v.ndim, INT64 if k == "most" else FLOAT) for k, v in feed.items()]
    names = list(feed)
    if case % 4:
        feed["low"] = R.uniform(0, 0.5, 1).astype(np.float32)
        ports.append(port("low", [1]))
        names.append("low")
    data = model([node("NonMaxSuppression", names, ["y"], center_point_box=case // 2 % 2)], ports, ["y"])
    assert_array_equal(read(data).graph.run(feed)["y"], theirs(data, feed))


def test_deformable_convolutions_of_any_size_are_one_program():
    channels = {"x": 4, "o": 36, "m": 18}
    made = node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], pads=[1, 1, 1, 1], group=2, offset_group=2)
    ports = [port(k, ["n", c, "h", "w"]) for k, c in channels.items()]
    w, b = R.standard_normal((6, 2, 3, 3)).astype(np.float32), R.standard_normal(6).astype(np.float32)
    imported = load_model(model([made], ports, ["y"], {"w": w, "b": b}, opset=19))
    assert imported.program is not None, imported.notes
    session = Session.of(imported.program)
    for n, height, width in ((1, 4, 5), (2, 7, 3)):
        feed = {
            k: R.standard_normal((n, c, height, width)).astype(np.float32)
            for k, c in zip("xom", (4, 36, 18), strict=True)
        }
        x, offset, mask = (np.moveaxis(feed[k], 1, -1) for k in "xom")
        want = pdl.deform_conv2d(x, offset, w.transpose(2, 3, 1, 0), b, mask=mask, padding=1, groups=2).numpy()
        assert_allclose(next(iter(session.run(feed).values())), np.moveaxis(want, -1, 1), rtol=1e-4, atol=1e-5)

"""Resize beside ONNX Runtime: modes, coordinates, ways to round, filters that shrink, scales and sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pdl.onnx.importer import load_model

from .building import model, node, port

ort = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime: pip install onnxruntime")

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SCALES = ((0.6, 0.6), (2.0, 3.0), (1.7, 0.45), (1.0, 0.3), (0.1, 2.5))
SIZES = ((6, 3), (1, 12), (13, 16), (20, 7))
X = np.random.default_rng(3).uniform(-1, 1, (1, 2, 10, 8)).astype(np.float32)


def resized(to: dict[str, Any], attributes: dict[str, Any], x: np.ndarray = X) -> tuple[Any, Any]:
    """What ONNX Runtime and pdl make of x; None where the first does not take it."""
    held = {"roi": np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1], np.float32), "none": np.zeros(0, np.float32), **to}
    roi = "roi" if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize" else ""
    inputs = ["x", roi, "scales"] if "scales" in to else ["x", roi, "", "sizes"]
    data = model([node("Resize", inputs, ["y"], **attributes)], [port("x", x.shape)], ["y"], held, opset=19)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        wanted = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    except Exception:  # combinations that it does not have
        return None, None
    return wanted, load_model(data).graph.run({"x": x})["y"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str, coordinates: str) -> None:
    targets: list[dict[str, Any]] = [{"scales": np.array([1, 1, *s], np.float32)} for s in SCALES]
    targets += [{"sizes": np.array([1, 2, *s])} for s in SIZES]
    ways: list[dict[str, Any]] = [{"nearest_mode": r} for r in ROUNDINGS]
    if mode != "nearest":
        ways = [{"antialias": a, "exclude_outside": e} for a in (0, 1) for e in ((0, 1) if mode == "cubic" else (0,))]
    tried = 0
    for to, way in itertools.product(targets, ways):
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, **way}
        if coordinates == "tf_half_pixel_for_nn" and way.get("nearest_mode") == "round_prefer_ceil":
            continue  # ONNX Runtime rounds 7.4999995 up
        if coordinates == "tf_crop_and_resize" and 1 in to.get("scales", ())[2:]:
            continue  # it crops no axis whose scale is 1
        wanted, found = resized(to, attributes)
        if wanted is None:
            continue
        tried += 1
        np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=f"{attributes} {to}")
    assert tried > len(targets) or coordinates.startswith("tf_")


def test_places_are_rounded_as_float32() -> None:
    """3 / 0.6 is 5 in float32, and 4.9999998 in float64, where the scale has been rounded."""
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x = np.arange(10, dtype=np.float32).reshape(1, 1, 1, 10)
    _, found = resized({"scales": np.array([1, 1, 1, 0.6], np.float32)}, attributes, x)
    assert found.ravel().tolist() == [0, 1, 3, 5, 6, 8]

"""Small nets in TensorFlow Lite's form, in floats and quantised, and their numbers by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .flat import Lite
from .lite_cases import NET, conv, depthwise, softmax

R = np.random.default_rng(5)
W = R.normal(0, 0.4, (8, 3, 3, 3)).astype(np.float32)
B = R.normal(0, 0.4, 8).astype(np.float32)
DW = R.normal(0, 0.4, (1, 3, 3, 8)).astype(np.float32)
DB = R.normal(0, 0.4, 8).astype(np.float32)
F, FB = R.normal(0, 0.4, (5, 8)).astype(np.float32), R.normal(0, 0.4, 5).astype(np.float32)
X = R.normal(0, 1, (1, 9, 8, 3)).astype(np.float32)
SAME: dict[str, Any] = {**NET, "padding": "SAME", "stride_h": 2, "stride_w": 2, "activation": "RELU6"}
#: scale and zero point of int8 activations by name
RANGES = {
    "x": (0.035, 4), "a": (6 / 255, -128), "d": (6 / 255, -128), "m": (6 / 255, -128), "y": (0.05, 10),
    "p": (1 / 256, -128),
}  # fmt: skip


def reference(x: np.ndarray) -> np.ndarray:
    a = np.clip(conv(x, W, B, (2, 2)), 0, 6)
    d = np.clip(depthwise(a, DW, DB), 0, 6)
    return softmax(d.mean((1, 2)) @ F.T + FB)


SPARSE = np.array([[0, 0, 1, 2], [0, 0, 0, 3], [4, 5, 0, 0], [6, 0, 0, 0]], np.float32)


def sparse_net() -> bytes:
    """x [2, 4] by the transpose of `SPARSE`, of which two blocks of 2 x 2 are stored."""
    lite = Lite()
    x, full, y = lite.tensor("x", (2, 4)), lite.tensor("full", (4, 4)), lite.tensor("y", (2, 4))
    w = lite.tensor("w", (4, 4), data=np.array([1, 2, 0, 3, 4, 5, 6, 0], np.float32))
    two = {1: ("i", 2)}
    listed = {0: ("b", 1), 2: ("B", 1), 3: {0: np.array([0, 1, 2], np.int32)}, 4: ("B", 3), 5: {0: np.uint8([1, 0])}}
    lite.tensors[w][6] = {0: np.arange(4, dtype=np.int32), 1: np.array([0, 1], np.int32), 2: [two, listed, two, two]}
    lite.op("DENSIFY", [w], [full])
    lite.op("FULLY_CONNECTED", [x, full], [y], activation="NONE", weights_format="DEFAULT")
    return lite.file([x], [y])


def net(kind: str = "float", *, signature: bool = False, dynamic: bool = False) -> bytes:
    """Two convolutions, a mean, a linear layer, softmax; kind: "float", "int8" (a scale a channel), "uint8" (one scale
    a tensor, as older converters wrote), "half" (weights of 16 bits behind DEQUANTIZE), "weights" (int8 alone)."""
    lite = Lite()
    quantised = kind in ("int8", "uint8")

    def value(name: str, *shape: int) -> int:
        scale, zero = RANGES[name]
        how: dict[str, Any] = {"scale": scale, "zero": zero + 128 * (kind == "uint8")} if quantised else {}
        open_: dict[str, Any] = {"signature": (-1, *shape[1:])} if dynamic else {}
        return lite.tensor(name, shape, kind if quantised else "float32", **how, **open_)

    def weight(name: str, w: np.ndarray, b: np.ndarray, axis: int, x: str) -> list[int]:
        if kind == "half":
            half = lite.constant(f"{name}/half", w.astype(np.float16))
            full = lite.tensor(f"{name}/full", w.shape)
            lite.op("DEQUANTIZE", [half], [full])
            return [full, lite.constant(f"{name}/bias", b)]
        if kind == "float":
            return [lite.constant(name, w), lite.constant(f"{name}/bias", b)]
        if kind == "uint8":
            scale = np.float32((w.max() - w.min()) / 255)
            zero = int(np.rint(-w.min() / scale))
            q = np.clip(np.rint(w / scale) + zero, 0, 255).astype(np.uint8)
            made = lite.constant(name, q, scale=scale, zero=zero)
        else:
            others = tuple(i for i in range(w.ndim) if i != axis)
            scale = (np.abs(w).max(others) / 127).astype(np.float32)
            spread = scale.reshape([-1 if i == axis else 1 for i in range(w.ndim)])
            made = lite.constant(name, np.rint(w / spread).astype(np.int8), scale=scale, axis=axis)
        if kind == "weights":
            return [made, lite.constant(f"{name}/bias", b)]
        units = scale * np.float32(RANGES[x][0])
        return [made, lite.constant(f"{name}/bias", np.rint(b / units).astype(np.int32), scale=units)]

    x = value("x", *X.shape)
    a, d, m = value("a", 1, 5, 4, 8), value("d", 1, 5, 4, 8), value("m", 1, 8)
    y, p = value("y", 1, 5), value("p", 1, 5)
    lite.op("CONV_2D", [x, *weight("w", W, B, 0, "x")], [a], **SAME)
    lite.op("DEPTHWISE_CONV_2D", [a, *weight("dw", DW, DB, 3, "a")], [d], **{**SAME, "stride_h": 1, "stride_w": 1})
    lite.op("MEAN", [d, lite.constant("axes", np.array([1, 2], np.int32))], [m], keep_dims=False)
    lite.op("FULLY_CONNECTED", [m, *weight("f", F, FB, 0, "m")], [y], activation="NONE", weights_format="DEFAULT")
    lite.op("SOFTMAX", [y], [p], beta=1.0)
    named = {"inputs": {"image": x}, "outputs": {"scores": p}} if signature else None
    return lite.file([x], [p], named)

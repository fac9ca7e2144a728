"""Nets that find and read a writing of bars, without training, for tests of what stands around nets.

A line is a strip of blue 0. Red tells the letter of each bar: 0 a, 64 b, 191 c; and 255 in the gaps between bars.
Green is 255 in the upper half of a line and 0 in the lower one, so that its side up can be told.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import pdl
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.runtime import Session, bundle

PIPELINES = Path(__file__).parents[2] / "suites" / "ocr" / "pdl_ocr" / "pipelines"
RED = {"a": 0, "b": 64, "c": 191}


def bars(text: str, height: int = 32, width: int = 40) -> np.ndarray:
    """A line uint8 [height, W, 3] RGB that begins and ends with a gap."""
    x = np.full((height, width * (2 * len(text) + 1), 3), 255, np.uint8)
    x[:, :, 2] = 0
    x[height // 2 :, :, 1] = 0
    for i, letter in enumerate(text):
        x[:, width * (2 * i + 1) : width * (2 * i + 2), 0] = RED[letter]
    return x


def found(x: Any) -> Any:
    """Probabilities [n, 1, h, w] of being in a line, of pictures [n, 3, h, w] in BGR: high where blue is low."""
    return pdl.sigmoid(x[:, :1] * -8.0)


def read(x: Any) -> Any:
    """Probabilities [n, t, 5] of blank, a, b, c and space, of lines [n, 3, 48, w] in BGR, w a multiple of 8."""
    x = x[:, :, 20:28].mean(axis=2)
    x = x.reshape(x.shape[0], 3, -1, 8)
    means = x.mean(axis=3)
    blue, red = means[:, 0], means[:, 2]
    mixed = (x[:, 2] ** 2).mean(axis=2) - red**2
    levels = [-8.0 * (red - (level / 127.5 - 1)) ** 2 for level in RED.values()]
    gap = pdl.maximum(4.0 * (blue + 0.8), -8.0 * (red - 1.0) ** 2) + 99.0 * mixed
    return pdl.softmax(20.0 * pdl.stack([gap, *levels, blue * 0.0 - 99.0], axis=2), axis=2)


def side(x: Any) -> Any:
    """Probabilities [n, 2] of 0 and 180 degrees, of lines [n, 3, 48, 192] in BGR."""
    over = (x[:, 1, 26:32] - x[:, 1, 16:22]).mean(axis=(1, 2))
    return pdl.softmax(20.0 * pdl.stack([-over, over], axis=1), axis=1)


NETS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], list[str]]] = {
    "det": (found, (3, 64, 96), []),
    "rec": (read, (3, 48, 320), ["a", "b", "c"]),
    "cls": (side, (3, 48, 192), ["0", "180"]),
}


@functools.cache
def session(kind: str) -> Session:
    """The synthetic net for "det", "rec" or "cls" between the steps of the real model."""
    net, shape, labels = NETS[kind]
    steps = yaml.safe_load((PIPELINES / f"ppocr_v4_{kind}.yaml").read_text())
    ((_, pre),), ((name, post),) = steps["pre"].items(), steps["post"].items()
    sizes = shape if kind == "cls" else (3, Dim.symbol("h", shape[1]), Dim.symbol("w", shape[2]))
    sizes = (3, 48, Dim.symbol("w", 320)) if kind == "rec" else sizes
    with pdl.no_grad():
        program = trace(net, Spec((Dim.symbol("n", 3), *sizes), float32), name=kind)
    for value, label in program.names().items():
        value.name = label
    arrays = {str(v.name): v.tensor._data for v in program.captures if v.tensor is not None}
    stored = {"kind": "program", "program": program.to_dict(), "inputs": ["x"], "outputs": [name]}
    data = bundle.pack(stored, arrays, pipeline={"pre": {"x": pre}, "post": {name: post}}, labels=labels)
    return pdl.runtime.load(data)

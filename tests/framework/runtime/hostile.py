"""Bundles of one op whose attributes or values would once lead a kernel out of its arrays, or never to an end.

    python -m tests.framework.runtime.hostile

loads and runs each in a child of this process and prints, as JSON, what came of it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from pdl.errors import DataError, PdlError
from pdl.runtime import bundle, load
from tests.fuzzing import say, try_all

HIGH, LOW = 2**63 - 1, -(2**31)
F = np.float32


class Hostile(NamedTuple):
    """A node as program.json has it, the arrays it reads, and whether they are weights or given at run time."""

    op: dict[str, Any]
    arrays: list[np.ndarray | None]
    outputs: list[tuple[list[int], str]]
    given: bool = False

    def packed(self) -> tuple[bytes, dict[str, np.ndarray]]:
        """The bundle, and what to run it with."""
        arrays = {f"x{i}": x for i, x in enumerate(self.arrays) if x is not None}
        order = list(arrays)
        values = [{"name": name, "shape": list(x.shape), "dtype": x.dtype.name} for name, x in arrays.items()]
        refs = [None if x is None else order.index(f"x{i}") for i, x in enumerate(self.arrays)]
        made = [[shape, dtype] for shape, dtype in self.outputs]
        program = {
            "name": "m", "sizes": {}, "inputs": values if self.given else [], "captures": [] if self.given else values,
            "nodes": [{**self.op, "in": refs, "out": made}], "effects": [],
            "outputs": [len(values) + i for i in range(len(made))],
        }  # fmt: skip
        names = {"inputs": order if self.given else [], "outputs": [f"y{i}" for i in range(len(made))]}
        data = bundle.pack({"kind": "program", "program": program, **names}, {} if self.given else arrays)
        return data, arrays if self.given else {}


def ones(*shape: int, dtype: Any = F) -> np.ndarray:
    return np.ones(shape, dtype)


def inner(op: str, out: str) -> dict[str, Any]:
    """A program of one op of x and x, int64."""
    scalar = {"name": "x", "shape": [], "dtype": "int64"}
    node = {"op": op, "in": [0, 0], "out": [[[], out]]}
    parts = {"name": op, "sizes": {}, "inputs": [scalar], "captures": [], "effects": [], "constants": {}}
    return {"program": {**parts, "nodes": [node], "outputs": [1]}}


def pool(kernel: Any, padding: Any, dilation: Any, stride: Any = (1, 1)) -> dict[str, Any]:
    how = {"kernel": kernel, "stride": list(stride), "padding": padding, "dilation": dilation}
    return {"op": "MaxPool", **how, "ceil_mode": False}


def pooled(*shape: int) -> list[tuple[list[int], str]]:
    return [(list(shape), "float32"), (list(shape), "int32")]


NORM = {"groups": 3, "eps": 1e-5, "activation": "relu"}
IMAGE, FILTER, CHANNELS = ones(2, 5, 4, 3), ones(3, 3, 1, 3), [ones(3)] * 4
STATS: list[tuple[list[int], str]] = [([3], "float32"), ([3], "float32")]
LOOP = {"op": "While", "test": inner("Equal", "bool"), "body": inner("Add", "int64"), "count": 1}
ONE: list[tuple[list[int], str]] = [([], "int64")]

BUNDLES: dict[str, Hostile] = {
    "segment_count": Hostile(
        {"op": "SegmentCount", "num_segments": 1000}, [np.array([0, HIGH, 5_000_000])], [([1000], "int64")]
    ),
    "embedding_bag": Hostile({"op": "BagNumbers", "length": 3}, [np.array([0, HIGH, -100])], [([3], "int64")]),
    "diagonal": Hostile({"op": "Diagonal", "offset": LOW}, [ones(3, 3)], [([0], "float32")]),
    "diag": Hostile({"op": "DiagEmbed", "offset": 7, "size": [3, 3]}, [ones(3)], [([3, 3], "float32")]),
    "norm_conv_of_few_pads": Hostile(
        {"op": "NormConv", **NORM, "stride": [1, 1], "padding": [[1, 1]], "statistics": False},
        [IMAGE, None, None, None, None, FILTER], [([2, 5, 4, 3], "float32")],
    ),
    "norm_conv_of_negative_stride": Hostile(
        {"op": "NormConv", **NORM, "stride": [1, -1], "padding": [[1, 1], [1, -1]], "statistics": True},
        [IMAGE, *CHANNELS, FILTER], [([2, 5, 0, 3], "float32"), *STATS],
    ),
    "norm_conv_of_stride_0": Hostile(
        {"op": "NormConv", **NORM, "stride": [1, 0], "padding": [[1, 1], [1, 1]], "statistics": True},
        [IMAGE, *CHANNELS, FILTER], [([2, 5, 4, 3], "float32"), *STATS],
    ),
    "norm_conv_of_kernel_0": Hostile(
        {"op": "NormConv", **NORM, "stride": [2, 2], "padding": [[1, 1], [1, 1]], "statistics": True},
        [IMAGE, *CHANNELS, ones(3, 0, 1, 3)], [([2, 3, 4, 3], "float32"), *STATS],
    ),
    "norm_conv_grad": Hostile(
        {"op": "NormConvGrad", **NORM, "stride": [2, 2], "padding": [[1, 1]], "kernel": [3, 3], "inner": True},
        [ones(2, 3, 2, 3), None, None, None, None, IMAGE, None, None, None, None, FILTER],
        [([2, 5, 4, 3], "float32"), ([3, 3, 1, 3], "float32")],
    ),
    "pool_that_stands": Hostile(
        pool([2, 2], [[0, 0], [0, 0]], [1, 0], (2, 2)), [ones(2, 4, 6, 1)], pooled(2, 2, 3, 1)
    ),
    "pool_of_long_stride": Hostile(
        pool([2, 2], [[0, 0], [0, 0]], [1, 1], (2**40, 2)), [ones(2, 4, 6, 1)], pooled(2, 1, 3, 1)
    ),
    "pool_backwards": Hostile(pool([1, 1], [[64, 0], [0, 0]], [-(2**30), 1]), [ones(1, 4, 4, 1)], pooled(1, 68, 4, 1)),
    "pool_far_backwards": Hostile(
        pool([1, 1], [[3_000_000, 0], [0, 0]], [-(2**30), 1]), [ones(1, 4, 4, 1)], pooled(1, 3_000_004, 4, 1), True
    ),
    "pool_of_one_axis": Hostile(pool([2], [[0, 0], [0, 0]], [1, 1]), [ones(1, 4, 4, 1)], pooled(1, 3, 3, 1)),
    "pool_grad_of_other_cells": Hostile(
        {"op": "AdaptiveAvgPoolGrad", "size": [2, 4000], "cells": [4, 8000]}, [ones(1, 4000, 2, 16)],
        [([1, 4, 8000, 16], "float32")],
    ),
    "pool_grad_of_other_axes": Hostile(
        {"op": "AdaptiveAvgPoolGrad", "size": [2, 20000], "cells": [2, 20000]}, [ones(1, 20000, 2, 1)],
        [([1, 2, 20000, 1], "float32")], True,
    ),
    "cross_entropy_of_no_classes": Hostile(
        {"op": "SoftCrossEntropyGrad", "smoothing": 0.1, "factor": 1.0},
        [ones(), ones(7, 0), ones(7), ones(7), ones(1, 19), None], [([7, 0], "float32")],
    ),
    "resize_grad": Hostile(
        {"op": "ResizeGrad", "axis": 1, "size": 2**31 - 1, "mode": "linear", "align_corners": False,
         "antialias": False, "length": 4}, [ones(1, 4, 1)], [([1, 4, 1], "float32")],
    ),
    "svd_of_infinity": Hostile(
        {"op": "SVD"}, [np.array([[1.28, 0.11, -0.13], [-np.inf, 2.22, 0.06], [-0.07, 0.19, 2.75]])],
        [([3, 3], "float64"), ([3], "float64"), ([3, 3], "float64")],
    ),
    "endless_loop": Hostile(LOOP, [np.array(1)], [*ONE, *ONE]),
    "endless_loop_of_input": Hostile(LOOP, [np.array(1)], [*ONE, *ONE], True),
    "long_loop": Hostile({**LOOP, "maximum": 2**40}, [np.array(1)], [*ONE, *ONE]),
    "loop_of_another_state": Hostile(LOOP, [np.ones(2, np.int64)], [([2], "int64"), *ONE]),
    "gradient_of_endless_loop": Hostile(
        {"op": "WhileGrad", "body": inner("Add", "int64"), "gradient": inner("Add", "int64"), "count": 1,
         "wanted": [False]}, [np.array(2**40), np.array(1)], ONE,
    ),
}  # fmt: skip


def outcome(number: int) -> str:
    """What came of the bundle of this number: its DataError, or what else."""
    data, given = list(BUNDLES.values())[number].packed()
    try:
        load(data).run(given)
    except DataError:
        return "DataError"
    except PdlError as error:
        return f"{type(error).__name__}: {error}"
    return "ran"


if __name__ == "__main__":
    say(json.dumps(try_all(0, len(BUNDLES), outcome)))

"""Small bundles for tests, made of layers and functions that cover most kinds of ops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import float32, int64
from pdl.onnx.graph import Graph, Node, Port
from pdl.ops.base import Spec
from pdl.program import Program, trace
from pdl.runtime import bundle
from pdl.vocabulary import Vocabulary

SHAPE = (8, 8, 3)


def conv_net(x: Any) -> Any:
    return _conv()(x)


@functools.cache
def _conv() -> nn.Module:
    pdl.random.seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 5),
    ).eval()  # fmt: skip


@functools.cache
def _sequence() -> nn.Module:
    pdl.random.seed(0)
    return nn.Sequential(
        nn.Linear(24, 16), nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=0.0), nn.LayerNorm(16)
    ).eval()


def sequence_net(x: Any) -> Any:
    y = _sequence()(x.reshape(x.shape[0], 8, 24))
    return pdl.softmax(pdl.concat([y[:, ::2], y[:, 1::2] * 2.0], axis=-1).mean(axis=1), axis=-1)


def pixels(x: Any) -> Any:
    y = pdl.resize(pdl.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), size=(6, 7), mode="bilinear")
    y = pdl.permute_dims(pdl.clip(y, -1.0, 1.0), (0, 3, 1, 2))
    at = pdl.argmax(y.reshape(y.shape[0], -1), axis=1)
    return pdl.take(y.reshape(y.shape[0], -1).sum(axis=0), at % 8)


NETS = {"conv": conv_net, "sequence": sequence_net, "pixels": pixels}


def program_of(name: str) -> Program:
    _conv(), _sequence()  # built outside of the trace
    with pdl.no_grad():
        program = trace(NETS[name], Spec((Dim.symbol("n", 3), *SHAPE), float32), name=name)
    for value, label in program.names().items():
        value.name = label
    return program


def parts_of(name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """program.json and the arrays."""
    program = program_of(name)
    arrays = {v.name: v.tensor._data for v in program.captures if v.tensor is not None}
    return {"kind": "program", "program": program.to_dict(), "inputs": ["image"], "outputs": ["y"]}, arrays  # type: ignore


@functools.cache
def good(name: str = "conv") -> bytes:
    """A bundle without fault."""
    program, arrays = parts_of(name)
    labels = ["ant", "bee", "cow", "dog", "elk"]
    return bundle.pack(program, arrays, labels=labels, card="# Test\n", config="a: 1\n", metrics={"test/accuracy": 0.5})


def graph_parts() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """program.json and the arrays of an imported graph with a branch and a loop, which no one program can hold."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "head": rng.standard_normal((4, 5)).astype(np.float32),
        "turns": np.array(3),
        "go": np.array(True),
        "edge": np.array(7),
        "axis": np.array(1),
        "half": np.array([0.5], np.float32),
    }
    body = Graph(
        "body",
        [Port("i", "int64", ()), Port("c", "bool", ()), Port("z", "float32", None)],
        [Port("c2"), Port("z2")],
        [Node("Identity", ["c"], ["c2"], opset=17), Node("Mul", ["z", "half"], ["z2"], opset=17)],
    )
    yes = Graph("yes", [], [Port("a")], [Node("Relu", ["pooled"], ["a"], opset=17)])
    no = Graph("no", [], [Port("b")], [Node("Tanh", ["pooled"], ["b"], opset=17)])
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        Node("Transpose", ["image"], ["nchw"], {"perm": [0, 3, 1, 2]}, opset=17),
        Node("Conv", ["nchw", "w"], ["conv"], pads, opset=17),
        Node("GlobalAveragePool", ["conv"], ["mean"], opset=17),
        Node("Flatten", ["mean"], ["pooled"], {"axis": 1}, opset=17),
        Node("Shape", ["image"], ["shape"], opset=17),
        Node("Gather", ["shape", "axis"], ["height"], opset=17),
        Node("Greater", ["height", "edge"], ["tall"], opset=17),
        Node("If", ["tall"], ["chosen"], {"then_branch": yes, "else_branch": no}, opset=17),
        Node("Loop", ["turns", "go", "chosen"], ["looped"], {"body": body}, opset=17),
        Node("MatMul", ["looped", "head"], ["y"], opset=17),
    ]
    shape = ("n", 8, 8, 3)
    graph = Graph("graph", [Port("image", "float32", shape)], [Port("y", "float32", ("n", 5))], nodes, arrays)
    stored, kept = graph.to_dict()
    return {"kind": "onnx", "graph": stored}, kept


@functools.cache
def whole(name: str) -> bytes:
    """A bundle with a pipeline; "graph" is one of an imported graph."""
    program, arrays = graph_parts() if name == "graph" else parts_of(name)
    pre = [
        {"step": "image", "mode": "rgb"},
        {"step": "resize_short", "size": 9},
        {"step": "crop", "size": [8, 8], "fill": [0]},
        {"step": "normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2]},
    ]
    post = [] if name == "pixels" else [{"step": "softmax"}, {"step": "top", "k": 3}]
    steps = {"pre": {"image": pre}, "post": {"y": post}}
    return bundle.pack(program, arrays, pipeline=steps, labels=["ant", "bee", "cow", "dog", "elk"])


ITEMS = Vocabulary(["apple", "bread", 'cheese, "old"', "dates", "eggs", "figs"])


@functools.cache
def _item_table() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((len(ITEMS) + 1, 4)).astype(np.float32)


def next_item(items: Any) -> Any:
    """Scores [N, items + 1]: products of every item's vector with the mean of the row's."""
    table = pdl.as_tensor(_item_table())
    there = pdl.astype(items > 0, float32)[:, :, None]
    mean = (pdl.take(table, items, axis=0) * there).sum(axis=1) / there.sum(axis=1)
    return pdl.matmul(mean, table.T)


ROW = {"step": "fields", "part": "ids", "fields": {
    "items": {"column": "items", "kind": "names", "vocabulary": "items", "length": 5, "separator": ","},
}}  # fmt: skip
"""A row with a column of names of `ITEMS` becomes their numbers, int64 [5]."""


@functools.cache
def rows(k: int = 3) -> bytes:
    """A bundle that takes rows of `ITEMS` and ranks them."""
    return ranking(ROW, {"step": "top_names", "vocabulary": "items", "k": k})


def ranking(pre: dict[str, Any], post: dict[str, Any]) -> bytes:
    """A bundle that ranks `ITEMS`, for inputs that a step reads."""
    with pdl.no_grad():
        program = trace(next_item, Spec((Dim.symbol("n", 3), Dim.symbol("t", 4)), int64), name="next")
    for value, label in program.names().items():
        value.name = label
    arrays = {str(v.name): v.tensor._data for v in program.captures if v.tensor is not None}
    stored = {"kind": "program", "program": program.to_dict(), "inputs": ["items"], "outputs": ["scores"]}
    steps = {"pre": {"items": [pre]}, "post": {"scores": [post]}}
    return bundle.pack(stored, arrays, pipeline=steps, vocabularies={"items": ITEMS})

"""Small bundles for tests, made of layers and functions that cover most kinds of ops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.ops.base import Spec
from pdl.program import Program, trace
from pdl.runtime import bundle

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


@functools.cache
def whole(name: str) -> bytes:
    """A bundle with a pipeline."""
    program, arrays = parts_of(name)
    pre = [
        {"step": "mode", "mode": "rgb"},
        {"step": "resize_short", "size": 9},
        {"step": "crop", "size": [8, 8], "fill": [0]},
        {"step": "normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2]},
    ]
    post = [] if name == "pixels" else [{"step": "softmax"}, {"step": "top", "k": 3}]
    steps = {"pre": {"image": pre}, "post": {"y": post}}
    return bundle.pack(program, arrays, pipeline=steps, labels=["ant", "bee", "cow", "dog", "elk"])

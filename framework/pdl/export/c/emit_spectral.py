"""Spectra of signals."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from pdl.export.c.emit_layers import require_float, shape_of
from pdl.export.c.registry import emits
from pdl.export.c.source import Source, number
from pdl.ops.spectral import MelSpectrogram, PadMode, Spectrogram
from pdl.program.ir import Node


@emits(Spectrogram, MelSpectrogram)
def spectrum(c: Source, node: Node) -> None:
    """Frame by frame, with tables of cosines and sines."""
    require_float(node)
    op: Any = node.op
    x, window, *more = node.inputs
    shape, y = shape_of(x), shape_of(node.outputs[0])
    size = shape_of(window)[0]
    angles = 2 * np.pi / op.n_fft * np.arange(op.n_fft)
    turns = c.array(np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32))
    bank = first = last = "0"
    if more:
        table = c.constant(more[0], "filter bank")
        used = table != 0
        begin = np.where(used.any(0), used.argmax(0), 0).astype(np.int32)
        end = np.where(used.any(0), len(table) - used[::-1].argmax(0), 0).astype(np.int32)
        bank, first, last = c.array(table), c.array(begin, "int"), c.array(end, "int")
    frames = c.struct(
        "Frames", samples=shape[-1], frames=y[-2], size=size, points=op.n_fft, hop=op.hop, before=op.padding[0],
        mode=get_args(PadMode).index(op.mode), remove_mean=int(op.remove_dc), bands=y[-1], power=op.power,
        preemphasis=number(op.preemphasis), floor=number(getattr(op, "floor", 0.0)),
        scale=number(getattr(op, "scale", 1.0)),
    )  # fmt: skip
    room = f"(float *){c.scratch(16 * op.n_fft)}"
    signals = math.prod(shape[:-1])
    c.call("spectrum", c.at(node.outputs[0]), room, c.at(x), c.at(window), turns, bank, first, last, signals, frames)

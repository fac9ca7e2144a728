"""Shape ops against NumPy."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, Draws

draw = Draws(25)
f, c, i = draw.f, draw.c, draw.i


def split(x, sections, axis):
    return tuple(np.split(x, np.cumsum(sections)[:-1], axis))


def chunk(x, chunks, axis):
    return tuple(np.array_split(x, chunks, axis))


def unstack(x, axis):
    return tuple(np.moveaxis(x, axis, 0))


def flatten(x, start, end):
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def pad(x, widths, mode="constant", value=0.0):
    return np.pad(x, widths, mode, **({"constant_values": value} if mode == "constant" else {}))


def joined(*xs):
    return pdl.concat(list(xs), axis=1)


PADDED = ("reflect", "symmetric", "edge", "wrap")
CASES = [
    Case(pdl.identity, [f(2, 3)], lambda x: x),
    Case(pdl.clone, [f(2, 3)], lambda x: x),
    Case(pdl.reshape, [f(2, 3, 4)], np.reshape, {"shape": (4, 6)}),
    Case(pdl.reshape, [f(2, 3, 4)], np.reshape, {"shape": (-1, 2)}),
    Case(pdl.flatten, [f(2, 3, 4, 2)], flatten, {"start": 1, "end": 2}),
    Case(pdl.permute_dims, [f(2, 3, 4)], np.transpose, {"axes": (2, 0, 1)}),
    Case(pdl.permute_dims, [c(2, 3)], np.transpose, {"axes": (-1, 0)}),
    Case(pdl.matrix_transpose, [f(2, 3, 4)], np.matrix_transpose),
    Case(pdl.swapaxes, [f(2, 3, 4)], np.swapaxes, {"axis1": 0, "axis2": -1}),
    Case(pdl.moveaxis, [f(2, 3, 4)], np.moveaxis, {"source": (0, 1), "destination": (-1, 0)}),
    Case(pdl.expand_dims, [f(2, 3)], np.expand_dims, {"axis": -1}),
    Case(pdl.expand_dims, [f(2, 3)], np.expand_dims, {"axis": 1}),
    Case(pdl.squeeze, [f(2, 1, 3, 1)], np.squeeze, {"axis": 1}),
    Case(pdl.squeeze, [f(2, 1, 3, 1)], np.squeeze),
    Case(pdl.broadcast_to, [f(3, 1)], np.broadcast_to, {"shape": (2, 3, 4)}),
    Case(pdl.broadcast_arrays, [f(3, 1), f(4)], np.broadcast_arrays),
    Case(pdl.concat, [f(2, 3), f(2, 1), f(2, 2)], np.concatenate, {"axis": 1}, inputs_as_list=True),
    Case(pdl.concat, [f(2, 3), f(4)], np.concatenate, {"axis": None}, inputs_as_list=True),
    Case(joined, [f(2, 3, 2), f(2, 2, 2)], lambda *xs: np.concatenate(xs, 1)),
    Case(pdl.stack, [f(2, 3), f(2, 3)], np.stack, {"axis": 0}, inputs_as_list=True),
    Case(pdl.stack, [f(2, 3), f(2, 3)], np.stack, {"axis": -1}, inputs_as_list=True),
    Case(pdl.stack, [f(), f()], np.stack, {"axis": 0}, inputs_as_list=True),
    Case(pdl.split, [f(2, 6)], split, {"sections": (1, 3, 2), "axis": 1}),
    Case(pdl.split, [f(6, 2)], lambda x, sections, axis: (x[:4], x[4:]), {"sections": 4, "axis": 0}),
    Case(pdl.chunk, [f(2, 6)], chunk, {"chunks": 3, "axis": -1}),
    Case(pdl.unstack, [f(2, 3)], unstack, {"axis": 1}),
    Case(pdl.flip, [f(2, 3)], np.flip, {"axis": 1}),
    Case(pdl.flip, [f(2, 3)], np.flip),
    Case(pdl.roll, [f(2, 5)], np.roll, {"shift": 2, "axis": 1}),
    Case(pdl.roll, [f(3, 5)], np.roll, {"shift": (-1, 7), "axis": (0, 1)}),
    Case(pdl.roll, [f(2, 5)], np.roll, {"shift": 3}),
    Case(pdl.tile, [f(2, 3)], lambda x, repetitions: np.tile(x, repetitions), {"repetitions": (3, 2)}),
    Case(pdl.tile, [f(2, 3)], lambda x, repetitions: np.tile(x, repetitions), {"repetitions": 2}),
    Case(pdl.tile, [f(3)], lambda x, repetitions: np.tile(x, repetitions), {"repetitions": (2, 1)}),
    Case(pdl.repeat, [f(2, 3)], np.repeat, {"repeats": 2, "axis": 1}),
    Case(pdl.repeat, [i(2, 3)], np.repeat, {"repeats": 2}),
    Case(pdl.pad, [f(2, 3)], pad, {"widths": ((1, 2), (0, 1)), "value": 0.5}),
    Case(pdl.pad, [f(2, 3)], pad, {"widths": 1}),
    *[Case(pdl.pad, [f(3, 4)], pad, {"widths": ((1, 2), (0, 3)), "mode": mode}) for mode in PADDED],
]

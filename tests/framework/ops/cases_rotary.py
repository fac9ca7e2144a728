"""Rotary position embeddings against complex numbers: a pair turns as its number times e^(i angle)."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, Draws

f = Draws(30).f


def rotary(x, positions=None, heads=1, size=None, base=10000.0):
    size = x.shape[-1] // heads if size is None else size
    half = size // 2
    p = np.arange(x.shape[-2]) if positions is None else positions
    turn = np.exp(1j * p[..., None] * base ** (-np.arange(half) / half))[..., None, :]
    h = x[..., : heads * size].reshape(*x.shape[:-1], heads, size)
    z = (h[..., :half] + 1j * h[..., half:]) * turn
    flat = np.concatenate([z.real, z.imag], axis=-1).reshape(*x.shape[:-1], heads * size)
    return np.concatenate([flat, x[..., heads * size :]], axis=-1)


POSITIONS = np.array([[7, 8, 9], [0, 1, 2]])
CASES = [
    Case(pdl.rotary, [f(2, 3, 8)], rotary, {"heads": 2}),
    Case(pdl.rotary, [f(5, 6)], rotary),
    Case(pdl.rotary, [f(2, 3, 18)], rotary, {"heads": 2, "size": 6, "base": 100.0}),
    Case(pdl.rotary, [f(2, 3, 40)], rotary, {"heads": 1, "size": 34}),
    Case(pdl.rotary, [f(2, 3, 8), POSITIONS], rotary, {"heads": 2}),
    Case(pdl.rotary, [f(2, 2, 3, 4), np.array([4, 0, 1])], rotary),
]

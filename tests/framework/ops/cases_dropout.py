"""Dropout against NumPy: the mask follows from seed, row and column."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws

draw = Draws(9)
f, distinct = draw.f, draw.distinct
SEED = 0x1234_5678_9ABC_DEF


def factors(shape, p, seed):
    """The factors that every element of [..., columns] is multiplied by."""
    columns = shape[-1] if shape else 1
    rows = int(np.prod(shape)) // columns
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        a, b = (z & np.uint64(0xFFFFFFFF)).astype(np.uint32)[:, None], (z >> np.uint64(32)).astype(np.uint32)[:, None]
        x = np.arange(columns, dtype=np.uint32) * np.uint32(0x9E3779B9) + a
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
        x = ((x ^ (x >> np.uint32(15))) + b) * np.uint32(0x846CA68B)
        x ^= x >> np.uint32(16)
    return ((x >= np.uint32(p * 2**32)) / (1 - p)).reshape(shape)


def first_seed(value):
    """What `pdl.draw_seed` gives first after ``pdl.seed(value)``."""
    return int(np.random.Philox(value).random_raw()) >> 1


def seeded(x, p):
    return pdl.dropout(x, p=p, seed=pdl.tensor(np.int64(SEED)))


def generated(x):
    pdl.seed(3)
    return pdl.dropout(x, p=0.4)


def generated_reference(x):
    return x * factors(x.shape, 0.4, first_seed(3))


def given(x, mask):
    return pdl.dropout(x, mask=mask)


def by_channel(x):
    pdl.seed(3)
    return x * pdl.dropout_mask((x.shape[0], 1, x.shape[-1]), rate=0.4, dtype=x.dtype)


def by_channel_reference(x):
    seed = int(np.random.Philox(3).random_raw()) >> 1
    return x * factors((x.shape[0], 1, x.shape[-1]), 0.4, seed)


def noisy(x):
    pdl.seed(3)
    return x * pdl.noise(x.shape)


def noisy_reference(x):
    return x * np.random.Generator(np.random.Philox(3)).standard_normal(x.shape, np.float32)


def activated(x, activation, p):
    pdl.seed(6)
    return pdl.activated_dropout(x, activation, p=p)


def activated_reference(x, activation, p):
    y = {
        "relu": lambda v: np.maximum(v, 0),
        "gelu": lambda v: v * special.ndtr(v),
        "gelu_tanh": lambda v: v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))) / 2,
        "silu": lambda v: v * special.expit(v),
    }[activation](x)
    seed = first_seed(6)
    return y * factors(x.shape, p, seed) if p else y


MASK = (f(4, 6) > 0) * 2.0
CASES = [
    Case(seeded, [f(4, 6)], lambda x, p: x * factors(x.shape, p, SEED), {"p": 0.3}),
    Case(seeded, [f(3, 2, 37)], lambda x, p: x * factors(x.shape, p, SEED), {"p": 0.75}),
    Case(seeded, [f(600, 130)], lambda x, p: x * factors(x.shape, p, SEED), {"p": 0.5}, grad=[]),  # several threads
    Case(seeded, [f()], lambda x, p: x * factors(x.shape, p, SEED), {"p": 0.1}),
    Case(generated, [f(4, 6)], generated_reference),
    Case(by_channel, [f(2, 3, 4)], by_channel_reference),
    Case(noisy, [f(4, 6)], noisy_reference),
    Case(activated, [distinct(4, 6)], activated_reference, {"activation": "relu", "p": 0.3}),
    Case(activated, [f(3, 35)], activated_reference, {"activation": "gelu", "p": 0.3}),
    Case(activated, [f(4, 6)], activated_reference, {"activation": "gelu_tanh", "p": 0.3}),
    Case(activated, [f(4, 6)], activated_reference, {"activation": "silu", "p": 0.3}),
    Case(activated, [f(4, 6)], activated_reference, {"activation": "gelu", "p": 0.0}),
    Case(given, [f(4, 6), MASK], lambda x, mask: x * mask, grad=[0]),
]

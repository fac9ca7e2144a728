"""Measuring a machine in a fifth of a second, by the kernels that its figures are for.

What one core does is its own time (`time.thread_time`), which other processes disturb little; what several do together
is the clock's. Of several runs the fastest counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pdl import threads
from pdl.dtype import Array, DType, bfloat16, float32, int8, uint8
from pdl.kernels import int8 as bytes_
from pdl.kernels import packed, runtime
from pdl.kernels.copies import copy
from pdl.kernels.launch import Tape
from pdl.kernels.memory import empty
from pdl.machine.figures import BUILT_IN, LEVELS, MOST_SHARED, Machine, tile_rows

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_ONE, _NONE = (1, 1, 1), (0, 0, 0)
#: rows, depth and columns of the product that shows what a core can do: operands in the first two caches
_SHAPE = (84, 256, 64)
#: bytes of the arrays that hand-overs are timed with: each thread copies what is worth one to it, and no more
_SHARE = 1 << 15
#: bytes that are read at once
PIECE = 4 << 20
#: rounds at most; one that is not better than those before by so much is the last
ROUNDS, STEADY = 6, 1.05


def measure() -> Machine:
    """The figures of this machine, with as many threads as this thread may use."""
    known = BUILT_IN[runtime.isa()]
    sizes = {**known.sizes, **cache_sizes()}
    count = threads.get_num_threads()
    far = filled((2 * min(sizes["L3"], MOST_SHARED),), uint8, 1)
    best = _round(far, sizes, count)
    for _ in range(ROUNDS - 1):
        before, again = best, _round(far, sizes, count)
        best = {name: max(rate, before[name]) for name, rate in again.items()}
        if all(best[name] < STEADY * rate for name, rate in before.items()):
            break
    rates = {name: best[name] for name in known.rates}
    rows = tile_rows(known.lanes, rates["bfloat16"] > rates["float32"])
    together = max(best["together"], best["memory"])
    hand_over = _hand_over(count, known)
    return Machine(rates, {level: best[level] for level in LEVELS}, together, sizes, hand_over, known.lanes, rows)


def _round(far: Array, sizes: dict[str, int], count: int) -> dict[str, float]:
    """Every rate once. Rounds are apart in time: what disturbs one may be gone in the next."""
    with threads.limit(1):
        found = {"float32": _rate(float32), "bfloat16": _rate(bfloat16), "int8": _byte_rate(), "blocks": _block_rate()}
        found |= {level: _copying(sizes[level] // 4) for level in ("L1", "L2")}
        found |= {"L3": _reading(far[: max(2 * sizes["L2"], sizes["L3"] // 8)]), "memory": _reading(far)}
    return found | {"together": _reading(far, count) if count > 1 else found["memory"]}


def cache_sizes() -> dict[str, int]:
    """Bytes of the caches that hold data, as the system knows them."""
    found = {}
    for folder in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction" and level in "123" and size.endswith("K") and int(size[:-1]) > 0:
                found[f"L{level}"] = int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return found


def filled(shape: tuple[int, ...], dtype: DType, value: float) -> Array:
    """An array of pages of its own: those never written to are all one page of zeros."""
    made = empty(shape, dtype)
    made[...] = value
    return made


def fastest(
    call: Callable[[], object], arrays: list[Array], repeat: int = 1, rounds: int = 7, alone: bool = True
) -> float:
    """Seconds of a kernel call, made so many times on end without Python between. `alone`: of this thread, not of the
    clock."""
    clock, tape, best = time.thread_time if alone else time.perf_counter, Tape(), float("inf")
    places = [tape.record(call, arrays) for _ in range(repeat)]
    for _ in range(rounds):
        begin = clock()
        tape.run(places[0][0], places[-1][1])
        best = min(best, clock() - begin)
    return best / repeat


def _product(weights: Array, m: int, k: int, n: int) -> tuple[Callable[[], object], list[Array]]:
    """[m, k] by packed weights of [k, n], and its arrays."""
    x, y = filled((m, *_ONE, k), weights.dtype, 1), filled((m, *_ONE, n), weights.dtype, 0)
    kernel = (*_ONE, k, n)
    return partial(packed.forward, "rows", y, x, weights, kernel, None, _ONE, _NONE, _ONE), [y, x, weights]


def _rate(dtype: DType) -> float:
    m, k, n = _SHAPE
    weights = filled((packed.size("rows", (*_ONE, k, n), dtype),), dtype, 0.01)
    return m * k * n / fastest(*_product(weights, m, k, n), repeat=10)


def _byte_rate() -> float:
    m, k, n = _SHAPE
    x, y = filled((m, *_ONE, k), uint8, 1), filled((m, *_ONE, n), uint8, 0)
    weights = empty((bytes_.packed_bytes(_ONE, k, n, _ONE, 1),), int8)
    ones = np.ones(n, np.float32)
    bytes_.pack(weights, np.ones((*_ONE, k, n), np.int8), None, ones, 0, _ONE, 1)
    window: tuple[Any, ...] = (_ONE, _ONE, _NONE, _ONE, 1, 0, 0, 0.0, 255.0)
    return m * k * n / fastest(partial(bytes_.convolution, y, x, weights, *window), [y, x, weights], repeat=10)


def _block_rate() -> float:
    """Of weights of which every fourth row of each panel is kept."""
    m, k, n = _SHAPE
    x, y = filled((m, *_ONE, k), float32, 1), filled((m, *_ONE, n), float32, 0)
    w = np.zeros((*_ONE, k, n), np.float32)
    w[..., ::4, :] = 0.01
    kept = k // 4 * (n // packed.WIDE)
    weights = filled((packed.size("blocks", w.shape, float32, kept),), float32, 0)
    packed.pack("blocks", weights, w)
    call = partial(packed.forward, "blocks", y, x, weights, w.shape, None, _ONE, _NONE, _ONE, kept=kept)
    return m * k * n / 4 / fastest(call, [y, x, weights], repeat=10)


def _copying(nbytes: int) -> float:
    a, b = filled((nbytes,), uint8, 0), filled((nbytes,), uint8, 1)
    return 2 * nbytes / fastest(partial(copy, a, b), [a, b], repeat=max(2, (1 << 20) // nbytes))


def _reading(block: Array, count: int = 1) -> float:
    """Weights that one row is multiplied by: all is reading. Where there are many, piece after piece, of which no
    extreme counts: caches may have kept some of them since they were read last. Several threads are disturbed sooner.
    """
    n = 128 * count
    k = min(block.size, PIECE) // (4 * n)
    found = []
    with threads.limit(count):
        for begin in range(0, block.size - 4 * k * n + 1, 4 * k * n):
            call, arrays = _product(block[begin : begin + 4 * k * n].view(np.float32), 1, k, n)
            rounds = 3 if block.size < 2 * PIECE else 1
            found.append(4 * k * n / fastest(call, arrays, rounds=rounds, alone=count == 1))
    return float(np.percentile(found, 50 if count == 1 else 75))


def _hand_over(count: int, known: Machine) -> float:
    """What a kernel on all threads takes longer than a thread takes for its part of the work."""
    if count == 1:
        return known.hand_over
    seconds = []
    for parts in (1, count):
        a, b = filled((parts * _SHARE,), uint8, 0), filled((parts * _SHARE,), uint8, 1)
        with threads.limit(parts):
            seconds.append(fastest(partial(copy, a, b), [a, b], repeat=20, alone=False))
    return min(max(seconds[1] - seconds[0], 1e-7), 20 * known.hand_over)

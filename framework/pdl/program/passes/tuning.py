"""Times of products in their forms, measured once on this machine and kept in its folder of the cache.

A time belongs to the shapes of a product, its dtype, the number of threads and the size of the net, which decides where
weights come from; so a net whose products others of its size had is tuned when it is loaded. The file is readable JSON
of numbers, and whatever else it holds is not used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from pdl import watch
from pdl.dtype import Array, uint8
from pdl.kernels.copies import copy
from pdl.kernels.launch import Tape
from pdl.kernels.packed import WIDE
from pdl.limits import check_time
from pdl.machine import Machine
from pdl.machine.figures import is_figure
from pdl.machine.measure import filled
from pdl.machine.stored import TIMES, keep, kept
from pdl.ops.conv import Conv
from pdl.ops.packed import PackedConv, pack_into, packed_size
from pdl.program.executor import bound
from pdl.program.passes.costs import PLAIN, Product, estimates, forms

#: seconds after which no other product of a plan is timed: what is left goes by estimates, until the next time
BUDGET = 8.0
#: runs of each form, in turns; the fastest counts
ROUNDS = 6
#: forms that are estimated to take this much longer than the best are not tried
HOPELESS = 3.0

#: bytes of weights that nets are told apart by, as powers of two: from 64 KiB to 128 MiB
LEAST, MOST = 16, 27
#: bytes of other weights that are read at once
PIECE = 1 << 18

Times = dict[str, dict[str, float]]
_found: Times = {}  # by this process


def timed(products: Iterable[Product], threads: int, held: int) -> dict[Product, dict[str, float]]:
    """Seconds of the forms of each product that were timed here, in a net that holds so many bytes of weights; {} for
    one that was not."""
    known = _known()
    found = {product: known.get(_name(product, threads, held), {}) if known else {} for product in products}
    return {product: {f: times[f] for f in forms(product) if f in times} for product, times in found.items()}


def time_products(products: Iterable[Product], figures: Machine, threads: int, held: int) -> None:
    """Time those products that were not timed yet, the slowest first, and keep what was found."""
    known = _known()
    guesses = {product: estimates(product, figures, threads, held) for product in products}
    new = [product for product in guesses if _name(product, threads, held) not in known]
    new.sort(key=lambda product: -min(guesses[product].values()))
    weights = filled((_rounded(held) if new else 0,), uint8, 1)
    until = time.monotonic() + BUDGET
    for done, product in enumerate(new):
        if time.monotonic() > until:
            break
        check_time()
        watch.steps("timing products", done, len(new))
        hopeless = HOPELESS * min(guesses[product].values())
        tried = [form for form, seconds in guesses[product].items() if seconds <= hopeless]
        _found[_name(product, threads, held)] = race(product, tried, weights)
    if new:
        watch.steps("timing products", len(new), len(new))
        keep(TIMES, {"times": dict(sorted(_known().items()))})


def race(product: Product, tried: Iterable[str], weights: Array) -> dict[str, float]:
    """Seconds of a product in each form: its kernel alone, on fresh input, after the weights of other products have
    been read, which drives from the caches what a net does there between two runs."""
    x, y = filled(product.x, product.dtype, 1), filled(product.y, product.dtype, 0)
    fresh, near = filled(product.x, product.dtype, 1), filled((min(PIECE, weights.size),), uint8, 0)
    window = product.stride, product.padding, product.dilation, 1
    tapes = {}
    for form in tried:
        if form == PLAIN:
            op: Any = Conv(*window)
            ins: tuple[Any, ...] = (x, filled(product.w, product.dtype, 0.01), None)
        else:
            kept = product.kept if form == "blocks" else 0
            op = PackedConv(*window, product.w, form, kept=kept)
            made = filled((packed_size(form, product.w, product.dtype, kept),), product.dtype, 0.01)
            if kept:
                pack_into(form, made, spread(product.w, kept))
            ins = (x, made, None, None)
        tape = Tape()
        tapes[form] = tape, tape.record(bound(op, (y,), ins), (y, *(each for each in ins if each is not None)))
    found = dict.fromkeys(tapes, float("inf"))
    for _ in range(ROUNDS):
        for form, (tape, (first, last)) in tapes.items():
            for at in range(0, weights.size, near.size):
                copy(near, weights[at : at + near.size])
            copy(x, fresh)
            begin = time.perf_counter()
            tape.run(first, last)
            found[form] = min(found[form], time.perf_counter() - begin)
    return found


def spread(shape: tuple[int, ...], kept: int) -> Array:
    """Weights [*kernel, C, O] of a shape in which so many blocks, evenly spread, are not zeros."""
    made = np.zeros(shape, np.float32)
    rows = made.reshape(-1, shape[-1])
    panels = -(-shape[-1] // WIDE)
    for block in np.arange(kept) * (len(rows) * panels) // kept:
        panel, row = divmod(int(block), len(rows))
        rows[row, panel * WIDE : (panel + 1) * WIDE] = 0.01
    return made


def _rounded(held: int) -> int:
    """Bytes of weights as a power of two."""
    return 1 << max(LEAST, min(round(math.log2(max(1, held))), MOST))


def _name(product: Product, threads: int, held: int) -> str:
    return f"{product}; {threads} threads; {_rounded(held) >> 10} KiB of weights"


def _known() -> Times:
    """All times of this machine: those of the file, and those of this process."""
    return {**(kept(TIMES, _times) or {}), **_found}


def _times(content: Any) -> Times:
    """What a file holds; ValueError where that is no times."""
    times = content.get("times")
    if not isinstance(times, dict):
        raise ValueError("it holds no times")
    for name, found in times.items():
        if not isinstance(found, dict) or not found or not all(map(is_figure, found.values())):
            raise ValueError(f"{name!r} has no times")
    return times

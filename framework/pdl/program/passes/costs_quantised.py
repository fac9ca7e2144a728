"""What a convolution of bytes takes in each of its forms, in seconds, from the figures of a machine.

As `costs`, for kernels/src/int8_product.h and int8_winograd.h. Where the CPU multiplies bytes (VNNI), direct summation
runs at twice the rate of Winograd's 16-bit products, and their transforms cost the rest: it is the only form there.
"""

from __future__ import annotations

import math

from pdl.kernels import int8 as kernels
from pdl.machine import Machine
from pdl.program.passes.costs import WORTH, Product, beside

#: cycles of Winograd's transforms for a register of numbers, to points and from them
TRANSFORM = {4: 5.5, 2: 4.0}
#: bytes of a weight of Winograd's points
POINT = 2


def byte_forms(product: Product) -> tuple[str, ...]:
    """The forms that may serve a convolution of one group, the first if all take as long."""
    whole = product.w[-2] % 16 == product.w[-1] % 16 == 0
    if kernels.unit() == 2 and product.transformable and len(product.x) == 4 and whole:
        return "rows", "winograd4", "winograd2"
    return ("rows",)


def byte_estimates(product: Product, machine: Machine, threads: int, held: int = 0) -> dict[str, float]:
    """Seconds of each form on so many threads, in a net that holds so many bytes of weights."""
    threads = max(1, min(threads, product.multiply_adds // WORTH))
    weights = math.prod(product.w)
    others = max(0, held - weights)

    def seconds(form: str) -> float:
        if form == "rows":
            return _taken(product.multiply_adds, 0.0, weights)
        m = int(form[-1])
        tiles, points = product.y[0] * math.prod(-(-size // m) for size in product.y[1:-1]), (m + 2) ** 2
        numbers = tiles * points * (product.w[-2] + product.w[-1])
        transforms = numbers * TRANSFORM[m] * machine.cycle / machine.lanes
        channels = math.prod(product.w[-2:])
        return _taken(tiles * points * channels, transforms, points * channels * POINT)

    def _taken(multiply_adds: int, transforms: float, nbytes: int) -> float:
        busy = (multiply_adds / machine.rates["int8"] + transforms) / threads
        fetched = nbytes / threads / machine.reading(others + nbytes, threads)
        return beside(busy, fetched) + (machine.hand_over if threads > 1 else 0.0)

    return {form: seconds(form) for form in byte_forms(product)}

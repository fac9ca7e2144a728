"""What a product with constant weights takes in each of its forms, in seconds, from the figures of a machine.

Counted are the tiles that the kernels sum (kernels/src/packed.h, winograd.h, conv.h), weights on their way from where a
net of this size keeps them, the copies of windows, Winograd's transforms, and hand-overs to other threads. Additions
and loads of a tile overlap. Fetching weights begins anew with every product; Winograd's many small ones hide part of
it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pdl.dtype import DType, bfloat16, float32, float64
from pdl.kernels.packed import WIDE
from pdl.machine import Machine
from pdl.ops.packed import filters

#: weights as they are, which the kernel packs or transforms at every call
PLAIN = "plain"
#: rows of a tile below which its additions wait for each other
LATENCY = 4
#: cycles that a tile takes beside its sums: the call, its results
TILE = 45
#: cycles that the copy of a run of neighbouring numbers takes beside the bytes
RUN = 30
#: cycles of Winograd's transforms for a register of numbers, beside the bytes: 36 points leave the registers
TRANSFORM = {4: 2.5, 2: 1.0}
#: cycles in which "taps" adds one product of a tap to its output
TAP = 1.5
#: output channels up to which "taps" is thought of
FEW = 8
#: cycles that a call with plain weights takes before it begins
BEGINNING = 8000
#: bytes that packing, or transforming, moves for each byte that it makes: reads, writes across lines
PACKING = 3
#: numbers of a window that one pass sums (kBlock of kernels/src/packed.h); all of them where they are bfloat16
BLOCK = 256
#: bytes of windows that are gathered once for threads that divide the columns (kSharedBytes there)
SHARED = 4 << 20
#: multiply-adds below which one more thread does not pay (kParallelWork of kernels/src/gemm.h)
WORTH = 1 << 16
#: bytes of Winograd's weights with which every thread takes tiles through all stages: always, and with enough tiles
NEAR, NEAR_ENOUGH = 640 << 10, 2560 << 10


class Product(NamedTuple):
    """A convolution of one group (or a linear layer, one of single pixels) whose weights are constants: all that its
    time depends on. x [N, *spatial, C], w [*kernel, C, O], y [N, *spatial, O]. `kept`: how many blocks of its weights
    are not zeros, where most are; 0 elsewhere."""

    dtype: DType
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    kept: int = 0

    def __str__(self) -> str:
        sizes = "{} {} * {}".format(self.dtype.name, *("x".join(map(str, shape)) for shape in (self.x, self.w)))
        more = "".join(f", {name} {'x'.join(map(str, given))}" for name, given in
                       (("stride", self.stride), ("dilation", self.dilation)) if set(given) - {1})  # fmt: skip
        pads = ", ".join(f"{a}+{b}" for a, b in self.padding) if any(map(any, self.padding)) else ""
        kept = f", {self.kept} blocks" if self.kept else ""
        return f"{sizes}{more}{pads and f', padding {pads}'}{kept}"

    @property
    def pointwise(self) -> bool:
        """Whether rows of the product are pixels as they lie."""
        return math.prod(self.w[:-2]) == 1 and not set(self.stride) - {1} and not any(map(any, self.padding))

    @property
    def transformable(self) -> bool:
        """Whether Winograd's forms serve: 3x3 taps."""
        known = filters(self.stride, self.padding, self.dilation)
        return self.dtype != float64 and self.w[:-2] == (3, 3) and known

    @property
    def multiply_adds(self) -> int:
        """Of direct summation."""
        return math.prod(self.y[:-1]) * math.prod(self.w)


def forms(product: Product) -> tuple[str, ...]:
    """The forms that may serve a product, the first if all take as long. Plain weights are left out where a packed
    form does the same without packing at every call."""
    return (*_dense(product), "blocks") if product.kept and product.dtype == float32 else _dense(product)


def _dense(product: Product) -> tuple[str, ...]:
    if product.transformable and product.w[-2] % 16 == product.w[-1] % 16 == 0:
        return "rows", "winograd4", "winograd2"
    if product.pointwise:
        return ("rows",)
    few = product.w[-1] <= FEW and math.prod(product.w[:-2]) > 1 and product.dtype != bfloat16
    return ("rows", PLAIN, "taps") if few else ("rows", PLAIN)


def estimates(product: Product, machine: Machine, threads: int, held: int = 0) -> dict[str, float]:
    """Seconds of each form on so many threads, in a net that holds so many bytes of weights."""
    costs = _Costs(product, machine, threads, held)
    made = {"rows": costs.rows, PLAIN: costs.plain, "winograd4": lambda: costs.winograd(4),
            "winograd2": lambda: costs.winograd(2), "taps": costs.taps, "blocks": costs.blocks}  # fmt: skip
    return {form: made[form]() for form in forms(product)}


def beside(busy: float, fetched: float) -> float:
    """Seconds of sums and of fetches of which a quarter of the lesser is hidden."""
    return max(busy, fetched) + min(busy, fetched) * 3 / 4


class _Costs:
    def __init__(self, product: Product, machine: Machine, threads: int, held: int) -> None:
        self.product, self.machine = product, machine
        self.item = product.dtype.itemsize
        self.lanes = machine.lanes / 2 if product.dtype == float64 else machine.lanes
        self.threads = max(1, min(threads, product.multiply_adds // WORTH))
        self.weights = math.prod(product.w) * self.item
        self.held = max(held, self.weights)
        self.depth, self.outputs = math.prod(product.w[:-1]), product.w[-1]

    def rows(self) -> float:
        """A product whose rows are the windows of the output pixels, divided into bands of rows and of columns."""
        pixels, best = math.prod(self.product.y[:-1]), math.inf
        for across in range(1, self.threads + 1):
            high, wide = -(-pixels // (self.threads // across)), max(self.lanes, self.outputs / across)
            shared = across > 1 and pixels * self.depth * self.item <= SHARED
            gathered = self._windows(-(-pixels // self.threads) if shared else high)
            summed = gathered + self._sums(high, self.depth, wide, self.product.dtype)
            best = min(best, summed + self._fetched(self.weights, self.held, across))
        return best + self._hand_over(1)

    def plain(self) -> float:
        """The same sums, line by line of the image, on weights that are packed first; or Winograd's, likewise."""
        lines, pixels = math.prod(self.product.y[:-2]), self.product.y[-2]
        own = lines * self._sums(pixels, self.depth, self.outputs, self.product.dtype)
        own += self._copied(math.prod(self.product.x))  # into lines with their padding
        own += PACKING * self.weights / self.machine.reading(2 * self.weights)
        direct = BEGINNING * self.machine.cycle + own / self.threads
        direct += self._fetched(self.weights, self.held, self.threads) + self._hand_over(2)
        if not self._transforms():
            return direct
        points = 36 * math.prod(self.product.w[-2:]) * 4
        transformed = PACKING * points / self.machine.reading(points) / self.threads + self._hand_over(1)
        return min(direct, self.winograd(4) + transformed)

    def taps(self) -> float:
        """A product of all input pixels by all taps of all outputs, of which each output adds up its own."""
        c, taps = self.product.x[-1], math.prod(self.product.w[:-2])
        pixels, wide = -(-math.prod(self.product.x[:-1]) // self.threads), taps * self.outputs
        summed = self._sums(pixels, c, wide, self.product.dtype) + self._copied(pixels * wide)
        added = taps * math.prod(self.product.y) * TAP * self.machine.cycle / self.threads
        return summed + added + self._fetched(self.weights, self.held, 1) + self._hand_over(2 * self.product.x[0])

    def blocks(self) -> float:
        """Tiles of windows, each through all blocks that are kept, at the rate of such products."""
        pixels, panels = math.prod(self.product.y[:-1]), -(-self.outputs // WIDE)
        threads = max(1, min(self.threads, pixels * self.product.kept * WIDE // WORTH))
        tiles, nbytes = -(-pixels // self.machine.rows["float32"]), self.product.kept * (WIDE + 1) * self.item
        added = max(pixels, tiles * LATENCY) * self.product.kept * WIDE / self.machine.rates["blocks"]
        summed = added + tiles * panels * TILE * self.machine.cycle
        passed = (tiles - 1) / threads * self._fetched(nbytes, nbytes, 1)  # by all tiles but the first
        held = self.held - self.weights + nbytes
        busy = max(summed / threads, passed) + self._windows(-(-pixels // threads))
        return busy + self._fetched(nbytes, held, 1) + self._hand_over(1)

    def winograd(self, m: int) -> float:
        """Tiles of m x m pixels through transforms, products over channels for each of (m + 2)^2 points, and back."""
        c, o, threads = self.product.x[-1], self.outputs, self.threads
        tiles, points = self._tiles(m), (m + 2) ** 2
        weights = points * c * o * 4
        held, each = self.held - self.weights + weights, -(-tiles // threads)
        number = TRANSFORM[m] * self.machine.cycle / self.machine.lanes + 8 / self.machine.bandwidth["L2"]
        transforms = each * points * (c + o) * number
        if weights <= NEAR or (weights <= NEAR_ENOUGH and tiles >= threads * self.machine.rows["float32"]):
            busy = transforms + points * self._sums(each, c, o, float32)
            return beside(busy, self._fetched(weights, held, 1)) + self._hand_over(1)
        busy = transforms + points * self._sums(tiles, c, o, float32) / threads
        return beside(busy, self._fetched(weights, held, threads)) + self._hand_over(3)

    def _tiles(self, m: int) -> int:
        sides = zip(self.product.y[1:-1], self.product.dilation, strict=True)
        return self.product.y[0] * math.prod(step * -(-size // (step * m)) for size, step in sides)

    def _transforms(self) -> bool:
        """Whether the kernel of plain weights takes Winograd's way (`winograd::fits`)."""
        lanes, tiles = self.machine.lanes, self._tiles(4) if self.product.transformable else 0
        if any(n % lanes or n < 16 for n in self.product.w[-2:]) or tiles < 2 * self.machine.rows["float32"]:
            return False
        return 16 * tiles <= math.prod(self.product.y[:-1]) * 7 / 4

    def _sums(self, m: int, k: int, n: float, dtype: DType) -> float:
        """[m, k] by [k, n] in tiles: `m` rows in the fewest tiles and those even, `n` columns in whole registers. A
        panel of weights that the first cache does not hold comes from the second for every tile, half of it unseen."""
        registers = math.ceil(n / self.lanes)
        most = self.machine.rows["bfloat16" if dtype == bfloat16 else "float32"]
        tiles = -(-m // (2 * most if registers == 1 and self.machine.lanes < 16 else most))
        rows, share = -(-m // tiles), min(registers, 2) / 2  # of a tile's two registers
        counted = (tiles - 1) * max(rows * share, LATENCY) + max((m - rows * (tiles - 1)) * share, LATENCY)
        step = 2 * self.lanes / self.machine.rate(dtype)
        seconds = registers / 2 / share * (counted * k * step + tiles * TILE * self.machine.cycle)
        block = k if dtype == bfloat16 else min(k, BLOCK)
        if block * 2 * self.lanes * dtype.itemsize <= self.machine.sizes["L1"]:
            return seconds
        return seconds + (tiles - 1) * k * n * dtype.itemsize / (2 * self.machine.bandwidth["L2"])

    def _windows(self, rows: int) -> float:
        """Copying so many windows, run by run."""
        if self.product.pointwise:
            return 0.0
        runs = math.prod(self.product.w[:-3])
        return rows * (runs * RUN * self.machine.cycle + self._copied(self.depth))

    def _copied(self, numbers: int) -> float:
        return 2 * numbers * self.item / self.machine.bandwidth["L2"]

    def _fetched(self, nbytes: float, held: float, parts: int) -> float:
        """Weights on their way into the first cache: of which each thread reads one of so many parts. Those that read
        the same at once take it from the cache that they share."""
        return nbytes / parts / self.machine.reading(held, parts)

    def _hand_over(self, times: int) -> float:
        return times * self.machine.hand_over if self.threads > 1 else 0.0

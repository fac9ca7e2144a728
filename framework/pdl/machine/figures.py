"""The figures of a machine, and those of the kinds of CPU that pdl was measured on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pdl.dtype import DType, bfloat16, float64

RATES = ("float32", "bfloat16", "int8", "blocks")
#: where numbers come from, nearest first
LEVELS = ("L1", "L2", "L3", "memory")
#: bytes that the cache which cores share is taken to hold, however large it is said to be: others use it too, and
#: virtual machines name that of the whole CPU
MOST_SHARED = 32 << 20


@dataclass(frozen=True)
class Machine:
    """What one core does in a second, unless it says otherwise.

    rates      multiply-adds of the packed products, by dtype: float32, bfloat16, int8; "blocks": of float32 in the
               blocks of sparse weights that are kept
    bandwidth  bytes: read and written by copies in L1 and L2; read by products in L3 and memory
    together   bytes that all cores read from memory
    sizes      bytes of the caches L1, L2 (of a core) and L3 (shared)
    hand_over  seconds that a kernel takes longer because it runs on several threads
    lanes      float32 numbers of a register
    rows       rows of the tile that products keep in registers, by dtype (`kMaxRows` of kernels/src/tile.h)
    """

    rates: Mapping[str, float]
    bandwidth: Mapping[str, float]
    together: float
    sizes: Mapping[str, int]
    hand_over: float
    lanes: int
    rows: Mapping[str, int]

    def rate(self, dtype: DType) -> float:
        """Multiply-adds a second in a dtype; float64 at half the rate of float32."""
        if dtype == float64:
            return self.rates["float32"] / 2
        return self.rates["bfloat16" if dtype == bfloat16 else "float32"]

    def reading(self, nbytes: float, threads: int = 1) -> float:
        """Bytes a second that each of so many threads gets where all of them together read `nbytes` again and again.
        Every cache answers for the share of them that it holds."""
        rates = {**self.bandwidth, "memory": min(self.bandwidth["memory"], self.together / threads)}
        seconds, held = 0.0, 0.0
        for level, rate in rates.items():
            size = min(self.sizes.get(level, nbytes), MOST_SHARED if level == "L3" else nbytes)
            share = max(held, min(1.0, size / nbytes))
            seconds, held = seconds + (share - held) / rate, share
        return 1 / seconds

    @property
    def cycle(self) -> float:
        """Seconds in which a product adds one row of a tile in float32: two registers, a number each lane."""
        return 2 * self.lanes / self.rates["float32"]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Any) -> Machine:
        """Of plain values; ValueError where they are no figures of a machine."""
        if not isinstance(given, dict) or given.keys() != cls.__dataclass_fields__.keys():
            raise ValueError("not the figures of a machine")
        likeness = next(iter(BUILT_IN.values())).to_dict()
        for name, value in given.items():
            parts, expected = (_parts(v) for v in (value, likeness[name]))
            if parts.keys() != expected.keys() or not all(map(is_figure, parts.values())):
                raise ValueError(f"{name}: {value!r} is no figure of a machine")
        return cls(**given)


def _parts(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"": value}


def is_figure(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    return type(value) in (int, float) and math.isfinite(value) and value > 0


def _kind(lanes: int, rates: Sequence[float], bandwidth: Sequence[float], sizes: tuple[int, int]) -> Machine:
    """A kind of CPU: 10^9 multiply-adds of each dtype, 10^9 bytes of each level and of all cores, KiB of L1 and L2."""
    *levels, together = [1e9 * each for each in bandwidth]
    return Machine(
        rates=dict(zip(RATES, [1e9 * rate for rate in rates], strict=True)),
        bandwidth=dict(zip(LEVELS, levels, strict=True)),
        together=together,
        sizes={"L1": sizes[0] << 10, "L2": sizes[1] << 10, "L3": 32 << 20},
        hand_over=5e-7,
        lanes=lanes,
        rows=tile_rows(lanes, rates[1] > rates[0]),
    )


def tile_rows(lanes: int, pairs: bool) -> dict[str, int]:
    """`kMaxRows` of tiles of two registers; `pairs`: the CPU multiplies pairs of bfloat16."""
    plain, split = (14, 12) if lanes == 16 else (6, 4)
    return {"float32": plain, "bfloat16": plain if pairs else split}


#: by the instruction set that kernels use: of an EPYC with Zen 3 cores (avx2), of a CPU with two 512-bit units a core
#: (avx512 and those after it), and estimates for the rest
BUILT_IN = {
    "avx2": _kind(8, (45, 25, 72, 38), (137, 94, 35, 22, 42), (32, 512)),
    "avx512": _kind(16, (130, 65, 130, 100), (300, 150, 24, 12, 24), (48, 2048)),
    "avx512_vnni": _kind(16, (130, 65, 450, 100), (300, 150, 24, 12, 24), (48, 2048)),
    "avx512_bf16": _kind(16, (130, 250, 450, 100), (300, 150, 24, 12, 24), (48, 2048)),
    "amx_bf16": _kind(16, (130, 400, 450, 100), (300, 150, 24, 12, 24), (48, 2048)),
    "baseline": _kind(4, (11, 6, 20, 8), (70, 45, 20, 10, 16), (32, 512)),
    "generic": _kind(4, (20, 10, 40, 16), (80, 50, 20, 10, 20), (64, 1024)),
}

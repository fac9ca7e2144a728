"""Which qubits a layer joins, and what all templates ask of their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from pdl.errors import UsageError
from pdl.suites import suggest

Pattern = Literal["linear", "reverse_linear", "ring", "full", "pairwise", "sca"]


def pairs(num_qubits: int, pattern: Pattern, layer: int = 0) -> list[tuple[int, int]]:
    """The pairs (control, target) that a layer joins.

    linear          (0, 1), (1, 2), ...;    reverse_linear  the same from the end
    ring            (n-1, 0) and then linear; of two qubits one pair
    full            every pair;    pairwise  (0, 1), (2, 3), ..., then (1, 2), (3, 4), ...: a brick
    sca             shifted circular alternating: the ring, begun one pair later in every layer, control and target
                    exchanged in every second one (circuit 14 of arXiv 1905.10876)
    """
    if pattern not in get_args(Pattern):
        raise UsageError(f"there is no pattern {pattern!r}{suggest(str(pattern), get_args(Pattern))}; there are "
                         f"{', '.join(get_args(Pattern))}")  # fmt: skip
    linear = [(k, k + 1) for k in range(num_qubits - 1)]
    ring = [(num_qubits - 1, 0), *linear] if num_qubits > 2 else linear
    if pattern == "full":
        return list(combinations(range(num_qubits), 2))
    if pattern == "pairwise":
        return linear[::2] + linear[1::2]
    if pattern == "sca":
        shift = len(ring) - layer % len(ring) if ring else 0
        turned = ring[shift:] + ring[:shift]
        return [(b, a) for a, b in turned] if layer % 2 else turned
    return {"linear": linear, "reverse_linear": linear[::-1], "ring": ring}[pattern]


def subsets(num_qubits: int, most: int) -> Iterator[tuple[int, ...]]:
    """The sets of one to `most` qubits, small ones first."""
    for size in range(1, most + 1):
        yield from combinations(range(num_qubits), size)


def require_count(template: str, least: int = 1, **counts: Any) -> None:
    """UsageError where one of these is no whole number, or is below the least."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise UsageError(f"{template}: {name} is {value!r}; give a whole number from {least} on")

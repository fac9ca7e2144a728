"""How `pdl selftest` cuts recipes of images with objects down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pdl.train import Recipe, SmokeTest

STEP, LEAST = 32, 96  # sides of smaller images are multiples of, and at least


def smoke_test(recipe: Recipe, *, batch_size: int, epochs: int) -> SmokeTest:
    """Few images, of half the size that the transforms give them."""
    stages = recipe.data.node.get("transforms") or {}
    settings = dict(_smaller(stages, "data.transforms"))
    return SmokeTest(train=6 * batch_size, test=6, epochs=epochs, batch_size=batch_size, settings=settings)


def _smaller(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Every `size` below a node by its dotted key, halved."""
    if isinstance(node, Mapping):
        if "size" in node:
            size = node["size"]
            yield f"{key}.size", [_half(side) for side in size] if isinstance(size, list) else _half(size)
        items: Any = node.items()
    else:
        items = enumerate(node) if isinstance(node, list) else ()
    for name, value in items:
        yield from _smaller(value, f"{key}.{name}")


def _half(side: int) -> int:
    return min(side, max(LEAST, side // 2 // STEP * STEP))

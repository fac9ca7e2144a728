"""What the data tells a model: sizes that a recipe leaves out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pdl.config.signature import signature
from pdl.suites import locate

OUTPUTS = "num_classes"  # of the whole model: parts of it have outputs of their own


def told_by(node: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The `sizes` that the class of a recipe's node takes and the node leaves out, and below its keys the same of the
    nodes inside it, such as an encoder's."""
    takes = signature(locate(node["_target_"])).arguments
    found: dict[str, Any] = {name: value for name, value in sizes.items() if name in takes and node.get(name) is None}
    inner = {name: value for name, value in sizes.items() if name != OUTPUTS}
    for key, item in node.items():
        more = told_by(item, inner) if isinstance(item, Mapping) and "_target_" in item else {}
        if more:
            found[key] = more
    return found


def filled(node: Any, told: Mapping[str, Any]) -> Any:
    """The node with what was told laid over it; it still knows its place in the recipe."""
    made = copy.copy(node)
    for key, value in told.items():
        made[key] = filled(node[key], value) if isinstance(value, Mapping) else value
    return made


__all__ = ["filled", "told_by"]

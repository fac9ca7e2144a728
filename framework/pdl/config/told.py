"""What the data tells the parts of a model: arguments that the recipe leaves open.

    found = told(cfg["model"], {"num_features": 1433, "num_classes": 7})
    model = build(filled(cfg["model"], found))          # and a run remembers `found`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pdl import suites
from pdl.config.signature import TARGET, signature
from pdl.config.tree import Node


def told(node: Mapping[str, Any], facts: Mapping[str, Any], *, outer: Collection[str] = ()) -> dict[str, Any]:
    """The facts that the part of a node takes, and those within it, where the node does not give them:
    {"rows": 1, "circuit": {"num_qubits": 4}}.

    outer   names of facts about the whole, which parts within it are not told: parts of a classifier have outputs of
            their own
    """
    found: dict[str, Any] = {}
    if TARGET in node:
        takes = signature(suites.locate(node[TARGET])).arguments
        found |= {name: value for name, value in facts.items() if name in takes and node.get(name) is None}
    inside = {name: value for name, value in facts.items() if name not in outer}
    for name, value in node.items():
        if isinstance(value, Mapping) and (inner := told(value, inside)):
            found[name] = inner
    return found


def filled(node: Any, values: Mapping[str, Any]) -> Any:
    """The node with these values laid over it; it still knows its place in the recipe."""
    made = Node(node)
    if isinstance(node, Node):
        made.path, made.origin = node.path, node.origin
    for name, value in values.items():
        made[name] = filled(made[name], value) if isinstance(made.get(name), Mapping) else value
    return made


__all__ = ["filled", "told"]

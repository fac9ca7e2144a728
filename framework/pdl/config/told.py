"""What the data tells the parts of a model: arguments that the recipe leaves open.

    found = told(cfg["model"], {"num_features": 1433, "num_classes": 7})
    model = build(filled(cfg["model"], found))          # and a run remembers `found`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pdl import suites
from pdl.config.signature import TARGET, signature
from pdl.config.tree import Node, dotted
from pdl.errors import ConfigError


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


def demand_whole(node: Any, facts: Collection[str]) -> None:
    """ConfigError where the part of a node, or one within it, still lacks an argument that it needs; `facts` are the
    names of what the data told."""
    if TARGET in node:
        takes = signature(suites.locate(node[TARGET])).arguments
        missing = [name for name, argument in takes.items() if argument.required and name not in node]
        if missing:
            known = ", ".join(facts) or "nothing"
            raise ConfigError(
                f"{dotted(getattr(node, 'path', ()))}: {node[TARGET]} needs {', '.join(missing)}, and neither the "
                f"recipe nor the data gives that; the data tells {known}"
            )
    for value in node.values():
        if isinstance(value, Mapping):
            demand_whole(value, facts)


__all__ = ["demand_whole", "filled", "told"]

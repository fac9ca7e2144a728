"""Arguments that the recipe leaves open and the data gives: the number of classes, of features, of items.

    found = infer(cfg["model"], {"num_features": 1433, "num_classes": 7})
    model = build(filled(cfg["model"], found))          # and a run's config.yaml keeps `found`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pdl import suites
from pdl.config.signature import TARGET, signature
from pdl.config.tree import Node, dotted
from pdl.errors import ConfigError


def infer(node: Mapping[str, Any], facts: Mapping[str, Any], *, outer: Collection[str] = ()) -> dict[str, Any]:
    """The facts that the part of a node, or a part nested in it, takes and the node does not give:
    {"rows": 1, "circuit": {"num_qubits": 4}}.

    outer   names of facts for the outermost part only: a part nested in a classifier has outputs of its own
    """
    found: dict[str, Any] = {}
    if TARGET in node:
        takes = signature(suites.locate(node[TARGET])).arguments
        found |= {name: value for name, value in facts.items() if name in takes and node.get(name) is None}
    inside = {name: value for name, value in facts.items() if name not in outer}
    for name, value in node.items():
        if isinstance(value, Mapping) and (inner := infer(value, inside)):
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


def check_complete(node: Any, facts: Collection[str]) -> None:
    """ConfigError where the part of a node, or one nested in it, lacks a required argument; `facts` names what the data
    gives."""
    if TARGET in node:
        takes = signature(suites.locate(node[TARGET])).arguments
        missing = [name for name, argument in takes.items() if argument.required and name not in node]
        if missing:
            known = ", ".join(facts) or "nothing"
            raise ConfigError(
                f"{dotted(getattr(node, 'path', ()))}: {node[TARGET]} needs {', '.join(missing)}, which neither the "
                f"recipe nor the data gives; the data gives {known}"
            )
    for value in node.values():
        if isinstance(value, Mapping):
            check_complete(value, facts)

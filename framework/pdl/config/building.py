"""From a checked tree to objects: children first, then the constructor, with its errors placed in the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl import suites
from pdl.config.allowed import inside, refusal
from pdl.config.signature import TARGET, signature, wants_tuple
from pdl.config.tree import Items, Node
from pdl.errors import ConfigError, DataError, PackageError, PdlError


def build(node: Any, **extra: Any) -> Any:
    """Construct what a node describes: a `_target_` mapping becomes an object, other mappings and lists are built
    inside, scalars stay.

    `extra` are keyword arguments for the outermost constructor; they win over the node's keys. Raises ConfigError
    (DataError for data troubles, PackageError for a package that is absent) with the place in the recipe when a
    constructor refuses its arguments.
    """
    if extra and (not isinstance(node, dict) or TARGET not in node):
        raise ConfigError(f"{_place(node)}: there is no {TARGET} here to hand {', '.join(extra)} to")
    return _build(node, Any, extra)


def _build(node: Any, hint: Any, extra: Mapping[str, Any]) -> Any:
    """What stands where an annotation is; that a config may build it there is asked again, whoever has checked it."""
    if isinstance(node, list):
        return [_build(item, inside(hint), {}) for item in node]
    if not isinstance(node, dict):
        return node
    if TARGET not in node:
        return {key: _build(item, inside(hint), {}) for key, item in node.items()}
    target = suites.moved(node[TARGET]) or node[TARGET]
    part = suites.locate(target)
    if problem := refusal(part, target, hint):
        raise ConfigError(f"{_place(node)}: {problem}")
    takes = signature(part).arguments
    hints = {key: takes[key].hint if key in takes else Any for key in node if key != TARGET}
    arguments = {key: _build(node[key], own, {}) for key, own in hints.items()}
    for key, value in arguments.items():
        if isinstance(value, list) and wants_tuple(hints[key]):
            arguments[key] = tuple(value)
    try:
        return part(**{**arguments, **extra})
    except DataError as error:
        error.args = (f"{_place(node)}: {error}",)  # the same error, of the same kind, that now says where
        raise
    except PackageError as error:
        raise PackageError(f"{_place(node)}: {error}") from error
    except (PdlError, TypeError, ValueError, KeyError, OSError) as error:
        raise ConfigError(f"{_place(node)}: {_said(error)}") from error


def _place(node: Any) -> str:
    """`file:12: model: pdl_cv.LeNet`, as far as the node knows."""
    known = isinstance(node, (Node, Items))
    parts = [node.origin.of(node.path)] if known and (node.origin.file or node.origin.override) else []
    return ": ".join([*parts, *([str(node[TARGET])] if TARGET in node else [])]) or "config"


def _said(error: Exception) -> str:
    return (
        str(error) if isinstance(error, (PdlError, ValueError)) and str(error) else f"{type(error).__name__}: {error}"
    )

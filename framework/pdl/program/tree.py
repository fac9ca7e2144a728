"""Nested containers as a list of arrays and the structure around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from pdl.tensor import Tensor


def is_array(x: Any) -> bool:
    """Whether x is a leaf: a tensor or an array."""
    return isinstance(x, Tensor | np.ndarray)


def leaves(tree: Any) -> Iterator[Any]:
    """The tensors and arrays of a tree of dicts, lists, tuples and dataclasses, in a fixed order."""
    if is_array(tree):
        yield tree
    for part in _parts(tree):
        yield from leaves(part)


def rebuild(tree: Any, leaf: Callable[[Any], Any], other: Callable[[Any], Any] = lambda x: x) -> Any:
    """The same tree with `leaf(x)` for every tensor or array and `other(x)` for everything that is no container."""
    if is_array(tree):
        return leaf(tree)
    if is_foreign(tree):
        return other(tree)
    if isinstance(tree, dict):
        return {k: rebuild(v, leaf, other) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(rebuild(v, leaf, other) for v in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(rebuild(v, leaf, other) for v in tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **{f.name: rebuild(getattr(tree, f.name), leaf, other) for f in fields(tree)})
    return other(tree)


def structure(tree: Any) -> Any:
    """A hashable description of a tree: containers, specs of its arrays, and the plain values that code may branch on.

    Plain values are None, booleans, numbers and dtypes; of anything else only the type counts (see `Opaque`).
    """
    if is_array(tree):
        return (tree.shape, tree.dtype)
    if is_foreign(tree):
        return type(tree)
    if isinstance(tree, dict):
        return (dict, *((k, structure(v)) for k, v in tree.items()))
    if isinstance(tree, list | tuple) or (is_dataclass(tree) and not isinstance(tree, type)):
        return (type(tree), *(structure(v) for v in _parts(tree)))
    return (type(tree), tree) if is_plain(tree) else type(tree)


def is_foreign(tree: Any) -> bool:
    """A list, tuple or dict without arrays that holds more than plain values, such as file names or sentences."""
    if not isinstance(tree, list | tuple | dict) or not tree:
        return False
    return not any(True for _ in leaves(tree)) and not all(is_plain(x) for x in _parts(tree))


def is_plain(x: Any) -> bool:
    """A value that becomes part of a program's key."""
    return x is None or isinstance(x, bool | int | float | complex | np.generic | np.dtype)


def _parts(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return list(tree.values())
    if isinstance(tree, list | tuple):
        return list(tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return [getattr(tree, f.name) for f in fields(tree)]
    return []

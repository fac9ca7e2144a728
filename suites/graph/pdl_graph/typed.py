"""Arrays as the fields of a graph want them; what does not fit is a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl_graph.batch import SparseFeatures

Array = np.ndarray
FIELDS: Mapping[str, tuple[Any, int, str]] = {
    "x": (np.float32, 2, "[nodes, features]"),
    "edge_weight": (np.float32, 1, "[edges]"),
    "edge_attr": (np.float32, 2, "[edges, attributes]"),
    "edge_type": (np.int64, 1, "[edges]"),
    "node_type": (np.int64, 1, "[nodes]"),
}
"""Of a field: the dtype, how many axes, and these in words."""


def typed(name: str, value: Any) -> Any:
    """The array of a field. DataFault for what are no numbers, and for arrays with other axes."""
    if name == "masks":
        return {split: _mask(split, mask) for split, mask in value.items()}
    if isinstance(value, SparseFeatures) or name not in (*FIELDS, "y"):
        return value
    try:
        held = np.asarray(value)
        if name == "y":
            return _labels(held)
        dtype, axes, shape = FIELDS[name]
        made = held.astype(dtype, copy=False)
    except (ValueError, TypeError) as error:
        raise fault(None, f"{name} is no array of numbers: {error}", "give numbers, as many in every row") from error
    if made.ndim != axes:
        raise fault(None, f"{name} has shape {made.shape}", f"give it as {shape}")
    if dtype is np.int64 and (made.min(initial=0) < 0 or (made != held).any()):
        raise fault(None, f"{name} has numbers that are not whole, or below 0", "number the types from 0 on")
    return made


def _labels(y: Array) -> Array:
    """Classes int64 [N]; bool [N, K] or float32 [N, K] for several labels and numbers."""
    if y.dtype.kind not in "iubf" or y.ndim not in (1, 2):
        raise fault(None, f"y holds {y.dtype} {y.shape}", "number the classes from 0 on (and name them in `classes`)")
    if y.dtype.kind == "f":
        return y.astype(np.float32, copy=False).reshape(len(y), -1)
    made: Array = y if y.dtype == bool and y.ndim == 2 else y.astype(np.int64, copy=False)
    if made.ndim == 1 and made.min(initial=0) < -1:
        raise fault(None, f"y has the class {made.min()}", "number the classes from 0 on; -1 is unknown")
    return made


def _mask(split: str, mask: Any) -> Array:
    held = np.asarray(mask)
    if held.dtype != bool and not np.isin(held, (0, 1)).all():
        raise fault(None, f"the mask {split!r} holds {held.dtype} that are not 0 or 1", "give one yes or no a node")
    return held.astype(bool, copy=False)

"""The ops of ai.onnx.ml that occur with neural nets."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import IndexRangeError, UsageError
from pdl.onnx.eager import computed
from pdl.onnx.registry import Context, onnx_op

DOMAIN = "ai.onnx.ml"


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
@computed
def _array_features(ctx: Context, x: Any, y: Any) -> Any:
    """The columns y of x, along its last axis."""
    index = y.reshape(-1)
    if index.size and (index.min() < 0 or index.max() >= x.shape[-1]):
        raise IndexRangeError(f"{ctx.node.label()}: columns up to {index.max()} of {x.shape[-1]}")
    made = np.take(x, index, axis=-1)
    return made.reshape(1, -1) if x.ndim == 1 else made


@onnx_op("Binarizer", domain=DOMAIN)
@computed
def _binarise(ctx: Context, x: Any, *, threshold: float = 0.0) -> Any:
    """1 above the threshold, else 0."""
    return (x > threshold).astype(x.dtype)


@onnx_op("LabelEncoder", domain=DOMAIN, since=2)
@computed
def _label_encoder(
    ctx: Context, x: Any, *, keys_floats: Any = None, keys_int64s: Any = None, keys_strings: Any = None,
    keys_tensor: Any = None, values_floats: Any = None, values_int64s: Any = None, values_strings: Any = None,
    values_tensor: Any = None, default_float: float = -0.0, default_int64: int = -1, default_string: str = "_Unused",
    default_tensor: Any = None,
) -> Any:  # fmt: skip
    """values[i] where x is keys[i], else the default; NaN is a key like another, the last of equal keys counts."""
    keys = _only(ctx, "keys", keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _only(ctx, "values", values_floats, values_int64s, values_strings, values_tensor)
    if len(keys) != len(values):
        raise UsageError(f"{ctx.node.label()}: {len(keys)} keys for {len(values)} values")
    dtype: Any
    if values_tensor is not None:
        dtype = values_tensor.dtype
        other = {"O": default_string, "f": default_float}.get(dtype.kind, default_int64)
        other = other if default_tensor is None else default_tensor.reshape(-1)[0]
    else:
        dtype = np.float32 if values_floats else np.int64 if values_int64s else object
        other = default_float if values_floats else default_int64 if values_int64s else default_string
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    made = np.empty(x.size, dtype)
    made[:] = [table.get(_key(v), other) for v in x.reshape(-1).tolist()]
    return made.reshape(x.shape)


def _only(ctx: Context, what: str, *given: Any) -> list[Any]:
    found = [g for g in given if g is not None]
    if len(found) != 1:
        raise UsageError(f"{ctx.node.label()}: one list of {what} is needed, there are {len(found)}")
    return list(found[0].reshape(-1).tolist() if isinstance(found[0], np.ndarray) else found[0])


def _key(value: Any) -> Any:
    if isinstance(value, float):
        value = float(np.float32(value))
    return "NaN" if isinstance(value, float) and value != value else value


_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_MEMBER = 6


@onnx_op("TreeEnsemble", domain=DOMAIN, since=5)
@computed
def _trees(
    ctx: Context, x: Any, *, leaf_targetids: Any, leaf_weights: Any, nodes_falseleafs: Any, nodes_falsenodeids: Any,
    nodes_featureids: Any, nodes_modes: Any, nodes_splits: Any, nodes_trueleafs: Any, nodes_truenodeids: Any,
    tree_roots: Any, aggregate_function: int = 1, membership_values: Any = None, n_targets: int = 1,
    nodes_hitrates: Any = None, nodes_missing_value_tracks_true: Any = None, post_transform: int = 0,
) -> Any:  # fmt: skip
    """The weights of the leaves that each row of x ends at, combined for each target."""
    if post_transform:
        raise UsageError(f"{ctx.node.label()}: post_transform {post_transform} is not supported; expected 0")
    modes = nodes_modes.tolist()
    members = _members(modes, membership_values)
    missing = list(nodes_missing_value_tracks_true or [0] * len(modes))
    branches = {True: (nodes_trueleafs, nodes_truenodeids), False: (nodes_falseleafs, nodes_falsenodeids)}

    def leaf(row: Array, node: int) -> int:
        for _ in range(len(modes) + 1):
            value = row[nodes_featureids[node]]
            if modes[node] == _MEMBER:
                taken = bool(np.isin(value, members[node]))
            else:
                taken = bool(_COMPARE[modes[node]](value, nodes_splits[node])) or bool(missing[node] and value != value)
            leaves, ids = branches[taken]
            if leaves[node]:
                return int(ids[node])
            node = ids[node]
        raise UsageError(f"{ctx.node.label()}: the nodes of a tree form a loop")

    start = {0: 0.0, 1: 0.0, 2: np.inf, 3: -np.inf}[aggregate_function]
    combine: Any = {2: np.minimum, 3: np.maximum}.get(aggregate_function, np.add)
    made = np.full((len(x), n_targets), start, np.float64)
    for row, out in zip(x, made, strict=True):
        for root in tree_roots:
            at = leaf(row, root)
            out[leaf_targetids[at]] = combine(out[leaf_targetids[at]], leaf_weights[at])
    return (made / len(tree_roots) if aggregate_function == 0 else made).astype(x.dtype)


def _members(modes: list[int], values: Any) -> dict[int, Array]:
    """{node: the set it tests}, from all sets one after the other with NaN behind each."""
    nodes = [i for i, m in enumerate(modes) if m == _MEMBER]
    if not nodes:
        return {}
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(values, ends)
    return {n: p[~np.isnan(p)] for n, p in zip(nodes, parts, strict=False)}

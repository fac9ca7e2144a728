"""Weights of PyTorch: its layouts translated into pdl's, and back.

PyTorch keeps a linear weight as [out, in] and a convolution's as [out, in / groups, *kernel]; pdl as [in, out] and
[*kernel, in / groups, out].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.nn.attention import MultiHeadAttention
from pdl.nn.conv import _Conv
from pdl.nn.linear import Bilinear, Linear
from pdl.nn.module import Module
from pdl.nn.rnn import _Recurrent
from pdl.tensor import Tensor

#: buffers that PyTorch saves and pdl has no use for
IGNORED = ("num_batches_tracked",)


def from_torch(model: Module, state: Mapping[str, Any]) -> dict[str, Array]:
    """A PyTorch state dict (arrays or anything NumPy reads, by name) in the layouts of `model`, whose names are the
    same.

    Names are kept, so that `load_state_dict` can say what is missing or not known; ``num_batches_tracked`` is dropped.
    """
    modules = dict(model.named_modules())
    found = {}
    for name, value in state.items():
        owner, _, kind = name.rpartition(".")
        if kind not in IGNORED:
            found[name] = np.ascontiguousarray(_turn(modules.get(owner), kind, _array(value)))
    return found


def to_torch(model: Module) -> dict[str, Array]:
    """The state dict of `model` in PyTorch's layouts: undoes `from_torch`."""
    modules = dict(model.named_modules())
    found = {}
    for name, value in model.state_dict().items():
        owner, _, kind = name.rpartition(".")
        found[name] = np.ascontiguousarray(_turn_back(modules.get(owner), kind, value.data))
    return found


def _turn(owner: Module | None, kind: str, value: Array) -> Array:
    if isinstance(owner, _Conv) and kind == "weight" and value.ndim > 2:
        return value.transpose(*range(2, value.ndim), 1, 0)
    if isinstance(owner, Bilinear) and kind == "weight" and value.ndim == 3:
        return value.transpose(1, 2, 0)
    return value.T if _is_matrix(owner, kind, value) else value


def _turn_back(owner: Module | None, kind: str, value: Array) -> Array:
    if isinstance(owner, _Conv) and kind == "weight":
        return value.transpose(value.ndim - 1, value.ndim - 2, *range(value.ndim - 2))
    if isinstance(owner, Bilinear) and kind == "weight":
        return value.transpose(2, 0, 1)
    return value.T if _is_matrix(owner, kind, value) else value


def _is_matrix(owner: Module | None, kind: str, value: Array) -> bool:
    if isinstance(owner, MultiHeadAttention):
        return kind.endswith("proj_weight")
    return isinstance(owner, Linear | _Recurrent) and kind.startswith("weight") and value.ndim == 2


def _array(value: Any) -> Array:
    return value.data if isinstance(value, Tensor) else np.asarray(value)

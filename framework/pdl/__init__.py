"""pdl: a compact deep-learning core and the trainer of its task suites.

``import pdl`` loads tensors, ops and gradients (NumPy and the native kernels); the rest comes on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdl import autograd, dtype, ops, threads
from pdl.dtype import bfloat16, complex64, complex128, float32, float64, int8, int16, int32, int64, uint8
from pdl.ops import *  # noqa: F403
from pdl.random import seed
from pdl.tensor import Tensor, as_tensor, is_grad_enabled, no_grad, set_grad_enabled, tensor

if TYPE_CHECKING:
    from pdl import config, data, hub, jit, nn, optim, report, train
    from pdl.train.model import Model

__version__ = "0.1.0"

_LAZY_MODULES = ("config", "data", "hub", "jit", "nn", "optim", "report", "train")
_LAZY_NAMES = {"Model": "pdl.train.model"}


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return import_module(f"pdl.{name}")
    if name in _LAZY_NAMES:
        return getattr(import_module(_LAZY_NAMES[name]), name)
    raise AttributeError(f"module 'pdl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})


__all__ = [
    "Model", "Tensor", "as_tensor", "autograd", "bfloat16", "complex64", "complex128", "config", "data", "dtype",
    "float32", "float64", "hub", "int8", "int16", "int32", "int64", "is_grad_enabled", "jit", "nn", "no_grad", "ops",
    "optim", "report", "seed", "set_grad_enabled", "tensor", "threads", "train", "uint8", *ops.__all__,
]  # fmt: skip

"""pdl: a compact deep-learning core and the trainer of its task suites.

``import pdl`` loads next to nothing. The first use of a name imports tensors, ops and gradients; submodules are
imported one by one, when they are used, so ``import pdl.runtime`` costs little more than NumPy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pdl import habits, names
from pdl import threads as threads
from pdl.version import __version__ as __version__

if TYPE_CHECKING:  # `x as x` and `*` export names to type checkers
    # fmt: off
    # isort: off
    from pdl import (
        autograd as autograd, config as config, data as data, dtype as dtype, export as export, fft as fft, hub as hub,
        jit as jit, linalg as linalg, nn as nn, ops as ops, optim as optim, report as report, runtime as runtime, train
        as train, workflow as workflow,
    )
    from pdl.dtype import (
        bfloat16 as bfloat16, complex64 as complex64, complex128 as complex128, float32 as float32,
        float64 as float64, int8 as int8, int16 as int16, int32 as int32, int64 as int64, uint8 as uint8, uint16 as
        uint16, uint32 as uint32, uint64 as uint64,
    )
    from pdl.inspection import (
        __array_namespace_info__ as __array_namespace_info__, e as e, inf as inf, nan as nan, newaxis as newaxis, pi as
        pi,
    )
    from pdl.hub.creating import create_model as create_model, list_models as list_models
    from pdl.ops import *  # noqa: F403
    from pdl.random import seed as seed
    from pdl.tensor import (
        Tensor as Tensor, as_tensor as as_tensor, is_grad_enabled as is_grad_enabled, no_grad as no_grad,
        set_grad_enabled as set_grad_enabled, tensor as tensor,
    )
    from pdl.workflow.model import Model as Model

    bool = dtype.bool_
    # isort: on
    # fmt: on

_PUBLIC_MODULES = (
    "autograd", "config", "data", "dtype", "export", "fft", "hub", "jit", "linalg", "nn", "ops", "optim", "report",
    "runtime", "train", "workflow",
)  # fmt: skip
_MODULES = (
    *_PUBLIC_MODULES, "checkpoint", "cli", "dims", "errors", "files", "hints", "kernels", "onnx", "packages",
    "program", "random", "ranking", "suites", "vocabulary", "watch",
)  # fmt: skip
_NAMES = {
    "pdl.dtype": (
        "bfloat16", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64",
    ),
    "pdl.inspection": ("e", "inf", "nan", "newaxis", "pi"),
    "pdl.random": ("seed",),
    "pdl.tensor": ("Tensor", "as_tensor", "is_grad_enabled", "no_grad", "set_grad_enabled"),
}  # fmt: skip
_LATE = {
    "__array_namespace_info__": "pdl.inspection", "Model": "pdl.workflow.model", "create_model": "pdl.hub.creating",
    "list_models": "pdl.hub.creating",
}  # fmt: skip
__array_api_version__ = "2024.12"
_state = {"loaded": False}

names.finder = "pdl.export.from_hub:bundle_of"


def _load() -> None:
    """Tensors with their methods, ops and gradients, as names of this module."""
    _state["loaded"] = True
    for module in ("autograd", "ops"):
        globals()[module] = import_module(f"pdl.{module}")
    for place, given in _NAMES.items():
        found = import_module(place)
        globals().update({name: getattr(found, name) for name in given})
    globals()["bool"] = import_module("pdl.dtype").bool_
    functions = globals()["ops"]
    globals().update({name: getattr(functions, name) for name in functions.__all__})
    plain = [name for given in _NAMES.values() for name in given]
    globals()["__all__"] = sorted(
        {*_PUBLIC_MODULES, *_LATE, *plain, "__array_api_version__", "bool", "tensor", "threads", *functions.__all__}
    )


if not TYPE_CHECKING:  # who knows which names there are

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"pdl.{name}")
        if name in _LATE:
            return getattr(import_module(_LATE[name]), name)
        if not _state["loaded"] and (name == "__all__" or not name.startswith("__")):
            _load()
            if name in globals():
                return globals()[name]
        raise habits.Missing("module 'pdl'", name, __dir__, habits.MODULES["pdl"].get(name))


def __dir__() -> list[str]:
    if not _state["loaded"]:
        _load()
    return sorted({*globals(), "tensor", *_PUBLIC_MODULES, *_LATE})


class _Package(ModuleType):
    """This module, whose `tensor` is the function and not the file of that name, whichever is imported first."""

    @property
    def tensor(self) -> Any:
        """`pdl.tensor.tensor`."""
        if not _state["loaded"]:
            _load()
        return sys.modules["pdl.tensor"].tensor

    @tensor.setter
    def tensor(self, module: ModuleType) -> None:
        """The import system leaves the file here."""


sys.modules[__name__].__class__ = _Package

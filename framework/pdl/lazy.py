"""Lazy packages: importing one imports nothing; the first use of a name does (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def names_of(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package that `module` is in: its public names are those of `module`, which is
    imported when the first of them is asked for. Modules of the package are found by name, too, and imported alone.

        if TYPE_CHECKING:
            from pdl_x.api import *
        __getattr__, __dir__ = names_of("pdl_x.api")
    """
    package = module.rpartition(".")[0]

    def load() -> dict[str, Any]:
        found, names = import_module(module), vars(sys.modules[package])
        public = getattr(found, "__all__", ())  # none yet where the module itself asks, in the middle of its import
        names.update({name: getattr(found, name) for name in public})
        if public:
            names["__all__"] = list(public)
        return names

    def get(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        if name == "__all__" or not name.startswith("__"):
            names = load()
            if name in names:
                return names[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted(load())

    return get, names


__all__ = ["names_of"]

"""Lazy packages: importing one imports nothing; the first use of a name does (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from pdl.habits import Missing


def names_of(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package that `module` is in: its public names are those that `module` imports,
    once the first of them is asked for. Modules of the package are found by name, too, and imported alone.

        if TYPE_CHECKING:
            from pdl_x.api import *
        __getattr__, __dir__ = names_of("pdl_x.api")
    """
    package = module.rpartition(".")[0]

    def load() -> dict[str, Any]:
        found = vars(import_module(module))  # without the later names where `module` itself asks, amid its import
        public = {k: v for k, v in found.items() if not k.startswith("_") and not isinstance(v, ModuleType)}
        public.pop("annotations", None)  # of `from __future__`
        vars(sys.modules[package]).update(public)
        return public

    def get(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        if name == "__all__":
            return list(load())
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        public = load()
        if name in public:
            return public[name]
        raise Missing(f"module {package!r}", name, lambda: public, None)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *load()})

    return get, names

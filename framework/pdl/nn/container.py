"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from pdl.errors import UsageError
from pdl.nn.module import Module
from pdl.tensor import Tensor


class ModuleList(Module):
    """A list of modules, named "0", "1", ...

    modules  in this order
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        setattr(self, str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before number `index`; later ones are renamed."""
        modules = list(self)
        modules.insert(index, module)
        self._become(modules)

    def _become(self, modules: list[Module]) -> None:
        for name, _ in list(_items(self)):
            delattr(self, name)
        self.extend(modules)

    def __len__(self) -> int:
        return sum(1 for _ in _items(self))

    def __iter__(self) -> Iterator[Module]:
        return iter([module for _, module in _items(self)])

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self)
        if not isinstance(index, slice):
            return modules[index]
        return Sequential(*modules[index]) if isinstance(self, Sequential) else ModuleList(modules[index])

    def __setitem__(self, index: int, module: Module) -> None:
        modules = list(self)
        modules[index] = module
        self._become(modules)

    def __delitem__(self, index: int) -> None:
        modules = list(self)
        del modules[index]
        self._become(modules)


class Sequential(ModuleList):
    """Modules one after the other: y = f_n(...f_1(x)). Takes modules, or one mapping of names to modules."""

    def __init__(self, *modules: Module | Iterable[Module] | Mapping[str, Module]) -> None:
        first = modules[0] if len(modules) == 1 else None
        if isinstance(first, Mapping):
            for name, module in first.items():
                self.add_module(name, module)
        else:
            super().__init__(modules if first is None or isinstance(first, Module) else first)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Run the modules in order."""
        for module in self.__dict__.values():
            if isinstance(module, Module):
                x = module(x)
        return x

    def _become(self, modules: list[Module]) -> None:
        if any(not name.isdigit() for name, _ in _items(self)):
            raise UsageError(
                "Sequential: modules with names of their own cannot be renumbered; set the attribute instead"
            )
        super()._become(modules)


class ModuleDict(Module):
    """Modules by name.

    modules  name -> module
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add (or replace) several."""
        for name, module in modules.items():
            self[name] = module

    def __setitem__(self, name: str, module: Module) -> None:
        if hasattr(type(self), name):
            raise UsageError(f"ModuleDict: {name!r} is a method of Module; choose another name")
        self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return dict(_items(self))[name]

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in dict(_items(self))

    def __len__(self) -> int:
        return len(dict(_items(self)))

    def __iter__(self) -> Iterator[str]:
        return iter(dict(_items(self)))

    def keys(self) -> list[str]:
        """The names."""
        return list(self)

    def values(self) -> list[Module]:
        """The modules."""
        return [module for _, module in _items(self)]

    def items(self) -> list[tuple[str, Module]]:
        """(name, module) pairs."""
        return list(_items(self))


def _items(module: Module) -> Iterator[tuple[str, Module]]:
    """(name, module) of the direct submodules, repeated ones too."""
    return ((name, value) for name, value in module.__dict__.items() if isinstance(value, Module))

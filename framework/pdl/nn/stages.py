"""A model's layers in order, from input to head: what layer-wise learning rates and freezing go by."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pdl.errors import UsageError
from pdl.nn.container import ModuleDict, ModuleList, Sequential
from pdl.nn.module import Module, Parameter

CONTAINERS = (Sequential, ModuleList, ModuleDict)


def head_of(model: Module) -> tuple[str, ...]:
    """Dotted names of the layers that give the model's outputs: its `head`, one name or several; () without one."""
    head = getattr(model, "head", ())
    if isinstance(head, Module):  # a model whose last layer is called so
        return ("head",)
    return (head,) if isinstance(head, str) else tuple(head)


def within(name: str, patterns: str | Sequence[str]) -> bool:
    """Whether a pattern matches a parameter's name, or that of a module it lies in: "layer1" and "layer1.*" are both
    all of layer1.
    """
    parts = name.split(".")
    paths = [".".join(parts[: i + 1]) for i in range(len(parts))]
    wanted = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatchcase(path, pattern) for pattern in wanted for path in paths)


def stages(model: Module) -> list[list[str]]:
    """Names of all parameters, layer by layer from input to output; the head is the last layer.

    A model may say so itself in `stages`: a list of patterns, or of lists of patterns (`within`). Otherwise the layers
    are the model's children in the order they were set, with plain containers (Sequential, ModuleList, ModuleDict)
    opened: the blocks of a network are a layer each. What has vectors only, such as a norm, belongs to the layer
    before it; the model's own parameters (position embeddings) belong to the first.
    """
    parameters = dict(model.named_parameters())
    declared = getattr(model, "stages", None)
    if declared is not None and not isinstance(declared, Module):
        return _declared(type(model).__name__, parameters, declared)
    head = [name for name in parameters if within(name, head_of(model))]
    rest = {name: p for name, p in parameters.items() if name not in head}
    found = _grouped(rest, _units(model, ""))
    return [*found, head] if head else found


def _units(module: Module, prefix: str) -> list[str]:
    """Paths of the children, those of plain containers in their place."""
    paths = []
    for name, child in module.named_children():
        path = f"{prefix}{name}"
        paths += _units(child, f"{path}.") if type(child) in CONTAINERS else [path]
    return paths


def _grouped(parameters: dict[str, Parameter], units: list[str]) -> list[list[str]]:
    layers: list[list[str]] = []
    waiting = [name for name in parameters if not any(name.startswith(f"{unit}.") for unit in units)]
    for unit in units:
        names = [name for name in parameters if name.startswith(f"{unit}.")]
        vectors = all(parameters[name].ndim < 2 for name in names)
        if vectors and layers:
            layers[-1] += names
        elif vectors:
            waiting += names
        else:
            layers.append(waiting + names)
            waiting = []
    return [*layers, waiting] if waiting else layers


def _declared(owner: str, parameters: dict[str, Parameter], declared: Sequence[str | Sequence[str]]) -> list[list[str]]:
    layers: list[list[str]] = [[] for _ in declared]
    for name in parameters:
        at = [number for number, patterns in enumerate(declared) if within(name, patterns)]
        if len(at) != 1:
            raise UsageError(
                f"{owner}.stages: {name} is in {len(at)} stages ({list(declared)}); each parameter is in one"
            )
        layers[at[0]].append(name)
    empty = next((declared[number] for number, names in enumerate(layers) if not names), None)
    if empty is not None:
        raise UsageError(f"{owner}.stages: {empty!r} matches no parameter")
    return layers

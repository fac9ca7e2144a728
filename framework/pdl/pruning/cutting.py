"""A net without some of its channels: zeros in their place (`mask`), smaller weights (`cut`), and a net of given sizes
for weights that follow (`shape`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.nn.conv import ConvTranspose2d, _Conv
from pdl.nn.linear import Linear
from pdl.nn.module import Module
from pdl.nn.norm import _BatchNorm
from pdl.pruning.coupling import Coupling, Place
from pdl.tensor import Tensor

Unit = Sequence[Place]


def kept(coupling: Coupling, gone: Iterable[Unit]) -> dict[tuple[str, int], Array]:
    """Which indices stay without these units, by (weight, axis), of all axes that shrink."""
    stays: dict[tuple[str, int], Array] = {}
    for unit in gone:
        for name, axis, indices in unit:
            mask = stays.setdefault((name, axis), np.ones(coupling.tensors[name].shape[axis], bool))
            mask[list(indices)] = False
    return stays


def mask(coupling: Coupling, gone: Iterable[Unit]) -> None:
    """Zeros in place of units: what the net computes is what it computes without them."""
    for (name, axis), stays in kept(coupling, gone).items():
        array = np.moveaxis(coupling.tensors[name]._data, axis, 0)
        array[~stays] = 0


def cut(model: Module, coupling: Coupling, gone: Iterable[Unit]) -> dict[str, list[int]]:
    """Take units out of a net, in place; the shapes of the weights that have become smaller, for `shape`."""
    arrays: dict[str, Array] = {}
    for (name, axis), stays in kept(coupling, gone).items():
        arrays[name] = np.compress(stays, arrays.get(name, coupling.tensors[name]._data), axis)
    _fit(model, arrays)
    return {name: list(array.shape) for name, array in arrays.items()}


def shape(model: Module, shapes: Mapping[str, Sequence[int]]) -> None:
    """Make weights of a net smaller, in place, as `cut` said: of their numbers the first are left, until others are
    loaded. ConfigError for what does not fit."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, sizes in shapes.items():
        if name not in own:
            raise ConfigError(f"compress.shapes: {type(model).__name__} has no weight {name!r}")
        before = own[name].shape
        if len(before) != len(sizes) or any(not 1 <= n <= m for m, n in zip(before, sizes, strict=True)):
            raise ConfigError(
                f"compress.shapes: {name} is {before} in {type(model).__name__}; expected as many sizes, none larger, "
                f"not {list(sizes)}"
            )
    _fit(model, {name: own[name]._data[tuple(map(slice, sizes))] for name, sizes in shapes.items()})


def _fit(model: Module, arrays: Mapping[str, Array]) -> None:
    """Put other arrays under the names of weights, and tell their modules."""
    own: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    depthwise = {
        module: module.out_channels // module.groups
        for module in model.modules()
        if isinstance(module, _Conv) and module.groups > 1 and module.weight.shape[-2] == 1
    }
    for name, array in arrays.items():
        own[name]._data, own[name].grad = np.array(array, order="C"), None
    for module in model.modules():
        if isinstance(module, _Conv):
            before, after = (int(n) for n in module.weight.shape[-2:])
            if module in depthwise and not isinstance(module, ConvTranspose2d):
                module.groups = after // depthwise[module]
            ends = before * module.groups, after
            module.in_channels, module.out_channels = ends[::-1] if isinstance(module, ConvTranspose2d) else ends
        elif isinstance(module, Linear):
            module.in_features, module.out_features = (int(n) for n in module.weight.shape)
        elif isinstance(module, _BatchNorm):
            vector = next((v for v in (module.weight, module.running_mean) if v is not None), None)
            module.num_features = module.num_features if vector is None else int(vector.shape[0])

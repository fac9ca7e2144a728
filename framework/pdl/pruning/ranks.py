"""Layers of low rank: weights as products of two smaller ones, and how small."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.nn.factored import KINDS, Factored, break_even
from pdl.nn.module import Module
from pdl.pruning.choosing import stepwise, unreachable
from pdl.pruning.coupling import Product

LEVELS = 16  # ranks of a layer that are tried
MEASURED = 4  # of which so many are measured


class Layer:
    """A layer that may have a low rank.

    name    of its module
    rows    its weight as a matrix [fan in, outputs], float64
    adds    multiply-adds for one input of the net
    most    the largest rank that costs less than the layer does
    """

    def __init__(self, name: str, weight: Array, adds: float, most: int) -> None:
        self.name, self.adds, self.most = name, adds, most
        self.rows = weight.reshape(-1, weight.shape[-1]).astype(np.float64)
        self._parts: tuple[Array, Array, Array] | None = None

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Of its singular value decomposition."""
        if self._parts is None:
            self._parts = np.linalg.svd(self.rows, full_matrices=False)
        return self._parts

    def factors(self, rank: int) -> tuple[Array, Array]:
        """[fan in, rank] and [rank, outputs], whose product is the nearest one of that rank."""
        u, s, v = self.parts
        root = np.sqrt(s[:rank])
        return u[:, :rank] * root, root[:, None] * v[:rank]

    def cost(self, rank: int | None, measure: str) -> float:
        """Multiply-adds ("macs") or numbers ("parameters") with a rank; None: as it is."""
        fan_in, out = self.rows.shape
        whole = self.adds if measure == "macs" else float(fan_in * out)
        return whole if rank is None else whole * rank * (fan_in + out) / (fan_in * out)

    def ranks(self) -> list[int | None]:
        """Those that are tried, from the whole layer down."""
        found = sorted({max(1, round(self.most * k / LEVELS)) for k in range(1, LEVELS + 1)}, reverse=True)
        return [None, *found]

    def by_energy(self, share: float) -> int | None:
        """The least rank that keeps this share of the squares of the singular values; None where it saves nothing."""
        squares = np.cumsum(np.square(self.parts[1]))
        rank = int(np.searchsorted(squares, share * squares[-1]) + 1)
        return rank if rank <= self.most else None


def layers(model: Module, products: Sequence[Product]) -> list[Layer]:
    """The layers of a net that may have a low rank: linear ones and convolutions without groups whose weight no other
    module has, where a rank is that costs less."""
    adds: dict[str, float] = {}
    for product in products:
        adds[product.name] = adds.get(product.name, 0.0) + product.adds
    holders: dict[int, int] = {}
    for holder in model.modules():
        for value in vars(holder).values():
            holders[id(value)] = holders.get(id(value), 0) + 1
    found = []
    for name, each in model.named_modules():
        module: Any = each
        if type(module) not in KINDS or getattr(module, "groups", 1) != 1 or f"{name}.weight" not in adds:
            continue
        most = math.ceil(break_even(module)) - 1
        if most >= 1 and holders[id(module.weight)] == 1:
            found.append(Layer(name, module.weight._data, adds[f"{name}.weight"], most))
    return found


def factor(model: Module, layer: Layer, rank: int) -> None:
    """Give a layer of a net this rank, in place, with the nearest weights."""
    old: Any = model.get_submodule(layer.name)
    made = Factored(old, rank)
    for part, rows in zip((made.first, made.second), layer.factors(rank), strict=True):
        part.weight._data = rows.reshape(part.weight.shape).astype(part.weight.dtype)
    if made.second.bias is not None:
        made.second.bias._data = old.bias._data
    put(model, layer.name, made)


def put(model: Module, name: str, module: Module) -> None:
    """Another module in a place of a net."""
    outer, _, last = name.rpartition(".")
    module.train(model.training)
    model.get_submodule(outer).add_module(last, module)


def shape(model: Module, ranks: Mapping[str, int]) -> None:
    """Give layers of a net these ranks, in place, for weights that follow. ConfigError for what does not fit."""
    own = dict(model.named_modules())
    for name, rank in ranks.items():
        layer = own.get(name)
        if type(layer) not in KINDS or getattr(layer, "groups", 1) != 1:
            raise ConfigError(f"compress.ranks: {type(model).__name__} has no linear layer or convolution {name!r}")
        assert layer is not None
        if not 1 <= rank < break_even(layer):
            most = math.ceil(break_even(layer)) - 1
            raise ConfigError(f"compress.ranks: {name} has ranks from 1 to {most} that cost less, not {rank}")
        put(model, name, Factored(layer, rank))


# -- how low -----------------------------------------------------------------------------------------------------------
def by_energy(found: Sequence[Layer], cost: Callable[[Sequence[int | None]], float], keep: float) -> list[int | None]:
    """Ranks that keep the same share of the squares of the singular values everywhere, such that the cost is at most
    `keep` of what it was."""
    wanted, low, high = keep * cost([None] * len(found)), 0.0, 1.0
    if cost([1] * len(found)) > wanted:
        raise unreachable(cost([1] * len(found)) / cost([None] * len(found)), keep, "low_rank", "at rank 1 everywhere")
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if cost([each.by_energy(middle) for each in found]) > wanted else (middle, high)
    return [each.by_energy(low) for each in found]


def by_damage(
    found: Sequence[Layer],
    cost: Callable[[Sequence[int | None]], float],
    keep: float,
    damage: Callable[[Layer, int], float],
) -> list[int | None]:
    """The steps that lose least for what they save, as `choosing.by_damage` takes them; `damage` of a layer with a
    rank: how much worse the net is, asked at quarters of the ranks."""
    curves = []
    for layer in found:
        ranks = layer.ranks()
        asked = sorted({round(k * (len(ranks) - 1) / MEASURED) for k in range(MEASURED + 1)} - {0})
        known = np.maximum.accumulate([0.0, *(max(0.0, damage(layer, ranks[n] or 1)) for n in asked)])
        each = np.interp(range(len(ranks)), [0, *asked], known)
        curves.append([(n, float(d) + 1e-4 * n / len(ranks)) for n, d in enumerate(each)])

    def costs(counts: Sequence[int]) -> float:
        return cost([layer.ranks()[n] for layer, n in zip(found, counts, strict=True)])

    return [layer.ranks()[n] for layer, n in zip(found, stepwise(curves, costs, keep), strict=True)]


@contextmanager
def tried(model: Module, layer: Layer, rank: int) -> Iterator[None]:
    """A net with the nearest weight of this rank in place of a layer's, as long as the body runs."""
    held: Any = model.get_submodule(layer.name)
    weight = held.weight
    first, second = layer.factors(rank)
    before, weight._data = weight._data, (first @ second).reshape(weight.shape).astype(weight.dtype)
    try:
        yield
    finally:
        weight._data = before

"""Losses by their names, with what recipes say of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import pdl
from pdl import nn
from pdl.config.schema import Checker
from pdl.errors import ConfigError
from pdl.suites import suggest

LossName = Literal["softmax", "arcface", "cosface", "triplet", "quadruplet", "npair", "supcon"]
Options = Mapping[str, float | int | str | None]
BY_CLASS: Mapping[str, type[nn.Module]] = {
    "softmax": nn.SoftmaxLoss, "arcface": nn.ArcFaceLoss, "cosface": nn.CosFaceLoss,
}  # fmt: skip
"""Which learn something of each class."""
BY_BATCH: Mapping[str, type[nn.Module]] = {
    "triplet": nn.TripletLoss, "quadruplet": nn.QuadrupletLoss, "npair": nn.NPairLoss, "supcon": nn.SupConLoss,
}  # fmt: skip
"""Which compare the images of a batch."""
GIVEN = frozenset({"num_classes", "embedding_size", "reduction"})


class Losses:
    """The sum of losses, each times its weight.

    given  a name, or names with what each takes: {arcface: {margin: 0.3}, triplet: {mining: hard, weight: 0.5}}
    """

    def __init__(self, given: LossName | Mapping[LossName, Options | None]) -> None:
        named = {given: None} if isinstance(given, str) else given
        self.weights, self.options = dict[str, float](), dict[str, dict[str, Any]]()
        for name, options in named.items():
            if name not in get_args(LossName):
                known = get_args(LossName)
                raise ConfigError(f"task.loss: {name!r} is none of {', '.join(known)}{suggest(name, known)}")
            own: dict[str, Any] = dict(options or {})
            self.weights[name] = _weight(name, own.pop("weight", 1.0))
            checker = Checker()
            checker.arguments(own, _class(name), ("task", "loss", name), GIVEN, GIVEN)
            if checker.faults:
                raise ConfigError([f"{'.'.join(map(str, each.path))}: {each.message}" for each in checker.faults])
            self.options[name] = own
        if not self.weights:
            raise ConfigError(f"task.loss: no loss is named; choose of {', '.join(get_args(LossName))}")

    @property
    def compares(self) -> bool:
        """Whether a batch must hold several images of each of its classes."""
        return any(name in BY_BATCH for name in self.weights)

    def module(self, classes: int, size: int) -> nn.ModuleDict:
        """The losses by name; what they learn is for so many classes, and embeddings of `size` numbers."""
        shape = {"num_classes": classes, "embedding_size": size}
        return nn.ModuleDict(
            {name: _class(name)(**(shape if name in BY_CLASS else {}), **own) for name, own in self.options.items()}
        )

    def __call__(self, module: Any, x: pdl.Tensor, labels: pdl.Tensor) -> dict[str, pdl.Tensor]:
        """Each loss by its name, without its weight."""
        return {name: module[name](x, labels) for name in self.weights}


def _class(name: str) -> type[nn.Module]:
    return {**BY_CLASS, **BY_BATCH}[name]


def _weight(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"task.loss.{name}.weight: {value!r} must be a number above 0")
    return float(value)

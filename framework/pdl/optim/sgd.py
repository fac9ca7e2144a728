"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pdl.errors import UsageError
from pdl.hints import Range
from pdl.kernels import update as kernels
from pdl.optim.groups import Group, LayerDecay, Params, Rule
from pdl.optim.optimizer import Batch, Optimizer, numbers


class SGD(Optimizer):
    """b = momentum b + (1 - dampening) (g + weight_decay p), b_1 = g_1;  p -= lr b.

    `weight_decay` is added to the gradient (L2). With `momentum` a step goes on in the directions of those before, of
    which `dampening` takes away a share. With `nesterov` the step is g + momentum b instead of b. Sutskever et al.,
    ICML 2013; PyTorch's form.
    """

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-3,
        *,
        momentum: Annotated[float, Range(0, below=1)] = 0.0,
        dampening: Annotated[float, Range(0, 1)] = 0.0,
        weight_decay: Annotated[float, Range(0)] = 0.0,
        nesterov: bool = False,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise UsageError(
                f"SGD: nesterov needs momentum > 0 and dampening 0, got momentum={momentum} and dampening={dampening}"
            )
        options: dict[str, Any] = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
        }  # fmt: skip
        super().__init__(params, options, groups, no_decay, layer_decay)

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        buffers = batch.slot("momentum_buffer") if group["momentum"] else None
        options = numbers(group, "lr", "momentum", "dampening", "weight_decay", "nesterov")
        kernels.sgd(batch.params, batch.grads, buffers, first=step == 1, scale=scale, **options)

"""LAMB: Adam's direction with a step length per parameter tensor, for large batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from pdl.hints import Range
from pdl.kernels import update as kernels
from pdl.optim.adam import Beta
from pdl.optim.groups import Group, LayerDecay, Params, Rule
from pdl.optim.optimizer import Batch, Optimizer, numbers


class LAMB(Optimizer):
    """r = m^ / (sqrt(v^) + eps) + weight_decay p;  p -= lr (|p| / |r|) r, with Adam's m^ and v^.

    The ratio of the L2 norms of each tensor is 1 where one of them is 0. You et al., arXiv 1904.00962, algorithm 2
    (phi: identity). The ratio needs the whole gradient: sparse ones are refused.
    """

    takes_sparse, elementwise = False, False

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-3,
        *,
        betas: tuple[Beta, Beta] = (0.9, 0.999),
        eps: Annotated[float, Range(0)] = 1e-6,
        weight_decay: Annotated[float, Range(0)] = 0.0,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        options: dict[str, Any] = {"lr": lr, "betas": list(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options, groups, no_decay, layer_decay)

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        means = batch.slot("exp_avg"), batch.slot("exp_avg_sq")
        scratch = [np.empty_like(p) for p in batch.params]
        beta1, beta2 = group["betas"]
        options = numbers(group, "lr", "eps", "weight_decay") | {"beta1": beta1, "beta2": beta2, "count": step}
        kernels.lamb(batch.params, batch.grads, *means, scratch, scale=scale, **options)

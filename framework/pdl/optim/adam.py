"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pdl.hints import Range
from pdl.kernels import update as kernels
from pdl.optim.groups import Group, LayerDecay, Params, Rule
from pdl.optim.optimizer import Batch, Optimizer, numbers

Beta = Annotated[float, Range(0, below=1)]


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr m^ / (sqrt(v^) + eps), with m^ = m / (1 - b1^t), v^ = v
    / (1 - b2^t).

    `betas` are b1 and b2, and `eps` keeps the divisor from 0. `weight_decay` is added to the gradient (L2). `amsgrad`
    uses the largest v so far (Reddi et al., ICLR 2018). Kingma & Ba, arXiv 1412.6980.
    """

    decoupled: ClassVar[bool] = False

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-3,
        *,
        betas: tuple[Beta, Beta] = (0.9, 0.999),
        eps: Annotated[float, Range(0)] = 1e-8,
        weight_decay: Annotated[float, Range(0)] = 0.0,
        amsgrad: bool = False,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr, "betas": list(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        }  # fmt: skip
        super().__init__(params, options, groups, no_decay, layer_decay)

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        largest = batch.slot("max_exp_avg_sq") if group["amsgrad"] else None
        means = batch.slot("exp_avg"), batch.slot("exp_avg_sq")
        beta1, beta2 = group["betas"]
        options = numbers(group, "lr", "eps", "weight_decay") | {"beta1": beta1, "beta2": beta2, "count": step}
        kernels.adam(batch.params, batch.grads, *means, largest, decoupled=self.decoupled, scale=scale, **options)


class AdamW(Adam):
    """Adam whose weight decay acts on the weights: p -= lr weight_decay p, in addition to the step. Loshchilov &
    Hutter, arXiv 1711.05101.
    """

    decoupled = True

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-3,
        *,
        betas: tuple[Beta, Beta] = (0.9, 0.999),
        eps: Annotated[float, Range(0)] = 1e-8,
        weight_decay: Annotated[float, Range(0)] = 1e-2,
        amsgrad: bool = False,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        super().__init__(
            params, lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, groups=groups,
            no_decay=no_decay, layer_decay=layer_decay,
        )  # fmt: skip

"""RMSprop, Adagrad and Adadelta: step sizes from a running or growing mean of squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pdl.hints import Range
from pdl.kernels import update as kernels
from pdl.optim.groups import Group, LayerDecay, Params, Rule
from pdl.optim.optimizer import Batch, Optimizer, numbers


class RMSprop(Optimizer):
    """s = alpha s + (1 - alpha) g^2;  p -= lr g / (sqrt(s) + eps).

    `centered` takes the variance s - a^2 (a: running mean of g) for s; with `momentum` the quotient runs through b =
    momentum b + q, p -= lr b. Tieleman & Hinton, lecture 6.5, 2012; centred: Graves, arXiv 1308.0850; PyTorch's form.

    alpha  share of the old in the running mean of the squared gradient
    """

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-2,
        *,
        alpha: Annotated[float, Range(0, below=1)] = 0.99,
        eps: Annotated[float, Range(0)] = 1e-8,
        weight_decay: Annotated[float, Range(0)] = 0.0,
        momentum: Annotated[float, Range(0, below=1)] = 0.0,
        centered: bool = False,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
            "centered": centered,
        }  # fmt: skip
        super().__init__(params, options, groups, no_decay, layer_decay)

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        means = batch.slot("grad_avg") if group["centered"] else None
        squares = batch.slot("square_avg")
        buffers = batch.slot("momentum_buffer") if group["momentum"] else None
        options = numbers(group, "lr", "alpha", "eps", "momentum", "weight_decay")
        kernels.rmsprop(batch.params, batch.grads, squares, means, buffers, scale=scale, **options)


class Adagrad(Optimizer):
    """s += g^2;  q = lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps);  p -= q;  s_0 = initial_accumulator_value. Duchi
    et al., JMLR 12, 2011.

    momentum        u = momentum u - q;  p += u: the optimiser of GRU4Rec (Hidasi & Karatzoglou, arXiv 1706.03847)
    eps_under_root  g / sqrt(s + eps), as GRU4Rec's authors have it; it takes the step from gradients under sqrt(eps)
    rowwise         one s for each row of a parameter with two dimensions, which the mean of g^2 over the row is added
                    to: a table of 10 million rows x 16 then has 40 MB of sums and not 640 (DLRM, arXiv 1906.00091)
    lr_decay                   by which the learning rate falls with the number of steps
    initial_accumulator_value  what the sums of squares begin with
    """

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-2,
        *,
        lr_decay: Annotated[float, Range(0)] = 0.0,
        weight_decay: Annotated[float, Range(0)] = 0.0,
        initial_accumulator_value: Annotated[float, Range(0)] = 0.0,
        eps: Annotated[float, Range(0)] = 1e-10,
        momentum: Annotated[float, Range(0, below=1)] = 0.0,
        eps_under_root: bool = False,
        rowwise: bool = False,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps, "momentum": momentum,
            "eps_under_root": eps_under_root, "rowwise": rowwise,
            "initial_accumulator_value": initial_accumulator_value,
        }  # fmt: skip
        super().__init__(params, options, groups, no_decay, layer_decay)

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        tables = [group["rowwise"] and p.ndim == 2 for p in batch.params]
        for by_rows, kernel in ((False, kernels.adagrad), (True, kernels.adagrad_rowwise)):
            part = batch.part([by_rows == table for table in tables])
            if not part.params:
                continue
            sums = part.slot("sum", rowwise=by_rows, value=group["initial_accumulator_value"])
            velocities = part.slot("velocity") if group["momentum"] else None
            kernel(
                part.params, part.grads, sums, velocities,
                lr=group["lr"] / (1 + (step - 1) * group["lr_decay"]), eps=group["eps"],
                under_root=group["eps_under_root"], momentum=group["momentum"], weight_decay=group["weight_decay"],
                scale=scale,
            )  # fmt: skip


class Adadelta(Optimizer):
    """s = rho s + (1 - rho) g^2;  d = sqrt(a + eps) / sqrt(s + eps) g;  a = rho a + (1 - rho) d^2;  p -= lr d. Zeiler,
    arXiv 1212.5701.

    rho  share of the old in the running means
    """

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1.0,
        *,
        rho: Annotated[float, Range(0, 1)] = 0.9,
        eps: Annotated[float, Range(0)] = 1e-6,
        weight_decay: Annotated[float, Range(0)] = 0.0,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        options: dict[str, Any] = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options, groups, no_decay, layer_decay)

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        squares, steps = batch.slot("square_avg"), batch.slot("acc_delta")
        options = numbers(group, "lr", "rho", "eps", "weight_decay")
        kernels.adadelta(batch.params, batch.grads, squares, steps, scale=scale, **options)

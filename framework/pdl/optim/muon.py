"""Muon: steps along the nearest orthogonal matrix of the momentum, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np

from pdl.dtype import Array, bfloat16
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.kernels import gemm
from pdl.kernels import update as kernels
from pdl.optim.adam import Beta
from pdl.optim.groups import Group, LayerDecay, Params, Rule
from pdl.optim.optimizer import Batch, Optimizer, numbers
from pdl.tensor import Tensor

COEFFICIENTS = (3.4445, -4.775, 2.0315)
"""a, b, c of the quintic a x + b x^3 + c x^5, whose iteration takes singular values in (0, 1] near 1."""
EPS = 1e-7  # added to nothing: the least norm that a matrix is divided by


class Muon(Optimizer):
    """m = momentum m + (1 - momentum) g;  p -= lr s orthogonal((1 - momentum) g + momentum m) + lr weight_decay p, for
    matrices; AdamW for all else.

    orthogonal(G) is U V^T of the singular value decomposition G = U S V^T, nearly: `ns_steps` Newton-Schulz iterations
    X <- a X + b (X X^T) X + c (X X^T)^2 X of G / |G| leave singular values between 0.7 and 1.2. Jordan et al., "Muon:
    an optimizer for hidden layers in neural networks", 2024; weight decay and scale: Liu et al., arXiv 2502.16982.
    Names are those of torch.optim.Muon; the formulas are, too.

    Matrices are the parameters of two or more dimensions [..., inputs, outputs], all but the last taken together. Where
    `params` is a module, tables of embeddings and the module's head are none; `adamw` names more that are none.

    momentum      share of the old in m
    nesterov      the momentum looks ahead, as in the formula; else the step is along orthogonal(m)
    ns_steps      Newton-Schulz iterations
    ns_dtype      "bfloat16" iterates in it, faster where the machine multiplies it; "float32" in the parameters' own
    adjust_lr_fn  s: "match_rms_adamw", 0.2 sqrt(max(inputs, outputs)), with which lr and weight_decay are those of
                  AdamW; "original", sqrt(max(1, outputs / inputs)), with a higher lr (0.02) and its own `adamw_lr`
    adamw         name patterns of matrices that AdamW learns
    adamw_lr      the rate of what AdamW learns; None: lr
    betas, eps    of AdamW
    split         a matrix of several, side by side, such as that of queries, keys and values, is orthogonalised part by
                  part: how many equal parts, or their numbers of outputs; for a rule, as a rule
                  {"match": "*.in_proj_weight", "split": 3}
    """

    elementwise = False

    def __init__(
        self,
        params: Params,
        lr: Annotated[float, Range(0)] = 1e-3,
        *,
        momentum: Beta = 0.95,
        nesterov: bool = True,
        weight_decay: Annotated[float, Range(0)] = 0.1,
        ns_steps: Annotated[int, Range(1, 20)] = 5,
        ns_dtype: Literal["float32", "bfloat16"] = "float32",
        adjust_lr_fn: Literal["match_rms_adamw", "original"] = "match_rms_adamw",
        adamw: Sequence[str] = (),
        adamw_lr: Annotated[float, Range(0)] | None = None,
        betas: tuple[Beta, Beta] = (0.9, 0.95),
        eps: Annotated[float, Range(0)] = 1e-8,
        split: Annotated[int, Range(1)] | Sequence[int] = 1,
        groups: Sequence[Rule] = (),
        no_decay: bool | Sequence[str] = False,
        layer_decay: LayerDecay = None,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay, "ns_steps": ns_steps,
            "ns_dtype": ns_dtype, "adjust_lr_fn": adjust_lr_fn, "betas": list(betas), "eps": eps,
            "split": split if isinstance(split, int) else list(split),
        }  # fmt: skip
        super().__init__(params, options, groups, no_decay, layer_decay)
        left_out = [*adamw, *_no_matrices(params)]
        factor = 1.0 if adamw_lr is None else adamw_lr / lr if lr else 0.0
        self.param_groups = [part for group in self.param_groups for part in _apart(group, left_out, factor)]

    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        if not group["orthogonal"]:
            beta1, beta2 = group["betas"]
            options = numbers(group, "lr", "eps", "weight_decay") | {"beta1": beta1, "beta2": beta2, "count": step}
            means = batch.slot("exp_avg"), batch.slot("exp_avg_sq")
            kernels.adam(batch.params, batch.grads, *means, None, decoupled=True, scale=scale, **options)
            return
        parts: dict[tuple[int, int], list[tuple[Array, Array]]] = {}  # of one shape: those of the parameter, direction
        for p, g, m in zip(batch.params, batch.grads, batch.slot("momentum_buffer"), strict=True):
            if isinstance(g, tuple):
                raise UsageError("Muon: a gradient is sparse; tables of embeddings are for AdamW: name them in adamw")
            for own, direction in _directions(p, g, m, group, scale):
                parts.setdefault(own.shape, []).append((own, direction))
        for (inputs, outputs), found in parts.items():
            made = orthogonal(np.stack([each for _, each in found]), group["ns_steps"], group["ns_dtype"])
            rate = group["lr"] * _factor(group["adjust_lr_fn"], inputs, outputs)
            made *= made.dtype.type(rate)
            for (own, _), change in zip(found, made, strict=True):
                if group["weight_decay"]:
                    own *= own.dtype.type(1 - group["lr"] * group["weight_decay"])
                own -= change


def orthogonal(x: Array, steps: int = 5, dtype: str = "float32") -> Array:
    """U V^T of each matrix x = U S V^T, nearly, by Newton-Schulz iterations.    x [n, rows, columns] float32 or float64
    -> the same, a new array
    """
    own = x.dtype
    tall = x.shape[1] > x.shape[2]
    x = np.ascontiguousarray(x.swapaxes(1, 2) if tall else x)
    norms = np.sqrt(np.einsum("nij,nij->n", x, x, dtype=np.float64))
    x = x * (1 / np.maximum(norms, EPS)).astype(own)[:, None, None]
    a, b, c = COEFFICIENTS
    if dtype == "bfloat16":
        x = x.astype(bfloat16)
    n, rows = x.shape[:2]
    wide = np.empty((n, rows, rows), np.float32 if dtype == "bfloat16" else own)
    square, gram, product = np.empty_like(wide), np.empty((n, rows, rows), x.dtype), np.empty(x.shape, wide.dtype)
    for _ in range(steps):
        gemm.matmul(wide, x, x.swapaxes(1, 2))
        gram[...] = wide
        gemm.matmul(square, gram, gram)
        square *= square.dtype.type(c)
        wide *= wide.dtype.type(b)
        square += wide
        gram[...] = square
        gemm.matmul(product, gram, x)
        product += x.astype(product.dtype, copy=False) * product.dtype.type(a)
        x[...] = product
    x = x.astype(own, copy=False)
    return np.ascontiguousarray(x.swapaxes(1, 2)) if tall else x


def _directions(p: Array, g: Array, m: Array, group: Group, scale: float) -> list[tuple[Array, Array]]:
    """Views of a parameter as matrices, and the direction of each; moves the momentum."""
    share, one = p.dtype.type(group["momentum"]), p.dtype.type(1 - group["momentum"])
    step = g * p.dtype.type(scale * float(one))
    m *= share
    m += step
    direction = step + share * m if group["nesterov"] else m
    rows = p.size // p.shape[-1]
    edges = _edges(p.shape[-1], group["split"])
    own, direction = p.reshape(rows, -1), direction.reshape(rows, -1)
    return [(own[:, a:b], direction[:, a:b]) for a, b in pairwise(edges)]


def _edges(outputs: int, split: int | Sequence[int]) -> list[int]:
    sizes = [outputs // split] * split if isinstance(split, int) else list(split)
    if sum(sizes) != outputs or min(sizes) < 1:
        raise UsageError(f"Muon: split={split} does not fit a matrix with {outputs} outputs")
    return [sum(sizes[:i]) for i in range(len(sizes) + 1)]


def _factor(kind: str, inputs: int, outputs: int) -> float:
    if kind == "original":
        return math.sqrt(max(1.0, outputs / inputs))
    return 0.2 * math.sqrt(max(inputs, outputs))


def _no_matrices(params: Params) -> list[str]:
    """Patterns of the tables of embeddings and the head of a module."""
    from pdl.nn import Embedding, Module
    from pdl.nn.stages import head_of

    if not isinstance(params, Module):
        return []
    tables = [f"{name}.*" if name else "*" for name, each in params.named_modules() if isinstance(each, Embedding)]
    return [*tables, *(pattern for head in head_of(params) for pattern in (head, f"{head}.*"))]


def _is_matrix(name: str, p: Tensor, left_out: Sequence[str]) -> bool:
    return p.ndim > 1 and p.dtype.kind != "c" and not any(fnmatchcase(name, pattern) for pattern in left_out)


def _apart(group: Group, left_out: Sequence[str], factor: float) -> list[Group]:
    """The matrices of a group, and what AdamW learns of it."""
    found = []
    for wanted in (True, False):
        kept = [
            _is_matrix(name, p, left_out) == wanted
            for name, p in zip(group["names"], group["params"], strict=True)
        ]
        if any(kept):
            chosen = {
                key: [x for x, keep in zip(group[key], kept, strict=True) if keep] for key in ("names", "params")
            }
            lr = group["lr"] * (1.0 if wanted else factor)
            found.append({**group, **chosen, "lr": lr, "orthogonal": wanted})
    return found

"""Connectionist temporal classification (Graves, Fernández, Gomez, Schmidhuber, ICML 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array, bool_
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import ctc as kernels
from pdl.ops.attributes import Length
from pdl.ops.base import Arrays, Fused, Spec, apply, compose_vjp
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating, check_specs
from pdl.ops.elementwise import maximum, where
from pdl.ops.index import take_along_axis
from pdl.ops.logic import isinf
from pdl.ops.reduce import logsumexp, mean
from pdl.ops.reduce import sum as total
from pdl.ops.shape import concat, stack
from pdl.tensor import Tensor

NEVER = -1e30  # the log of probability 0: finite, so that gradients stay finite
_LONGEST = 1e29


class _Ctc(Fused, abstract=True):
    """Shapes shared by the loss and its gradient."""

    blank: Length

    def batch(self, log_p: Spec, *integers: Spec) -> tuple[int, ...]:
        """The shape (N, T, C); raises where the five inputs do not fit together."""
        check_floating("ctc_loss", log_probs=log_p)
        for label, x, rank in zip(("targets", "input_lengths", "target_lengths"), integers, (2, 1, 1), strict=True):
            if x.dtype.kind not in "iu":
                raise DtypeError(f"ctc_loss: {label} is {x.dtype.name}; expected an integer dtype")
            if len(x.shape) != rank or x.shape[0] != log_p.shape[0]:
                raise ShapeError(
                    f"ctc_loss: {label} {x.shape} must have {rank} dimensions and the batch of log_probs {log_p.shape}"
                )
        if len(log_p.shape) != 3 or not 0 <= self.blank < log_p.shape[2]:
            raise ShapeError(
                f"ctc_loss: log_probs {log_p.shape} must be [N, T, C] with the blank {self.blank} among its C classes"
            )
        return log_p.shape


class CtcLoss(_Ctc):
    """loss [N] = -log p(target | log_p): log_p [N, T, C], targets [N, U], input_lengths [N], target_lengths [N]; +inf
    where no alignment exists."""

    blank: Length = 0

    def infer(self, log_p: Spec, targets: Spec, steps: Spec, labels: Spec) -> Spec:
        return Spec(self.batch(log_p, targets, steps, labels)[:1], log_p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.loss(outs[0], np.ascontiguousarray(ins[0]), *_integers(ins[1:]), self.blank)

    def compose(self, log_p: Tensor, targets: Tensor, steps: Tensor, labels: Tensor) -> Tensor:
        """The forward recursion over time, on all 2 U + 1 states of all samples at once."""
        n, time, _classes = log_p.shape
        states = 2 * targets.shape[1] + 1
        where_labels, skips = _states(targets.data, labels.data, self.blank)
        emit = take_along_axis(
            maximum(log_p, NEVER), broadcast_to(Tensor(where_labels[:, None]), (n, time, states)), axis=2
        )
        if time == 0:
            return total(log_p, axis=(1, 2)) + Tensor(np.where(labels.data > 0, np.inf, 0).astype(log_p.dtype))
        never = Tensor(np.full((n, 2), NEVER, log_p.dtype))
        alpha = where(Tensor(np.arange(states)[None] < 2), emit[:, 0], NEVER)
        for t in range(1, time):
            padded = concat([never, alpha], axis=1)
            skip = where(Tensor(skips), padded[:, :-2], NEVER)
            moved = maximum(logsumexp(stack([alpha, padded[:, 1:-1], skip]), axis=0) + emit[:, t], NEVER)
            alpha = where(Tensor((t < steps.data)[:, None]), moved, alpha)
        ends = np.arange(states)[None] - 2 * labels.data[:, None]
        last = where(Tensor((ends == 0) | (ends == -1)), alpha, NEVER)
        loss = -logsumexp(last, axis=1)
        impossible = (loss.data > _LONGEST) | ((steps.data == 0) & (labels.data > 0))
        loss = where(Tensor(impossible), float("inf"), loss)
        return where(Tensor((steps.data == 0) & (labels.data == 0)), 0.0, loss)

    def vjp(self, g: Tensor, y: Tensor, *ins: Tensor) -> Any:
        return lambda: apply(CtcLossGrad(self.blank), g, *ins), None, None, None


class CtcLossGrad(_Ctc):
    """dlog_p [N, T, C] of `CtcLoss`: -g [N] times the probability that the class is emitted at the step; 0 where no
    alignment exists."""

    blank: Length = 0

    def infer(self, g: Spec, log_p: Spec, targets: Spec, steps: Spec, labels: Spec) -> Spec:
        check_specs("gradient of ctc_loss", g=(g, Spec(log_p.shape[:1], log_p.dtype)))
        return Spec(self.batch(log_p, targets, steps, labels), log_p.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.gradient(
            outs[0], np.ascontiguousarray(ins[0]), np.ascontiguousarray(ins[1]), *_integers(ins[2:]), self.blank
        )

    def compose(self, g: Tensor, log_p: Tensor, *integers: Tensor) -> Tensor:
        """The gradient of the loss' composition."""
        at = log_p
        if not at.requires_grad:
            at = Tensor(log_p.data, requires_grad=True)
        found = compose_vjp(CtcLoss(self.blank).compose, g, (at, *integers))[0]
        assert found is not None
        return found


def _integers(arrays: tuple[Array, ...]) -> list[Array]:
    return [np.ascontiguousarray(a, dtype=np.int64) for a in arrays]


def _states(targets: Array, labels: Array, blank: int) -> tuple[Array, Array]:
    """The class of each state [N, 2 U + 1], and whether the state may be entered by a skip."""
    n, width = targets.shape
    known = np.where(np.arange(width)[None] < labels[:, None], targets, blank)
    classes = np.full((n, 2 * width + 1), blank, np.int64)
    classes[:, 1::2] = known
    skips = np.zeros(classes.shape, bool_)
    skips[:, 3::2] = known[:, 1:] != known[:, :-1]
    return classes, skips


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of `targets` under all alignments.

    log_probs [N, T, C]: log-probabilities, from log_softmax; targets int [N, U], padded at will; input_lengths [N] up
    to T; target_lengths [N] up to U. Labels are in [0, C) and not `blank`. An alignment emits one class a step;
    repeated classes are merged, then blanks removed. `reduction`: none [N]; sum; mean, which divides each loss by its
    target's length (at least 1) first, as PyTorch does. A target that no alignment gives (too long for its input) has
    the loss +inf, or 0 with `zero_infinity`, and the gradient 0. The gradient is that of log_probs themselves, not
    mixed with a softmax.
    """
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"ctc_loss: reduction {reduction!r} must be mean, sum or none")
    loss = apply(CtcLoss(blank), log_probs, targets, input_lengths, target_lengths)
    if zero_infinity:
        loss = where(isinf(loss), 0.0, loss)
    if reduction == "mean":
        return mean(loss / astype(maximum(target_lengths, 1), loss.dtype))
    return total(loss) if reduction == "sum" else loss


def ctc_greedy_decode(log_probs: Any, input_lengths: Any = None, *, blank: int = 0) -> list[list[int]]:
    """The labels of the likeliest class at each step, repeats merged and blanks removed, a list for each sample.

    log_probs [N, T, C] (tensor or array; any scores do), input_lengths [N] (all T where left out). No gradient.
    """
    scores = log_probs.data if isinstance(log_probs, Tensor) else np.asarray(log_probs)
    if scores.ndim != 3:
        raise ShapeError(f"ctc_greedy_decode: log_probs {scores.shape} must be [N, T, C]")
    lengths = input_lengths.data if isinstance(input_lengths, Tensor) else input_lengths
    best = scores.argmax(2)
    keep = best != blank
    keep[:, 1:] &= best[:, 1:] != best[:, :-1]
    if lengths is not None:
        keep &= np.arange(best.shape[1])[None] < np.asarray(lengths)[:, None]
    return [row[mask].tolist() for row, mask in zip(best, keep, strict=True)]


__all__ = ["ctc_greedy_decode", "ctc_loss"]

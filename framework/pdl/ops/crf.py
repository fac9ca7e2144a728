"""Linear-chain conditional random fields (Lafferty, McCallum, Pereira, ICML 2001)."""

from __future__ import annotations

from typing import Any

from pdl.dtype import int64
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import crf as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, compose_vjp, not_differentiable
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import check_floating, check_specs
from pdl.ops.create import arange
from pdl.ops.elementwise import maximum, where
from pdl.ops.index import take, take_along_axis
from pdl.ops.reduce import logsumexp, mean
from pdl.ops.reduce import sum as total
from pdl.ops.shape import expand_dims, reshape
from pdl.tensor import Tensor, TensorLike, as_tensor

NEVER = -1e30  # the log of probability 0: finite, so that gradients stay finite
_LONGEST = 1e29


def _check(name: str, emissions: Spec, lengths: Spec, transitions: Spec, starts: Spec, ends: Spec) -> None:
    """Raise where the inputs do not fit together."""
    check_floating(name, emissions=emissions, transitions=transitions, starts=starts, ends=ends)
    if len(emissions.shape) != 3 or emissions.shape[2] < 1:
        raise ShapeError(f"{name}: emissions {emissions.shape} must be [N, T, K] with K of at least 1")
    n, _, k = emissions.shape
    parts = {"transitions": (transitions, (k, k)), "starts": (starts, (k,)), "ends": (ends, (k,))}
    check_specs(name, **{part: (x, Spec(shape, emissions.dtype)) for part, (x, shape) in parts.items()})
    if lengths != Spec((n,), int64):
        raise ShapeError(f"{name}: lengths {lengths.shape} {lengths.dtype.name} must be ({n},) int64")


def _check_tags(emissions: Spec, tags: Spec) -> None:
    if tags != Spec(emissions.shape[:2], int64):
        raise ShapeError(f"crf_loss: tags {tags.shape} {tags.dtype.name} must be {emissions.shape[:2]} int64")


class CrfLoss(Fused):
    """loss [N] = log Z - score(tags): emissions [N, T, K], tags [N, T], lengths [N], transitions [K, K], starts [K],
    ends [K]; +inf where a score is -inf, 0 of sequences without a step."""

    def infer(self, emissions: Spec, tags: Spec, lengths: Spec, transitions: Spec, starts: Spec, ends: Spec) -> Spec:
        _check("crf_loss", emissions, lengths, transitions, starts, ends)
        _check_tags(emissions, tags)
        return Spec(emissions.shape[:1], emissions.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.loss(outs[0], *map(contiguous, ins))

    def compose(
        self, emissions: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor
    ) -> Tensor:
        """The forward recursion over time, on all tags of all sequences at once."""
        steps, k = emissions.shape[1:]
        if steps == 0:
            return total(emissions, axis=(1, 2))
        emissions, transitions, starts, ends = (maximum(x, NEVER) for x in (emissions, transitions, starts, ends))
        alpha = starts + emissions[:, 0]
        for t in range(1, steps):
            moved = logsumexp(expand_dims(alpha, axis=2) + transitions, axis=1) + emissions[:, t]
            alpha = where(expand_dims(lengths, axis=1) > t, maximum(moved, NEVER), alpha)
        z = logsumexp(alpha + ends, axis=1)
        inside = expand_dims(arange(steps), axis=0) < expand_dims(lengths, axis=1)
        known = where(inside, tags, 0)
        emitted = take_along_axis(emissions, expand_dims(known, axis=2), axis=2)[:, :, 0]
        moves = take(reshape(transitions, (k * k,)), known[:, :-1] * k + known[:, 1:])
        last = take_along_axis(known, expand_dims(maximum(lengths - 1, 0), axis=1), axis=1)[:, 0]
        score = take(starts, known[:, 0]) + take(ends, last) + total(where(inside, emitted, 0.0), axis=1)
        score = score + total(where(inside[:, 1:], moves, 0.0), axis=1)
        impossible = (score < -_LONGEST) | (z < -_LONGEST)
        loss = where(impossible, float("inf"), where(impossible, 0.0, z) - where(impossible, 0.0, score))
        return where(lengths > 0, loss, 0.0)

    def vjp(self, g: Tensor, y: Tensor, *ins: Tensor) -> Any:
        emissions, transitions, starts, ends = apply(CrfLossGrad(), g, *ins)
        return emissions, None, None, transitions, starts, ends


class CrfLossGrad(Fused):
    """(demissions, dtransitions, dstarts, dends) of `CrfLoss` from g [N]: expected counts less those of the tags; 0 of
    sequences whose loss is infinite."""

    def infer(self, g: Spec, emissions: Spec, tags: Spec, *others: Spec) -> tuple[Spec, ...]:
        check_specs("gradient of crf_loss", g=(g, CrfLoss().infer(emissions, tags, *others)))
        return emissions, *others[1:]

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.gradient(*outs, *map(contiguous, ins))

    def compose(self, g: Tensor, *ins: Tensor) -> tuple[Tensor, ...]:
        """The gradient of the loss' composition."""
        tracked = [x if x.dtype.kind == "i" or x.requires_grad else Tensor(x.data, requires_grad=True) for x in ins]
        found = compose_vjp(CrfLoss().compose, g, tuple(tracked))
        made = [found[at] for at in (0, 3, 4, 5)]
        return tuple(x * 0.0 if d is None else d for d, x in zip(made, (ins[0], *ins[3:]), strict=True))


class CrfMarginals(Op):
    """p [N, T, K] of each tag at each step: emissions [N, T, K], lengths [N], transitions [K, K], starts [K], ends
    [K]."""

    native = True

    def infer(self, emissions: Spec, lengths: Spec, transitions: Spec, starts: Spec, ends: Spec) -> Spec:
        _check("crf_marginals", emissions, lengths, transitions, starts, ends)
        return emissions

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.marginals(outs[0], *map(contiguous, ins))

    vjp = not_differentiable("it scores answers; what is learned is crf_loss")


class CrfDecode(Op):
    """tags int64 [N, T] with the highest score: emissions [N, T, K], lengths [N], transitions [K, K], starts [K], ends
    [K]; -1 behind the last step."""

    native = True

    def infer(self, emissions: Spec, lengths: Spec, transitions: Spec, starts: Spec, ends: Spec) -> Spec:
        _check("crf_decode", emissions, lengths, transitions, starts, ends)
        return Spec(emissions.shape[:2], int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.decode(outs[0], *map(contiguous, ins))

    vjp = not_differentiable("which tags are best is piecewise constant")


def crf_loss(
    emissions: TensorLike,
    tags: TensorLike,
    lengths: TensorLike,
    transitions: TensorLike,
    starts: TensorLike,
    ends: TensorLike,
    *,
    reduction: str = "mean",
) -> Tensor:
    """-log p(tags | emissions) of a linear-chain CRF: log Z less the score
    starts[y_0] + sum_t emissions[t, y_t] + sum_t transitions[y_t-1, y_t] + ends[y_last].

    emissions [N, T, K]; tags int [N, T], anything behind the last one; lengths int [N] up to T; transitions [K, K] from
    row to column; starts and ends [K]. Scores may be -inf: tags with one have the loss +inf and the gradient 0.
    `reduction`: none [N]; sum; mean over the sequences. ShapeError for tags outside of [0, K). Lafferty, McCallum and
    Pereira, ICML 2001.
    """
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"crf_loss: reduction {reduction!r} must be mean, sum or none")
    numbers = _integers("crf_loss", tags=tags, lengths=lengths)
    emissions, *scores = as_tensors(emissions, transitions, starts, ends)
    found: Tensor = apply(CrfLoss(), emissions, *numbers, *scores)
    if reduction == "mean":
        return mean(found)
    return total(found) if reduction == "sum" else found


def crf_marginals(
    emissions: TensorLike, lengths: TensorLike, transitions: TensorLike, starts: TensorLike, ends: TensorLike
) -> Tensor:
    """The probability of each tag at each step under a linear-chain CRF, [N, T, K]; 0 behind the last step. Inputs as
    of `crf_loss`. No gradient."""
    numbers = _integers("crf_marginals", lengths=lengths)
    emissions, *scores = as_tensors(emissions, transitions, starts, ends)
    return apply(CrfMarginals(), emissions, *numbers, *scores)  # type: ignore[no-any-return]


def crf_decode(
    emissions: TensorLike, lengths: TensorLike, transitions: TensorLike, starts: TensorLike, ends: TensorLike
) -> Tensor:
    """The tags with the highest score under a linear-chain CRF (Viterbi), int64 [N, T]; -1 behind the last step.

    Inputs as of `crf_loss`; what is not allowed has the score -inf. Of tags with equal scores the first ones, from the
    last step on. No gradient.
    """
    numbers = _integers("crf_decode", lengths=lengths)
    emissions, *scores = as_tensors(emissions, transitions, starts, ends)
    return apply(CrfDecode(), emissions, *numbers, *scores)  # type: ignore[no-any-return]


def _integers(name: str, **given: TensorLike) -> list[Tensor]:
    found = {label: as_tensor(x) for label, x in given.items()}
    for label, x in found.items():
        if x.dtype.kind not in "iu":
            raise DtypeError(f"{name}: {label} is {x.dtype.name}; expected an integer dtype")
    return [x if x.dtype == int64 else astype(x, int64) for x in found.values()]


__all__ = ["crf_decode", "crf_loss", "crf_marginals"]

"""The most probable alignment of a text and its sound, in which neither goes back."""

from __future__ import annotations

from typing import cast

import numpy as np

from pdl.dtype import Array, int64
from pdl.errors import ShapeError
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable, not_exported
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.segment import check_ids
from pdl.tensor import Tensor, TensorLike, as_tensor


class MonotonicAlignment(Op):
    """Durations int64 [N, U]; see `monotonic_alignment`."""

    autocast = "wide"
    onnx = not_exported("texts and sounds are aligned in training only")
    vjp = not_differentiable("how many frames a character has is piecewise constant")

    def infer(self, scores: Spec, frames: Spec, characters: Spec) -> Spec:
        check_floating("monotonic_alignment", scores=scores)
        if len(scores.shape) != 3:
            raise ShapeError(f"monotonic_alignment: scores {scores.shape} must be [N, T, U]")
        n, _, u = scores.shape
        check_shapes("monotonic_alignment", frames=(frames, (n,)), characters=(characters, (n,)))
        for name, counts in (("frames", frames), ("characters", characters)):
            check_ids("monotonic_alignment", name, counts)
        return Spec((n, u), int64)

    def cpu(self, outs: Arrays, ins: tuple[Array, ...]) -> None:
        outs[0][...] = durations(*ins)


def durations(scores: Array, frames: Array, characters: Array) -> Array:
    """int64 [N, U] by Viterbi's algorithm; arguments as of `monotonic_alignment`."""
    n, steps, most = scores.shape
    frames, characters = np.clip(frames, 0, steps), np.clip(characters, 0, most)
    made = np.zeros((n, most), np.int64)
    if not made.size or not steps:
        return made
    moved = np.zeros((steps, n, most), bool)  # whether the best way to here comes from the character before
    best = np.full((n, most + 1), -np.inf)  # behind a column that is never on a path
    best[:, 1] = scores[:, 0, 0]
    for t in range(1, steps):
        stay, come = best[:, 1:], best[:, :-1]
        np.greater(come, stay, out=moved[t])
        best[:, 1:] = np.maximum(stay, come) + scores[:, t]
    rows, at = np.arange(n), characters - 1
    for t in range(steps - 1, -1, -1):
        there = (t < frames) & (at >= 0)
        made[rows[there], at[there]] += 1
        at = at - (there & moved[t, rows, at])
    made[(frames < characters) | (characters < 1)] = 0
    return made


def monotonic_alignment(scores: TensorLike, frames: TensorLike, characters: TensorLike) -> Tensor:
    """How many frames each character has on the path with the largest sum of scores that begins with the first frame at
    the first character, ends with the last at the last, and goes from a frame to the next one at the same character or
    at the following one (Badlani et al., arXiv 2108.10447).    scores [N, T, U], frames and characters int [N], the
    real ones of each row -> int64 [N, U]; 0 behind the last character, and of rows with more characters than frames

    No gradient.
    """
    return cast(Tensor, apply(MonotonicAlignment(), *map(as_tensor, (scores, frames, characters))))

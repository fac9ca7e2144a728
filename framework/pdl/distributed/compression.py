"""`Compressor`: of each gradient only the largest numbers travel, the others wait until they have grown.

Deep Gradient Compression: Lin et al., arXiv 1712.01887. Sums are in the order of the ranks, so every rank has the same
bits, run after run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.distributed.group import Group
from pdl.dtype import Array, bfloat16, float32
from pdl.errors import UsageError
from pdl.kernels.copies import convert
from pdl.ops.sparse import SparseGrad
from pdl.optim import SGD, Optimizer
from pdl.tensor import Tensor

_SAMPLE = 1 << 14  # magnitudes from which a bound is estimated
_SMALL = 1024  # elements of a parameter that travels whole


class Compressor:
    """With g the gradient of a rank, times its share of the samples, in each step and for each parameter:

        u = momentum u + (g + weight_decay w);  v = v + u        (SGD: momentum correction)
        v = v + g                                                (others, whose moments are of what is sent)

    The numbers of v with the largest magnitudes are sent and set to 0, in v and in u (momentum factor masking); the
    mean of what the ranks send is the gradient that the optimiser gets. Vectors, and parameters of fewer than 1024
    numbers, travel whole.

    keep      share of the numbers that are sent, at least one of each parameter
    warmup    epochs in which the share goes down to that: in epoch e (from 0) it is keep^((e + 1) / (warmup + 1))
    clip      bound on the norm of g, before it is added (the paper's N^-1/2 times that of the whole)
    wire      dtype of the numbers sent; what rounding takes away stays in v
    """

    def __init__(
        self,
        group: Group,
        names: Sequence[str],
        parameters: Sequence[Tensor],
        optimizer: Optimizer,
        *,
        keep: float,
        warmup: int,
        clip: float | None = None,
        wire: str = "fp32",
    ) -> None:
        self.group, self.names, self.parameters, self.optimizer = group, list(names), list(parameters), optimizer
        self.keep, self.warmup, self.clip, self.wire = keep, warmup, clip, wire
        if any(p.dtype not in (float32, bfloat16) for p in parameters):
            raise UsageError("distributed.compress: parameters must be float32 or bfloat16")
        self.corrected = isinstance(optimizer, SGD) and any(g["momentum"] for g in optimizer.param_groups)
        if self.corrected and any(g["dampening"] for g in optimizer.param_groups):
            raise UsageError("distributed.compress: SGD with dampening has no momentum correction; set dampening=0")
        self.options = {id(p): each for each in optimizer.param_groups for p in each["params"]}
        self.u: dict[str, Array] = {}
        self.v: dict[str, Array] = {}

    def share(self, epoch: int) -> float:
        """What is sent in an epoch (from 0)."""
        return float(self.keep ** (min(1.0, (epoch + 1) / (self.warmup + 1))))

    def reduce(self, factor: float, used: Sequence[bool], epoch: int) -> float:
        """Replace the parameters' `grad` by the mean of what the ranks send; those that no rank has (`used`) get none.
        The gradients of this rank are taken times `factor`. Returns their norm, before it is bounded."""
        gradients = {i: self._read(i, factor) for i, p in enumerate(self.parameters) if p.grad is not None}
        norm = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients.values()))
        if self.clip is not None and norm > (most := self.clip / math.sqrt(self.group.size)):
            for g in gradients.values():
                g *= np.float32(most / norm)
        sent: list[tuple[int, Array | None, Array]] = []
        for i, p in enumerate(self.parameters):
            p.grad = None
            if used[i]:
                sent.append((i, *self._chosen(i, gradients.get(i), self.share(epoch))))
        self._exchange(sent)
        return norm

    def update(self, scale: float) -> None:
        """The optimiser's step; momentum and decay that are in the gradients already are not taken twice."""
        if not self.corrected:
            self.optimizer.step(scale=scale)
            return
        own = [(g["momentum"], g["weight_decay"], g["nesterov"]) for g in self.optimizer.param_groups]
        try:
            for group in self.optimizer.param_groups:
                group.update(momentum=0.0, weight_decay=0.0, nesterov=False)
            self.optimizer.step(scale=scale)
        finally:
            for group, (momentum, decay, nesterov) in zip(self.optimizer.param_groups, own, strict=True):
                group.update(momentum=momentum, weight_decay=decay, nesterov=nesterov)

    # -- its parts -----------------------------------------------------------------------------------------------------
    def _read(self, i: int, factor: float) -> Array:
        """A gradient as float32 numbers in a row, in memory of its own."""
        gradient = self.parameters[i].grad
        if isinstance(gradient, SparseGrad):
            raise UsageError(
                f"distributed.compress: the gradient of {self.names[i]} comes as rows; use an embedding with "
                "sparse=False, or no distributed.compress"
            )
        assert gradient is not None
        return gradient._data.astype(float32).reshape(-1) * np.float32(factor)

    def _chosen(self, i: int, g: Array | None, share: float) -> tuple[Array | None, Array]:
        """Positions (None: all) and numbers that this rank sends of a parameter."""
        name, p = self.names[i], self.parameters[i]
        g = np.zeros(p.size, float32) if g is None else g
        step = g
        if self.corrected:
            group = self.options[id(p)]
            momentum = np.float32(group["momentum"])
            if group["weight_decay"]:
                g += np.float32(group["weight_decay"]) * p._data.astype(float32).reshape(-1)
            u = self.u.setdefault(name, np.zeros(p.size, float32))
            u *= momentum
            u += g
            step = g + momentum * u if group["nesterov"] else u
        if p.ndim < 2 or p.size < _SMALL:
            return None, step.copy()
        v = self.v.setdefault(name, np.zeros(p.size, float32))
        v += step
        at = largest(v, max(1, round(share * p.size)))
        values = self._on_wire(v[at])
        v[at] -= values
        if self.corrected:
            self.u[name][at] = 0
        return at, values

    def _on_wire(self, values: Array) -> Array:
        """As they are after they have travelled."""
        if self.wire != "bf16":
            return values
        short = np.empty(values.shape, bfloat16)
        convert(short, values)
        convert(values, short)
        return values

    def _exchange(self, sent: Sequence[tuple[int, Array | None, Array]]) -> None:
        """Sum what all ranks send: as many numbers of each parameter from each."""
        empty = np.empty(0, float32)
        values = np.concatenate([empty, *(values for _, _, values in sent)])
        positions = np.concatenate([np.empty(0, np.int32), *(at for _, at, _ in sent if at is not None)])
        if self.wire == "bf16":
            travels = np.empty(values.shape, bfloat16)
            convert(travels, values)
            rows = np.empty((self.group.size, len(values)), float32)
            convert(rows, self.group.rows(travels))
        else:
            rows = self.group.rows(values)
        places = self.group.rows(positions.astype(np.int32))
        first, place = 0, 0
        for i, at, mine in sent:
            p, last = self.parameters[i], first + len(mine)
            total = np.zeros(p.size, float32)
            for rank in range(self.group.size):
                if at is None:
                    total += rows[rank, first:last]
                else:
                    total[places[rank, place : place + len(at)]] += rows[rank, first:last]
            total *= np.float32(1.0 / self.group.size)
            p.grad = Tensor._wrap(total.reshape(p.shape))
            first, place = last, place + (0 if at is None else len(at))

    # -- saving and going on -------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """{"u": {name: [ranks, size]}, "v": ...}: what waits on each rank; all must ask."""
        return {key: {name: self.group.rows(x) for name, x in sorted(own.items())} for key, own in self._state()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on with what this rank had; of another number of ranks, with the mean of what these had, which is as much
        in all."""
        for key, own in self._state():
            own.clear()
            for name, rows in saved.get(key, {}).items():
                rows = np.asarray(rows)
                same = len(rows) == self.group.size
                own[name] = np.array(rows[self.group.rank] if same else rows.mean(axis=0), float32)

    def _state(self) -> tuple[tuple[str, dict[str, Array]], ...]:
        return ("u", self.u), ("v", self.v)


def largest(x: Array, k: int) -> Array:
    """Positions int32 [k], ascending, of the numbers with the largest magnitudes of a vector.

    A bound from a sample leaves few to choose from; where it leaves fewer than k all are looked at.
    """
    size = np.abs(x)
    candidates = None
    if 8 * k < len(x) and len(x) > 4 * _SAMPLE:
        sample = size[:: len(x) // _SAMPLE]
        wanted = min(len(sample), 2 + int(1.5 * k * len(sample) / len(x)))
        bound = np.partition(sample, len(sample) - wanted)[len(sample) - wanted]
        found = np.flatnonzero(size >= bound)
        if len(found) >= k:
            candidates = found
    if candidates is None:
        candidates = np.arange(len(x))
    chosen = candidates[np.argpartition(size[candidates], len(candidates) - k)[len(candidates) - k :]]
    return np.sort(chosen).astype(np.int32)

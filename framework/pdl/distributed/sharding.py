"""`ShardedOptimizer`: each rank keeps the optimiser's state of its share of every parameter, and updates that share
(ZeRO stages 1 to 3: Rajbhandari et al., arXiv 1910.02054)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from pdl.distributed.reduction import Bucket, Reduction
from pdl.distributed.weights import ShardedWeights
from pdl.dtype import Array, bfloat16, real_of
from pdl.errors import UsageError
from pdl.kernels.copies import convert
from pdl.optim import Optimizer
from pdl.optim.clip import bound, total_norm
from pdl.tensor import Tensor


class ShardedOptimizer:
    """Lets `optimizer` update only what this rank sums of a reduction's buckets.

        take()       the mean gradients of a step become the `grad` of this rank's pieces
        spread()     after the update: every rank gets the new weights of the others

    Rows of sparse gradients stay whole on every rank. `state_dict` is that of the whole, as one process would give it.
    Where there are `weights` in shares, the pieces are windows on these.
    """

    def __init__(self, optimizer: Optimizer, reduction: Reduction, weights: ShardedWeights | None = None) -> None:
        self.optimizer, self.reduction, self.group = optimizer, reduction, reduction.group
        self.weights = {} if weights is None else weights.own
        self.pieces: dict[int, tuple[Tensor, slice]] = {}  # of parameter i: the piece, and where it lies in it
        self.shapes: dict[str, tuple[int, ...]] = {}  # of all parameters
        self.cut: set[str] = set()  # those in pieces
        self._cut()

    def _cut(self) -> None:
        """Put pieces in the place of parameters, and of what state there is."""
        index = {id(p): i for i, p in enumerate(self.reduction.parameters)}
        for group in self.optimizer.param_groups:
            names, params = list[str](), list[Tensor]()
            for name, p in zip(group["names"], group["params"], strict=True):
                self.shapes[name] = p.shape
                place = self.reduction.places.get(index.get(id(p), -1))
                if place is not None:
                    self.cut.add(name)
                    lies = place.piece(self.group.rank)
                    own = self.weights.get(place.bucket.number)
                    piece = Tensor._wrap(_flat(p)[lies] if own is None else place.mine(own, self.group.rank))
                    self.pieces[index[id(p)]] = piece, lies
                    state = self.optimizer.state.get(name)
                    if lies.start == lies.stop:
                        self.optimizer.state.pop(name, None)
                        continue
                    if state is not None:
                        cut = {k: v.reshape(-1)[lies].copy() for k, v in state.items() if isinstance(v, np.ndarray)}
                        state.update(cut)
                    p = piece
                names.append(name)
                params.append(p)
            group["names"], group["params"] = names, params

    def take(self) -> None:
        """Give every piece its gradient."""
        for index, (piece, lies) in self.pieces.items():
            place = self.reduction.places[index]
            used = self.reduction.used(index) and lies.start < lies.stop
            piece.grad = Tensor._wrap(place.mine(place.bucket.own, self.group.rank)) if used else None

    def spread(self) -> None:
        """The new weights of all pieces, to all ranks, but for those that stay in shares."""
        under_way: list[Bucket] = []
        for bucket in self.reduction.buckets:
            if bucket.number in self.weights:
                continue
            for index in bucket.members:
                _copy(self.reduction.places[index].mine(bucket.own, self.group.rank), self.pieces[index][0]._data)
            bucket.hand_out()
            under_way.append(bucket)
            if not bucket.kept and len(under_way) > 1:  # its memory is needed no more
                self._arrived(under_way.pop(0))
        for bucket in under_way:
            self._arrived(bucket)

    def _arrived(self, bucket: Bucket) -> None:
        """The new weights of a bucket into the parameters."""
        bucket.wait()
        row = bucket.open()
        for index in bucket.members:
            place, lies = self.reduction.places[index], self.pieces[index][1]
            flat, new = _flat(self.reduction.parameters[index]), row[place.begin : place.end]
            _copy(flat[: lies.start], new[: lies.start])
            _copy(flat[lies.stop :], new[lies.stop :])
        bucket.close()

    def updated(self) -> Iterable[Tensor]:
        """What this rank updates: its pieces, and the parameters whose gradients are rows."""
        return chain.from_iterable(group["params"] for group in self.optimizer.param_groups)

    def clip_scale(self, most: float) -> tuple[float, float]:
        """`pdl.optim.clip_scale` of the whole gradient."""
        mine = total_norm(piece.grad for piece, _ in self.pieces.values() if piece.grad is not None) ** 2
        rows = total_norm(p.grad for p in self.reduction.parameters if p.grad is not None) ** 2
        norm = math.sqrt(float(self.group.rows(np.array([mine])).sum()) + rows)
        return norm, bound(norm, most)

    def state_dict(self) -> dict[str, Any]:
        """The state of the whole optimiser, on every rank; all ranks must ask."""
        saved = self.optimizer.state_dict()
        mine = {name: {k: _described(v) for k, v in state.items()} for name, state in saved["state"].items()}
        told = [json.loads(text) for text in self.group.texts(json.dumps(mine))]
        whole: dict[str, dict[str, Any]] = {}
        for name in self.shapes:
            known = next((t[name] for t in told if name in t), None)
            for key, value in (known or {}).items():
                own = saved["state"].get(name, {}).get(key)
                if not isinstance(value, str):
                    whole.setdefault(name, {})[key] = value
                elif name in self.cut:
                    parts = np.concatenate(self.group.ragged(np.empty(0, value) if own is None else own))
                    shape = self.shapes[name] if len(parts) == math.prod(self.shapes[name]) else parts.shape
                    whole.setdefault(name, {})[key] = parts.reshape(shape)
                else:
                    whole.setdefault(name, {})[key] = own
        groups = [json.loads(text) for text in self.group.texts(json.dumps([g["names"] for g in saved["groups"]]))]
        for number, group in enumerate(saved["groups"]):
            named = {name for each in groups for name in each[number]}
            group["names"] = [name for name in self.shapes if name in named]
        return {"state": whole, "groups": saved["groups"]}


def check_elementwise(optimizer: Optimizer) -> None:
    """UsageError for a method whose update of a number hangs on other numbers of its parameter."""
    if not optimizer.elementwise or any(group.get("rowwise") for group in optimizer.param_groups):
        raise UsageError(
            f"distributed.zero: {type(optimizer).__name__} needs all of a parameter to update a part of it; use an "
            "optimiser that treats each number alone (Adam, AdamW, SGD, RMSprop), or zero=0"
        )


def _flat(p: Tensor) -> Array:
    """The numbers of a parameter in a row, real ones; a window on its memory."""
    flat = p._data.reshape(-1)
    return flat.view(real_of(flat.dtype)) if flat.dtype.kind == "c" else flat


def _copy(target: Array, values: Array) -> None:
    if bfloat16 in (target.dtype, values.dtype) and target.dtype != values.dtype:
        convert(target, values)
    else:
        target[...] = values


def _described(value: Any) -> Any:
    """A plain number as it is, an array by its dtype."""
    return value.dtype.name if isinstance(value, np.ndarray) else value

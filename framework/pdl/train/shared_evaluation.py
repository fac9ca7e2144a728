"""An evaluation that ranks share: each computes the answers to its part of the batches, and all see all of them.

Metrics are shown every batch, in order, on every rank, as one process shows them: so their numbers are those of one
process, whatever they add up, and the same on all ranks. What is divided is the model's part of the work; batches are
read, and metrics updated, by each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from pdl import random
from pdl.distributed.group import Group
from pdl.dtype import Array
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train.loop import outcomes
from pdl.train.task import Loss, Task

MOST = 64 << 20
"""Bytes of the answers to a batch that are sent to others; of larger ones each rank computes all."""
_PLAIN = (bool, int, float, str, type(None))


class SharedOutcomes:
    """As `pdl.train.loop.outcomes`, on all ranks of `group` at once. The first batch is for all of them: where its
    evaluation draws random numbers, or gives what cannot be sent as arrays, numbers and texts, so are the others."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def __call__(self, task: Task, model: Module, batches: Iterable[Any]) -> Iterator[tuple[Loss, Any]]:
        """(the loss with its outputs, the batch) of all batches."""
        rest = iter(batches)
        before = random.get_state()
        shared = task.shares_evaluation and self.group.size > 1
        for one, batch in outcomes(task, model, islice(rest, 1)):
            shared = shared and not self.group.any(packed(one) is None or random.get_state() != before)
            yield one, batch
        while shared and (held := list(islice(rest, self.group.size))):
            found = self._round(task, model, held)
            shared = found is not None
            yield from outcomes(task, model, held) if found is None else zip(found, held, strict=True)
        yield from outcomes(task, model, rest)

    def _round(self, task: Task, model: Module, held: list[Any]) -> list[Loss] | None:
        """The answers to as many batches as there are ranks, or less; None where one cannot be sent."""
        before, rank = random.get_state(), self.group.rank
        sent: bytes | None = b""
        for one, _ in outcomes(task, model, held[rank : rank + 1]):
            sent = packed(one)
        drawn = random.get_state() != before
        if self.group.any(sent is None or drawn):
            random.set_state(before)
            return None
        assert sent is not None
        parts = self.group.ragged(np.frombuffer(sent, np.uint8))
        return [unpacked(part) for part in parts[: len(held)]]


def packed(one: Loss) -> bytes | None:
    """A loss with its outputs as bytes: its form as JSON, then its arrays. None where it holds other things, or too
    much."""
    arrays: list[Array] = []
    try:
        form = json.dumps(_form((one.value, one.weight, one.outputs, one.parts, one.known), arrays)).encode()
    except TypeError:
        return None
    head = np.array([len(form)], np.int64).tobytes()
    whole = [head, form, *(array.tobytes(order="A") for array in arrays)]
    return b"".join(whole) if sum(map(len, whole)) <= MOST else None


def unpacked(data: Array) -> Loss:
    """What `packed` has packed."""
    size = int(data[:8].view(np.int64)[0])
    value, weight, outputs, parts, known = _thing(json.loads(data[8 : 8 + size].tobytes()), data[8 + size :], [0])
    return Loss(value, weight, outputs, parts, known)


def _form(thing: Any, arrays: list[Array]) -> Any:
    """A thing as JSON; arrays by their dtype, shape and order. TypeError for what is none of these."""
    kind = type(thing)
    if kind in _PLAIN:
        return thing
    if kind in (list, tuple):
        return [kind.__name__, *(_form(each, arrays) for each in thing)]
    if kind is dict and all(type(key) is str for key in thing):
        return ["dict", *([key, _form(each, arrays)] for key, each in thing.items())]
    if isinstance(thing, Tensor):
        return ["tensor", _form(thing.data, arrays)]
    array = np.asarray(thing) if isinstance(thing, np.generic) else thing
    if type(array) is not np.ndarray or array.dtype.kind not in "biufc" or array.dtype.isbuiltin != 1:
        raise TypeError(kind.__name__)
    by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    arrays.append(array if by_columns else np.ascontiguousarray(array))
    name = "array" if isinstance(thing, np.ndarray) else "number"
    return [name, array.dtype.str, list(array.shape), "F" if by_columns else "C"]


def _thing(form: Any, data: Array, at: list[int]) -> Any:
    if not isinstance(form, list):
        return form
    name, *rest = form
    if name in ("list", "tuple"):
        made = [_thing(each, data, at) for each in rest]
        return made if name == "list" else tuple(made)
    if name == "dict":
        return {key: _thing(each, data, at) for key, each in rest}
    if name == "tensor":
        return Tensor(_thing(rest[0], data, at))
    dtype, shape, order = np.dtype(rest[0]), tuple(rest[1]), rest[2]
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    array = np.frombuffer(data[at[0] : at[0] + size].tobytes(), dtype).reshape(shape, order=order).copy(order="K")
    at[0] += size
    return array if name == "array" else array[()]

"""Sequences whose length is a tensor: `range`, `enumerate` and `zip` over them."""

from __future__ import annotations

from typing import Any, NoReturn

from pdl import ops
from pdl.autograd.anomaly import user_line
from pdl.dtype import int64
from pdl.errors import TraceError
from pdl.jit.symbolic import is_symbolic, scalar
from pdl.tensor import Tensor, as_tensor


class Lazy:
    """A sequence with `length` (a tensor) and ``at(i)`` for a tensor i."""

    length: Tensor

    def at(self, i: Tensor) -> Any:
        """Item number i."""
        raise NotImplementedError

    def _no_items(self) -> NoReturn:
        raise TraceError("the number of items is a tensor: only a for statement can run over them", user_line())

    def __iter__(self) -> NoReturn:
        self._no_items()

    def __len__(self) -> NoReturn:
        self._no_items()


class LazyRange(Lazy):
    """``range`` with tensors among its arguments."""

    def __init__(self, *bounds: Any) -> None:
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.step = start, step
        span = _integer(stop) - _integer(start)
        sign = (1 if step > 0 else -1) if not isinstance(step, Tensor) else ops.sign(step)
        self.length = ops.maximum(ops.floor_divide(span + step - sign, step), 0)

    def at(self, i: Tensor) -> Tensor:
        """start + i step."""
        return i * self.step + self.start


class LazyEnumerate(Lazy):
    """``enumerate`` of a lazy sequence."""

    def __init__(self, items: Lazy, start: Any = 0) -> None:
        self.items, self.start, self.length = items, start, items.length

    def at(self, i: Tensor) -> tuple[Tensor, Any]:
        """(number, item)."""
        return i + self.start, self.items.at(i)


class LazyZip(Lazy):
    """``zip`` of sequences of which one is lazy; the others must be tensors, as items are taken by a tensor."""

    def __init__(self, *parts: Any) -> None:
        for part in parts:
            if not isinstance(part, Lazy | Tensor):
                reason = f"zip of a {type(part).__name__} with a range of tensor length; stack its items into a tensor"
                raise TraceError(reason, user_line())
        self.parts = parts
        length: Any = None
        for part in parts:
            here = part.length if isinstance(part, Lazy) else as_tensor(len(part))
            length = here if length is None else ops.minimum(length, here)
        self.length = length

    def at(self, i: Tensor) -> tuple[Any, ...]:
        """Item i of every part."""
        return tuple(p.at(i) if isinstance(p, Lazy) else ops.take(p, i, axis=0) for p in self.parts)


def range_of(*bounds: Any) -> Any:
    """`range`."""
    return LazyRange(*bounds) if any(is_symbolic(b) for b in bounds) else range(*bounds)


def enumerate_of(items: Any, start: Any = 0) -> Any:
    """`enumerate`."""
    return LazyEnumerate(items, start) if isinstance(items, Lazy) else enumerate(items, start)


def zip_of(*parts: Any, strict: bool = False) -> Any:
    """`zip`."""
    if any(isinstance(p, Lazy) for p in parts):
        return LazyZip(*parts)
    return zip(*parts, strict=strict)


def _integer(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    if x.dtype.kind not in "iu":
        raise TraceError(f"range takes integers, this bound is a tensor of {x.dtype.name}", user_line())
    return ops.astype(scalar(x), int64)

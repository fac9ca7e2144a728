"""The variables that a branch or loop body may change: reading, restoring, comparing and joining them.

Variables are the closure cells of the functions that `rewrite` made; an unbound one is an empty cell. Lists and dicts
that the code can reach through its variables count too: `append` in a branch is undone and joined like an assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import kind, of_scalar
from pdl.jit.errors import ConversionError, Place
from pdl.jit.jumps import VALUE
from pdl.ops.base import Spec
from pdl.program.ir import show_spec
from pdl.tensor import Tensor


class _Missing:
    def __repr__(self) -> str:
        return "unbound"


MISSING = _Missing()
_SCALARS: Any = bool | int | float | complex | np.generic


class Slot(NamedTuple):
    """One variable, or the content of one container."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], None]


class Variables:
    """What the functions may change: the named variables, and the containers that any of their variables hold."""

    def __init__(self, functions: Iterable[FunctionType], names: tuple[str, ...], *more: Slot) -> None:
        cells: dict[str, CellType] = {}
        for f in functions:
            cells |= zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        self.slots: list[Slot] = [*(_cell_slot(n, cells[n]) for n in names if n in cells), *more]
        seen: set[int] = set()
        for name, cell in cells.items():
            for path, container in _containers(_read(cell), name, seen):
                self.slots.append(_container_slot(path, container))

    def read(self) -> list[Any]:
        """The values now."""
        return [s.get() for s in self.slots]

    def write(self, values: Iterable[Any]) -> None:
        """Set every variable; MISSING unbinds it."""
        for slot, value in zip(self.slots, values, strict=True):
            slot.set(value)


def _read(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _cell_slot(name: str, cell: CellType) -> Slot:
    def put(value: Any) -> None:
        if value is not MISSING:
            cell.cell_contents = value
        elif _read(cell) is not MISSING:
            del cell.cell_contents

    return Slot(name, lambda: _read(cell), put)


def _containers(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The lists and dicts in a value."""
    if not isinstance(value, list | dict | tuple) or id(value) in seen:
        return
    seen.add(id(value))
    if not isinstance(value, tuple):
        yield path, value
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _containers(part, f"{path}[{key!r}]", seen)


class _Content(tuple[Any, ...]):
    """The items of a list, taken out of it."""


def _container_slot(path: str, container: Any) -> Slot:
    if isinstance(container, dict):

        def put_items(value: Any) -> None:
            container.clear()
            container.update(value)

        return Slot(path, lambda: dict(container), put_items)

    def put(value: Any) -> None:
        container[:] = value

    return Slot(path, lambda: _Content(container), put)


# -- joining what two branches left ------------------------------------------------------------------------------------
class Joined(NamedTuple):
    """Output `number` of a conditional."""

    number: int


class Join:
    """Joins the values of two branches; `pairs` are the tensors that the conditional chooses between."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.pairs: list[tuple[Tensor, Tensor]] = []
        self.one_sided: list[str] = []
        self._known: dict[tuple[int, int], int] = {}

    def join(self, name: str, a: Any, b: Any) -> Any:
        """The common value, a `Joined`, or a container of them."""
        if a is b or (isinstance(a, str | np.dtype | type) and a == b):
            return a
        if name == VALUE and (a is MISSING or b is MISSING):
            return self.join(name, *((a, _filler(a)) if b is MISSING else (_filler(b), b)))
        if a is MISSING or b is MISSING:
            self.one_sided.append(name)
            return MISSING
        if _is_number(a) and _is_number(b) and type(a) is type(b) and (a == b or (a != a and b != b)):
            return a
        if _is_tensor_like(a) and _is_tensor_like(b):
            return self._choice(name, a, b)
        if isinstance(a, list | tuple | dict) and type(a) is type(b):
            return self._containers(name, a, b)
        self._refuse(name, f"is {_show(a)} in one branch and {_show(b)} in the other")

    def _choice(self, name: str, a: Any, b: Any) -> Joined:
        ta, tb = alike(a, b)
        if ta.shape != tb.shape or ta.dtype != tb.dtype:
            self._refuse(name, f"is {_show(ta)} in one branch and {_show(tb)} in the other")
        key = (id(a), id(b))
        if key not in self._known:
            self._known[key] = len(self.pairs)
            self.pairs.append((ta, tb))
        return Joined(self._known[key])

    def _containers(self, name: str, a: Any, b: Any) -> Any:
        if isinstance(a, dict):
            if list(a) != list(b):
                self._refuse(name, f"has the keys {list(a)} in one branch and {list(b)} in the other")
            return {k: self.join(f"{name}[{k!r}]", a[k], b[k]) for k in a}
        if len(a) != len(b):
            self._refuse(name, f"has {len(a)} elements in one branch and {len(b)} in the other")
        return remade(a, [self.join(f"{name}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))])

    def _refuse(self, name: str, what: str) -> Any:
        raise ConversionError(
            f"{label(name)} {what}; the condition is a tensor, so both branches must agree in kind, shape and dtype",
            self.place,
        )


def fill(value: Any, outputs: list[Tensor]) -> Any:
    """A joined value with the outputs of the conditional in their places."""
    if isinstance(value, Joined):
        return outputs[value.number]
    if isinstance(value, dict):
        return {k: fill(v, outputs) for k, v in value.items()} if _holds(value) else value
    if isinstance(value, list | tuple):
        return remade(value, [fill(v, outputs) for v in value]) if _holds(value) else value
    return value


def _holds(value: Any) -> bool:
    if isinstance(value, Joined):
        return True
    if isinstance(value, dict):
        return any(map(_holds, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds, value))


# -- values ------------------------------------------------------------------------------------------------------------
def alike(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two numbers or tensors as tensors; a Python number takes the dtype of the other one, if that is a tensor."""
    if isinstance(a, Tensor) or not isinstance(b, Tensor):
        first = as_tensor(a, b)
        return first, as_tensor(b, first if isinstance(a, Tensor) else a)
    return as_tensor(a, b), b


def as_tensor(value: Any, beside: Any = None) -> Tensor:
    """A tensor; a number takes the dtype of the other operand if that can hold the value, else its own."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        return Tensor._wrap(np.asarray(value))
    if isinstance(beside, Tensor):
        dtype = of_scalar(value, beside.dtype) if isinstance(value, bool) == (kind(beside.dtype) == "b") else None
        return Tensor._wrap(np.asarray(value, dtype or of_scalar(value)))
    widest = type(beside)(value) if isinstance(beside, float | complex) and not isinstance(value, complex) else value
    return Tensor._wrap(np.asarray(widest, of_scalar(widest)))


def remade(like: Any, items: list[Any]) -> Any:
    """A list or tuple of the same type with other items."""
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


def label(name: str) -> str:
    """A variable as messages call it."""
    return "the return value" if name.startswith(VALUE) else f"variable {name!r}"


def _show(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {show_spec(Spec(value.shape, value.dtype))}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)} ({', '.join(map(_show, value))})"
    return "None" if value is None else f"{type(value).__name__} {value!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, _SCALARS)


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor | _SCALARS)


def _filler(value: Any) -> Any:
    """A value of the same kind, for a return value that is never looked at."""
    if isinstance(value, Tensor):
        return Tensor._wrap(np.zeros(value.shape, value.dtype))
    if isinstance(value, dict):
        return {k: _filler(v) for k, v in value.items()}
    return remade(value, [_filler(v) for v in value]) if isinstance(value, list | tuple) else value


# -- what a loop carries -----------------------------------------------------------------------------------------------
class Keep(NamedTuple):
    """A value that an iteration does not change."""

    value: Any


class Carry(NamedTuple):
    """Part `number` of the state of a loop."""

    number: int


class LoopState:
    """Finds what an iteration changes: starts with nothing, and grows by what each trial shows to have changed.

    initial   tensors before the loop, one for every `Carry`
    """

    def __init__(self, variables: Variables, before: list[Any], place: Place) -> None:
        self.names = [s.name for s in variables.slots]
        self.place = place
        self.initial: list[Tensor] = []
        self.grown = False
        self._numbers: dict[int, Any] = {}  # the Python number that a Carry began as
        self.trees: list[Any] = [v if v is MISSING else Keep(v) for v in before]

    def values(self, carried: list[Tensor]) -> list[Any]:
        """The variables with these tensors as the state."""
        return [_instance(t, carried) for t in self.trees]

    def update(self, after: list[Any]) -> list[Tensor]:
        """The new state, from the variables after an iteration; sets `grown` where there is more than was known."""
        self.grown = False
        self._new: dict[int, Any] = {}
        self.trees = [self._grow(n, t, v) for n, t, v in zip(self.names, self.trees, after, strict=True)]
        return [] if self.grown else [self._converted(i, self._new[i]) for i in range(len(self.initial))]

    def unbound(self, after: list[Any]) -> list[str]:
        """Variables that only an iteration defines."""
        return [n for n, t, v in zip(self.names, self.trees, after, strict=True) if t is MISSING and v is not MISSING]

    def _grow(self, name: str, tree: Any, after: Any) -> Any:
        if isinstance(tree, Carry):
            return self._check(name, tree, after)
        if tree is MISSING:
            if name == VALUE and after is not MISSING:
                return self._grow(name, Keep(_filler(after)), after) if self._differs(after) else Keep(after)
            return MISSING
        if not isinstance(tree, Keep):
            return self._grow_container(name, tree, after)
        before = tree.value
        if after is before or (isinstance(before, str | np.dtype | type) and before == after):
            return tree
        if (
            _is_number(before)
            and type(after) is type(before)
            and (before == after or (before != before and after != after))
        ):
            return tree
        if _is_tensor_like(before) and _is_tensor_like(after):
            return self._carry(name, before, after)
        if isinstance(before, list | tuple | dict) and type(after) is type(before):
            items = before.items() if isinstance(before, dict) else enumerate(before)
            kept = {k: Keep(v) for k, v in items}
            return self._grow_container(
                name, kept if isinstance(before, dict) else remade(before, list(kept.values())), after
            )
        return self._refuse(name, f"is {_show(before)} before an iteration and {_show(after)} after it")

    @staticmethod
    def _differs(value: Any) -> bool:
        return isinstance(value, Tensor | list | tuple | dict)

    def _grow_container(self, name: str, tree: Any, after: Any) -> Any:
        if isinstance(after, dict) and isinstance(tree, dict):
            if list(after) != list(tree):
                self._refuse(name, f"has the keys {list(tree)} before an iteration and {list(after)} after it")
            return {k: self._grow(f"{name}[{k!r}]", tree[k], after[k]) for k in tree}
        if not isinstance(after, list | tuple):
            self._refuse(name, f"is a {type(tree).__name__} before an iteration and {_show(after)} after it")
        if len(after) != len(tree):
            self._refuse(name, f"has {len(tree)} elements before an iteration and {len(after)} after it")
        return remade(
            tree, [self._grow(f"{name}[{i}]", t, v) for i, (t, v) in enumerate(zip(tree, after, strict=True))]
        )

    def _carry(self, name: str, before: Any, after: Any) -> Carry:
        first, _ = alike(before, after)
        made = Carry(len(self.initial))
        self.initial.append(first)
        if not isinstance(before, Tensor):
            self._numbers[made.number] = before
        self.grown = True
        return made

    def _check(self, name: str, tree: Carry, after: Any) -> Carry:
        before = self.initial[tree.number]
        if not _is_tensor_like(after):
            self._refuse(name, f"is {_show(before)} before an iteration and {_show(after)} after it")
        _, new = alike(before, after)
        if new.dtype != before.dtype and new.shape == before.shape and tree.number in self._numbers:
            widened = as_tensor(self._numbers.pop(tree.number), new)
            if widened.dtype == new.dtype:
                self.initial[tree.number], before, self.grown = widened, widened, True
        if new.shape != before.shape or new.dtype != before.dtype:
            self._refuse(name, f"is {_show(before)} before an iteration and {_show(new)} after it")
        self._new[tree.number] = after
        return tree

    def _converted(self, index: int, value: Any) -> Tensor:
        return alike(self.initial[index], value)[1]

    def _refuse(self, name: str, what: str) -> Any:
        raise ConversionError(
            f"{label(name)} {what}; the loop runs on a tensor, so its state must keep kind, shape and dtype", self.place
        )


def _instance(tree: Any, carried: list[Tensor]) -> Any:
    if isinstance(tree, Carry):
        return carried[tree.number]
    if isinstance(tree, Keep):
        return tree.value
    if isinstance(tree, dict):
        return {k: _instance(v, carried) for k, v in tree.items()}
    return remade(tree, [_instance(v, carried) for v in tree]) if isinstance(tree, list | tuple) else tree

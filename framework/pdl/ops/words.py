"""Functions that answer arguments under the names of other libraries: `pdl.sum(x, dim=1)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pdl.errors import UsageError
from pdl.habits import ARGUMENTS, advice
from pdl.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_OURS = {*ARGUMENTS.values()} - {""}
_PAIRS = {"max": "maximum", "min": "minimum"}


def explained(function: F) -> F:
    """The function itself, or, where it has an argument that other libraries call otherwise, one that says so."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)] if code else ()
    if not _OURS & {*names}:
        return function

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError as error:
            if (problem := _problem(function.__name__, {*names}, args, given)) is None:
                raise
            raise UsageError(problem) from error

    return call  # type: ignore[return-value]  # the same signature


def _problem(name: str, names: set[str], args: tuple[Any, ...], given: dict[str, Any]) -> str | None:
    """What to write instead, where a habit is behind a TypeError."""
    if name in _PAIRS and len(args) > 1 and isinstance(args[1], Tensor):
        return f"{name} reduces one tensor; of two, element by element: pdl.{_PAIRS[name]}(a, b)"
    for word in given:
        ours = ARGUMENTS.get(word)
        if word in names or ours is None or (ours and ours not in names):
            continue
        if not ours:
            return f"{name}: there is no argument {word!r}; leave it out"
        return f"{name}: there is no argument {word!r}{advice(f'{ours}={given[word]!r}')}"
    return None

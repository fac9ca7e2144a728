"""What a constructor takes, read from its signature: nothing about a part is written twice."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from typing import Any, Union, get_args, get_origin

from pdl.hints import Inherited


@dataclasses.dataclass(frozen=True)
class Supplied:
    """Arguments that the program gives to a part, so that a recipe need not: `Annotated[Optimizer,
    Supplied("params")]`.
    """

    names: frozenset[str]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", frozenset(names))


TARGET = "_target_"
"""The key that names a part."""

SECTION = "section"
"""`Annotated[TrainSettings, SECTION]`: a mapping without `_target_`, whose keys are the fields of that dataclass."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a constructor."""

    hint: Any
    required: bool
    default: Any = None


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a constructor takes by keyword. `open_ended` constructors take any other keyword too."""

    arguments: dict[str, Argument]
    open_ended: bool
    makes: Any  # the class of what is built, or None when a function does not say


@functools.cache
def signature(part: Any) -> Signature:
    """The keyword arguments of a class or function, with annotations resolved."""
    found = inspect.signature(part)
    hints = _hints(part, found)
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    made = {each.name: each.default_factory for each in fields if each.default_factory is not dataclasses.MISSING}
    arguments = {}
    open_ended = False
    for name, parameter in found.parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            hint = hints.get(name, Any)
            hint = Union[hint, None] if parameter.default is None else hint  # noqa: UP007 (a hint may be any object here)
            required = parameter.default is parameter.empty
            default = None if required else made[name]() if name in made else parameter.default
            arguments[name] = Argument(hint, required, default)
        elif parameter.kind is parameter.VAR_KEYWORD and hints.get(name) == Inherited:
            arguments |= {name: each for name, each in _above(part).items() if name not in arguments}
        elif parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
    makes = part if inspect.isclass(part) else hints.get("return")
    return Signature(arguments, open_ended, makes if inspect.isclass(makes) else None)


def _above(part: type) -> dict[str, Argument]:
    """The keyword-only arguments of the constructor above that of a class."""
    _, above, *_ = (each for each in part.__mro__ if "__init__" in vars(each))
    given = {name for name, each in inspect.signature(above).parameters.items() if each.kind is not each.KEYWORD_ONLY}
    return {name: each for name, each in signature(above).arguments.items() if name not in given}


def _hints(part: Any, found: inspect.Signature) -> dict[str, Any]:
    """Annotations by argument name. One that cannot be resolved at run time (imported for type checkers only)
    counts as absent.
    """
    if dataclasses.is_dataclass(part):
        return typing.get_type_hints(part, include_extras=True)
    function = inspect.unwrap(part.__init__ if inspect.isclass(part) else part)
    names = getattr(function, "__globals__", {})
    raw = {name: parameter.annotation for name, parameter in found.parameters.items()} | {
        "return": found.return_annotation
    }
    return {name: _resolved(hint, names) for name, hint in raw.items() if hint is not found.empty}


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, globalns=names, include_extras=True)["hint"]
    except (NameError, AttributeError, TypeError):
        return Any


def wants_tuple(hint: Any) -> bool:
    """Whether a list should be handed over as a tuple."""
    hint, _ = unwrap(hint)
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [get_origin(unwrap(member)[0]) or unwrap(member)[0] for member in get_args(hint)]
        return tuple in kinds and list not in kinds
    return (get_origin(hint) or hint) is tuple


def unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Annotated[X, a, b] -> X, (a, b)."""
    extras: tuple[Any, ...] = ()
    hint = type(None) if hint is None else hint
    while hasattr(hint, "__metadata__"):
        extras, hint = (*extras, *hint.__metadata__), hint.__origin__
    return hint, extras

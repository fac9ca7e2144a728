"""Annotations and values in words, for messages."""

from __future__ import annotations

import collections.abc
import inspect
import os
import re
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pdl import suites
from pdl.config.signature import SECTION, TARGET, signature, unwrap
from pdl.hints import Choice, Range

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
SEQUENCES = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}


HABITS = {
    "learning_rate": "lr", "num_workers": "workers", "max_epochs": "epochs", "num_epochs": "epochs", "bs": "batch_size",
    "in_chans": "in_channels", "drop_rate": "dropout", "wd": "weight_decay", "n_classes": "num_classes",
}  # fmt: skip
"""What other frameworks call some keys."""


def unknown_key(key: str, known: list[str]) -> str:
    """The message for an unknown key."""
    meant = HABITS.get(str(key))
    hint = f"; did you mean '{meant}'?" if meant in known else suites.suggest(str(key), known)
    return f"unknown key{hint} (keys here: {', '.join(sorted(known)) or 'none'})"


def describe(hint: Any) -> str:
    """An annotation in words."""
    hint, extras = unwrap(hint)
    limits = "".join(f" {extra}" for extra in extras if isinstance(extra, Range))
    if SECTION in extras:
        return f"a mapping (keys: {', '.join(signature(hint).arguments)})"
    choice = [str(extra) for extra in extras if isinstance(extra, Choice)]
    return choice[0] if choice else _describe(hint) + limits


def _describe(hint: Any) -> str:
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if isinstance(hint, str):
        return hint
    if origin in (Union, types.UnionType):
        return " or ".join(describe(member) for member in inner)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin in WORDS:
        return WORDS[origin]
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return f"a list of {len(inner)} ({', '.join(describe(kind) for kind in inner)})"
    if origin in SEQUENCES:
        return f"a list (each: {describe(inner[0])})" if inner and inner[0] is not Any else "a list"
    if origin in MAPPINGS:
        return "a mapping"
    if origin is collections.abc.Callable:
        return "a part that can be called"
    if origin in (Path, os.PathLike):
        return "a path"
    return f"a {name_of(origin)}" if inspect.isclass(origin) else "any value"


def show(value: Any) -> str:
    """A value in a message: short, with its kind where that is the point."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return (
            f"a mapping with {TARGET} {value[TARGET]}"
            if TARGET in value
            else f"a mapping ({', '.join(map(str, value)) or 'empty'})"
        )
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
    kind = {str: "text", bool: "true/false", int: "int", float: "float"}.get(type(value), type(value).__name__)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({kind})"


def advice(value: Any, kind: Any) -> str:
    """What to write instead of a value of the wrong kind, where that is plain; otherwise nothing."""
    if kind is int and isinstance(value, float) and value.is_integer():
        return f"; write {int(value)}"
    if kind in (int, bool) and isinstance(value, str):
        return "; remove the quotes" if NUMBER.fullmatch(value) or value.lower() in ("true", "false") else ""
    return (
        f"; for text put it in quotes: '{value}'"
        if kind is str and not isinstance(value, (dict, list, type(None)))
        else ""
    )


def name_of(part: Any) -> str:
    """A class by the shortest public path: pdl.nn.Module, not pdl.nn.module.Module."""
    module = part.__module__
    while "." in module and getattr(sys.modules.get(module.rpartition(".")[0]), part.__name__, None) is part:
        module = module.rpartition(".")[0]
    return part.__name__ if module == "builtins" else f"{module}.{part.__name__}"

"""What a config may build, and where: it is text that may come from anybody, and must reach nothing but parts.

A place whose annotation names a class takes classes that inherit from it, and parts (`pdl.hints.part`) that make one.
A place that names none (`Any`, a function, a further keyword) takes parts alone. A function is only ever called where
it is declared as a part and says which class it returns. The rest of pdl, of the suites and of Python is out of reach.
"""

from __future__ import annotations

import inspect
import os
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pdl import suites
from pdl.config.signature import TARGET, signature, unwrap
from pdl.config.words import MAPPINGS, SEQUENCES, WORDS, describe
from pdl.hints import is_part


def refusal(part: Any, target: str, hint: Any) -> str:
    """Why the part at a path may not stand where an annotation is; empty where it may."""
    bare, _ = unwrap(hint)
    if get_origin(bare) in (Union, types.UnionType):
        found = [refusal(part, target, member) for member in get_args(bare)]
        return "" if "" in found else f"expected {describe(hint)}; {target} is not one"
    kind = get_origin(bare) or bare
    makes = signature(part).makes
    if is_plain(kind):
        return f"expected {describe(hint)}, got a mapping with {TARGET} {target}"
    if makes is None:
        return f"{target} does not say which class it returns, so a config cannot call it"
    if inspect.isclass(kind) and kind is not Any and not _inherits(makes, kind):
        return f"expected {describe(hint)}; {target} is not one"
    if not is_part(part) and not _asked_for(kind):
        return f"{target} is no part (@pdl.hints.part), so a config builds it only where an argument asks for its class"
    return ""


def inside(hint: Any) -> Any:
    """The annotation of what stands in a list or mapping of this annotation; Any where it does not say."""
    bare, _ = unwrap(hint)
    origin, inner = get_origin(bare), [each for each in get_args(bare) if each is not Ellipsis]
    if origin in (Union, types.UnionType):
        containers = [each for each in inner if get_origin(unwrap(each)[0]) in (*SEQUENCES, *MAPPINGS)]
        return Union[tuple(map(inside, containers))] if containers else Any  # noqa: UP007 (a hint may be any object here)
    if origin in MAPPINGS:
        return inner[-1]
    return Union[tuple(inner)] if origin in SEQUENCES and inner else Any  # noqa: UP007 (a hint may be any object here)


def is_plain(kind: Any) -> bool:
    """Whether an annotation stands for text, numbers, lists and mappings of the recipe itself."""
    return kind in (*WORDS, *SEQUENCES, *MAPPINGS, Path, os.PathLike, Literal)


def _asked_for(kind: Any) -> bool:
    """Whether an annotation names a class of pdl or of a suite, to whose kinds it is thereby open; those of Python say
    what a value can do, as protocols do."""
    ours = inspect.isclass(kind) and kind.__module__.partition(".")[0] in suites.roots()
    return ours and not getattr(kind, "_is_protocol", False)


def _inherits(makes: type, kind: Any) -> bool:
    try:
        return issubclass(makes, kind)
    except TypeError:  # a Protocol with data members: cannot be told without an object
        return True

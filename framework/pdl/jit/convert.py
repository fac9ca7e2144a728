"""Rewritten functions: made once for each code object, with the globals, closure and defaults of the original."""

from __future__ import annotations
import __future__

import functools
import sys
from types import CellType, CodeType, FunctionType
from typing import Any

from pdl.jit.nodes import HELPERS
from pdl.jit.rewrite import rewrite
from pdl.jit.source import locate

#: packages whose functions take tensors as they are; the containers of pdl.nn call user modules, so they are rewritten
_LEFT = {"pdl", "numpy", "scipy", "cv2", "ml_dtypes", *sys.stdlib_module_names}
_REWRITTEN = ("pdl.nn.container",)

_made: dict[int, tuple[CodeType, CodeType]] = {}  # id of the original code -> (original, rewritten)
_rewritten: dict[int, CodeType] = {}  # every code object of rewritten functions, by id


def may_convert(function: FunctionType) -> bool:
    """Whether it is user code."""
    if getattr(function, "_pdl_left", False):
        return False
    module = function.__globals__.get("__name__") or ""
    return module in _REWRITTEN or module.partition(".")[0] not in _LEFT or module == "__main__"


def is_converted(function: FunctionType) -> bool:
    """Whether it is the outcome of a conversion, or was defined inside one."""
    return id(function.__code__) in _rewritten


def converted(function: FunctionType) -> FunctionType:
    """The function with its control flow rewritten; raises `ConversionError` where it cannot be."""
    if is_converted(function):
        return function
    code = function.__code__
    found = _made.get(id(code))
    if found is None:
        found = _made[id(code)] = (code, _compiled(function))
    new = found[1]
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True)) | {HELPERS: CellType(_helpers())}
    closure = tuple(cells[name] for name in new.co_freevars)
    made = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(made, function)
    return made


def _compiled(function: FunctionType) -> CodeType:
    """Compile the rewritten tree. The one place where pdl makes code: from the syntax tree of the user's own function,
    never from text; nothing is executed here.
    """
    code = function.__code__
    tree = rewrite(locate(function), code.co_filename, code.co_freevars)
    flags = code.co_flags & __future__.annotations.compiler_flag
    module = compile(tree, code.co_filename, "exec", flags=flags, dont_inherit=True)
    factory = _codes(module)[-1]
    return _named(_codes(factory)[-1], code.co_name, code.co_qualname)


def _codes(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def _named(code: CodeType, name: str, qualname: str) -> CodeType:
    """The code with the pieces of a function named after it, so that tracebacks read as the source does; registered."""

    def child(c: Any) -> Any:
        if not isinstance(c, CodeType):
            return c
        piece = c.co_name.startswith("_pdl_")
        return _named(c, name if piece else c.co_name, qualname if piece else f"{qualname}.<locals>.{c.co_name}")

    made = code.replace(co_consts=tuple(map(child, code.co_consts)), co_name=name, co_qualname=qualname)
    _rewritten[id(made)] = made
    return made


def _helpers() -> Any:
    from pdl.jit import runtime

    return runtime

"""Ops as an attacker would write them: the calls of all cases with attributes, shapes and values changed, each body
run on arrays that end (or begin) at a page of memory that may not be touched.

    python -m tests.framework.ops.hostile FIRST COUNT [one]    see tests.fuzzing
    python -m tests.framework.ops.hostile FIRST COUNT [one] inputs    the same of `inputs_changed`
    python -m tests.framework.ops.hostile ranges               what `beyond_ranges` finds
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import importlib
import io
import json
import math
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdl.autograd import grad
from pdl.dtype import as_dtype
from pdl.errors import PdlError
from pdl.limits import MOST_STEPS, limited
from pdl.ops import base
from pdl.ops.base import Op, Spec
from pdl.ops.listeners import observed
from pdl.program.control import Assert
from pdl.tensor import Tensor
from pdl.testing import Case
from tests.fuzzing import main, say

SIZES = (0, 1, -1, 2, 3, -2, 5, 7, 16, 64, 100, 4096, 65536, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, -(2**31), -(2**62))
VALUES = (-1, -2, -100, 5, 100, 2**31 - 1, 2**31, 2**40, 2**62, -(2**62), 2**63 - 1, -(2**63))
FLOATS: tuple[Any, ...] = (0.0, 1.0, -1.0, 1e-308, 1e308, 1e39, {"float": "nan"}, {"float": "inf"}, {"float": "-inf"})
WORDS = ("", "x", "relu", "Relu", "gelu", "tanh", "sum", "mean", "linear", "nearest", "rows", "Add", "OneHot")
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "int8", "bool", "bfloat16")
LARGE = 1 << 26  # bytes of an output that is not tried: time and memory, no fault


class Sample(NamedTuple):
    """One call of an op: its attributes as JSON, and its inputs."""

    attributes: dict[str, Any]
    inputs: list[np.ndarray | None]


@functools.cache
def samples() -> dict[str, list[Sample]]:
    """Calls of every op that has a body and can be stored, by name: those of the cases, forward and backward."""
    found: dict[str, list[Sample]] = {}

    def observe(op: Op, ins: tuple[Any, ...], _outs: tuple[Any, ...]) -> None:
        known = found.setdefault(op.op_name, [])
        if len(known) < 6 and has_body(type(op)) and all(x is None or x.nbytes < 1 << 18 for x in ins):
            known.append(Sample(op.to_dict(), [None if x is None else np.array(x) for x in ins]))

    with observed(observe), contextlib.redirect_stdout(io.StringIO()):  # an op prints
        for case in cases():
            for dtype in (np.float32, None) if case.float32 is not None else (None,):
                made = case.call(*(inputs := case.tensors(dtype, grad=True)))
                made = [y for y in (made if isinstance(made, tuple) else (made,)) if y.requires_grad]
                wanted = [x for x in inputs if x is not None and x.requires_grad]
                if made and wanted:
                    grad(made, wanted, [Tensor(np.ones(y.shape, y.dtype)) for y in made], allow_unused=True)
    return {name: calls for name, calls in sorted(found.items()) if calls}


def cases() -> Iterator[Case]:
    """Those of all tables beside this file."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        yield from importlib.import_module(f"{__package__}.{path.stem}").CASES


def has_body(op: type[Op]) -> bool:
    """Whether a program from a file may hold the op."""
    return op.cpu is not Op.cpu or op.view is not None


# -- what is changed ---------------------------------------------------------------------------------------------------
def _places(tree: Any) -> list[tuple[Any, Any]]:
    found, left = [], [tree]
    while left:
        holder = left.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            if key != "op" or holder is not tree:
                found.append((holder, key))
            if isinstance(holder[key], dict | list):
                left.append(holder[key])
    return found


def _pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def change_attribute(rng: np.random.Generator, attributes: dict[str, Any]) -> None:
    """Put another value in one place of the attributes."""
    places = _places(attributes)
    if not places:
        return
    holder, key = _pick(rng, places)
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int) or value is None:
        near = isinstance(value, int) and rng.random() < 0.5
        holder[key] = value + int(rng.integers(-3, 4)) if near else _pick(rng, SIZES)
    elif isinstance(value, float):
        holder[key] = _pick(rng, FLOATS)
    elif isinstance(value, str):
        holder[key] = _pick(rng, WORDS)
    elif isinstance(value, dict):
        holder[key] = {"dtype": _pick(rng, DTYPES)} if "dtype" in value else _pick(rng, FLOATS)
    else:
        _change_list(rng, value)


def _change_list(rng: np.random.Generator, values: list[Any]) -> None:
    how = rng.integers(4)
    if how == 0 and values:
        values.pop(int(rng.integers(len(values))))
    elif how == 1 and values:
        values.insert(int(rng.integers(len(values) + 1)), copy.deepcopy(_pick(rng, values)))
    elif how == 2:
        values.clear()
    elif values:
        i, j = rng.integers(len(values), size=2)
        values[i], values[j] = values[j], values[i]


def changed_input(rng: np.random.Generator, x: np.ndarray | None) -> np.ndarray:
    """Other values, another size along one axis, another number of axes or another dtype."""
    if x is None:
        return rng.standard_normal((2, 3)).astype(np.float32)
    x, how = x.copy(), rng.random()
    if how < 0.45:
        for at in rng.integers(max(1, x.size), size=3 if x.size else 0):
            x.reshape(-1)[at] = _hostile_value(rng, x.dtype)
    elif how < 0.85 and x.ndim:
        axis = int(rng.integers(x.ndim))
        n = x.shape[axis]
        size = _pick(rng, (0, 1, n + 1, max(0, n - 1), 2 * n, 17))
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        return (
            np.resize(x, shape)
            if x.size and math.prod(shape) < 1 << 20
            else np.zeros(shape if not x.size else x.shape, x.dtype)
        )
    elif how < 0.9:
        return x[None]
    elif how < 0.94:
        return x.reshape(-1)
    elif x.dtype.kind != "c":
        return x.astype(as_dtype(_pick(rng, DTYPES)))
    return x


def _hostile_value(rng: np.random.Generator, dtype: np.dtype) -> Any:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return max(limits.min, min(limits.max, _pick(rng, VALUES)))
    return (
        rng.random() < 0.5
        if dtype.kind == "b"
        else np.float32(_pick(rng, (np.nan, np.inf, -np.inf, 1e38, 0))).astype(dtype)
    )


def sample_of(number: int) -> Sample:
    """The call of this number: one of a case with something changed."""
    rng = np.random.default_rng(number)
    calls = samples()[_pick(rng, list(samples()))]
    attributes, inputs = _pick(rng, calls)
    attributes, inputs = copy.deepcopy(attributes), list(inputs)
    if inputs and rng.random() < 0.5:
        for at in rng.integers(len(inputs), size=int(rng.integers(1, 3))):
            inputs[at] = changed_input(rng, inputs[at])
    if rng.random() < 0.8:
        for _ in range(int(rng.integers(1, 3))):
            change_attribute(rng, attributes)
    if inputs and rng.random() < 0.08:
        _change_list(rng, inputs) if rng.random() < 0.5 else inputs.__setitem__(int(rng.integers(len(inputs))), None)
    return Sample(attributes, inputs)


# -- every attribute, one at a time ------------------------------------------------------------------------------------
def beyond_ranges() -> dict[str, str]:
    """Attributes of all ops that are put beyond their ranges and end in another exception than pdl's own: the op with
    its attributes -> the exception."""
    found = {}
    for calls in samples().values():
        for sample in calls[:2]:
            for attributes in _hostile_attributes(sample.attributes):
                try:
                    op = Op.from_dict(attributes)
                    op.infer(*[None if x is None else Spec(x.shape, x.dtype) for x in sample.inputs])
                except PdlError:
                    continue
                except Exception as error:
                    found[json.dumps(attributes)] = repr(error)
    return found


@functools.cache
def inputs_changed() -> list[tuple[str, int, int, Any]]:
    """Every input of the calls of every op changed in every way, one at a time: (op, call, input, change)."""
    found: list[tuple[str, int, int, Any]] = []
    for name, calls in samples().items():
        for number, sample in enumerate(calls[:3]):
            for i, x in enumerate(sample.inputs):
                found += [(name, number, i, change) for change in ("left out", "twice")]
                if x is None:
                    found.append((name, number, i, "given"))
                    continue
                changes = [None, "first axis", "flat", *(DTYPES if x.dtype.kind != "c" else ())]
                sizes = [(axis, size) for axis, n in enumerate(x.shape) for size in {0, 1, n + 1, 2 * n, 17} - {n}]
                found += [(name, number, i, change) for change in (*changes, *sizes)]
    return found


def change_of(number: int) -> Sample:
    """The call with this change."""
    name, call, i, change = inputs_changed()[number]
    attributes, inputs = samples()[name][call]
    inputs = list(inputs)
    x = inputs[i]
    if change in ("left out", "twice"):
        inputs[i : i + 1] = [x] * (change == "twice") * 2
    elif x is None:
        inputs[i] = np.ones((2, 3), np.float32)
    elif change is None:
        inputs[i] = None
    elif isinstance(change, tuple):
        axis, size = change
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        inputs[i] = np.resize(x, shape) if x.size else np.zeros(shape, x.dtype)
    else:
        shaped = {"first axis": x[None], "flat": x.reshape(-1)}
        inputs[i] = shaped[change] if change in shaped else x.astype(as_dtype(change))
    return Sample(copy.deepcopy(attributes), inputs)


def _hostile_attributes(attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The attributes with each number replaced by each of `SIZES`, and each list made shorter, longer, empty, reversed
    or of other things."""
    whole = {name: value for name, value in attributes.items() if not isinstance(value, dict)}
    for at, (holder, key) in enumerate(_places(whole)):
        value, others = holder[key], []
        if isinstance(value, list):
            others = [value[1:], [*value, *value[:1]], [], value[::-1], ["x"], [None], 3]
        elif value is None or (isinstance(value, int) and not isinstance(value, bool)):
            others = [*SIZES, "x", 0.5]
        for other in others:
            made = copy.deepcopy(whole)
            into, place = _places(made)[at]
            into[place] = other
            yield attributes | made


# -- memory between pages that may not be touched ----------------------------------------------------------------------
class Guarded:
    """Makes arrays that end (or begin) where a page begins (or ends) that may not be touched."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.libc, self.page, self.at_end = libc, resource.getpagesize(), True
        self.made: list[tuple[int, int]] = []

    def empty(self, shape: Any, dtype: Any) -> np.ndarray:
        """As `pdl.kernels.memory.empty`; filled, so that what is read before it is written does not look like zeros."""
        dtype, shape = np.dtype(dtype), tuple(map(int, shape))
        nbytes = math.prod(shape) * dtype.itemsize
        inner = max(1, -(-nbytes // self.page)) * self.page
        whole = inner + 2 * self.page
        start = self.libc.mmap(None, whole, 3, 0x22, -1, 0) if nbytes <= 4 * LARGE else None
        if start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"{nbytes} bytes")
        self.made.append((start, whole))
        self.libc.mprotect(start, self.page, 0)
        self.libc.mprotect(start + self.page + inner, self.page, 0)
        ctypes.memset(start + self.page, 0x7F if dtype.kind in "fc" else 0x11, inner)
        first = start + self.page + (inner - nbytes if self.at_end else 0)
        held = np.frombuffer((ctypes.c_byte * max(nbytes, 1)).from_address(first), np.uint8)[:nbytes]
        return held.view(dtype).reshape(shape) if nbytes else np.empty(shape, dtype)

    def copy(self, x: np.ndarray | None) -> np.ndarray | None:
        """The same values between such pages."""
        if x is None:
            return None
        made = self.empty(x.shape, x.dtype)
        made[...] = x
        return made

    def free(self) -> None:
        """Unmap all; no array may be used again."""
        for start, whole in self.made:
            self.libc.munmap(start, whole)
        self.made.clear()


def attempt(sample: Sample, guarded: Guarded, *, shown: bool = False) -> str:
    """What came of it: "refused" before it ran, "big" (not tried, or more than there is memory for), "error" (pdl's
    own), "raw ..." or "ran"."""
    try:
        op = Op.from_dict(sample.attributes)
        specs = op.infer(*[None if x is None else Spec(x.shape, x.dtype) for x in sample.inputs])
        specs = (specs,) if isinstance(specs, Spec) else tuple(specs)
        sizes = [math.prod(map(int, s.shape)) * s.dtype.itemsize for s in specs]
    except PdlError as error:
        if shown:
            say(repr(error))
        return "refused"
    except Exception as error:
        if shown:
            raise
        return f"raw: {type(error).__name__} in {sample.attributes['op']} (infer): {error}"
    if shown:
        say(f"{op} {specs}")
    if max(sizes, default=0) > LARGE or min(sizes, default=0) < 0:
        return "big"
    for guarded.at_end in (True, False):
        try:
            with limited(steps=MOST_STEPS):
                base._quiet.run(op.run, tuple(map(guarded.copy, sample.inputs)))
        except PdlError as error:
            if shown:
                say(repr(error))
            return "error"
        except MemoryError as error:  # a kernel gets no room to work in: Python's own word for it
            if shown:
                say(repr(error))
            return "big"
        except Exception as error:
            if isinstance(op, Assert) and isinstance(error, AssertionError):
                return "error"
            if shown:
                raise
            return f"raw: {type(error).__name__} in {sample.attributes['op']}: {error}"
        finally:
            guarded.free()
    return "ran"


# -- as a module -------------------------------------------------------------------------------------------------------
def guard_allocations() -> Guarded:
    """Outputs and scratch of op bodies come from what is returned."""
    guarded = Guarded()
    for name, module in list(sys.modules.items()):
        if (
            name.startswith("pdl.ops.")
            and getattr(getattr(module, "empty", None), "__module__", "") == "pdl.kernels.memory"
        ):
            module.empty = guarded.empty  # type: ignore[attr-defined]
    return guarded


def show(sample: Sample, guarded: Guarded) -> None:
    """Print a call, and what comes of it."""
    shown = [None if x is None else (x.shape, x.dtype.name, x.reshape(-1)[:6].tolist()) for x in sample.inputs]
    say(json.dumps(sample.attributes), *shown)
    say(attempt(sample, guarded, shown=True))


if __name__ == "__main__":
    samples()
    if "ranges" in sys.argv:
        say(json.dumps(beyond_ranges()))
    else:
        memory = guard_allocations()
        made = change_of if "inputs" in sys.argv else sample_of
        main(lambda number: attempt(made(number), memory), lambda number: show(made(number), memory))

"""Data types: NumPy dtypes plus bfloat16, and the rules by which two of them meet.

Promotion follows the array API where it speaks and PyTorch where it does not: a higher kind (bool < integer < float <
complex) wins with its own width, so ``int64 + float32 -> float32``; a Python scalar only ever raises the kind.
uint64 and a signed dtype have no integer dtype in common and do not meet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from pdl.errors import DtypeError

DType: TypeAlias = np.dtype[Any]
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

bfloat16: DType = np.dtype(ml_dtypes.bfloat16)
float32: DType = np.dtype(np.float32)
float64: DType = np.dtype(np.float64)
complex64: DType = np.dtype(np.complex64)
complex128: DType = np.dtype(np.complex128)
int8: DType = np.dtype(np.int8)
int16: DType = np.dtype(np.int16)
int32: DType = np.dtype(np.int32)
int64: DType = np.dtype(np.int64)
uint8: DType = np.dtype(np.uint8)
uint16: DType = np.dtype(np.uint16)
uint32: DType = np.dtype(np.uint32)
uint64: DType = np.dtype(np.uint64)
bool_: DType = np.dtype(np.bool_)

ALL: dict[str, DType] = {
    d.name: d
    for d in (
        bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, bfloat16, float32, float64, complex64,
        complex128,
    )
}  # fmt: skip
_KIND = {d: 0 if d == bool_ else 1 if d.kind in "iu" else 3 if d.kind == "c" else 2 for d in ALL.values()}


def as_dtype(dtype: Any, default: DType | None = None) -> DType:
    """The dtype named by a string, NumPy type or dtype, `default` for None; a TypeError names the ones pdl has."""
    if dtype is None and default is not None:
        return default
    found = ALL.get(dtype) if isinstance(dtype, str) else None if dtype is None else np.dtype(dtype)
    if found is None or found not in _KIND:
        raise DtypeError(f"dtype {dtype!r} is not one of pdl's: {', '.join(ALL)}")
    return found


def kind(dtype: DType) -> str:
    """'b', 'i', 'f' or 'c': bool, integer (signed or not), floating (bfloat16 too), complex."""
    return "bifc"[_KIND[dtype]]


#: the kinds of the array API standard: which dtypes are of each
KINDS: dict[str, Callable[[DType], bool]] = {
    "bool": lambda d: d == bool_,
    "signed integer": lambda d: d.kind == "i",
    "unsigned integer": lambda d: d.kind == "u",
    "integral": lambda d: d.kind in "iu",
    "real floating": lambda d: _KIND[d] == 2,
    "complex floating": lambda d: d.kind == "c",
    "numeric": lambda d: d != bool_,
}


def of_kind(dtype: DType, kind: str) -> bool:
    """Whether a dtype belongs to a kind of the array API standard, such as "real floating" (with bfloat16)."""
    if kind not in KINDS:
        raise DtypeError(f"kind {kind!r} is none of {', '.join(KINDS)}")
    return KINDS[kind](dtype)


def is_floating(dtype: DType) -> bool:
    """True for float32, float64 and bfloat16."""
    return _KIND.get(dtype) == 2


def is_complex(dtype: DType) -> bool:
    """True for complex64 and complex128."""
    return dtype.kind == "c"


def is_differentiable(dtype: DType) -> bool:
    """True for the floating and the complex dtypes: the ones that carry gradients."""
    return _KIND.get(dtype, 0) >= 2


@lru_cache(maxsize=1024)
def promote(a: DType, b: DType) -> DType:
    """The dtype of ``a + b``: the higher kind's own dtype, or the wider one within a kind."""
    if a == b:
        return a
    ka, kb = _KIND[a], _KIND[b]
    if ka == 1 == kb and uint64 in (a, b) and "i" in (a.kind, b.kind):
        raise DtypeError(f"{a.name} meets {b.name}: no integer dtype holds both; astype one of them")
    if ka == kb:
        return float32 if bfloat16 in (a, b) and float64 not in (a, b) else np.promote_types(*_without_bf16(a, b))
    low, high = (a, b) if ka < kb else (b, a)
    if high == complex64 and low == float64:
        return complex128
    return high


def _without_bf16(a: DType, b: DType) -> tuple[DType, DType]:
    return (float32 if a == bfloat16 else a, float32 if b == bfloat16 else b)


def of_scalar(value: bool | int | float | complex, beside: DType | None = None) -> DType:
    """The dtype that a Python scalar takes with a tensor of dtype `beside` (alone: bool, int64, float32, complex64)."""
    alone = bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else None
    if alone is None:
        alone = complex64 if isinstance(value, complex) else float32
    if beside is None:
        return alone
    if _KIND[alone] <= _KIND[beside]:
        return beside
    return complex128 if alone == complex64 and beside == float64 else alone


def real_of(dtype: DType) -> DType:
    """The dtype of the real part: float32 for complex64, float64 for complex128, else itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts have this dtype."""
    return complex128 if dtype in (float64, complex128) else complex64

"""Dtypes as the array API standard asks for them: of what kind and width they are, and which one two of them become."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pdl.dtype import KINDS, DType, as_dtype, is_differentiable, of_kind, of_scalar, promote, real_of
from pdl.errors import DtypeError
from pdl.exchange import as_device
from pdl.ops import cast
from pdl.ops.shape import clone
from pdl.tensor import Tensor, TensorLike, _Tracing, as_tensor


class FloatInfo(NamedTuple):
    """What `finfo` says: `bits` of a number, distance `eps` from 1 to the next one, largest and smallest finite number,
    smallest positive number of full precision, and the dtype (of a complex one that of its parts)."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntInfo(NamedTuple):
    """What `iinfo` says: `bits` of a number, the largest, the smallest, and the dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(x: Any) -> DType:
    return x.dtype if isinstance(x, Tensor) else as_dtype(getattr(x, "dtype", x))


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating or complex dtype, or of a tensor's."""
    dtype = real_of(_dtype_of(type))
    if not is_differentiable(dtype):
        raise DtypeError(f"finfo: {dtype.name} is no floating dtype; see iinfo")
    found: Any = ml_dtypes.finfo(dtype)
    eps, largest, smallest, normal = (float(v) for v in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(int(found.bits), eps, largest, smallest, normal, dtype)


def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer dtype, or of a tensor's."""
    dtype = _dtype_of(type)
    if not of_kind(dtype, "integral"):
        raise DtypeError(f"iinfo: {dtype.name} is no integer dtype; see finfo")
    found: Any = np.iinfo(dtype)
    return IntInfo(found.bits, int(found.max), int(found.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
    floating", "numeric", another dtype, or one of a tuple of these."""
    found = as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(of_kind(found, k) if isinstance(k, str) and k in KINDS else found == as_dtype(k) for k in kinds)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype (or a tensor's) becomes `to` by the rules of promotion: ``promote(from_, to) == to``."""
    a, b = _dtype_of(from_), as_dtype(to)
    try:
        return promote(a, b) == b
    except DtypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors, dtypes and Python scalars have in common: that of their sum. A scalar raises the kind
    alone."""
    given = [x for x in arrays_and_dtypes if not isinstance(x, bool | int | float | complex)]
    if not given:
        raise DtypeError("result_type: at least one tensor or dtype is needed")
    common = _dtype_of(given[0])
    for x in given[1:]:
        common = promote(common, _dtype_of(x))
    for x in arrays_and_dtypes:
        common = of_scalar(x, common) if isinstance(x, bool | int | float | complex) else common
    return common


def astype(x: TensorLike, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` with the dtype named (a dtype or its name), copied where it has it already unless `copy` is False; in a
    program nothing is copied in vain. Integers drop a float's fraction, real dtypes the imaginary part."""
    as_device("astype", device)
    x = as_tensor(x)
    made = cast.astype(x, dtype)
    return clone(x) if made is x and copy and _Tracing.recorder is None else made


__all__ = ["FloatInfo", "IntInfo", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

# For kernels that take bfloat16 storage beside float32 and float64.
include "checks.pxi"

from pdl.dtype import bfloat16 as _bfloat16

cdef extern from "table.h" namespace "pdl":
    cdef cppclass bf16:
        pass

cdef int BF16 = _bfloat16.num  # NumPy numbers types of others as they register

cdef dict ACTS = {None: 0, "relu": 1, "relu6": 2, "hardswish": 3, "silu": 4}  # enum Act


cdef inline int stored_type(str name, cnp.ndarray array) except -1:
    """NPY_FLOAT, NPY_DOUBLE or BF16, the type of `array`."""
    cdef int kind = cnp.PyArray_TYPE(array)
    if kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE and kind != BF16:
        raise DtypeError(f"{name}: the kernel takes float32, float64 and bfloat16, not {array.dtype}")
    return kind


cdef inline int real_of(int kind) noexcept:
    """The type that `kind` is computed in."""
    return cnp.NPY_FLOAT if kind == BF16 else kind


cdef inline int place_of(int kind) noexcept:
    """The place of `kind` in a table of three."""
    return 0 if kind == cnp.NPY_FLOAT else 1 if kind == cnp.NPY_DOUBLE else 2


cdef inline int act_of(str name, object activation) except -1:
    """The number of an activation."""
    found = ACTS.get(activation)
    if found is None:
        raise ShapeError(f"{name}: activation {activation!r} is none of {sorted(k for k in ACTS if k)}")
    return found

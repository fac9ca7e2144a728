"""Copies between arrays of any strides and dtypes."""

include "launch.pxi"

import numpy as np

from pdl.dtype import bfloat16
from pdl.errors import DtypeError, ShapeError
from pdl.kernels.launch import now
from pdl.kernels.memory import empty

cnp.import_array()

cdef int BF16 = bfloat16.num

cdef extern from "table.h" namespace "pdl":
    cdef enum:
        MAX_DIMS "pdl::kCopyDims"
    cdef struct CopyCall:
        char* to
        const char* source "from"
        int item, dims
        int64_t* shape
        int64_t* to_step
        int64_t* from_step
    cdef enum:
        kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat, kDouble
    cdef cppclass CopyTable:
        void* copy
        void* convert
    cdef cppclass bf16:
        pass
    cdef cppclass CastTable:
        void* narrow
        void* widen
    cdef cppclass Table:
        const CopyTable* copying
        const CastTable* cast
    const Table& table() noexcept nogil

cdef extern from "select.h" namespace "pdl::select":
    cdef struct Steps:
        int64_t outer, inner
    cdef struct SelectCall "pdl::select::Call":
        void* y
        const void* condition
        const void* a
        const void* b
        int64_t rows, columns
        Steps of_condition, of_a, of_b
    void* choose "&pdl::select::choose"


cdef int describe(CopyCall* call, cnp.ndarray out, cnp.ndarray x) except -1:
    """The loops of a copy: axes of size 1 dropped, those that run on in both arrays joined, `out` written as it lies. Returns 0 where
    there are too many."""
    cdef int axis, at, other, lead = 0
    cdef int64_t[64] order
    cdef int ndim = cnp.PyArray_NDIM(out)
    cdef int64_t size, to, come
    for axis in range(ndim):
        if cnp.PyArray_DIM(out, axis) == 1:
            continue
        at = lead
        while at > 0 and abs(cnp.PyArray_STRIDE(out, <int>order[at - 1])) < abs(cnp.PyArray_STRIDE(out, axis)):
            order[at] = order[at - 1]
            at -= 1
        order[at] = axis
        lead += 1
    call.dims = 0
    for at in range(lead):
        axis = <int>order[at]
        size, to, come = cnp.PyArray_DIM(out, axis), cnp.PyArray_STRIDE(out, axis), cnp.PyArray_STRIDE(x, axis)
        other = call.dims - 1
        if call.dims and call.to_step[other] == size * to and call.from_step[other] == size * come:
            call.shape[other] *= size
            call.to_step[other], call.from_step[other] = to, come
            continue
        if call.dims == MAX_DIMS:
            return 0
        call.shape[call.dims], call.to_step[call.dims], call.from_step[call.dims] = size, to, come
        call.dims += 1
    if call.dims == 0:
        call.shape[0], call.to_step[0], call.from_step[0], call.dims = 1, call.item, call.item, 1
    turn(call)
    return 1


cdef void turn(CopyCall* call) noexcept:
    """Where the values of `from` lie side by side along another axis than those of `to`, make that one the last but one."""
    cdef int d, last = call.dims - 1
    cdef int64_t size, to, come
    if last < 2 or call.from_step[last] == call.item:
        return
    for d in range(last - 1):
        if call.from_step[d] == call.item:
            size, to, come = call.shape[d], call.to_step[d], call.from_step[d]
            while d < last - 1:
                call.shape[d], call.to_step[d], call.from_step[d] = call.shape[d + 1], call.to_step[d + 1], call.from_step[d + 1]
                d += 1
            call.shape[d], call.to_step[d], call.from_step[d] = size, to, come
            return


cpdef int copy(
    cnp.ndarray out,    # OUT [...] any strides; it must not overlap x
    cnp.ndarray x,      # IN  like out, any strides
) except -1:
    """out = x."""
    cdef CopyCall call
    cdef int axis, item = cnp.PyArray_ITEMSIZE(out)
    if out is None or x is None or out.dtype != x.dtype:
        raise DtypeError(f"copy: {x.dtype} into {out.dtype}")
    if cnp.PyArray_NDIM(out) != cnp.PyArray_NDIM(x):
        raise ShapeError(f"copy: {(<object>x).shape} into {(<object>out).shape}")
    for axis in range(cnp.PyArray_NDIM(out)):
        if cnp.PyArray_DIM(out, axis) != cnp.PyArray_DIM(x, axis):
            raise ShapeError(f"copy: {(<object>x).shape} into {(<object>out).shape}")
    if cnp.PyArray_SIZE(out) == 0:
        return 0
    call.item = item
    if item not in (1, 2, 4, 8, 16) or not describe(&call, out, x):
        now("copy: more dimensions than the kernel takes")
        np.copyto(out, x)
        return 0
    call.to = <char*>address("copy", cnp.PyArray_DATA(out))
    call.source = <const char*>address("copy", cnp.PyArray_DATA(x))
    with nogil:
        launch(table().copying.copy, call)
    return 0


def select(
    cnp.ndarray out not None,           # OUT [...] contiguous, 1, 2, 4 or 8 bytes an element
    cnp.ndarray condition not None,     # IN  bool, broadcast to out
    cnp.ndarray a not None,             # IN  of the dtype of out, broadcast to it
    cnp.ndarray b not None,             # IN  likewise
):
    """out = a where the condition holds, else b. False, and nothing is done, where the arrays lie in more than two axes of steps."""
    cdef SelectCall call
    cdef Steps[3] steps
    cdef int64_t[3] stride, outer, inner
    cdef int64_t size, rows = 1, columns = 1
    cdef int axis, k, place, axes = 0, ndim = cnp.PyArray_NDIM(out), item = cnp.PyArray_ITEMSIZE(out)
    cdef cnp.ndarray x
    cdef bint joined
    if item not in (1, 2, 4, 8) or not cnp.PyArray_IS_C_CONTIGUOUS(out):
        return False
    given = (condition, a, b)
    for axis in range(ndim - 1, -1, -1):  # axes that run on in all arrays are one
        size = cnp.PyArray_DIM(out, axis)
        if size == 1:
            continue
        joined = axes > 0
        for k in range(3):
            x = given[k]
            place = axis - ndim + cnp.PyArray_NDIM(x)
            stride[k] = 0
            if place >= 0 and cnp.PyArray_DIM(x, place) != 1:
                stride[k] = cnp.PyArray_STRIDE(x, place) // cnp.PyArray_ITEMSIZE(x)
            if axes == 1:
                joined = joined and stride[k] == inner[k] * columns
            elif axes == 2:
                joined = joined and stride[k] == outer[k] * rows
        if joined:
            if axes == 1:
                columns *= size
            else:
                rows *= size
            continue
        if axes == 2:
            return False
        for k in range(3):
            if axes == 0:
                inner[k] = stride[k]
            else:
                outer[k] = stride[k]
        if axes == 0:
            columns = size
        else:
            rows = size
        axes += 1
    for k in range(3):
        steps[k].inner = inner[k] if axes > 0 else 0
        steps[k].outer = outer[k] if axes > 1 else 0
        if steps[k].inner != 0 and steps[k].inner != 1:
            return False
    call.rows, call.columns = rows, columns
    call.of_condition, call.of_a, call.of_b = steps[0], steps[1], steps[2]
    if cnp.PyArray_SIZE(out) == 0:
        return True
    call.y = address("where", cnp.PyArray_DATA(out))
    call.condition = address("where", cnp.PyArray_DATA(condition))
    call.a = address("where", cnp.PyArray_DATA(a))
    call.b = address("where", cnp.PyArray_DATA(b))
    with nogil:
        launch(choose, <int64_t>item, call)
    return True


cpdef object contiguous(
    cnp.ndarray x,
    object dtype=None,  # a numpy.dtype to convert to, see `convert`; None: as it is
):
    """x, or where it is not C-contiguous or has another dtype a copy that is. None stays None."""
    if x is None:
        return x
    if not cnp.PyArray_IS_C_CONTIGUOUS(x):
        y = empty((<object>x).shape, x.dtype)
        copy(y, x)
        x = y
    if dtype is None or dtype == x.dtype:
        return x
    y = empty((<object>x).shape, dtype)
    convert(y, x)
    return y


cdef dict NUMBERS = {
    cnp.NPY_BOOL: kBool, cnp.NPY_UINT8: kUint8, cnp.NPY_INT8: kInt8, cnp.NPY_INT16: kInt16, cnp.NPY_INT32: kInt32,
    cnp.NPY_INT64: kInt64, cnp.NPY_FLOAT: kFloat, cnp.NPY_DOUBLE: kDouble}


def convert(
    cnp.ndarray out not None,   # OUT [...] contiguous
    cnp.ndarray x not None,     # IN  [...] contiguous
):
    """out = x as C converts it: floats are cut to integers (undefined beyond their range); bool is x != 0; between float32 and bfloat16
    rounded to nearest even. Dtypes that no kernel converts are left to NumPy."""
    cdef int64_t n = cnp.PyArray_SIZE(x)
    cdef int to = cnp.PyArray_TYPE(out), come = cnp.PyArray_TYPE(x)
    if cnp.PyArray_SIZE(out) != n or not (cnp.PyArray_IS_C_CONTIGUOUS(out) and cnp.PyArray_IS_C_CONTIGUOUS(x)):
        raise ShapeError(f"convert: {(<object>x).shape} into {(<object>out).shape}, both contiguous")
    cdef bint short = (to == cnp.NPY_FLOAT and come == BF16) or (to == BF16 and come == cnp.NPY_FLOAT)
    if not short and (to not in NUMBERS or come not in NUMBERS):
        now("convert: dtypes that the kernel does not know")
        np.copyto(out, (<object>x).reshape((<object>out).shape), casting="unsafe")
        return
    cdef void* py = address("convert", cnp.PyArray_DATA(out))
    cdef void* px = address("convert", cnp.PyArray_DATA(x))
    if short and to == BF16:
        with nogil:
            launch(table().cast.narrow, <bf16*>py, <float*>px, n)
    elif short:
        with nogil:
            launch(table().cast.widen, <float*>py, <bf16*>px, n)
    else:
        to, come = NUMBERS[to], NUMBERS[come]
        with nogil:
            launch(table().copying.convert, py, to, px, come, n)

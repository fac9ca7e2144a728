"""Matrix products of float32, float64 and bfloat16 arrays."""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int64_t
from libc.string cimport memset

cimport numpy as cnp

import numpy as np

from pdl.dtype import bfloat16
from pdl.kernels.pointwise import UNARY

cnp.import_array()

cdef enum:
    FEW = 32  # products whose offsets need no memory from the heap

cdef extern from "bf16.h" namespace "pdl":
    cdef struct bf16:
        pass

ctypedef fused real:
    float
    double
    bf16

cdef extern from "table.h" namespace "pdl":
    cdef cppclass Product[T]:
        int64_t m, n, k
        T* out
        int64_t out_stride
        const T* a
        int64_t a_row, a_column
        const T* b
        int64_t b_row, b_column
        const T* bias
        float* wide  # of the type that T is computed in
        const Epilogue[T]* then
    cdef cppclass Epilogue[T]:
        int activation
        float a, b, c  # of the type that T is computed in
        const T* residual
        T* before
    cdef cppclass GemmTable[T]:
        void matmul(const Product[T]& first, int64_t batch, const int64_t* offsets) noexcept nogil
    GemmTable[T]* gemm_table[T](const T* any) noexcept nogil


cdef struct Then:
    int activation
    double[3] parameters
    void* residual
    void* before


cdef void run(const Then* then, real* out, float* wide, const real* a, const real* b, const real* bias, const int64_t* sizes, int64_t batch,
              const int64_t* offsets) noexcept nogil:
    """sizes: m, n, k, out_stride, a_row, a_column, b_row, b_column."""
    cdef Product[real] p
    p.m, p.n, p.k, p.out_stride = sizes[0], sizes[1], sizes[2], sizes[3]
    p.a_row, p.a_column, p.b_row, p.b_column = sizes[4], sizes[5], sizes[6], sizes[7]
    p.out, p.a, p.b, p.bias = out, a, b, bias
    if real is bf16:
        p.wide = wide
    else:
        p.wide = NULL
    cdef Epilogue[real] finish
    memset(&finish, 0, sizeof(finish))
    finish.activation, finish.residual, finish.before = then.activation, <const real*>then.residual, <real*>then.before
    finish.a, finish.b, finish.c = then.parameters[0], then.parameters[1], then.parameters[2]
    p.then = &finish if then.activation >= 0 or then.residual != NULL else NULL
    gemm_table(a).matmul(p, batch, offsets)


def matmul(cnp.ndarray out not None, cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray bias=None, str activation=None,
           tuple parameters=(), cnp.ndarray before=None, cnp.ndarray residual=None):
    """out = f(a @ b (+ bias) (+ residual)), f the identity or the function `activation` of pointwise.UNARY with its parameters

    out OUT [..., M, N] C-contiguous, a IN [..., M, K], b IN [..., K, N]: any strides, batch dimensions broadcast to those of out;
    bias IN [N] contiguous or None. All of one dtype, float32, float64 or bfloat16; beside bfloat16 inputs out may be float32, which
    saves the rounding. residual IN (or None) is contiguous, shaped as out and of its dtype, and so is before OUT (or None), which comes
    with an activation: what f is applied to.
    """
    cdef int64_t[8] sizes
    cdef Then then
    cdef int64_t item = a.itemsize
    cdef bint wide = a.dtype == bfloat16 and out.dtype == np.float32
    cdef int64_t batch = 1
    cdef int64_t[3 * FEW] few
    cdef int64_t* offsets = few
    cdef void* bias_data = NULL
    if a.ndim < 2 or b.ndim < 2 or out.ndim < 2:
        raise ValueError("matmul: every array has at least two dimensions")
    if a.dtype != b.dtype or (a.dtype != out.dtype and not wide) or (a.dtype.char not in "fd" and a.dtype != bfloat16):
        raise TypeError(f"matmul: dtypes {out.dtype}, {a.dtype}, {b.dtype} must be one, float32, float64 or bfloat16")
    if b.ndim == 2 and a.ndim > 2 and a.size and a.flags.c_contiguous and np.shape(a)[:-1] == np.shape(out)[:-1]:  # one tall product
        a = a.reshape(-1, a.shape[a.ndim - 1])
        out = out.reshape(-1, out.shape[out.ndim - 1])
    m, n, k = a.shape[a.ndim - 2], b.shape[b.ndim - 1], a.shape[a.ndim - 1]
    if b.shape[b.ndim - 2] != k or out.shape[out.ndim - 2] != m or out.shape[out.ndim - 1] != n:
        raise ValueError(f"matmul: {np.shape(a)} @ {np.shape(b)} does not fit into {np.shape(out)}")
    demand_batch(a, out)
    demand_batch(b, out)
    if not cnp.PyArray_ISALIGNED(a):
        a = a.copy()
    if not cnp.PyArray_ISALIGNED(b):
        b = b.copy()
    if not out.flags.c_contiguous or (bias is not None and (not bias.flags.c_contiguous or bias.dtype != a.dtype)):
        raise ValueError("matmul: out and bias must be C-contiguous and of one dtype")
    if bias is not None:
        if bias.ndim != 1 or bias.shape[0] != n:
            raise ValueError(f"matmul: bias {np.shape(bias)} must have shape ({n},)")
        bias_data = cnp.PyArray_DATA(bias)
    if out.size == 0:
        return
    then.activation, then.residual, then.before, then.parameters = -1, NULL, NULL, [0, 0, 0]
    if wide and (activation is not None or residual is not None):
        raise TypeError("matmul: an activation or a residual wants the output in the dtype of the inputs")
    if residual is not None:
        if residual.size != out.size or residual.dtype != out.dtype or not residual.flags.c_contiguous:
            raise ValueError(f"matmul: residual {np.shape(residual)} must be contiguous and like out {np.shape(out)}")
        then.residual = cnp.PyArray_DATA(residual)
    if activation is not None:
        then.activation = UNARY[activation]
        for number, value in enumerate(parameters):
            then.parameters[number] = value
        if before is not None:
            if before.size != out.size or before.dtype != out.dtype or not before.flags.c_contiguous:
                raise ValueError(f"matmul: before {np.shape(before)} must be contiguous and like out {np.shape(out)}")
            then.before = cnp.PyArray_DATA(before)
    sizes[0], sizes[1], sizes[2], sizes[3] = m, n, k, n
    sizes[4], sizes[5] = a.strides[a.ndim - 2] // item, a.strides[a.ndim - 1] // item
    sizes[6], sizes[7] = b.strides[b.ndim - 2] // item, b.strides[b.ndim - 1] // item
    if m == 1 and sizes[5] != 1:
        sizes[4] = 1  # a single row has no row stride: take the column form
    batch = fill_offsets(NULL, out, a, b)
    if batch > FEW:
        offsets = <int64_t*>PyMem_RawMalloc(3 * batch * sizeof(int64_t))
        if offsets == NULL:
            raise MemoryError(f"matmul: no room for the offsets of {batch} products")
    fill_offsets(offsets, out, a, b)
    if item == 4:
        with nogil:
            run(&then, <float*>cnp.PyArray_DATA(out), NULL, <const float*>cnp.PyArray_DATA(a), <const float*>cnp.PyArray_DATA(b),
                <const float*>bias_data, sizes, batch, offsets)
    elif item == 8:
        with nogil:
            run(&then, <double*>cnp.PyArray_DATA(out), NULL, <const double*>cnp.PyArray_DATA(a), <const double*>cnp.PyArray_DATA(b),
                <const double*>bias_data, sizes, batch, offsets)
    else:
        with nogil:
            run(&then, <bf16*>cnp.PyArray_DATA(out), <float*>cnp.PyArray_DATA(out) if wide else NULL,
                <const bf16*>cnp.PyArray_DATA(a), <const bf16*>cnp.PyArray_DATA(b), <const bf16*>bias_data, sizes, batch, offsets)
    if offsets != few:
        PyMem_RawFree(offsets)


cdef int64_t fill_offsets(int64_t* offsets, cnp.ndarray out, cnp.ndarray a, cnp.ndarray b) except -1:
    """[batch, 3]: where every product of the batch starts in out, a and b, in elements. Returns the size of the batch."""
    cdef int outer = out.ndim - 2, axis
    cdef int64_t batch = 1, i, left, at
    for axis in range(outer):
        batch *= out.shape[axis]
    for i in range(batch if offsets != NULL else 0):
        left = i
        offsets[3 * i] = offsets[3 * i + 1] = offsets[3 * i + 2] = 0
        for axis in range(outer - 1, -1, -1):
            at = left % out.shape[axis]
            left //= out.shape[axis]
            offsets[3 * i] += at * step_of(out, axis - outer)
            offsets[3 * i + 1] += at * step_of(a, axis - outer)
            offsets[3 * i + 2] += at * step_of(b, axis - outer)
    return batch


cdef int demand_batch(cnp.ndarray x, cnp.ndarray out) except -1:
    """Raise unless the batch dimensions of x broadcast to those of out."""
    cdef int axis, ahead = out.ndim - x.ndim
    for axis in range(x.ndim - 2):
        if ahead < 0 or (x.shape[axis] != 1 and x.shape[axis] != out.shape[axis + ahead]):
            raise ValueError(f"matmul: the batch of {np.shape(x)} does not broadcast to that of {np.shape(out)}")
    return 0


cdef inline int64_t step_of(cnp.ndarray x, int from_last) noexcept:
    """Elements from one matrix to the next along batch dimension `from_last` (-1 is the last); 0 where x is broadcast."""
    cdef int axis = x.ndim - 2 + from_last
    return x.strides[axis] // x.itemsize if axis >= 0 and x.shape[axis] > 1 else 0

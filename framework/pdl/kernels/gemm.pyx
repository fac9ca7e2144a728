"""Matrix products of float32, float64 and bfloat16 arrays."""

include "dense.pxi"

import numpy as np

from pdl.dtype import bfloat16
from pdl.kernels.memory import empty
from pdl.kernels.pointwise import UNARY

cnp.import_array()

cdef object INT64 = np.dtype(np.int64)

cdef extern from *:
    """
    // One matmul with all it needs: what the kernel takes by pointer lies in here.
    struct MatmulCall {
      int kind;                // NumPy's number of the type
      int64_t m, n, k, out_stride, a_row, a_column, b_row, b_column;
      void *out, *wide;        // as in pdl::Product
      const void *a, *b, *bias;
      pdl::AnyEpilogue then;
      int64_t batch;
      const int64_t* offsets;  // of the products of the batch, or null: they are in `few`
      int64_t few[3 * 8];

      template <class T>
      void run() const {
        const pdl::Epilogue<T> finish = then;
        const bool plain = finish.activation < 0 && finish.residual == nullptr;
        const pdl::Product<T> product = {
            m, n, k, static_cast<T*>(out), out_stride, static_cast<const T*>(a), a_row, a_column, static_cast<const T*>(b), b_row, b_column,
            static_cast<const T*>(bias), static_cast<pdl::Real<T>*>(wide), plain ? nullptr : &finish};
        pdl::gemm_table(product.a)->matmul(product, batch, offsets != nullptr ? offsets : few);
      }

      static void make(const MatmulCall& call) {
        call.kind == NPY_FLOAT ? call.run<float>() : call.kind == NPY_DOUBLE ? call.run<double>() : call.run<pdl::bf16>();
      }
    };
    """
    cdef enum:
        FEW "8"
    cdef cppclass MatmulCall:
        int kind
        int64_t m, n, k, out_stride, a_row, a_column, b_row, b_column
        void* out
        void* wide
        const void* a
        const void* b
        const void* bias
        AnyEpilogue then
        int64_t batch
        const int64_t* offsets
        int64_t[3 * 8] few
        void* make


def matmul(cnp.ndarray out not None, cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray bias=None, str activation=None,
           tuple parameters=(), cnp.ndarray before=None, cnp.ndarray residual=None):
    """out = f(a @ b (+ bias) (+ residual)), f the identity or the function `activation` of pointwise.UNARY with its parameters

    out OUT [..., M, N] C-contiguous, a IN [..., M, K], b IN [..., K, N]: any strides, batch dimensions broadcast to those of out;
    bias IN [N] contiguous or None. All of one dtype, float32, float64 or bfloat16; beside bfloat16 inputs out may be float32, which
    saves the rounding. residual IN (or None) is contiguous, shaped as out and of its dtype, and so is before OUT (or None), which comes
    with an activation: what f is applied to.
    """
    cdef MatmulCall call
    cdef int64_t item = a.itemsize
    cdef bint wide = a.dtype == bfloat16 and out.dtype == np.float32
    call.kind, call.bias = cnp.PyArray_TYPE(a), NULL
    call.offsets = NULL
    if a.ndim < 2 or b.ndim < 2 or out.ndim < 2:
        raise ValueError("matmul: every array has at least two dimensions")
    if a.dtype != b.dtype or (a.dtype != out.dtype and not wide) or (a.dtype.char not in "fd" and a.dtype != bfloat16):
        raise TypeError(f"matmul: dtypes {out.dtype}, {a.dtype}, {b.dtype} must be one, float32, float64 or bfloat16")
    if not out.flags.c_contiguous or (bias is not None and (not bias.flags.c_contiguous or bias.dtype != a.dtype)):
        raise ValueError("matmul: out and bias must be C-contiguous and of one dtype")
    tall = b.ndim == 2 and a.ndim > 2 and a.size and a.flags.c_contiguous
    if tall and np.shape(a)[:a.ndim - 1] == np.shape(out)[:out.ndim - 1]:  # one tall product
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
    if bias is not None:
        if bias.ndim != 1 or bias.shape[0] != n:
            raise ValueError(f"matmul: bias {np.shape(bias)} must have shape ({n},)")
        call.bias = address("matmul", cnp.PyArray_DATA(bias))
    if out.size == 0:
        return
    if wide and (activation is not None or residual is not None):
        raise TypeError("matmul: an activation or a residual wants the output in the dtype of the inputs")
    if residual is not None:
        if residual.size != out.size or residual.dtype != out.dtype or not residual.flags.c_contiguous:
            raise ValueError(f"matmul: residual {np.shape(residual)} must be contiguous and like out {np.shape(out)}")
        call.then.residual = address("matmul", cnp.PyArray_DATA(residual))
    set_activation(&call.then, activation, parameters)
    if activation is not None and before is not None:
        if before.size != out.size or before.dtype != out.dtype or not before.flags.c_contiguous:
            raise ValueError(f"matmul: before {np.shape(before)} must be contiguous and like out {np.shape(out)}")
        call.then.before = address("matmul", cnp.PyArray_DATA(before))
    call.m, call.n, call.k, call.out_stride = m, n, k, n
    call.a_row, call.a_column = a.strides[a.ndim - 2] // item, a.strides[a.ndim - 1] // item
    call.b_row, call.b_column = b.strides[b.ndim - 2] // item, b.strides[b.ndim - 1] // item
    if m == 1 and call.a_column != 1:
        call.a_row = 1  # a single row has no row stride: take the column form
    call.batch = fill_offsets(NULL, out, a, b)
    if call.batch > FEW:
        many = empty((3 * call.batch,), INT64)
        call.offsets = <int64_t*>cnp.PyArray_DATA(many)
        fill_offsets(<int64_t*>call.offsets, out, a, b)
    else:
        fill_offsets(call.few, out, a, b)
    call.out = address("matmul", cnp.PyArray_DATA(out))
    call.wide = call.out if wide else NULL
    call.a = address("matmul", cnp.PyArray_DATA(a))
    call.b = address("matmul", cnp.PyArray_DATA(b))
    with nogil:
        launch(call.make, call)


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

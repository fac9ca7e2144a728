"""Products with weights of 8 or 4 bits; see nbits.h. float32."""

include "checks.pxi"

from libc.stdint cimport int32_t

cdef extern from "table.h" namespace "pdl":
    cdef cppclass NBitsTable:
        void* product
    cdef cppclass Table:
        const NBitsTable* nbits
    const Table& table() noexcept nogil


def words(int64_t k, int64_t n, int bits):
    """How many int32 packed weights [k, n] take."""
    return (n + 63) // 64 * 64 * (k * bits // 32)


def levels(int64_t k, int64_t n, int64_t group):
    """How many float32 their scales and lowest values take."""
    return (n + 63) // 64 * 64 * 2 * ((k + group - 1) // group)


def product(
    cnp.ndarray y not None,       # OUT [..., N] float32
    cnp.ndarray x not None,       # IN  [..., K] float32
    cnp.ndarray packed not None,  # IN  [panels, K bits / 32, 64] int32
    cnp.ndarray level not None,   # IN  [panels, groups, 2, 64] float32: scales, then lowest values
    cnp.ndarray bias,             # IN  [N] float32 or None
    int64_t k,
    int64_t n,
    int64_t group,                # inputs that share a scale, a multiple of 8
    int bits,                     # 8 or 4
):
    """y = x w + bias, w = low + scale q."""
    if bits not in (4, 8) or k < 1 or n < 1 or group < 8 or group % 8 or k % 8:
        raise ShapeError(f"nbits: {bits} bits, weights ({k}, {n}) in groups of {group}; expected 4 or 8, and k and group in multiples of 8")
    cdef int64_t rows = cnp.PyArray_SIZE(x) // k
    cdef float* to = <float*>data_of("nbits", "y", y, cnp.NPY_FLOAT, rows * n)
    cdef const float* px = <const float*>data_of("nbits", "x", x, cnp.NPY_FLOAT, rows * k)
    cdef const int32_t* pw = <const int32_t*>data_of("nbits", "packed", packed, cnp.NPY_INT32, words(k, n, bits))
    cdef const float* pl = <const float*>data_of("nbits", "level", level, cnp.NPY_FLOAT, levels(k, n, group))
    cdef const float* b = <const float*>optional_data("nbits", "bias", bias, cnp.NPY_FLOAT, n)
    if rows == 0:
        return
    with nogil:
        launch(table().nbits.product, to, px, pw, pl, b, rows, k, n, group, bits)

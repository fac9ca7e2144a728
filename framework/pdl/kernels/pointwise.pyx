"""Elementwise kernels."""

from libc.stdint cimport int64_t

cimport numpy as cnp

cnp.import_array()

ctypedef fused real:
    float
    double

cdef extern from "table.h" namespace "pdl":
    cdef cppclass PointwiseTable[T]:
        void relu(T* y, const T* x, int64_t n) noexcept nogil
    PointwiseTable[T]* pointwise_table[T](const T* any) noexcept nogil


def relu(real[::1] y, const real[::1] x):
    """y = max(x, 0)    y OUT [n], x IN [n]"""
    cdef int64_t n = x.shape[0]
    if n:
        with nogil:
            pointwise_table(&x[0]).relu(&y[0], &x[0], n)

# For products and convolutions of float32, float64 and bfloat16: their types, and what may follow a sum.
include "launch.pxi"

cdef extern from "bf16.h" namespace "pdl":
    cdef struct bf16:
        pass

cdef extern from "table.h" namespace "pdl":
    cdef cppclass Epilogue[T]:
        int activation
        float a, b, c  # of the type that T is computed in
        const T* residual
        T* before

ctypedef fused real:
    float
    double
    bf16

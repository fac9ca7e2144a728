# For products and convolutions of float32, float64 and bfloat16: what may follow a sum.
include "launch.pxi"

cdef extern from "stored.h" namespace "pdl":
    cdef cppclass AnyEpilogue:
        int activation
        double a, b, c
        const void* residual
        void* before
        void* mean
        void* var


cdef int set_activation(AnyEpilogue* then, str activation, tuple parameters) except -1:
    """The function `activation` of pointwise.UNARY with its parameters, or None."""
    then.activation = -1 if activation is None else UNARY[activation]
    then.a, then.b, then.c = (*parameters, 0.0, 0.0, 0.0)[:3]
    return 0

"""Elementwise kernels: functions of one array and their gradients, arithmetic of two. float32 and float64,
contiguous."""

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass PointwiseTable[T]:
        void unary(int name, T* y, const T* x, int64_t n, T a, T b, T c) noexcept nogil
        void unary_grad(int name, T* dx, const T* g, const T* ref, int64_t n, T a, T b, T c) noexcept nogil
        void binary(int name, T* out, const T* a, const T* b, int64_t rows, int64_t columns, int beside, bint swapped) noexcept nogil
    PointwiseTable[T]* pointwise_table[T](const T* any) noexcept nogil

# In the order of enum Unary and enum Binary in table.h.
UNARY = {name: number for number, name in enumerate((
    "relu", "clip", "leaky_relu", "elu", "hardswish", "hardsigmoid", "sigmoid", "log_sigmoid", "softplus", "softsign", "gelu",
    "gelu_tanh", "silu", "mish", "tanh", "exp", "expm1", "log", "log1p", "erf", "erfc", "sqrt", "rsqrt", "reciprocal", "square",
    "negative", "abs"))}
#: the functions that `unary_grad` knows, and whether it wants x or y
GRADIENT_OF = {
    "relu": "y", "sigmoid": "y", "tanh": "y", "exp": "y", "clip": "x", "leaky_relu": "x", "elu": "x", "hardswish": "x",
    "hardsigmoid": "x", "log_sigmoid": "x", "softplus": "x", "softsign": "x", "gelu": "x", "gelu_tanh": "x", "silu": "x", "mish": "x",
    "log": "x", "erf": "x"}
BINARY = {name: number for number, name in enumerate(("add", "subtract", "multiply", "divide", "maximum", "minimum"))}


def unary(
    str name not None,          # one of UNARY
    cnp.ndarray y not None,     # OUT [...], may be x
    cnp.ndarray x not None,     # IN  [...] of y's size and dtype
    double a=0.0,
    double b=0.0,
    double c=0.0,
):
    """y = f(x).

    Parameters: clip(low=a, high=b), leaky_relu(slope=a), softplus(beta=a), elu: b x above 0, b a (e^(c x) - 1) below.
    Errors: exp, expm1, log, log1p, tanh, sigmoid, softplus, erf at most 4 ulp, erfc and gelu 6 (measured in the tests). NaN stays NaN,
    infinities give limits, subnormal numbers count as 0.
    """
    cdef int64_t n = cnp.PyArray_SIZE(x)
    cdef int kind = real_type(name, x), which = UNARY[name]
    cdef void* to = data_of(name, "y", y, kind, n)
    cdef void* of = data_of(name, "x", x, kind, n)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            pointwise_table(<float*>to).unary(which, <float*>to, <float*>of, n, <float>a, <float>b, <float>c)
        else:
            pointwise_table(<double*>to).unary(which, <double*>to, <double*>of, n, a, b, c)


def unary_grad(
    str name not None,          # one of GRADIENT_OF
    cnp.ndarray dx not None,    # OUT [...], may be g
    cnp.ndarray g not None,     # IN  [...]
    cnp.ndarray ref not None,   # IN  [...] x or y, as GRADIENT_OF says
    double a=0.0,
    double b=0.0,
    double c=0.0,
):
    """dx = g f'(x). At a kink the slope is that of the flat or lower side: relu'(0) = 0, leaky_relu'(0) = a, clip'(a) =
    clip'(b) = 0."""
    cdef int64_t n = cnp.PyArray_SIZE(g)
    cdef int kind = real_type(name, g), which = UNARY[name]
    cdef void* to = data_of(name, "dx", dx, kind, n)
    cdef void* at = data_of(name, "g", g, kind, n)
    cdef void* of = data_of(name, "ref", ref, kind, n)
    if name not in GRADIENT_OF:
        raise KeyError(f"pointwise has no gradient of {name!r}; it has {', '.join(GRADIENT_OF)}")
    with nogil:
        if kind == cnp.NPY_FLOAT:
            pointwise_table(<float*>to).unary_grad(which, <float*>to, <float*>at, <float*>of, n, <float>a, <float>b, <float>c)
        else:
            pointwise_table(<double*>to).unary_grad(which, <double*>to, <double*>at, <double*>of, n, a, b, c)


def binary(
    str name not None,          # one of BINARY
    cnp.ndarray out not None,   # OUT [..., C], may be the larger input
    cnp.ndarray a not None,     # IN  [..., C]
    cnp.ndarray b not None,     # IN  [..., C], or [C] (a row), or one value; a and b may change places
):
    """out = a o b. The larger of maximum(a, b) is NaN where one of them is."""
    cdef int64_t n = cnp.PyArray_SIZE(out), small, columns
    cdef int kind = real_type(name, out), which = BINARY[name], beside
    cdef bint swapped = cnp.PyArray_SIZE(a) < n
    if swapped:
        a, b = b, a
    small = cnp.PyArray_SIZE(b)
    columns = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1) if cnp.PyArray_NDIM(out) else 1
    if small != 1 and (cnp.PyArray_DIM(b, cnp.PyArray_NDIM(b) - 1) != columns or (small != n and small != columns)):
        shapes = f"{(<object>b).shape} beside {(<object>a).shape}"
        raise ShapeError(f"{name}: {shapes} is neither its like, nor one row of {columns}, nor one value")
    beside = 0 if small == n else 2 if small == 1 else 1
    cdef void* to = data_of(name, "out", out, kind, n)
    cdef void* p = data_of(name, "a", a, kind, n)
    cdef void* q = data_of(name, "b", b, kind, small)
    if n == 0:
        return
    with nogil:
        if kind == cnp.NPY_FLOAT:
            pointwise_table(<float*>to).binary(which, <float*>to, <float*>p, <float*>q, n // columns, columns, beside, swapped)
        else:
            pointwise_table(<double*>to).binary(which, <double*>to, <double*>p, <double*>q, n // columns, columns, beside, swapped)

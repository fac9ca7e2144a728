"""Elementwise kernels: functions of one array and their gradients, arithmetic of two, sums and extremes over axes, casts.
float32, float64 and bfloat16 (computed in float32, rounded once), contiguous."""


include "stored.pxi"

cdef extern from "stored.h":
    int64_t launch_unary "PDL_STORED(pointwise, unary)"(int kind, ...) except + nogil
    int64_t launch_unary_grad "PDL_STORED(pointwise, unary_grad)"(int kind, ...) except + nogil
    int64_t launch_binary "PDL_STORED(pointwise, binary)"(int kind, ...) except + nogil
    int64_t launch_sums "PDL_STORED(pointwise, sums)"(int kind, ...) except + nogil
    int64_t launch_extremes "PDL_STORED(pointwise, extremes)"(int kind, ...) except + nogil

cdef extern from "table.h" namespace "pdl":
    cdef cppclass CastTable:
        void* narrow
        void* widen
    cdef cppclass Table:
        const CastTable* cast
    const Table& table() noexcept nogil

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
    cdef int kind = stored_type(name, x), which = UNARY[name]
    cdef void* to = data_of(name, "y", y, kind, n)
    cdef void* of = data_of(name, "x", x, kind, n)
    with nogil:
        launch_unary(kind, which, to, of, n, a, b, c)


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
    cdef int kind = stored_type(name, g), which = UNARY[name]
    cdef void* to = data_of(name, "dx", dx, kind, n)
    cdef void* at = data_of(name, "g", g, kind, n)
    cdef void* of = data_of(name, "ref", ref, kind, n)
    if name not in GRADIENT_OF:
        raise KeyError(f"pointwise has no gradient of {name!r}; it has {', '.join(GRADIENT_OF)}")
    with nogil:
        launch_unary_grad(kind, which, to, at, of, n, a, b, c)


cdef enum Beside:  # enum class Beside in pointwise.h
    SAME, ROW, COLUMN, ONE, UNFIT


cdef int beside_of(cnp.ndarray out, cnp.ndarray b, int64_t* outer, int64_t* rows, int64_t* columns) noexcept:
    """How b lies beside `out`, seen as [outer, rows, columns]: SAME, [outer, 1, columns], [outer, 1, 1], ONE or UNFIT."""
    cdef int ndim = cnp.PyArray_NDIM(out), lead = ndim - cnp.PyArray_NDIM(b), axis, phase = 0
    cdef int64_t size, other
    outer[0] = rows[0] = columns[0] = 1
    if lead < 0:
        return UNFIT
    for axis in range(ndim):
        size, other = cnp.PyArray_DIM(out, axis), 1 if axis < lead else cnp.PyArray_DIM(b, axis - lead)
        if size == 1 and other == 1:
            continue
        if other == size:
            if phase == 0:
                outer[0] *= size
            else:
                columns[0] *= size
                phase = 2
        elif other == 1 and phase < 2:
            rows[0] *= size
            phase = 1
        else:
            return UNFIT
    if rows[0] == 1:
        return SAME
    if columns[0] > 1:
        return ROW
    return ONE if outer[0] == 1 else COLUMN


def fits(cnp.ndarray out not None, cnp.ndarray a not None, cnp.ndarray b not None) -> bool:
    """Whether `binary` takes these arrays."""
    cdef int kind = cnp.PyArray_TYPE(out)
    cdef int64_t n = cnp.PyArray_SIZE(out), outer, rows, columns
    if kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE and kind != BF16:
        return False
    if cnp.PyArray_TYPE(a) != kind or cnp.PyArray_TYPE(b) != kind:
        return False
    if not (cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_IS_C_CONTIGUOUS(b)):
        return False
    if cnp.PyArray_SIZE(a) != n:
        a, b = b, a
    return cnp.PyArray_SIZE(a) == n and beside_of(out, b, &outer, &rows, &columns) != UNFIT


def binary(
    str name not None,          # one of BINARY
    cnp.ndarray out not None,   # OUT [...], may be the larger input
    cnp.ndarray a not None,     # IN  of out's size
    cnp.ndarray b not None,     # IN  like a, or with size 1 along neighbouring axes (a row, a column, one value); may change places
):
    """out = a o b, broadcast. The larger of maximum(a, b) is NaN where one of them is."""
    cdef int64_t n = cnp.PyArray_SIZE(out), outer, rows, columns
    cdef int kind = stored_type(name, out), which = BINARY[name], beside
    cdef bint swapped = cnp.PyArray_SIZE(a) < n
    if swapped:
        a, b = b, a
    beside = beside_of(out, b, &outer, &rows, &columns)
    if beside == UNFIT:
        shapes = f"{(<object>b).shape} beside {(<object>a).shape}"
        raise ShapeError(f"{name}: {shapes} is neither its like, nor one row, column or value of it")
    cdef void* to = data_of(name, "out", out, kind, n)
    cdef void* p = data_of(name, "a", a, kind, n)
    cdef void* q = data_of(name, "b", b, kind, cnp.PyArray_SIZE(b))
    if n == 0:
        return
    with nogil:
        launch_binary(kind, which, to, p, q, outer, rows, columns, beside, swapped)


def sums(
    cnp.ndarray y not None,     # OUT [outer, inner] in any shape
    cnp.ndarray x not None,     # IN  [outer, n, inner] in any shape
    int64_t outer,
    int64_t n,
    int64_t inner,
    double divisor=1.0,
):
    """y[o, i] = sum_r x[o, r, i] / divisor; the order of the additions depends on the sizes alone."""
    cdef int kind = stored_type("sums", x)
    cdef void* to = data_of("sums", "y", y, kind, outer * inner)
    cdef void* of = data_of("sums", "x", x, kind, outer * n * inner)
    if outer * inner == 0:
        return
    with nogil:
        launch_sums(kind, to, of, outer, n, inner, divisor)


def extremes(
    cnp.ndarray y not None,     # OUT [outer, inner] in any shape
    cnp.ndarray x not None,     # IN  [outer, n, inner] in any shape, n > 0
    int64_t outer,
    int64_t n,
    int64_t inner,
    bint largest,
):
    """y[o, i] = max (largest) or min over r of x[o, r, i]; NaN if one is."""
    cdef int kind = stored_type("extremes", x)
    cdef void* to = data_of("extremes", "y", y, kind, outer * inner)
    cdef void* of = data_of("extremes", "x", x, kind, outer * n * inner)
    if outer * inner == 0:
        return
    if n == 0:
        raise ShapeError("extremes: no elements have neither a largest nor a smallest one")
    with nogil:
        launch_extremes(kind, to, of, outer, n, inner, largest)


def cast(
    cnp.ndarray y not None,     # OUT [...] float32 or bfloat16
    cnp.ndarray x not None,     # IN  [...] the other one
):
    """y = x, rounded to nearest even."""
    cdef int64_t n = cnp.PyArray_SIZE(x)
    cdef bint narrow = cnp.PyArray_TYPE(y) == BF16
    cdef void* to = data_of("cast", "y", y, BF16 if narrow else cnp.NPY_FLOAT, n)
    cdef void* of = data_of("cast", "x", x, cnp.NPY_FLOAT if narrow else BF16, n)
    with nogil:
        if narrow:
            launch(table().cast.narrow, <bf16*>to, <float*>of, n)
        else:
            launch(table().cast.widen, <float*>to, <bf16*>of, n)

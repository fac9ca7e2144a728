"""Losses that count easy elements less, of a logit and its target in [0, 1], element by element, and that of a
distribution over bins; see focal.h."""

include "checks.pxi"

cdef extern from "stored.h":
    int64_t launch_loss "PDL_REAL(focal, loss)"(int kind, ...) except + nogil
    int64_t launch_slope "PDL_REAL(focal, slope)"(int kind, ...) except + nogil
    int64_t launch_distribution "PDL_REAL(focal, distribution)"(int kind, ...) except + nogil
    int64_t launch_distribution_slope "PDL_REAL(focal, distribution_slope)"(int kind, ...) except + nogil

cdef extern from "table.h" namespace "pdl":
    cdef enum:
        kSigmoidFocal
        kQualityFocal
        kVarifocal

KINDS = {"sigmoid_focal": kSigmoidFocal, "quality_focal": kQualityFocal, "varifocal": kVarifocal}


cdef int number_of(str kind) except -1:
    if kind not in KINDS:
        raise ShapeError(f"focal: {kind!r} is none of {', '.join(KINDS)}")
    return KINDS[kind]


def loss(
    cnp.ndarray y not None,         # OUT [...]
    cnp.ndarray x not None,         # IN  [...] logits
    cnp.ndarray target not None,    # IN  [...]
    str kind,                       # of KINDS
    double positive,                # weights of positive and negative targets
    double negative,
    double gamma,
):
    """y = the loss of each element."""
    cdef int number = number_of(kind), type_ = real_type("focal", x)
    cdef int64_t n = cnp.PyArray_SIZE(x)
    cdef void* to = data_of("focal", "y", y, type_, n)
    cdef void* px = data_of("focal", "x", x, type_, n)
    cdef void* pt = data_of("focal", "target", target, type_, n)
    with nogil:
        launch_loss(type_, to, px, pt, n, number, positive, negative, gamma)


def slope(
    cnp.ndarray dx not None,        # OUT [...]
    cnp.ndarray g not None,         # IN  [...] gradient of the loss
    cnp.ndarray x not None,
    cnp.ndarray target not None,
    str kind,
    double positive,
    double negative,
    double gamma,
):
    """dx = g times the derivative of `loss` in x."""
    cdef int number = number_of(kind), type_ = real_type("focal", x)
    cdef int64_t n = cnp.PyArray_SIZE(x)
    cdef void* to = data_of("focal", "dx", dx, type_, n)
    cdef void* pg = data_of("focal", "g", g, type_, n)
    cdef void* px = data_of("focal", "x", x, type_, n)
    cdef void* pt = data_of("focal", "target", target, type_, n)
    with nogil:
        launch_slope(type_, to, pg, px, pt, n, number, positive, negative, gamma)


cdef int64_t bins_of(cnp.ndarray x) except -1:
    """The last size of x [..., bins]."""
    if cnp.PyArray_NDIM(x) == 0 or cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1) == 0:
        raise ShapeError(f"distribution: x {(<object>x).shape} has no bins")
    return cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)


def distribution(
    cnp.ndarray y not None,         # OUT [...]
    cnp.ndarray lse not None,       # OUT [...]
    cnp.ndarray x not None,         # IN  [..., bins] logits
    cnp.ndarray target not None,    # IN  [...]
):
    """y = sum_i w[i] (lse - x[i]), lse = log sum_i e^x[i], w[i] = max(1 - |i - target|, 0)."""
    cdef int type_ = real_type("distribution", x)
    cdef int64_t bins = bins_of(x), rows = cnp.PyArray_SIZE(x) // bins
    cdef void* to = data_of("distribution", "y", y, type_, rows)
    cdef void* pe = data_of("distribution", "lse", lse, type_, rows)
    cdef void* px = data_of("distribution", "x", x, type_, rows * bins)
    cdef void* pt = data_of("distribution", "target", target, type_, rows)
    with nogil:
        launch_distribution(type_, to, pe, px, pt, rows, bins)


def distribution_slope(
    cnp.ndarray dx not None,        # OUT [..., bins]
    cnp.ndarray g not None,         # IN  [...] gradient of the loss
    cnp.ndarray x not None,         # IN  [..., bins]
    cnp.ndarray lse not None,       # IN  [...]
    cnp.ndarray target not None,    # IN  [...]
):
    """dx[i] = g (e^(x[i] - lse) sum w - w[i])."""
    cdef int type_ = real_type("distribution", x)
    cdef int64_t bins = bins_of(x), rows = cnp.PyArray_SIZE(x) // bins
    cdef void* to = data_of("distribution", "dx", dx, type_, rows * bins)
    cdef void* pg = data_of("distribution", "g", g, type_, rows)
    cdef void* px = data_of("distribution", "x", x, type_, rows * bins)
    cdef void* pe = data_of("distribution", "lse", lse, type_, rows)
    cdef void* pt = data_of("distribution", "target", target, type_, rows)
    with nogil:
        launch_distribution_slope(type_, to, pg, px, pe, pt, rows, bins)

"""Softmax and cross-entropy kernels over the last axis. float32, float64 and bfloat16 (losses, weights and targets are
then float32), contiguous."""

from pdl.errors import DataError
from pdl.kernels.launch import now

include "stored.pxi"

cdef extern from "stored.h":
    int64_t launch_softmax "PDL_STORED(softmax, softmax)"(int kind, ...) except + nogil
    int64_t launch_softmax_grad "PDL_STORED(softmax, softmax_grad)"(int kind, ...) except + nogil
    int64_t launch_cross_entropy "PDL_STORED(softmax, cross_entropy)"(int kind, ...) except + nogil
    int64_t launch_cross_entropy_grad "PDL_STORED(softmax, cross_entropy_grad)"(int kind, ...) except + nogil
    int64_t launch_soft_cross_entropy "PDL_STORED(softmax, soft_cross_entropy)"(int kind, ...) except + nogil
    int64_t launch_soft_cross_entropy_grad "PDL_STORED(softmax, soft_cross_entropy_grad)"(int kind, ...) except + nogil


cdef int run_softmax(str name, cnp.ndarray y, cnp.ndarray x, bint logarithm) except -1:
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1) if cnp.PyArray_NDIM(x) else 1
    cdef int kind = stored_type(name, x)
    cdef void* py = data_of(name, "y", y, kind, n)
    cdef void* px = data_of(name, "x", x, kind, n)
    if n == 0:
        return 0
    with nogil:
        launch_softmax(kind, py, px, n // columns, columns, logarithm)
    return 0


cdef int run_softmax_grad(str name, cnp.ndarray dx, cnp.ndarray g, cnp.ndarray y, bint logarithm) except -1:
    cdef int64_t n = cnp.PyArray_SIZE(y), columns = cnp.PyArray_DIM(y, cnp.PyArray_NDIM(y) - 1) if cnp.PyArray_NDIM(y) else 1
    cdef int kind = stored_type(name, y)
    cdef void* to = data_of(name, "dx", dx, kind, n)
    cdef void* pg = data_of(name, "g", g, kind, n)
    cdef void* py = data_of(name, "y", y, kind, n)
    if n == 0:
        return 0
    with nogil:
        launch_softmax_grad(kind, to, pg, py, n // columns, columns, logarithm)
    return 0


def softmax(
    cnp.ndarray y not None,     # OUT [..., C]
    cnp.ndarray x not None,     # IN  [..., C]
):
    """y = e^x / sum e^x over the last axis."""
    run_softmax("softmax", y, x, False)


def log_softmax(
    cnp.ndarray y not None,     # OUT [..., C]
    cnp.ndarray x not None,     # IN  [..., C]
):
    """y = x - log(sum e^x) over the last axis."""
    run_softmax("log_softmax", y, x, True)


def softmax_grad(
    cnp.ndarray dx not None,    # OUT [..., C]
    cnp.ndarray g not None,     # IN  [..., C]
    cnp.ndarray y not None,     # IN  [..., C] the softmax
):
    """dx = y (g - sum g y)."""
    run_softmax_grad("softmax", dx, g, y, False)


def log_softmax_grad(
    cnp.ndarray dx not None,    # OUT [..., C]
    cnp.ndarray g not None,     # IN  [..., C]
    cnp.ndarray y not None,     # IN  [..., C] the logarithm of the softmax
):
    """dx = g - e^y sum g."""
    run_softmax_grad("log_softmax", dx, g, y, True)


cdef double check_labels(
    str name, const int64_t* labels, int64_t rows, int64_t columns, int64_t ignored, const void* weight, int kind,
) except? -1:
    """Raise `DataError` at the first label that is no class; return the sum of the weights (ones) of those that are not
    ignored."""
    cdef int64_t r, label
    cdef double total = 0
    now("cross_entropy: labels are checked and counted")
    for r in range(rows):
        label = labels[r]
        if label == ignored:
            continue
        if label < 0 or label >= columns:
            classes = f"the {columns} classes 0..{columns - 1} (ignore_index is {ignored})"
            raise DataError(f"{name}: label {label} at position {r} is none of {classes}")
        if weight == NULL:
            total += 1
        else:
            total += (<const float*>weight)[label] if kind == cnp.NPY_FLOAT else (<const double*>weight)[label]
    return total


def cross_entropy(
    cnp.ndarray loss not None,      # OUT [...]
    cnp.ndarray lse not None,       # OUT [...]
    cnp.ndarray logits not None,    # IN  [..., C]
    cnp.ndarray labels not None,    # IN  [...] int64
    object weight=None,             # IN  [C] or None
    *,
    double smoothing=0.0,
    int64_t ignore_index=-100,
    str name="cross_entropy",
):
    """loss = (1 - s) w[label] (lse - x[label]) + s / C sum_c w[c] (lse - x[c]), 0 for ignored labels; lse = log sum_c
    e^x[c].

    Returns the sum of w[label] over labels that are not ignored. Raises `DataError` for a label outside [0, C).
    """
    cdef int64_t n = cnp.PyArray_SIZE(logits), columns = cnp.PyArray_DIM(logits, cnp.PyArray_NDIM(logits) - 1)
    cdef int64_t rows = n // max(1, columns)
    cdef int kind = stored_type(name, logits), real = real_of(kind)
    cdef void* pl = data_of(name, "loss", loss, real, rows)
    cdef void* pe = data_of(name, "lse", lse, real, rows)
    cdef void* px = data_of(name, "logits", logits, kind, n)
    cdef const int64_t* at = <const int64_t*>data_of(name, "labels", labels, cnp.NPY_INT64, rows)
    cdef void* pw = optional_data(name, "weight", weight, real, columns)
    cdef double total = check_labels(name, at, rows, columns, ignore_index, pw, real)
    with nogil:
        launch_cross_entropy(kind, pl, pe, px, at, pw, rows, columns, smoothing, ignore_index)
    return total


def cross_entropy_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    cnp.ndarray g not None,         # IN  [...], or one value for all rows
    cnp.ndarray logits not None,    # IN  [..., C]
    cnp.ndarray lse not None,       # IN  [...]
    cnp.ndarray labels not None,    # IN  [...] int64, as checked by cross_entropy
    object weight=None,             # IN  [C] or None
    *,
    double smoothing=0.0,
    int64_t ignore_index=-100,
    double factor=1.0,              # g is multiplied by this
):
    """dx[c] = g factor ((w[label] (1 - s) + s / C sum w) e^(x[c] - lse) - (1 - s) w[label] [c = label] - s / C w[c]), 0
    for ignored labels."""
    cdef str name = "cross_entropy"
    cdef int64_t n = cnp.PyArray_SIZE(logits), columns = cnp.PyArray_DIM(logits, cnp.PyArray_NDIM(logits) - 1)
    cdef int64_t rows = n // max(1, columns)
    cdef int kind = stored_type(name, logits), real = real_of(kind)
    cdef bint shared = cnp.PyArray_SIZE(g) == 1 and rows != 1
    cdef void* to = data_of(name, "dx", dx, kind, n)
    cdef void* pg = data_of(name, "g", g, real, 1 if shared else rows)
    cdef void* px = data_of(name, "logits", logits, kind, n)
    cdef void* pe = data_of(name, "lse", lse, real, rows)
    cdef const int64_t* at = <const int64_t*>data_of(name, "labels", labels, cnp.NPY_INT64, rows)
    cdef void* pw = optional_data(name, "weight", weight, real, columns)
    check_labels(name, at, rows, columns, ignore_index, NULL, kind)
    with nogil:
        launch_cross_entropy_grad(kind, to, pg, px, pe, at, pw, rows, columns, smoothing, ignore_index, factor, shared)


def soft_cross_entropy(
    cnp.ndarray loss not None,      # OUT [...]
    cnp.ndarray lse not None,       # OUT [...]
    cnp.ndarray mass not None,      # OUT [...]
    cnp.ndarray logits not None,    # IN  [..., C]
    cnp.ndarray target not None,    # IN  [..., C] probabilities
    object weight=None,             # IN  [C] or None
    *,
    double smoothing=0.0,
):
    """loss = sum_c q[c] (lse - x[c]), q[c] = w[c] ((1 - s) target[c] + s / C), mass = sum_c q[c], lse = log sum_c e^x[c]."""
    cdef str name = "cross_entropy"
    cdef int64_t n = cnp.PyArray_SIZE(logits), columns = cnp.PyArray_DIM(logits, cnp.PyArray_NDIM(logits) - 1)
    cdef int64_t rows = n // max(1, columns)
    cdef int kind = stored_type(name, logits), real = real_of(kind)
    cdef void* pl = data_of(name, "loss", loss, real, rows)
    cdef void* pe = data_of(name, "lse", lse, real, rows)
    cdef void* pm = data_of(name, "mass", mass, real, rows)
    cdef void* px = data_of(name, "logits", logits, kind, n)
    cdef void* pt = data_of(name, "target", target, real, n)
    cdef void* pw = optional_data(name, "weight", weight, real, columns)
    with nogil:
        launch_soft_cross_entropy(kind, pl, pe, pm, px, pt, pw, rows, columns, smoothing)


def soft_cross_entropy_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    cnp.ndarray g not None,         # IN  [...], or one value for all rows
    cnp.ndarray logits not None,    # IN  [..., C]
    cnp.ndarray lse not None,       # IN  [...]
    cnp.ndarray mass not None,      # IN  [...]
    cnp.ndarray target not None,    # IN  [..., C]
    object weight=None,             # IN  [C] or None
    *,
    double smoothing=0.0,
    double factor=1.0,              # g is multiplied by this
):
    """dx[c] = g factor (mass e^(x[c] - lse) - q[c])."""
    cdef str name = "cross_entropy"
    cdef int64_t n = cnp.PyArray_SIZE(logits), columns = cnp.PyArray_DIM(logits, cnp.PyArray_NDIM(logits) - 1)
    cdef int64_t rows = n // max(1, columns)
    cdef int kind = stored_type(name, logits), real = real_of(kind)
    cdef bint shared = cnp.PyArray_SIZE(g) == 1 and rows != 1
    cdef void* to = data_of(name, "dx", dx, kind, n)
    cdef void* pg = data_of(name, "g", g, real, 1 if shared else rows)
    cdef void* px = data_of(name, "logits", logits, kind, n)
    cdef void* pe = data_of(name, "lse", lse, real, rows)
    cdef void* pm = data_of(name, "mass", mass, real, rows)
    cdef void* pt = data_of(name, "target", target, real, n)
    cdef void* pw = optional_data(name, "weight", weight, real, columns)
    with nogil:
        launch_soft_cross_entropy_grad(kind, to, pg, px, pe, pm, pt, pw, rows, columns, smoothing, factor, shared)

"""Layer norm and RMS norm, alone or of a sum with dropout before it. float32, float64, bfloat16 (statistics and parameters float32)."""

from libc.stdint cimport uint64_t

include "stored.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef struct LayerNormCall:
        int64_t rows, columns
        void* y
        void* total
        void* mean
        void* rstd
        const void* x
        const void* residual
        const void* scale
        const void* shift
        const void* g
        const void* g_total
        void* dscale
        void* dshift
        double eps, dropout
        uint64_t seed
    cdef cppclass LayerNormTable:
        void* forward
        void* backward
    cdef cppclass Table:
        const LayerNormTable* layer_norm[3]
    const Table& table() noexcept nogil


cdef int fill(LayerNormCall* c, cnp.ndarray x, int* kind, int* wide) except -1:
    """Sizes; the type number of the storage and of the arithmetic. Returns the place in the table."""
    kind[0] = stored_type("layer_norm", x)
    wide[0] = real_of(kind[0])
    if cnp.PyArray_NDIM(x) == 0 or cnp.PyArray_SIZE(x) == 0:
        raise ShapeError(f"layer_norm: x {(<object>x).shape} has no values to normalise")
    c.columns = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)
    c.rows = cnp.PyArray_SIZE(x) // c.columns
    return place_of(kind[0])


def layer_norm(
    cnp.ndarray y not None,         # OUT [..., C]
    object mean,                    # OUT [...], or None: RMS norm
    cnp.ndarray rstd not None,      # OUT [...]
    cnp.ndarray x not None,         # IN  [..., C]
    object scale,                   # IN  [C] or None
    object shift,                   # IN  [C] or None
    double eps,
    *,
    object total=None,              # OUT [..., C] x + residual, where there is a residual or dropout
    object residual=None,           # IN  [..., C] or None
    double dropout=0.0,             # values of x are dropped with this probability
    uint64_t seed=0,
):
    """y = (t - mean) rstd scale + shift over the last axis, rstd = 1 / sqrt(var + eps), t = dropout(x) + residual; RMS norm
    without the mean."""
    cdef LayerNormCall c
    cdef int kind, wide
    cdef int storage = fill(&c, x, &kind, &wide)
    cdef int64_t n = c.rows * c.columns
    if total is None and (residual is not None or dropout > 0):
        raise ShapeError("layer_norm: residual and dropout need a place for the sum")
    c.x, c.y = data_of("layer_norm", "x", x, kind, n), data_of("layer_norm", "y", y, kind, n)
    c.total = optional_data("layer_norm", "total", total, kind, n)
    c.residual = optional_data("layer_norm", "residual", residual, kind, n)
    c.mean, c.rstd = optional_data("layer_norm", "mean", mean, wide, c.rows), data_of("layer_norm", "rstd", rstd, wide, c.rows)
    c.scale = optional_data("layer_norm", "scale", scale, wide, c.columns)
    c.shift = optional_data("layer_norm", "shift", shift, wide, c.columns)
    c.eps, c.dropout, c.seed = eps, dropout, seed
    with nogil:
        launch(table().layer_norm[storage].forward, c)


def layer_norm_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    object dscale,                  # OUT [C] or None
    object dshift,                  # OUT [C] or None
    cnp.ndarray g not None,         # IN  [..., C]
    cnp.ndarray x not None,         # IN  [..., C] what was normalised: the sum, where there is one
    object mean,                    # IN  [...], or None: RMS norm
    cnp.ndarray rstd not None,      # IN  [...]
    object scale,                   # IN  [C] or None
    *,
    object g_total=None,            # IN  [..., C] gradient of the sum, added to that through y
    object dresidual=None,          # OUT [..., C] where there is dropout; else it is dx
    double dropout=0.0,
    uint64_t seed=0,
):
    """Gradients of layer_norm; dx = dropout(dresidual)."""
    cdef LayerNormCall c
    cdef int kind, wide
    cdef int storage = fill(&c, x, &kind, &wide)
    cdef int64_t n = c.rows * c.columns
    if (dresidual is None) != (dropout == 0):
        raise ShapeError("layer_norm: dresidual is given where there is dropout, and only there")
    c.x, c.y, c.g = data_of("layer_norm", "x", x, kind, n), data_of("layer_norm", "dx", dx, kind, n), data_of("layer_norm", "g", g, kind, n)
    c.total = optional_data("layer_norm", "dresidual", dresidual, kind, n)
    c.g_total = optional_data("layer_norm", "g_total", g_total, kind, n)
    c.mean, c.rstd = optional_data("layer_norm", "mean", mean, wide, c.rows), data_of("layer_norm", "rstd", rstd, wide, c.rows)
    c.scale = optional_data("layer_norm", "scale", scale, wide, c.columns)
    c.dscale = optional_data("layer_norm", "dscale", dscale, wide, c.columns)
    c.dshift = optional_data("layer_norm", "dshift", dshift, wide, c.columns)
    c.dropout, c.seed = dropout, seed
    with nogil:
        launch(table().layer_norm[storage].backward, c)

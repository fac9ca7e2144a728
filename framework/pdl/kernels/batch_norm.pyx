"""Batch norm kernels on channels-last arrays, with an activation behind them: float32, float64, or bfloat16 beside float32 per-channel
values.
"""

include "stored.pxi"

cdef extern from "stored.h":
    int64_t launch_batch_norm "PDL_STORED(batch_norm, batch_norm)"(int kind, ...) except + nogil
    int64_t launch_batch_norm_grad "PDL_STORED(batch_norm, batch_norm_grad)"(int kind, ...) except + nogil
    int64_t launch_apply "PDL_STORED(batch_norm, apply)"(int kind, ...) except + nogil
    int64_t launch_apply_grad "PDL_STORED(batch_norm, apply_grad)"(int kind, ...) except + nogil


cdef inline int64_t last_of(str name, cnp.ndarray x) except -1:
    """The number of channels: the last size of x."""
    if not cnp.PyArray_NDIM(x) or not cnp.PyArray_SIZE(x):
        raise ShapeError(f"{name}: x {(<object>x).shape} has no values to normalise")
    return cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)


cdef int demand_pair(str name, object y, object dresidual, int act) except -1:
    if (y is None) != (dresidual is None) or (y is not None and act not in (1, 2)):
        raise ShapeError(f"{name}: y and dresidual belong together, with relu or relu6")
    return 0


def batch_norm(
    cnp.ndarray y not None,         # OUT [..., C]
    cnp.ndarray mean not None,      # OUT [C]
    cnp.ndarray var not None,       # OUT [C] biased
    cnp.ndarray rstd not None,      # OUT [C] 1 / sqrt(var + eps)
    cnp.ndarray x not None,         # IN  [..., C]
    object scale,                   # IN  [C] or None (ones)
    object shift,                   # IN  [C] or None (zeros)
    object residual,                # IN  [..., C] or None
    double eps,
    object activation=None,
):
    """y = f((x - mean) rstd scale + shift (+ residual)), f the activation (a name or None); statistics over all axes but the last."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("batch_norm", x)
    cdef int kind = stored_type("batch_norm", x), real = real_of(kind)
    cdef int act = act_of("batch_norm", activation)
    cdef void* p_y = data_of("batch_norm", "y", y, kind, n)
    cdef void* p_mean = data_of("batch_norm", "mean", mean, real, columns)
    cdef void* p_var = data_of("batch_norm", "var", var, real, columns)
    cdef void* p_rstd = data_of("batch_norm", "rstd", rstd, real, columns)
    cdef void* p_x = data_of("batch_norm", "x", x, kind, n)
    cdef void* p_scale = optional_data("batch_norm", "scale", scale, real, columns)
    cdef void* p_shift = optional_data("batch_norm", "shift", shift, real, columns)
    cdef void* p_residual = optional_data("batch_norm", "residual", residual, kind, n)
    with nogil:
        launch_batch_norm(kind, p_y, p_mean, p_var, p_rstd, p_x, p_scale, p_shift, p_residual, n // columns, columns, eps, act)


def batch_norm_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    cnp.ndarray dscale not None,    # OUT [C]
    cnp.ndarray dshift not None,    # OUT [C]
    object dresidual,               # OUT [..., C], or None
    cnp.ndarray g not None,         # IN  [..., C]
    cnp.ndarray x not None,         # IN  [..., C]
    object y,                       # IN  [..., C] the output, with dresidual
    cnp.ndarray mean not None,      # IN  [C]
    cnp.ndarray rstd not None,      # IN  [C]
    object scale,                   # IN  [C] or None
    object shift,                   # IN  [C] or None
    object activation=None,
):
    """Gradients of batch_norm. dresidual and y go together (relu and relu6); without an activation the residual's gradient is g itself."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("batch_norm_grad", x)
    cdef int kind = stored_type("batch_norm_grad", x), real = real_of(kind)
    cdef int act = act_of("batch_norm_grad", activation)
    cdef void* p_dx = data_of("batch_norm_grad", "dx", dx, kind, n)
    cdef void* p_dscale = data_of("batch_norm_grad", "dscale", dscale, real, columns)
    cdef void* p_dshift = data_of("batch_norm_grad", "dshift", dshift, real, columns)
    cdef void* p_dresidual = optional_data("batch_norm_grad", "dresidual", dresidual, kind, n)
    cdef void* p_g = data_of("batch_norm_grad", "g", g, kind, n)
    cdef void* p_x = data_of("batch_norm_grad", "x", x, kind, n)
    cdef void* p_y = optional_data("batch_norm_grad", "y", y, kind, n)
    cdef void* p_mean = data_of("batch_norm_grad", "mean", mean, real, columns)
    cdef void* p_rstd = data_of("batch_norm_grad", "rstd", rstd, real, columns)
    cdef void* p_scale = optional_data("batch_norm_grad", "scale", scale, real, columns)
    cdef void* p_shift = optional_data("batch_norm_grad", "shift", shift, real, columns)
    demand_pair("batch_norm_grad", y, dresidual, act)
    with nogil:
        launch_batch_norm_grad(kind, p_dx, p_dscale, p_dshift, p_dresidual, p_g, p_x, p_y, p_mean, p_rstd, p_scale, p_shift,
                               n // columns, columns, act)


def batch_norm_apply(
    cnp.ndarray y not None,         # OUT [..., C]
    cnp.ndarray x not None,         # IN  [..., C]
    cnp.ndarray mean not None,      # IN  [C]
    cnp.ndarray var not None,       # IN  [C]
    object scale,                   # IN  [C] or None (ones)
    object shift,                   # IN  [C] or None (zeros)
    object residual,                # IN  [..., C] or None
    double eps,
    object activation=None,
):
    """batch_norm with given statistics."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("batch_norm_apply", x)
    cdef int kind = stored_type("batch_norm_apply", x), real = real_of(kind)
    cdef int act = act_of("batch_norm_apply", activation)
    cdef void* p_y = data_of("batch_norm_apply", "y", y, kind, n)
    cdef void* p_x = data_of("batch_norm_apply", "x", x, kind, n)
    cdef void* p_mean = data_of("batch_norm_apply", "mean", mean, real, columns)
    cdef void* p_var = data_of("batch_norm_apply", "var", var, real, columns)
    cdef void* p_scale = optional_data("batch_norm_apply", "scale", scale, real, columns)
    cdef void* p_shift = optional_data("batch_norm_apply", "shift", shift, real, columns)
    cdef void* p_residual = optional_data("batch_norm_apply", "residual", residual, kind, n)
    with nogil:
        launch_apply(kind, p_y, p_x, p_mean, p_var, p_scale, p_shift, p_residual, n // columns, columns, eps, act)


def batch_norm_apply_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    cnp.ndarray dmean not None,     # OUT [C]
    cnp.ndarray dvar not None,      # OUT [C]
    cnp.ndarray dscale not None,    # OUT [C]
    cnp.ndarray dshift not None,    # OUT [C]
    object dresidual,               # OUT [..., C], or None
    cnp.ndarray g not None,         # IN  [..., C]
    cnp.ndarray x not None,         # IN  [..., C]
    object y,                       # IN  [..., C] the output, with dresidual
    cnp.ndarray mean not None,      # IN  [C]
    cnp.ndarray var not None,       # IN  [C]
    object scale,                   # IN  [C] or None
    object shift,                   # IN  [C] or None
    double eps,
    object activation=None,
):
    """Gradients of batch_norm_apply, in one pass; dresidual and y as in batch_norm_grad."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("batch_norm_apply_grad", x)
    cdef int kind = stored_type("batch_norm_apply_grad", x), real = real_of(kind)
    cdef int act = act_of("batch_norm_apply_grad", activation)
    cdef void* p_dx = data_of("batch_norm_apply_grad", "dx", dx, kind, n)
    cdef void* p_dmean = data_of("batch_norm_apply_grad", "dmean", dmean, real, columns)
    cdef void* p_dvar = data_of("batch_norm_apply_grad", "dvar", dvar, real, columns)
    cdef void* p_dscale = data_of("batch_norm_apply_grad", "dscale", dscale, real, columns)
    cdef void* p_dshift = data_of("batch_norm_apply_grad", "dshift", dshift, real, columns)
    cdef void* p_dresidual = optional_data("batch_norm_apply_grad", "dresidual", dresidual, kind, n)
    cdef void* p_g = data_of("batch_norm_apply_grad", "g", g, kind, n)
    cdef void* p_x = data_of("batch_norm_apply_grad", "x", x, kind, n)
    cdef void* p_y = optional_data("batch_norm_apply_grad", "y", y, kind, n)
    cdef void* p_mean = data_of("batch_norm_apply_grad", "mean", mean, real, columns)
    cdef void* p_var = data_of("batch_norm_apply_grad", "var", var, real, columns)
    cdef void* p_scale = optional_data("batch_norm_apply_grad", "scale", scale, real, columns)
    cdef void* p_shift = optional_data("batch_norm_apply_grad", "shift", shift, real, columns)
    demand_pair("batch_norm_apply_grad", y, dresidual, act)
    with nogil:
        launch_apply_grad(kind, p_dx, p_dmean, p_dvar, p_dscale, p_dshift, p_dresidual, p_g, p_x, p_y, p_mean, p_var, p_scale, p_shift,
                          n // columns, columns, eps, act)

"""Batch norm kernels on channels-last arrays, with an activation behind them: float32, float64, or bfloat16 beside float32 per-channel
values.
"""

include "stored.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass BatchNormTable[S, T]:
        void* batch_norm
        void* batch_norm_grad
        void* apply
        void* apply_grad
    BatchNormTable[float, float]* batch_norm_table(const float* any) noexcept nogil
    BatchNormTable[double, double]* batch_norm_table(const double* any) noexcept nogil
    BatchNormTable[bf16, float]* batch_norm_table(const bf16* any) noexcept nogil


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
    cdef int kind = stored_type("batch_norm", x), real = cnp.NPY_FLOAT if kind == BF16 else kind
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
        if kind == cnp.NPY_FLOAT:
            launch(batch_norm_table(<float*>p_x).batch_norm, <float*>p_y, <float*>p_mean, <float*>p_var, <float*>p_rstd, <float*>p_x,
                   <float*>p_scale, <float*>p_shift, <float*>p_residual, n // columns, columns, eps, act)
        elif kind == cnp.NPY_DOUBLE:
            launch(batch_norm_table(<double*>p_x).batch_norm, <double*>p_y, <double*>p_mean, <double*>p_var, <double*>p_rstd, <double*>p_x,
                   <double*>p_scale, <double*>p_shift, <double*>p_residual, n // columns, columns, eps, act)
        else:
            launch(batch_norm_table(<bf16*>p_x).batch_norm, <bf16*>p_y, <float*>p_mean, <float*>p_var, <float*>p_rstd, <bf16*>p_x,
                   <float*>p_scale, <float*>p_shift, <bf16*>p_residual, n // columns, columns, eps, act)


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
    cdef int kind = stored_type("batch_norm_grad", x), real = cnp.NPY_FLOAT if kind == BF16 else kind
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
        if kind == cnp.NPY_FLOAT:
            launch(batch_norm_table(<float*>p_x).batch_norm_grad, <float*>p_dx, <float*>p_dscale, <float*>p_dshift, <float*>p_dresidual,
                   <float*>p_g, <float*>p_x, <float*>p_y, <float*>p_mean, <float*>p_rstd, <float*>p_scale, <float*>p_shift, n // columns,
                   columns, act)
        elif kind == cnp.NPY_DOUBLE:
            launch(batch_norm_table(<double*>p_x).batch_norm_grad, <double*>p_dx, <double*>p_dscale, <double*>p_dshift,
                   <double*>p_dresidual, <double*>p_g, <double*>p_x, <double*>p_y, <double*>p_mean, <double*>p_rstd, <double*>p_scale,
                   <double*>p_shift, n // columns, columns, act)
        else:
            launch(batch_norm_table(<bf16*>p_x).batch_norm_grad, <bf16*>p_dx, <float*>p_dscale, <float*>p_dshift, <bf16*>p_dresidual,
                   <bf16*>p_g, <bf16*>p_x, <bf16*>p_y, <float*>p_mean, <float*>p_rstd, <float*>p_scale, <float*>p_shift, n // columns,
                   columns, act)


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
    cdef int kind = stored_type("batch_norm_apply", x), real = cnp.NPY_FLOAT if kind == BF16 else kind
    cdef int act = act_of("batch_norm_apply", activation)
    cdef void* p_y = data_of("batch_norm_apply", "y", y, kind, n)
    cdef void* p_x = data_of("batch_norm_apply", "x", x, kind, n)
    cdef void* p_mean = data_of("batch_norm_apply", "mean", mean, real, columns)
    cdef void* p_var = data_of("batch_norm_apply", "var", var, real, columns)
    cdef void* p_scale = optional_data("batch_norm_apply", "scale", scale, real, columns)
    cdef void* p_shift = optional_data("batch_norm_apply", "shift", shift, real, columns)
    cdef void* p_residual = optional_data("batch_norm_apply", "residual", residual, kind, n)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            launch(batch_norm_table(<float*>p_x).apply, <float*>p_y, <float*>p_x, <float*>p_mean, <float*>p_var, <float*>p_scale,
                   <float*>p_shift, <float*>p_residual, n // columns, columns, eps, act)
        elif kind == cnp.NPY_DOUBLE:
            launch(batch_norm_table(<double*>p_x).apply, <double*>p_y, <double*>p_x, <double*>p_mean, <double*>p_var, <double*>p_scale,
                   <double*>p_shift, <double*>p_residual, n // columns, columns, eps, act)
        else:
            launch(batch_norm_table(<bf16*>p_x).apply, <bf16*>p_y, <bf16*>p_x, <float*>p_mean, <float*>p_var, <float*>p_scale,
                   <float*>p_shift, <bf16*>p_residual, n // columns, columns, eps, act)


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
    cdef int kind = stored_type("batch_norm_apply_grad", x), real = cnp.NPY_FLOAT if kind == BF16 else kind
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
        if kind == cnp.NPY_FLOAT:
            launch(batch_norm_table(<float*>p_x).apply_grad, <float*>p_dx, <float*>p_dmean, <float*>p_dvar, <float*>p_dscale,
                   <float*>p_dshift, <float*>p_dresidual, <float*>p_g, <float*>p_x, <float*>p_y, <float*>p_mean, <float*>p_var,
                   <float*>p_scale, <float*>p_shift, n // columns, columns, eps, act)
        elif kind == cnp.NPY_DOUBLE:
            launch(batch_norm_table(<double*>p_x).apply_grad, <double*>p_dx, <double*>p_dmean, <double*>p_dvar, <double*>p_dscale,
                   <double*>p_dshift, <double*>p_dresidual, <double*>p_g, <double*>p_x, <double*>p_y, <double*>p_mean, <double*>p_var,
                   <double*>p_scale, <double*>p_shift, n // columns, columns, eps, act)
        else:
            launch(batch_norm_table(<bf16*>p_x).apply_grad, <bf16*>p_dx, <float*>p_dmean, <float*>p_dvar, <float*>p_dscale,
                   <float*>p_dshift, <bf16*>p_dresidual, <bf16*>p_g, <bf16*>p_x, <bf16*>p_y, <float*>p_mean, <float*>p_var, <float*>p_scale,
                   <float*>p_shift, n // columns, columns, eps, act)

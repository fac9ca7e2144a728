"""Normalisation kernels on channels-last arrays. float32 and float64, contiguous."""

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass NormTable[T]:
        void batch_norm(T* y, T* mean, T* var, T* rstd, const T* x, const T* scale, const T* shift, const T* residual, int64_t rows,
                        int64_t columns, double eps, bint relu) noexcept nogil
        void batch_norm_grad(T* dx, T* dscale, T* dshift, T* dresidual, const T* g, const T* x, const T* y, const T* mean,
                             const T* rstd, const T* scale, const T* shift, int64_t rows, int64_t columns, bint relu) noexcept nogil
        void scale_shift(T* y, const T* x, const T* centre, const T* a, const T* b, const T* residual, int64_t rows, int64_t columns,
                         bint relu) noexcept nogil
        void layer_norm(T* y, T* mean, T* rstd, const T* x, const T* scale, const T* shift, int64_t rows, int64_t columns, double eps,
                        bint centred) noexcept nogil
        void layer_norm_grad(T* dx, T* dscale, T* dshift, const T* g, const T* x, const T* mean, const T* rstd, const T* scale,
                             int64_t rows, int64_t columns) noexcept nogil
        void group_norm(T* y, T* mean, T* rstd, const T* x, const T* scale, const T* shift, int64_t n, int64_t rows, int64_t columns,
                        int64_t groups, double eps) noexcept nogil
        void group_norm_grad(T* dx, T* dscale, T* dshift, const T* g, const T* x, const T* mean, const T* rstd, const T* scale,
                             int64_t n, int64_t rows, int64_t columns, int64_t groups) noexcept nogil
    NormTable[T]* norm_table[T](const T* any) noexcept nogil


cdef inline int64_t last_of(str name, cnp.ndarray x) except -1:
    """The number of channels: the last size of x."""
    if not cnp.PyArray_NDIM(x) or not cnp.PyArray_SIZE(x):
        raise ShapeError(f"{name}: x {(<object>x).shape} has no values to normalise")
    return cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)


def batch_norm(
    cnp.ndarray y not None,         # OUT [..., C]
    cnp.ndarray mean not None,      # OUT [C]
    cnp.ndarray var not None,       # OUT [C] biased
    cnp.ndarray rstd not None,      # OUT [C] 1 / sqrt(var + eps)
    cnp.ndarray x not None,         # IN  [..., C]
    object scale,                   # IN  [C] or None (ones)
    object shift,                   # IN  [C] or None (zeros)
    double eps,
    *,
    bint relu=False,
    object residual=None,           # IN  [..., C] or None
):
    """y = (x - mean) rstd scale + shift (+ residual), then max(., 0) where `relu`; the statistics are over all axes but
    the last."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("batch_norm", x)
    cdef int kind = real_type("batch_norm", x)
    cdef void* py = data_of("batch_norm", "y", y, kind, n)
    cdef void* pm = data_of("batch_norm", "mean", mean, kind, columns)
    cdef void* pv = data_of("batch_norm", "var", var, kind, columns)
    cdef void* pr = data_of("batch_norm", "rstd", rstd, kind, columns)
    cdef void* px = data_of("batch_norm", "x", x, kind, n)
    cdef void* pa = optional_data("batch_norm", "scale", scale, kind, columns)
    cdef void* pb = optional_data("batch_norm", "shift", shift, kind, columns)
    cdef void* pz = optional_data("batch_norm", "residual", residual, kind, n)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).batch_norm(<float*>py, <float*>pm, <float*>pv, <float*>pr, <float*>px, <float*>pa, <float*>pb,
                                              <float*>pz, n // columns, columns, eps, relu)
        else:
            norm_table(<double*>px).batch_norm(<double*>py, <double*>pm, <double*>pv, <double*>pr, <double*>px, <double*>pa,
                                               <double*>pb, <double*>pz, n // columns, columns, eps, relu)


def batch_norm_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    cnp.ndarray dscale not None,    # OUT [C]
    cnp.ndarray dshift not None,    # OUT [C]
    cnp.ndarray g not None,         # IN  [..., C]
    cnp.ndarray x not None,         # IN  [..., C]
    cnp.ndarray mean not None,      # IN  [C]
    cnp.ndarray rstd not None,      # IN  [C]
    object scale,                   # IN  [C] or None
    object shift=None,              # IN  [C] or None; read where `relu`
    *,
    bint relu=False,
    object y=None,                  # IN  [..., C] with relu and a residual: the output
    object dresidual=None,          # OUT [..., C] with relu and a residual
):
    """Gradients of batch_norm. Without relu the residual's is g itself; with both, `y` and `dresidual` go together."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("batch_norm", x)
    cdef int kind = real_type("batch_norm", x)
    cdef void* pdx = data_of("batch_norm", "dx", dx, kind, n)
    cdef void* pds = data_of("batch_norm", "dscale", dscale, kind, columns)
    cdef void* pdb = data_of("batch_norm", "dshift", dshift, kind, columns)
    cdef void* pg = data_of("batch_norm", "g", g, kind, n)
    cdef void* px = data_of("batch_norm", "x", x, kind, n)
    cdef void* pm = data_of("batch_norm", "mean", mean, kind, columns)
    cdef void* pr = data_of("batch_norm", "rstd", rstd, kind, columns)
    cdef void* pa = optional_data("batch_norm", "scale", scale, kind, columns)
    cdef void* pb = optional_data("batch_norm", "shift", shift, kind, columns)
    cdef void* py = optional_data("batch_norm", "y", y, kind, n)
    cdef void* pz = optional_data("batch_norm", "dresidual", dresidual, kind, n)
    if (y is None) != (dresidual is None) or (y is not None and not relu):
        raise ShapeError("batch_norm_grad: y and dresidual belong together, with relu")
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).batch_norm_grad(<float*>pdx, <float*>pds, <float*>pdb, <float*>pz, <float*>pg, <float*>px, <float*>py,
                                                   <float*>pm, <float*>pr, <float*>pa, <float*>pb, n // columns, columns, relu)
        else:
            norm_table(<double*>px).batch_norm_grad(<double*>pdx, <double*>pds, <double*>pdb, <double*>pz, <double*>pg, <double*>px,
                                                    <double*>py, <double*>pm, <double*>pr, <double*>pa, <double*>pb, n // columns,
                                                    columns, relu)


def scale_shift(
    cnp.ndarray y not None,         # OUT [..., C]
    cnp.ndarray x not None,         # IN  [..., C]
    cnp.ndarray a not None,         # IN  [C]
    cnp.ndarray b not None,         # IN  [C]
    *,
    object centre=None,             # IN  [C] or None (zeros)
    object residual=None,           # IN  [..., C] or None
    bint relu=False,
):
    """y = (x - centre) a + b (+ residual), then max(., 0) where `relu`."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("scale_shift", x)
    cdef int kind = real_type("scale_shift", x)
    cdef void* py = data_of("scale_shift", "y", y, kind, n)
    cdef void* px = data_of("scale_shift", "x", x, kind, n)
    cdef void* pc = optional_data("scale_shift", "centre", centre, kind, columns)
    cdef void* pa = data_of("scale_shift", "a", a, kind, columns)
    cdef void* pb = data_of("scale_shift", "b", b, kind, columns)
    cdef void* pz = optional_data("scale_shift", "residual", residual, kind, n)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).scale_shift(<float*>py, <float*>px, <float*>pc, <float*>pa, <float*>pb, <float*>pz, n // columns,
                                               columns, relu)
        else:
            norm_table(<double*>px).scale_shift(<double*>py, <double*>px, <double*>pc, <double*>pa, <double*>pb, <double*>pz,
                                                n // columns, columns, relu)


def layer_norm(
    cnp.ndarray y not None,         # OUT [..., C]
    cnp.ndarray mean,               # OUT [...], or None for RMS norm
    cnp.ndarray rstd not None,      # OUT [...]
    cnp.ndarray x not None,         # IN  [..., C]
    object scale,                   # IN  [C] or None
    object shift,                   # IN  [C] or None
    double eps,
):
    """y = (x - mean) rstd scale + shift over the last axis, rstd = 1 / sqrt(var + eps); without `mean`: RMS norm, rstd
    = 1 / sqrt(mean x^2 + eps)."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("layer_norm", x)
    cdef int kind = real_type("layer_norm", x)
    cdef void* py = data_of("layer_norm", "y", y, kind, n)
    cdef void* pm = optional_data("layer_norm", "mean", mean, kind, n // columns)
    cdef void* pr = data_of("layer_norm", "rstd", rstd, kind, n // columns)
    cdef void* px = data_of("layer_norm", "x", x, kind, n)
    cdef void* pa = optional_data("layer_norm", "scale", scale, kind, columns)
    cdef void* pb = optional_data("layer_norm", "shift", shift, kind, columns)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).layer_norm(<float*>py, <float*>pm, <float*>pr, <float*>px, <float*>pa, <float*>pb, n // columns,
                                              columns, eps, pm != NULL)
        else:
            norm_table(<double*>px).layer_norm(<double*>py, <double*>pm, <double*>pr, <double*>px, <double*>pa, <double*>pb,
                                               n // columns, columns, eps, pm != NULL)


def layer_norm_grad(
    cnp.ndarray dx not None,        # OUT [..., C]
    cnp.ndarray dscale,             # OUT [C] or None
    cnp.ndarray dshift,             # OUT [C] or None
    cnp.ndarray g not None,         # IN  [..., C]
    cnp.ndarray x not None,         # IN  [..., C]
    cnp.ndarray mean,               # IN  [...], or None for RMS norm
    cnp.ndarray rstd not None,      # IN  [...]
    object scale,                   # IN  [C] or None
):
    """Gradients of layer_norm, or of RMS norm where `mean` is None."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("layer_norm", x)
    cdef int kind = real_type("layer_norm", x)
    cdef void* pdx = data_of("layer_norm", "dx", dx, kind, n)
    cdef void* pds = optional_data("layer_norm", "dscale", dscale, kind, columns)
    cdef void* pdb = optional_data("layer_norm", "dshift", dshift, kind, columns)
    cdef void* pg = data_of("layer_norm", "g", g, kind, n)
    cdef void* px = data_of("layer_norm", "x", x, kind, n)
    cdef void* pm = optional_data("layer_norm", "mean", mean, kind, n // columns)
    cdef void* pr = data_of("layer_norm", "rstd", rstd, kind, n // columns)
    cdef void* pa = optional_data("layer_norm", "scale", scale, kind, columns)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).layer_norm_grad(<float*>pdx, <float*>pds, <float*>pdb, <float*>pg, <float*>px, <float*>pm, <float*>pr,
                                                   <float*>pa, n // columns, columns)
        else:
            norm_table(<double*>px).layer_norm_grad(<double*>pdx, <double*>pds, <double*>pdb, <double*>pg, <double*>px, <double*>pm,
                                                    <double*>pr, <double*>pa, n // columns, columns)


cdef int check_groups(cnp.ndarray x, int64_t columns, int64_t groups) except -1:
    if groups < 1 or columns % groups:
        raise ShapeError(f"group_norm: {columns} channels do not divide into {groups} groups")
    return 0


def group_norm(
    cnp.ndarray y not None,         # OUT [N, ..., C]
    cnp.ndarray mean not None,      # OUT [N, groups]
    cnp.ndarray rstd not None,      # OUT [N, groups]
    cnp.ndarray x not None,         # IN  [N, ..., C]
    object scale,                   # IN  [C] or None
    object shift,                   # IN  [C] or None
    int64_t groups,                 # C: instance norm
    double eps,
):
    """y = (x - mean) rstd scale + shift, the statistics over each sample's positions and each run of C / groups
    channels."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("group_norm", x), batch = cnp.PyArray_DIM(x, 0)
    cdef int kind = real_type("group_norm", x)
    check_groups(x, columns, groups)
    cdef void* py = data_of("group_norm", "y", y, kind, n)
    cdef void* pm = data_of("group_norm", "mean", mean, kind, batch * groups)
    cdef void* pr = data_of("group_norm", "rstd", rstd, kind, batch * groups)
    cdef void* px = data_of("group_norm", "x", x, kind, n)
    cdef void* pa = optional_data("group_norm", "scale", scale, kind, columns)
    cdef void* pb = optional_data("group_norm", "shift", shift, kind, columns)
    cdef int64_t rows = n // columns // batch
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).group_norm(<float*>py, <float*>pm, <float*>pr, <float*>px, <float*>pa, <float*>pb, batch, rows,
                                              columns, groups, eps)
        else:
            norm_table(<double*>px).group_norm(<double*>py, <double*>pm, <double*>pr, <double*>px, <double*>pa, <double*>pb, batch,
                                               rows, columns, groups, eps)


def group_norm_grad(
    cnp.ndarray dx not None,        # OUT [N, ..., C]
    cnp.ndarray dscale not None,    # OUT [C]
    cnp.ndarray dshift not None,    # OUT [C]
    cnp.ndarray g not None,         # IN  [N, ..., C]
    cnp.ndarray x not None,         # IN  [N, ..., C]
    cnp.ndarray mean not None,      # IN  [N, groups]
    cnp.ndarray rstd not None,      # IN  [N, groups]
    object scale,                   # IN  [C] or None
    int64_t groups,
):
    """Gradients of group_norm."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = last_of("group_norm", x), batch = cnp.PyArray_DIM(x, 0)
    cdef int kind = real_type("group_norm", x)
    check_groups(x, columns, groups)
    cdef void* pdx = data_of("group_norm", "dx", dx, kind, n)
    cdef void* pds = data_of("group_norm", "dscale", dscale, kind, columns)
    cdef void* pdb = data_of("group_norm", "dshift", dshift, kind, columns)
    cdef void* pg = data_of("group_norm", "g", g, kind, n)
    cdef void* px = data_of("group_norm", "x", x, kind, n)
    cdef void* pm = data_of("group_norm", "mean", mean, kind, batch * groups)
    cdef void* pr = data_of("group_norm", "rstd", rstd, kind, batch * groups)
    cdef void* pa = optional_data("group_norm", "scale", scale, kind, columns)
    cdef int64_t rows = n // columns // batch
    with nogil:
        if kind == cnp.NPY_FLOAT:
            norm_table(<float*>px).group_norm_grad(<float*>pdx, <float*>pds, <float*>pdb, <float*>pg, <float*>px, <float*>pm, <float*>pr,
                                                   <float*>pa, batch, rows, columns, groups)
        else:
            norm_table(<double*>px).group_norm_grad(<double*>pdx, <double*>pds, <double*>pdb, <double*>pg, <double*>px, <double*>pm,
                                                    <double*>pr, <double*>pa, batch, rows, columns, groups)

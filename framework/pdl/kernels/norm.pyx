"""Normalisation kernels on channels-last arrays. float32 and float64, contiguous."""

include "checks.pxi"

cdef extern from "stored.h":
    int64_t launch_group_norm "PDL_REAL(norm, group_norm)"(int kind, ...) except + nogil
    int64_t launch_group_norm_grad "PDL_REAL(norm, group_norm_grad)"(int kind, ...) except + nogil


cdef inline int64_t last_of(str name, cnp.ndarray x) except -1:
    """The number of channels: the last size of x."""
    if not cnp.PyArray_NDIM(x) or not cnp.PyArray_SIZE(x):
        raise ShapeError(f"{name}: x {(<object>x).shape} has no values to normalise")
    return cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)


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
        launch_group_norm(kind, py, pm, pr, px, pa, pb, batch, rows, columns, groups, eps)


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
        launch_group_norm_grad(kind, pdx, pds, pdb, pg, px, pm, pr, pa, batch, rows, columns, groups)

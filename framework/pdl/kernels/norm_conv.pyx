"""Convolutions that normalise and activate their input on the way and take the statistics of their output, and their gradients:
depthwise, or 1 x 1 with all channels. float32, float64, or bfloat16 beside float32 weights and per-channel values.
"""

include "stored.pxi"
include "geometry.pxi"

cdef extern from "stored.h":
    cdef cppclass NormInput "pdl::NormInput<void>":
        const void* mean
        const void* var
        const void* scale
        const void* shift
        double eps
        int act
    int64_t launch_forward "PDL_STORED(norm_conv, forward)"(int kind, ...) except + nogil
    int64_t launch_backward "PDL_STORED(norm_conv, backward)"(int kind, ...) except + nogil
    int64_t launch_moments "PDL_STORED(norm_conv, moments)"(int kind, ...) except + nogil
    int64_t launch_moments_grad "PDL_STORED(norm_conv, moments_grad)"(int kind, ...) except + nogil


def covers(tuple kernel, tuple stride, tuple dilation, tuple padding, int64_t channels, int64_t outputs, int64_t groups) -> bool:
    """Whether the kernels take a convolution in two dimensions: depthwise with a window of at most 7 and stride 1 or 2, or 1 x 1 as it
    stands."""
    if groups == 1:
        return kernel == (1, 1) and stride == (1, 1) and padding == ((0, 0), (0, 0))
    return (groups == channels == outputs and dilation == (1, 1) and max(stride) <= 2 and kernel[0] <= 7
            and kernel[1] <= 7 and kernel[1] != 6)


cdef int describe(Geometry* g, cnp.ndarray x, cnp.ndarray y, cnp.ndarray w, tuple stride, tuple padding, int64_t groups) except -1:
    """Sizes and checks of y [N, H', W', O] = x [N, H, W, C] * w [KH, KW, C/groups, O]; padding is (before, after) pairs."""
    cdef int d
    if cnp.PyArray_NDIM(x) != 4 or cnp.PyArray_NDIM(y) != 4 or cnp.PyArray_NDIM(w) != 4:
        raise ShapeError("norm_conv: x, y and w have four dimensions each")
    if len(stride) != 2 or len(padding) != 2 or min(stride) < 1:
        raise ShapeError(f"norm_conv: stride {stride} and padding {padding} must have two entries, and steps be at least 1")
    g.n, g.c, g.o, g.groups = x.shape[0], x.shape[3], y.shape[3], groups
    g.inside[0] = g.out[0] = g.kernel[0] = g.stride[0] = g.dilation[0] = 1
    g.pad[0] = 0
    for d in range(2):
        g.inside[d + 1], g.out[d + 1], g.kernel[d + 1] = x.shape[1 + d], y.shape[1 + d], w.shape[d]
        before, after = padding[d]
        g.stride[d + 1], g.pad[d + 1], g.dilation[d + 1] = stride[d], before, 1
        if (g.inside[d + 1] + before + after - g.kernel[d + 1]) // g.stride[d + 1] + 1 != g.out[d + 1]:
            raise ShapeError(f"norm_conv: y {(<object>y).shape} is not what w {(<object>w).shape} makes of x {(<object>x).shape}")
    if y.shape[0] != g.n or w.shape[2] * groups != g.c or w.shape[3] != g.o:
        raise ShapeError(f"norm_conv: w {(<object>w).shape} does not fit x {(<object>x).shape} and y {(<object>y).shape}")
    kernel = (g.kernel[1], g.kernel[2])
    if not covers(kernel, stride, (1, 1), padding, g.c, g.o, groups):
        raise ShapeError(f"norm_conv: a window {kernel} with stride {stride} and groups={groups} has no kernel; see covers()")
    return 0


def forward(
    cnp.ndarray y not None,     # OUT [N, H', W', O]
    object y_mean,              # OUT [O], or None: no statistics
    object y_var,               # OUT [O] biased, or None
    cnp.ndarray x not None,     # IN  [N, H, W, C]
    object mean,                # IN  [C], or None: x is taken as it is
    object var,                 # IN  [C], or None
    object scale,               # IN  [C] or None (ones)
    object shift,               # IN  [C] or None (zeros)
    cnp.ndarray w not None,     # IN  [KH, KW, C/groups, O]
    double eps,
    object activation,
    tuple stride,
    tuple padding,
    int64_t groups,
):
    """y = f((x - mean) rstd scale + shift) * w, and the mean and variance of y over all pixels."""
    cdef int kind = stored_type("norm_conv", x), real = real_of(kind)
    cdef Geometry g
    cdef NormInput norm
    describe(&g, x, y, w, stride, padding, groups)
    norm.eps, norm.act = eps, act_of("norm_conv", activation)
    cdef void* p_y = data_of("norm_conv", "y", y, kind, cnp.PyArray_SIZE(y))
    cdef void* p_ym = optional_data("norm_conv", "y_mean", y_mean, real, g.o)
    cdef void* p_yv = optional_data("norm_conv", "y_var", y_var, real, g.o)
    cdef void* p_x = data_of("norm_conv", "x", x, kind, cnp.PyArray_SIZE(x))
    norm.mean = optional_data("norm_conv", "mean", mean, real, g.c)
    norm.var = optional_data("norm_conv", "var", var, real, g.c)
    norm.scale = optional_data("norm_conv", "scale", scale, real, g.c)
    norm.shift = optional_data("norm_conv", "shift", shift, real, g.c)
    cdef void* p_w = data_of("norm_conv", "w", w, real, cnp.PyArray_SIZE(w))
    with nogil:
        launch_forward(kind, p_y, p_ym, p_yv, p_x, norm, p_w, g)


def backward(
    cnp.ndarray dx not None,    # OUT [N, H, W, C]
    cnp.ndarray dw not None,    # OUT [KH, KW, C/groups, O]
    object dmean,               # OUT [C], with mean; likewise dvar, dscale, dshift
    object dvar,
    object dscale,
    object dshift,
    cnp.ndarray g not None,     # IN  [N, H', W', O]
    object y,                   # IN  [N, H', W', O] with g_mean: the output
    object y_mean,              # IN  [O] with g_mean
    object g_mean,              # IN  [O] or None: there are no gradients of statistics
    object g_var,               # IN  [O] or None
    cnp.ndarray x not None,     # IN  [N, H, W, C]; and on as for `forward`
    object mean,
    object var,
    object scale,
    object shift,
    cnp.ndarray w not None,
    double eps,
    object activation,
    tuple stride,
    tuple padding,
    int64_t groups,
):
    """The gradients of forward. dx is the part that does not go through the statistics of x; dmean and dvar are for those."""
    cdef int kind = stored_type("norm_conv", x), real = real_of(kind)
    cdef Geometry s
    cdef NormInput norm
    describe(&s, x, g, w, stride, padding, groups)
    if (mean is None) != (dmean is None) or (y is None) != (g_mean is None):
        raise ShapeError("norm_conv: dmean to dshift go with mean, y with the gradients of its statistics")
    norm.eps, norm.act = eps, act_of("norm_conv", activation)
    cdef int64_t n_x = cnp.PyArray_SIZE(x), n_w = cnp.PyArray_SIZE(w), n_y = cnp.PyArray_SIZE(g)
    cdef void* p_dx = data_of("norm_conv", "dx", dx, kind, n_x)
    cdef void* p_dw = data_of("norm_conv", "dw", dw, real, n_w)
    cdef void* p_dm = optional_data("norm_conv", "dmean", dmean, real, s.c)
    cdef void* p_dv = optional_data("norm_conv", "dvar", dvar, real, s.c)
    cdef void* p_da = optional_data("norm_conv", "dscale", dscale, real, s.c)
    cdef void* p_db = optional_data("norm_conv", "dshift", dshift, real, s.c)
    cdef void* p_g = data_of("norm_conv", "g", g, kind, n_y)
    cdef void* p_y = optional_data("norm_conv", "y", y, kind, n_y)
    cdef void* p_ym = optional_data("norm_conv", "y_mean", y_mean, real, s.o)
    cdef void* p_gm = optional_data("norm_conv", "g_mean", g_mean, real, s.o)
    cdef void* p_gv = optional_data("norm_conv", "g_var", g_var, real, s.o)
    cdef void* p_x = data_of("norm_conv", "x", x, kind, n_x)
    norm.mean = optional_data("norm_conv", "mean", mean, real, s.c)
    norm.var = optional_data("norm_conv", "var", var, real, s.c)
    norm.scale = optional_data("norm_conv", "scale", scale, real, s.c)
    norm.shift = optional_data("norm_conv", "shift", shift, real, s.c)
    cdef void* p_w = data_of("norm_conv", "w", w, real, n_w)
    with nogil:
        launch_backward(kind, p_dx, p_dw, p_dm, p_dv, p_da, p_db, p_g, p_y, p_ym, p_gm, p_gv, p_x, norm, p_w, s)


def moments(
    cnp.ndarray mean not None,  # OUT [C]
    cnp.ndarray var not None,   # OUT [C] biased
    cnp.ndarray x not None,     # IN  [..., C]
):
    """Mean and variance over all axes but the last."""
    cdef int kind = stored_type("moments", x), real = real_of(kind)
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = cnp.PyArray_SIZE(mean)
    cdef void* p_m = data_of("moments", "mean", mean, real, columns)
    cdef void* p_v = data_of("moments", "var", var, real, columns)
    cdef void* p_x = data_of("moments", "x", x, kind, n)
    if columns == 0:
        return
    with nogil:
        launch_moments(kind, p_m, p_v, p_x, n // columns, columns)


def moments_grad(
    cnp.ndarray dx not None,     # OUT [..., C]
    cnp.ndarray g not None,      # IN  [..., C] the gradient of x itself; may be dx
    cnp.ndarray x not None,      # IN  [..., C]
    cnp.ndarray mean not None,   # IN  [C]
    cnp.ndarray g_mean not None,  # IN  [C]
    cnp.ndarray g_var not None,  # IN  [C]
):
    """dx = g + g_mean / n + (x - mean) 2 g_var / n, n values a channel: the gradient of a value and of its statistics."""
    cdef int kind = stored_type("moments_grad", x), real = real_of(kind)
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = cnp.PyArray_SIZE(mean)
    cdef void* p_dx = data_of("moments_grad", "dx", dx, kind, n)
    cdef void* p_g = data_of("moments_grad", "g", g, kind, n)
    cdef void* p_x = data_of("moments_grad", "x", x, kind, n)
    cdef void* p_m = data_of("moments_grad", "mean", mean, real, columns)
    cdef void* p_gm = data_of("moments_grad", "g_mean", g_mean, real, columns)
    cdef void* p_gv = data_of("moments_grad", "g_var", g_var, real, columns)
    if columns == 0:
        return
    with nogil:
        launch_moments_grad(kind, p_dx, p_g, p_x, p_m, p_gm, p_gv, n // columns, columns)

"""Convolution kernels on [N, D, H, W, C] arrays; one and two dimensions come with sizes of 1. float32, float64 and
bfloat16."""

include "dense.pxi"
include "geometry.pxi"

import numpy as np

from pdl.dtype import bfloat16
from pdl.kernels.launch import now
from pdl.kernels.pointwise import UNARY

cnp.import_array()

cdef extern from "stored.h":
    int64_t launch_forward "PDL_STORED(conv, forward)"(int kind, ...) except + nogil
    int64_t launch_forward_then "PDL_STORED(conv, forward_then)"(int kind, ...) except + nogil
    int64_t launch_dx "PDL_STORED(conv, dx)"(int kind, ...) except + nogil
    int64_t launch_dw "PDL_STORED(conv, dw)"(int kind, ...) except + nogil

cdef enum:
    MAX_TAPS = 256


cdef int describe(Geometry* g, cnp.ndarray x, cnp.ndarray y, cnp.ndarray w, tuple stride, tuple pad, tuple dilation, int groups,
                  bint wide_w=False) except -1:
    """Sizes and checks of one convolution y = x * w; with `wide_w` the type of w is what bfloat16 is summed in."""
    cdef int d
    if x.ndim != 5 or y.ndim != 5 or w.ndim != 5:
        raise ValueError("conv: x, y and w have five dimensions each")
    for array in (x, y, w):
        if (array.dtype != x.dtype and not (wide_w and array is w)) or (array.dtype.char not in "fd" and array.dtype != bfloat16):
            raise TypeError("conv: all arrays are float32, or all are float64, or all are bfloat16")
        if not array.flags.c_contiguous:
            raise ValueError("conv: all arrays are C-contiguous")
    if not len(stride) == len(pad) == len(dilation) == 3:
        raise ValueError(f"conv: stride {stride}, padding {pad} and dilation {dilation} have three entries each")
    g.n, g.c, g.o, g.groups = x.shape[0], x.shape[4], y.shape[4], groups
    if y.shape[0] != g.n or w.shape[3] * groups != g.c or w.shape[4] != g.o or groups < 1 or g.o % groups:
        raise ValueError(f"conv: w ({w.shape[3]}, {w.shape[4]}) with groups={groups} does not fit {g.c} and {g.o} channels")
    for d in range(3):
        g.inside[d], g.out[d], g.kernel[d] = x.shape[1 + d], y.shape[1 + d], w.shape[d]
        g.stride[d], g.pad[d], g.dilation[d] = stride[d], pad[d], dilation[d]
        if g.kernel[d] > MAX_TAPS:
            raise ValueError(f"conv: a kernel of {g.kernel[d]} is larger than {MAX_TAPS}")
        if g.stride[d] < 1 or g.dilation[d] < 1 or g.pad[d] < 0:
            raise ValueError("conv: stride and dilation are at least 1, padding at least 0")
    return 0


cdef void* start(cnp.ndarray array) except? NULL:
    """Where the values of an array are."""
    return address("conv", cnp.PyArray_DATA(array))


cdef int run(cnp.ndarray y, cnp.ndarray x, cnp.ndarray w, void* bias, const Geometry& g, const AnyEpilogue* then) except -1:
    """The forward kernel, with an epilogue where `then` is not NULL."""
    cdef void* py = start(y)
    cdef void* px = start(x)
    cdef void* pw = start(w)
    cdef int kind = cnp.PyArray_TYPE(x)
    with nogil:
        if then == NULL:
            launch_forward(kind, py, px, pw, bias, g)
        else:
            launch_forward_then(kind, py, px, pw, bias, g, then[0])
    return 0


cdef void* data_of(str label, cnp.ndarray array, int64_t size, dtype) except? NULL:
    """Where the values of an optional array are; NULL for None. Raise unless it is contiguous, of that size and dtype."""
    if array is None:
        return NULL
    if array.size != size or array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(f"conv: {label} must be a contiguous array of {size} values in {dtype}")
    return address("conv", cnp.PyArray_DATA(array))


def forward(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray w not None, cnp.ndarray bias, tuple stride, tuple pad,
            tuple dilation, int groups):
    """Correlate x with w (+ bias)

    y OUT [N, D', H', W', O], x IN [N, D, H, W, C], w IN [KD, KH, KW, C/groups, O], bias IN [O] or None. `pad` is what lies before
    the input; what lies behind follows from the shape of y.
    """
    cdef Geometry g
    describe(&g, x, y, w, stride, pad, dilation, groups)
    cdef void* b = data_of("bias", bias, g.o, x.dtype)
    if y.size != 0:
        run(y, x, w, b, g, NULL)


def forward_then(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray w not None, cnp.ndarray bias, tuple stride, tuple pad,
                 tuple dilation, int groups, *, str activation=None, tuple parameters=(), cnp.ndarray residual=None,
                 cnp.ndarray before=None, cnp.ndarray mean=None, cnp.ndarray var=None):
    """As `forward`, and while the values are near: + residual, then the function `activation` of pointwise.UNARY, then statistics

    residual IN, before OUT (what the activation is applied to): shaped as y, or None. mean OUT [O], var OUT [O] (biased), both or
    neither: over the pixels of y as stored; float32 beside bfloat16.
    """
    cdef Geometry g
    cdef AnyEpilogue then
    describe(&g, x, y, w, stride, pad, dilation, groups)
    cdef void* b = data_of("bias", bias, g.o, x.dtype)
    wide = np.dtype(np.float32) if x.dtype == bfloat16 else x.dtype
    if (mean is None) != (var is None):
        raise ValueError("conv: mean and var come together")
    set_activation(&then, activation, parameters)
    then.residual = data_of("residual", residual, y.size, x.dtype)
    then.before = data_of("before", before, y.size, x.dtype)
    then.mean, then.var = data_of("mean", mean, g.o, wide), data_of("var", var, g.o, wide)
    if before is not None and activation is None and residual is None:
        raise ValueError("conv: before is y itself where there is no activation")
    if y.size != 0:
        run(y, x, w, b, g, &then)


def dx(cnp.ndarray dx not None, cnp.ndarray g not None, cnp.ndarray w not None, tuple stride, tuple pad, tuple dilation, int groups):
    """Gradient of the input

    dx OUT [N, D, H, W, C], g IN [N, D', H', W', O], w IN [KD, KH, KW, C/groups, O]
    """
    cdef Geometry geometry
    describe(&geometry, dx, g, w, stride, pad, dilation, groups)
    if dx.size == 0:
        return
    cdef void* to = start(dx)
    cdef void* pg = start(g)
    cdef void* pw = start(w)
    cdef int kind = cnp.PyArray_TYPE(dx)
    with nogil:
        launch_dx(kind, to, pg, pw, geometry)


def dw(cnp.ndarray dw not None, cnp.ndarray x not None, cnp.ndarray g not None, tuple stride, tuple pad, tuple dilation, int groups):
    """Gradient of the weights

    dw OUT [KD, KH, KW, C/groups, O], x IN [N, D, H, W, C], g IN [N, D', H', W', O]. Beside bfloat16 inputs dw may be float32, which
    saves the rounding.
    """
    cdef Geometry geometry
    cdef void* wide = NULL
    if x.dtype == bfloat16 and dw.dtype == np.float32:
        wide = cnp.PyArray_DATA(dw)
    describe(&geometry, x, g, dw, stride, pad, dilation, groups, wide != NULL)
    if dw.size == 0 or g.size == 0 or x.size == 0:
        now("conv: a sum over nothing")
        dw.fill(0)
        return
    cdef void* to = start(dw)
    cdef void* px = start(x)
    cdef void* pg = start(g)
    cdef int kind = cnp.PyArray_TYPE(x)
    with nogil:
        launch_dw(kind, to, wide, px, pg, geometry)

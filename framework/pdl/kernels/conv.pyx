"""Convolution kernels on [N, D, H, W, C] arrays; one and two dimensions come with sizes of 1. float32, float64 and
bfloat16."""

include "dense.pxi"
include "geometry.pxi"

import numpy as np

from pdl.dtype import bfloat16
from pdl.kernels.launch import now
from pdl.kernels.pointwise import UNARY

cnp.import_array()

cdef extern from "table.h" namespace "pdl":
    cdef cppclass ConvTable[T]:
        void* forward
        void* dx
        void* dw
        void* forward_then
    ConvTable[T]* conv_table[T](const T* any) noexcept nogil

cdef extern from *:
    """
    template <class T>
    void set_statistics(pdl::Epilogue<T>& then, void* mean, void* var) {
      then.mean = static_cast<pdl::Real<T>*>(mean), then.var = static_cast<pdl::Real<T>*>(var);
    }
    """
    void set_statistics[T](Epilogue[T]& then, void* mean, void* var) noexcept nogil

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


cdef struct Then:
    int activation
    double[3] parameters
    void* residual
    void* before
    void* mean
    void* var


cdef void run(real* y, const real* x, const real* w, const real* bias, const Geometry& g, const Then* then) noexcept nogil:
    """The forward kernel, with an epilogue where `then` is not NULL."""
    cdef Epilogue[real] finish
    if then == NULL:
        launch(conv_table(x).forward, y, x, w, bias, g)
        return
    finish.activation = then.activation
    finish.residual = <const real*>then.residual
    finish.before = <real*>then.before
    finish.a, finish.b, finish.c = then.parameters[0], then.parameters[1], then.parameters[2]
    set_statistics(finish, then.mean, then.var)
    launch(conv_table(x).forward_then, y, x, w, bias, g, finish)


cdef void forward_any(cnp.ndarray y, cnp.ndarray x, cnp.ndarray w, void* bias, const Geometry& g, const Then* then) except *:
    """The forward kernel for the dtype of x."""
    cdef void* py = address("conv", cnp.PyArray_DATA(y))
    cdef void* px = address("conv", cnp.PyArray_DATA(x))
    cdef void* pw = address("conv", cnp.PyArray_DATA(w))
    cdef int item = x.itemsize
    with nogil:
        if item == 4:
            run(<float*>py, <const float*>px, <const float*>pw, <const float*>bias, g, then)
        elif item == 8:
            run(<double*>py, <const double*>px, <const double*>pw, <const double*>bias, g, then)
        else:
            run(<bf16*>py, <const bf16*>px, <const bf16*>pw, <const bf16*>bias, g, then)


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
        forward_any(y, x, w, b, g, NULL)


def forward_then(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray w not None, cnp.ndarray bias, tuple stride, tuple pad,
                 tuple dilation, int groups, *, str activation=None, tuple parameters=(), cnp.ndarray residual=None,
                 cnp.ndarray before=None, cnp.ndarray mean=None, cnp.ndarray var=None):
    """As `forward`, and while the values are near: + residual, then the function `activation` of pointwise.UNARY, then statistics

    residual IN, before OUT (what the activation is applied to): shaped as y, or None. mean OUT [O], var OUT [O] (biased), both or
    neither: over the pixels of y as stored; float32 beside bfloat16.
    """
    cdef Geometry g
    cdef Then then
    describe(&g, x, y, w, stride, pad, dilation, groups)
    cdef void* b = data_of("bias", bias, g.o, x.dtype)
    wide = np.dtype(np.float32) if x.dtype == bfloat16 else x.dtype
    if (mean is None) != (var is None):
        raise ValueError("conv: mean and var come together")
    then.activation = -1 if activation is None else UNARY[activation]
    then.parameters = [0, 0, 0]
    for number, value in enumerate(parameters):
        then.parameters[number] = value
    then.residual = data_of("residual", residual, y.size, x.dtype)
    then.before = data_of("before", before, y.size, x.dtype)
    then.mean, then.var = data_of("mean", mean, g.o, wide), data_of("var", var, g.o, wide)
    if before is not None and activation is None and residual is None:
        raise ValueError("conv: before is y itself where there is no activation")
    if y.size != 0:
        forward_any(y, x, w, b, g, &then)


def dx(cnp.ndarray dx not None, cnp.ndarray g not None, cnp.ndarray w not None, tuple stride, tuple pad, tuple dilation, int groups):
    """Gradient of the input

    dx OUT [N, D, H, W, C], g IN [N, D', H', W', O], w IN [KD, KH, KW, C/groups, O]
    """
    cdef Geometry geometry
    describe(&geometry, dx, g, w, stride, pad, dilation, groups)
    if dx.size == 0:
        return
    cdef void* to = address("conv", cnp.PyArray_DATA(dx))
    cdef void* pg = address("conv", cnp.PyArray_DATA(g))
    cdef void* pw = address("conv", cnp.PyArray_DATA(w))
    if dx.itemsize == 4:
        with nogil:
            launch(conv_table(<const float*>to).dx, <float*>to, <const float*>pg, <const float*>pw, geometry)
    elif dx.itemsize == 8:
        with nogil:
            launch(conv_table(<const double*>to).dx, <double*>to, <const double*>pg, <const double*>pw, geometry)
    else:
        with nogil:
            launch(conv_table(<const bf16*>to).dx, <bf16*>to, <const bf16*>pg, <const bf16*>pw, geometry)


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
    cdef void* to = address("conv", cnp.PyArray_DATA(dw))
    cdef void* px = address("conv", cnp.PyArray_DATA(x))
    cdef void* pg = address("conv", cnp.PyArray_DATA(g))
    if x.itemsize == 4:
        with nogil:
            launch(conv_table(<const float*>to).dw, <float*>to, <float*>wide, <const float*>px, <const float*>pg, geometry)
    elif x.itemsize == 8:
        with nogil:
            launch(conv_table(<const double*>to).dw, <double*>to, <double*>wide, <const double*>px, <const double*>pg, geometry)
    else:
        with nogil:
            launch(conv_table(<const bf16*>to).dw, <bf16*>to, <float*>wide, <const bf16*>px, <const bf16*>pg, geometry)

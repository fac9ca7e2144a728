"""Convolution kernels on [N, D, H, W, C] arrays; one and two dimensions come with sizes of 1. float32, float64 and
bfloat16."""

from libc.stdint cimport int64_t

cimport numpy as cnp

import numpy as np

from pdl.dtype import bfloat16

cnp.import_array()

cdef extern from "bf16.h" namespace "pdl":
    cdef struct bf16:
        pass

cdef extern from "table.h" namespace "pdl":
    cdef cppclass Geometry:
        int64_t n, c, o, groups
        int64_t[3] inside "in"
        int64_t[3] out
        int64_t[3] kernel
        int64_t[3] stride
        int64_t[3] pad
        int64_t[3] dilation
    cdef cppclass ConvTable[T]:
        void forward(T* y, const T* x, const T* w, const T* bias, const Geometry& g) noexcept nogil
        void dx(T* dx, const T* dy, const T* w, const Geometry& g) noexcept nogil
        void dw(T* dw, float* wide, const T* x, const T* dy, const Geometry& g) noexcept nogil
    ConvTable[T]* conv_table[T](const T* any) noexcept nogil

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
    g.n, g.c, g.o, g.groups = x.shape[0], x.shape[4], y.shape[4], groups
    if y.shape[0] != g.n or w.shape[3] * groups != g.c or w.shape[4] != g.o or groups < 1 or g.o % groups:
        raise ValueError(f"conv: w ({w.shape[3]}, {w.shape[4]}) with groups={groups} does not fit {g.c} and {g.o} channels")
    for d in range(3):
        g.inside[d], g.out[d], g.kernel[d] = x.shape[1 + d], y.shape[1 + d], w.shape[d]
        g.stride[d], g.pad[d], g.dilation[d] = stride[d], pad[d], dilation[d]
        if g.kernel[d] > MAX_TAPS:
            raise ValueError(f"conv: a kernel of {g.kernel[d]} is larger than {MAX_TAPS}")
        if g.stride[d] < 1 or g.dilation[d] < 1:
            raise ValueError("conv: stride and dilation are at least 1")
    return 0


def forward(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray w not None, cnp.ndarray bias, tuple stride, tuple pad,
            tuple dilation, int groups):
    """Correlate x with w (+ bias)

    y OUT [N, D', H', W', O], x IN [N, D, H, W, C], w IN [KD, KH, KW, C/groups, O], bias IN [O] or None. `pad` is what lies before
    the input; what lies behind follows from the shape of y.
    """
    cdef Geometry g
    cdef void* b = NULL
    describe(&g, x, y, w, stride, pad, dilation, groups)
    if bias is not None:
        if bias.ndim != 1 or bias.shape[0] != g.o or bias.dtype != x.dtype or not bias.flags.c_contiguous:
            raise ValueError(f"conv: bias must be a contiguous array of {g.o} values of the dtype of x")
        b = cnp.PyArray_DATA(bias)
    if y.size == 0:
        return
    if x.itemsize == 4:
        with nogil:
            conv_table(<const float*>0).forward(<float*>cnp.PyArray_DATA(y), <const float*>cnp.PyArray_DATA(x),
                                                <const float*>cnp.PyArray_DATA(w), <const float*>b, g)
    elif x.itemsize == 8:
        with nogil:
            conv_table(<const double*>0).forward(<double*>cnp.PyArray_DATA(y), <const double*>cnp.PyArray_DATA(x),
                                                 <const double*>cnp.PyArray_DATA(w), <const double*>b, g)
    else:
        with nogil:
            conv_table(<const bf16*>0).forward(<bf16*>cnp.PyArray_DATA(y), <const bf16*>cnp.PyArray_DATA(x),
                                               <const bf16*>cnp.PyArray_DATA(w), <const bf16*>b, g)


def dx(cnp.ndarray dx not None, cnp.ndarray g not None, cnp.ndarray w not None, tuple stride, tuple pad, tuple dilation, int groups):
    """Gradient of the input

    dx OUT [N, D, H, W, C], g IN [N, D', H', W', O], w IN [KD, KH, KW, C/groups, O]
    """
    cdef Geometry geometry
    describe(&geometry, dx, g, w, stride, pad, dilation, groups)
    if dx.size == 0:
        return
    if dx.itemsize == 4:
        with nogil:
            conv_table(<const float*>0).dx(<float*>cnp.PyArray_DATA(dx), <const float*>cnp.PyArray_DATA(g),
                                           <const float*>cnp.PyArray_DATA(w), geometry)
    elif dx.itemsize == 8:
        with nogil:
            conv_table(<const double*>0).dx(<double*>cnp.PyArray_DATA(dx), <const double*>cnp.PyArray_DATA(g),
                                            <const double*>cnp.PyArray_DATA(w), geometry)
    else:
        with nogil:
            conv_table(<const bf16*>0).dx(<bf16*>cnp.PyArray_DATA(dx), <const bf16*>cnp.PyArray_DATA(g),
                                          <const bf16*>cnp.PyArray_DATA(w), geometry)


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
        dw.fill(0)  # a sum over nothing
        return
    if x.itemsize == 4:
        with nogil:
            conv_table(<const float*>0).dw(<float*>cnp.PyArray_DATA(dw), NULL, <const float*>cnp.PyArray_DATA(x),
                                           <const float*>cnp.PyArray_DATA(g), geometry)
    elif x.itemsize == 8:
        with nogil:
            conv_table(<const double*>0).dw(<double*>cnp.PyArray_DATA(dw), NULL, <const double*>cnp.PyArray_DATA(x),
                                            <const double*>cnp.PyArray_DATA(g), geometry)
    else:
        with nogil:
            conv_table(<const bf16*>0).dw(<bf16*>cnp.PyArray_DATA(dw), <float*>wide, <const bf16*>cnp.PyArray_DATA(x),
                                          <const bf16*>cnp.PyArray_DATA(g), geometry)

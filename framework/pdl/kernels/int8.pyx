"""Kernels of quantised nets: products, convolutions, sums and pooling of bytes, on [N, D, H, W, C] arrays.

A byte q of an activation (uint8) stands for scale (q - zero); weights (int8) are symmetric, with a scale for each output. All results
are the same bits on every instruction set.
"""

include "checks.pxi"
include "windows.pxi"
include "geometry.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass QuantThen:
        unsigned char* y
        float* wide
        const unsigned char* residual
        int zero, residual_zero
        float residual_scale, low, high, after
        bint swish
    cdef cppclass Int8Table:
        int unit
        int64_t packed_bytes(const Geometry& g, int tile) noexcept nogil
        void* pack
        void* convolution
        void* quantise
        void* dequantise
        void* add
        void* look_up
        void* max_pool
        void* avg_pool
    cdef cppclass Table:
        const Int8Table* int8
    const Table& table() noexcept nogil


cdef int window(Geometry* g, tuple kernel, int64_t c, int64_t o, tuple stride, tuple pad, tuple dilation, int groups) except -1:
    """The part of a geometry that no size of an image enters."""
    cdef int d
    if not len(kernel) == len(stride) == len(pad) == len(dilation) == 3:
        raise ShapeError(f"int8: kernel {kernel}, stride {stride}, padding {pad} and dilation {dilation} have three entries each")
    g.c, g.o, g.groups, g.n = c, o, groups, 1
    if groups < 1 or c % groups or o % groups:
        raise ShapeError(f"int8: groups={groups} does not divide {c} and {o} channels")
    for d in range(3):
        g.kernel[d], g.stride[d], g.pad[d], g.dilation[d] = kernel[d], stride[d], pad[d], dilation[d]
        g.inside[d], g.out[d] = 1, 1
        if g.kernel[d] < 1 or g.stride[d] < 1 or g.dilation[d] < 1 or g.pad[d] < 0:
            raise ShapeError("int8: kernel, stride and dilation are at least 1, padding at least 0")
    return 0


cdef int byte_of(str label, int value) except -1:
    """Raise unless a zero point is a byte."""
    if not 0 <= value <= 255:
        raise ShapeError(f"int8: {label} {value} is no uint8")
    return 0


cdef int finish(QuantThen* then, str name, cnp.ndarray y, int zero, double low, double high) except -1:
    """Where results go, and their bounds."""
    cdef int kind = cnp.PyArray_TYPE(y)
    cdef void* at = data_of(name, "y", y, cnp.NPY_FLOAT if kind == cnp.NPY_FLOAT else cnp.NPY_UBYTE, cnp.PyArray_SIZE(y))
    byte_of("the zero point of y", zero)
    then.y, then.wide = <unsigned char*>NULL, <float*>NULL
    if kind == cnp.NPY_FLOAT:
        then.wide = <float*>at
    else:
        then.y = <unsigned char*>at
    then.zero, then.low, then.high = zero, low, high
    if kind != cnp.NPY_FLOAT and not -zero <= low <= high <= 255 - zero:
        raise ShapeError(f"{name}: bounds [{low}, {high}] leave what bytes with the zero point {zero} can hold")
    then.residual = <const unsigned char*>NULL
    then.residual_zero, then.residual_scale, then.after, then.swish = 0, 0, 1, False
    return 0


def unit():
    """Numbers of a sum that one lane of a register takes at once: 4 where the CPU multiplies bytes (VNNI), else 2."""
    return table().int8.unit


cdef int check_tile(Geometry* g, int tile) except -1:
    """Raise unless the algorithm serves a window: 0 always, Winograd's with tiles of 2 or 4 where its taps are 3 x 3, side by side."""
    cdef int d
    cdef bint fits = g.groups == 1 and g.c % 16 == 0 and g.o % 16 == 0
    if tile == 0:
        return 0
    for d in range(3):
        fits = fits and g.stride[d] == 1 and g.dilation[d] == 1 and g.kernel[d] == (1 if d == 0 else 3)
    if tile not in (2, 4) or not fits or g.pad[0] != 0:
        raise ShapeError(f"int8: tile {tile}; expected 0, or 2 or 4 with 3x3 taps, stride 1 and channels in multiples of 16")
    return 0


def packed_bytes(tuple kernel not None, int64_t c, int64_t o, tuple dilation not None, int groups, int tile=0):
    """The size of packed weights [KD, KH, KW, C/groups, O] with their bias and multipliers, in bytes."""
    cdef Geometry g
    window(&g, kernel, c, o, (1, 1, 1), (0, 0, 0), dilation, groups)
    check_tile(&g, tile)
    return table().int8.packed_bytes(g, tile)


def pack(
    cnp.ndarray packed not None,      # OUT [packed_bytes(...)] int8
    cnp.ndarray w not None,           # IN  [KD, KH, KW, C/groups, O] int8
    cnp.ndarray bias,                 # IN  [O] int32 or None, in units of x's scale times the output's
    cnp.ndarray multiplier not None,  # IN  [O] float32: x's scale times the output's, over that of y
    int x_zero,
    tuple dilation not None,
    int groups,
    int tile=0,                       # 0: direct summation; 2 or 4: Winograd's filters with tiles of that side
):
    """Weights in the order in which the kernel of this CPU reads them.

    With tile 4 (2) sums of products, of inputs from 0 to 255, must fit in int32 when multiplied by 64 (by 4).
    """
    cdef Geometry g
    demand("pack", "w", w, 5)
    shape = (<object>w).shape
    window(&g, shape[:3], shape[3] * groups, shape[4], (1, 1, 1), (0, 0, 0), dilation, groups)
    check_tile(&g, tile)
    byte_of("the zero point of x", x_zero)
    cdef signed char* to = <signed char*>data_of("pack", "packed", packed, cnp.NPY_BYTE, table().int8.packed_bytes(g, tile))
    cdef const signed char* pw = <const signed char*>data_of("pack", "w", w, cnp.NPY_BYTE, cnp.PyArray_SIZE(w))
    cdef const int32_t* b = <const int32_t*>optional_data("pack", "bias", bias, cnp.NPY_INT32, g.o)
    cdef const float* m = <const float*>data_of("pack", "multiplier", multiplier, cnp.NPY_FLOAT, g.o)
    with nogil:
        launch(table().int8.pack, to, pw, b, m, x_zero, g, tile)


def convolution(
    cnp.ndarray y not None,       # OUT [N, D', H', W', O] uint8, or float32
    cnp.ndarray x not None,       # IN  [N, D, H, W, C] uint8
    cnp.ndarray packed not None,  # IN  from `pack`, with the same zero point of x
    tuple kernel not None,
    tuple stride not None,
    tuple pad not None,           # before the input; what lies behind follows from y
    tuple dilation not None,
    int groups,
    int x_zero,
    int zero,                     # of y, where it is uint8
    double low,                   # bounds of v
    double high,
    *,
    object after=None,            # where not None: v becomes hardswish(v) times this
    cnp.ndarray residual=None,    # IN  like y, uint8
    double residual_scale=0,      # over that of y
    int residual_zero=0,
    int tile=0,                   # as the weights were packed
):
    """y = round(v) + zero, or v; v = (correlation of x - x_zero with w, + bias) multiplier + (residual - residual_zero) residual_scale
    """
    cdef Geometry g
    cdef QuantThen then
    cdef int d
    demand("convolution", "x", x, 5)
    demand("convolution", "y", y, 5)
    window(&g, kernel, cnp.PyArray_DIM(x, 4), cnp.PyArray_DIM(y, 4), stride, pad, dilation, groups)
    check_tile(&g, tile)
    byte_of("the zero point of x", x_zero)
    cdef int64_t size = table().int8.packed_bytes(g, tile)
    cdef const signed char* pw = <const signed char*>data_of("convolution", "packed", packed, cnp.NPY_BYTE, size)
    cdef const unsigned char* px = <const unsigned char*>data_of("convolution", "x", x, cnp.NPY_UBYTE, cnp.PyArray_SIZE(x))
    finish(&then, "convolution", y, zero, low, high)
    if residual is not None:
        byte_of("the zero point of the residual", residual_zero)
        then.residual = <const unsigned char*>data_of("convolution", "residual", residual, cnp.NPY_UBYTE, cnp.PyArray_SIZE(y))
        then.residual_scale, then.residual_zero = residual_scale, residual_zero
    if after is not None:
        then.swish, then.after = True, after
    g.n = cnp.PyArray_DIM(x, 0)
    if g.n != cnp.PyArray_DIM(y, 0):
        raise ShapeError(f"convolution: x has {g.n} images, y {cnp.PyArray_DIM(y, 0)}")
    for d in range(3):
        g.inside[d], g.out[d] = cnp.PyArray_DIM(x, d + 1), cnp.PyArray_DIM(y, d + 1)
    if g.kernel[0] == 1 and g.stride[0] == 1 and g.pad[0] == 0 and g.out[0] != g.inside[0]:
        raise ShapeError(f"convolution: planes of x and y, {g.inside[0]} and {g.out[0]}, must agree")
    if cnp.PyArray_SIZE(y) != 0:
        with nogil:
            launch(table().int8.convolution, then, px, x_zero, pw, g, tile)


cdef int split(str name, cnp.ndarray scale, cnp.ndarray zero, int kind, cnp.ndarray x, int axis, int64_t* outer, int64_t* inner) except -1:
    """What lies before and behind the axis that scales belong to, and zero points of a kind; axis -1: one scale for all."""
    cdef int d
    outer[0], inner[0] = 1, 1
    if axis >= cnp.PyArray_NDIM(x):
        raise ShapeError(f"{name}: axis {axis} of an array of {cnp.PyArray_NDIM(x)} dimensions")
    for d in range(cnp.PyArray_NDIM(x)):
        if d < axis:
            outer[0] *= cnp.PyArray_DIM(x, d)
        elif d > axis:
            inner[0] *= cnp.PyArray_DIM(x, d)
    cdef int64_t n = 1 if axis < 0 else cnp.PyArray_DIM(x, axis)
    data_of(name, "scale", scale, cnp.NPY_FLOAT, n)
    data_of(name, "zero", zero, kind, n)
    return 0


def quantise(
    cnp.ndarray y not None,      # OUT uint8 or int8, shaped as x
    cnp.ndarray x not None,      # IN  float32
    cnp.ndarray scale not None,  # IN  [n] float32, n = size of the axis, or 1 with axis -1
    cnp.ndarray zero not None,   # IN  [n] as y
    int axis,
    int low,                     # least and greatest byte
    int high,
):
    """y = round(x / scale) + zero, halves to even, saturated to [low, high]."""
    cdef int64_t outer, inner
    cdef int kind = cnp.NPY_BYTE if cnp.PyArray_TYPE(y) == cnp.NPY_BYTE else cnp.NPY_UBYTE
    cdef int least = -128 if kind == cnp.NPY_BYTE else 0
    cdef unsigned char* py = <unsigned char*>data_of("quantise", "y", y, kind, cnp.PyArray_SIZE(x))
    cdef const float* px = <const float*>data_of("quantise", "x", x, cnp.NPY_FLOAT, cnp.PyArray_SIZE(x))
    split("quantise", scale, zero, kind, x, axis, &outer, &inner)
    if not least <= low <= high <= least + 255:
        raise ShapeError(f"quantise: [{low}, {high}] are no bounds of bytes")
    cdef const float* ps = <const float*>cnp.PyArray_DATA(scale)
    cdef const unsigned char* pz = <const unsigned char*>cnp.PyArray_DATA(zero)
    cdef int64_t n = cnp.PyArray_SIZE(scale)
    cdef bint is_signed = kind == cnp.NPY_BYTE
    with nogil:
        launch(table().int8.quantise, py, px, ps, pz, outer, n, inner, low, high, is_signed)


def dequantise(
    cnp.ndarray y not None,      # OUT float32, shaped as q
    cnp.ndarray q not None,      # IN  uint8 or int8
    cnp.ndarray scale not None,  # IN  as in `quantise`
    cnp.ndarray zero not None,   # IN  [n] as q
    int axis,
):
    """y = (q - zero) scale."""
    cdef int64_t outer, inner
    cdef int kind = cnp.NPY_BYTE if cnp.PyArray_TYPE(q) == cnp.NPY_BYTE else cnp.NPY_UBYTE
    cdef float* py = <float*>data_of("dequantise", "y", y, cnp.NPY_FLOAT, cnp.PyArray_SIZE(q))
    cdef const unsigned char* pq = <const unsigned char*>data_of("dequantise", "q", q, kind, cnp.PyArray_SIZE(q))
    split("dequantise", scale, zero, kind, q, axis, &outer, &inner)
    cdef const float* ps = <const float*>cnp.PyArray_DATA(scale)
    cdef const unsigned char* pz = <const unsigned char*>cnp.PyArray_DATA(zero)
    cdef int64_t n = cnp.PyArray_SIZE(scale)
    cdef bint is_signed = kind == cnp.NPY_BYTE
    with nogil:
        launch(table().int8.dequantise, py, pq, ps, pz, outer, n, inner, is_signed)


def add(cnp.ndarray y not None, cnp.ndarray a not None, cnp.ndarray b not None, int a_zero, float a_scale, int b_zero, float b_scale,
        int zero, float low, float high):
    """y = round((a - a_zero) a_scale + (b - b_zero) b_scale) + zero, the rounded part within [low, high]

    y OUT, a and b IN: uint8 arrays of one size. Scales are over that of y.
    """
    cdef int64_t n = cnp.PyArray_SIZE(y)
    cdef QuantThen then
    cdef const unsigned char* pa = <const unsigned char*>data_of("add", "a", a, cnp.NPY_UBYTE, n)
    cdef const unsigned char* pb = <const unsigned char*>data_of("add", "b", b, cnp.NPY_UBYTE, n)
    cdef unsigned char* py = <unsigned char*>data_of("add", "y", y, cnp.NPY_UBYTE, n)
    finish(&then, "add", y, zero, low, high)
    with nogil:
        launch(table().int8.add, py, pa, pb, n, a_zero, a_scale, b_zero, b_scale, zero, low, high)


def look_up(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray values not None):
    """y = values[x]; y OUT, x IN: uint8 arrays of one size; values IN [256] uint8."""
    cdef int64_t n = cnp.PyArray_SIZE(x)
    cdef unsigned char* py = <unsigned char*>data_of("look_up", "y", y, cnp.NPY_UBYTE, n)
    cdef const unsigned char* px = <const unsigned char*>data_of("look_up", "x", x, cnp.NPY_UBYTE, n)
    cdef const unsigned char* pv = <const unsigned char*>data_of("look_up", "values", values, cnp.NPY_UBYTE, 256)
    with nogil:
        launch(table().int8.look_up, py, px, pv, n)


def max_pool(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray lo not None, cnp.ndarray hi not None, tuple step not None):
    """y = the largest byte of each window; arguments as in pooling.max_pool, y OUT and x IN uint8."""
    cdef PoolGrid grid
    fill("max_pool", &grid, y, x, lo, hi)
    grid.step[0], grid.step[1], grid.step[2] = step
    cdef unsigned char* py = <unsigned char*>data_of("max_pool", "y", y, cnp.NPY_UBYTE, cnp.PyArray_SIZE(y))
    cdef const unsigned char* px = <const unsigned char*>data_of("max_pool", "x", x, cnp.NPY_UBYTE, cnp.PyArray_SIZE(x))
    if cnp.PyArray_SIZE(y) != 0:
        with nogil:
            launch(table().int8.max_pool, py, px, grid)


def avg_pool(
    cnp.ndarray y not None,      # OUT [N, D', H', W', C] uint8 or float32
    cnp.ndarray x not None,      # IN  [N, D, H, W, C] uint8
    cnp.ndarray lo not None,     # IN  as in max_pool
    cnp.ndarray hi not None,
    cnp.ndarray scale not None,  # IN  [D' + H' + W'] float64: an axis' share of 1 / (number of cells averaged)
    double factor,               # scale of x over that of y; the scale of x where y is float32
    int x_zero,
    int zero,
    double low,
    double high,
):
    """y = the mean over each window: v = (sum of x - x_zero) / cells * factor, stored as in `convolution`."""
    cdef PoolGrid grid
    cdef QuantThen then
    fill("avg_pool", &grid, y, x, lo, hi)
    fill_scale("avg_pool", &grid, y, scale)
    finish(&then, "avg_pool", y, zero, low, high)
    cdef const unsigned char* px = <const unsigned char*>data_of("avg_pool", "x", x, cnp.NPY_UBYTE, cnp.PyArray_SIZE(x))
    if cnp.PyArray_SIZE(y) != 0:
        with nogil:
            launch(table().int8.avg_pool, then, px, x_zero, factor, grid)

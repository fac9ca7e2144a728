"""Convolutions and matrix products with weights packed before, for inference. float32, float64 and bfloat16.

A packed array is one run of numbers in the order in which this CPU's kernels read them: it is made when a model is loaded and never
stored.
"""

include "dense.pxi"
include "geometry.pxi"

from libc.limits cimport INT_MAX

import numpy as np

from pdl.dtype import bfloat16
from pdl.kernels.pointwise import UNARY

cnp.import_array()

cdef extern from "table.h" namespace "pdl":
    cdef struct bf16:
        pass
    cdef cppclass PackedTable[T]:
        int64_t size(int form, const Geometry& g) noexcept nogil
        int64_t expands(int64_t inputs, const Geometry& g) noexcept nogil
    PackedTable[T]* packed_table[T](const T* any) noexcept nogil
    const int BLOCK "pdl::kBlockWide"

cdef extern from "stored.h":
    int64_t launch_pack "PDL_STORED(packed, pack)"(int kind, ...) except + nogil
    int64_t launch_forward "PDL_STORED(packed, forward)"(int kind, ...) except + nogil
    int64_t launch_expand "PDL_STORED(packed, expand_depthwise)"(int kind, ...) except + nogil

FORMS = {"rows": 0, "winograd4": 1, "winograd2": 2, "taps": 3, "blocks": 4}  #: enum Packed of table.h
WIDE = BLOCK  #: outputs of a block


cdef int weights_of(Geometry* g, str form, tuple kernel, tuple window) except -1:
    """The part of a geometry that weights [*kernel, C, O] and a window (stride, padding before, dilation) make, checked."""
    cdef int d
    stride, pad, dilation = window
    if form not in FORMS:
        raise ValueError(f"packed: form {form!r} is none of {', '.join(FORMS)}")
    if len(kernel) != 5 or min(kernel) < 1:
        raise ValueError(f"packed: weights {kernel} must be [KD, KH, KW, C, O], none of them 0")
    if not len(stride) == len(pad) == len(dilation) == 3:
        raise ValueError(f"packed: stride {stride}, padding {pad} and dilation {dilation} have three entries each")
    g.n, g.c, g.o, g.groups = 0, kernel[3], kernel[4], 1
    for d in range(3):
        g.inside[d] = g.out[d] = 1
        g.kernel[d], g.stride[d], g.pad[d], g.dilation[d] = kernel[d], stride[d], pad[d], dilation[d]
        if g.stride[d] < 1 or g.dilation[d] < 1 or g.pad[d] < 0:
            raise ValueError("packed: stride and dilation are at least 1, padding at least 0")
    if form.startswith("winograd") and (kernel[:3] != (1, 3, 3) or (*stride, dilation[0]) != (1,) * 4 or pad[0] or pad[1] % dilation[1]
                                        or pad[2] % dilation[2] or g.c % 16 or g.o % 16):
        raise ValueError(f"packed: {form} takes 3x3 weights of stride 1, padding in multiples of the dilation, channels in sixteens, not "
                         f"{kernel}")
    return 0


cdef int64_t size_for(object dtype, int form, const Geometry& g, int64_t kept) except -1:
    cdef int64_t heads, whole
    if form == FORMS["blocks"]:
        heads = (g.o + BLOCK - 1) // BLOCK
        whole = heads * g.kernel[0] * g.kernel[1] * g.kernel[2] * g.c
        if dtype != np.float32 or not 1 <= kept <= whole or whole * BLOCK > INT_MAX:
            raise ValueError(f"packed: blocks are float32, and 1 to {whole} of them are kept, not {kept} in {dtype}")
        return (heads + 1 + kept + BLOCK - 1) // BLOCK * BLOCK + kept * BLOCK
    if kept:
        raise ValueError("packed: blocks alone are kept in part")
    if dtype == np.float32:
        return packed_table(<const float*>0).size(form, g)
    if dtype == np.float64 and form in (FORMS["rows"], FORMS["taps"]):
        return packed_table(<const double*>0).size(form, g)
    if dtype == bfloat16 and form != FORMS["taps"]:
        return packed_table(<const bf16*>0).size(form, g)
    raise TypeError(f"packed: weights are float32, float64 or bfloat16 (Winograd: not float64, taps: not bfloat16), not {dtype}")


def size(str form, tuple kernel, dtype, int64_t kept=0) -> int:
    """Values that weights [KD, KH, KW, C, O] take when packed; as "blocks" with so many kept."""
    cdef Geometry g
    weights_of(&g, form, kernel, ((1, 1, 1), (0, 0, 0), (1, 1, 1)))
    return size_for(np.dtype(dtype), FORMS[form], g, kept)


def blocks(cnp.ndarray w not None) -> np.ndarray:
    """Which blocks of weights [KD, KH, KW, C, O] hold a number other than 0, bool [panels, KD * KH * KW * C]: panel p has outputs from
    WIDE * p on."""
    rows = w.reshape(-1, w.shape[w.ndim - 1]) != 0
    return np.logical_or.reduceat(rows, np.arange(0, rows.shape[1], BLOCK), axis=1).T


cdef pack_blocks(cnp.ndarray to, cnp.ndarray w):
    """`pack` as "blocks" (kernels/src/blocks.h)."""
    found, wide = blocks(w), BLOCK
    panels, rows = np.nonzero(found)
    heads, kept = len(found), len(rows)
    if to.dtype != np.float32 or w.dtype != np.float32 or to.size != size("blocks", np.shape(w), np.float32, kept):
        raise ValueError(f"packed: {kept} blocks of {np.shape(w)} do not fit {to.size} values in {to.dtype}")
    numbers = to.view(np.int32)
    numbers[:heads + 1] = np.searchsorted(panels, np.arange(heads + 1))
    numbers[heads + 1:heads + 1 + kept] = rows
    matrix = np.ascontiguousarray(w).reshape(-1, w.shape[w.ndim - 1])
    matrix = np.pad(matrix, ((0, 0), (0, heads * wide - matrix.shape[1]))) if heads * wide != matrix.shape[1] else matrix
    to[-kept * wide:].reshape(kept, wide)[...] = matrix.reshape(-1, heads, wide)[rows, panels]
    numbers[heads + 1 + kept:numbers.size - kept * wide] = 0


cdef int check_blocks(cnp.ndarray packed, const Geometry& g, int64_t kept) except -1:
    """Raise unless the numbers of rows in packed blocks are rows."""
    cdef int64_t heads = (g.o + BLOCK - 1) // BLOCK
    numbers = packed[:heads + 1 + kept].view(np.int32)
    begin, row = numbers[:heads + 1], numbers[heads + 1:]
    depth = g.kernel[0] * g.kernel[1] * g.kernel[2] * g.c
    if begin[0] != 0 or begin[heads] != kept or (np.diff(begin) < 0).any() or row.min() < 0 or row.max() >= depth:
        raise ValueError("packed: these blocks are not what `pack` makes")
    return 0


def pack(str form, cnp.ndarray to not None, cnp.ndarray w not None):
    """Bring weights into the order of a form

    to OUT [size(form, ...)], w IN [KD, KH, KW, C, O] contiguous, of one dtype
    """
    cdef Geometry g
    cdef int number
    weights_of(&g, form, np.shape(w), ((1, 1, 1), (0, 0, 0), (1, 1, 1)))
    number = FORMS[form]
    if form == "blocks":
        return pack_blocks(to, w)
    cdef int64_t expected = size_for(w.dtype, number, g, 0)
    if to.dtype != w.dtype or not w.flags.c_contiguous or not to.flags.c_contiguous or to.size != expected:
        raise ValueError(f"packed: {form} of {np.shape(w)} takes {expected} values in {w.dtype}, not {to.size} in {to.dtype}")
    cdef void* at = cnp.PyArray_DATA(to)
    cdef void* of = cnp.PyArray_DATA(w)
    cdef int kind = cnp.PyArray_TYPE(w)
    with nogil:
        launch_pack(kind, number, at, of, g)


cdef void* data_of(str label, cnp.ndarray array, int64_t size, dtype) except? NULL:
    """Where the values of an optional array are; NULL for None. Raise unless it is contiguous, of that size and dtype."""
    if array is None:
        return NULL
    if array.size != size or array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(f"packed: {label} must be a contiguous array of {size} values in {dtype}")
    return address("packed", cnp.PyArray_DATA(array))


def forward(str form, cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray packed not None, tuple kernel, cnp.ndarray bias,
            tuple stride, tuple pad, tuple dilation, *, int64_t kept=0, str activation=None, tuple parameters=(),
            cnp.ndarray residual=None):
    """y = f(x * w (+ bias) (+ residual)), w [KD, KH, KW, C, O] (its shape is `kernel`) packed in a form

    y OUT [N, D', H', W', O], x IN [N, D, H, W, C], packed IN [size(form, kernel, kept)], bias IN [O] or None, residual IN like y or None;
    all contiguous and of one dtype. f is the function `activation` of pointwise.UNARY with its parameters. `pad` is what lies before the
    input; what lies behind follows from the shape of y.
    """
    cdef Geometry g
    cdef int d
    cdef AnyEpilogue then
    weights_of(&g, form, kernel, (stride, pad, dilation))
    if x.ndim != 5 or y.ndim != 5 or x.shape[4] != g.c or y.shape[4] != g.o or x.shape[0] != y.shape[0]:
        raise ValueError(f"packed: x {np.shape(x)} with weights {kernel} does not give y {np.shape(y)}")
    g.n = x.shape[0]
    for d in range(3):
        g.inside[d], g.out[d] = x.shape[1 + d], y.shape[1 + d]
    cdef int number = FORMS[form]
    cdef void* py = data_of("y", y, y.size, x.dtype)
    cdef void* px = data_of("x", x, x.size, x.dtype)
    cdef void* pw = data_of("the weights", packed, size_for(x.dtype, number, g, kept), x.dtype)
    if form == "blocks":
        check_blocks(packed, g, kept)
    cdef void* pb = data_of("bias", bias, g.o, x.dtype)
    then.residual = data_of("residual", residual, y.size, x.dtype)
    set_activation(&then, activation, parameters)
    cdef int kind = cnp.PyArray_TYPE(x)
    if y.size == 0:
        return
    with nogil:
        launch_forward(kind, number, py, px, pw, pb, g, then)


cdef int depthwise_of(Geometry* g, tuple x, tuple y, tuple window, tuple stride, tuple pad, tuple dilation) except -1:
    """The depthwise convolution of an image like x [N, D, H, W, any], but with the channels of y [N, D', H', W', C]."""
    cdef int d
    weights_of(g, "rows", window, (stride, pad, dilation))
    g.n, g.c, g.o, g.groups = y[0], y[4], y[4], y[4]
    if len(x) != 5 or x[0] != y[0] or window[3:] != (1, y[4]):
        raise ValueError(f"packed: x {x} with a depthwise window {window} does not give y {y}")
    for d in range(3):
        g.inside[d], g.out[d] = x[1 + d], y[1 + d]
    return 0


def expands(tuple x, tuple y, tuple window, tuple stride, tuple pad, tuple dilation, dtype) -> bool:
    """Whether `expand_depthwise` takes arrays of these shapes."""
    cdef Geometry g
    depthwise_of(&g, x, y, window, stride, pad, dilation)
    if dtype == np.float32:
        return packed_table(<const float*>0).expands(x[4], g) != 0
    return dtype == bfloat16 and packed_table(<const bf16*>0).expands(x[4], g) != 0


def expand_depthwise(cnp.ndarray y not None, cnp.ndarray x not None, cnp.ndarray packed not None, cnp.ndarray bias,
                     cnp.ndarray window not None, cnp.ndarray outer, tuple stride, tuple pad, tuple dilation, *, str inner=None,
                     tuple inner_parameters=(), str activation=None, tuple parameters=()):
    """y = f(v * window (+ outer)) by channel, v = h(x @ w (+ bias)); w [I, C] packed as "rows"

    y OUT [N, D', H', W', C], x IN [N, D, H, W, I], packed IN, bias, outer IN [C] or None, window IN [KD, KH, KW, 1, C]; all contiguous and
    of one dtype, float32 or bfloat16, for which `expands` holds. h and f are the functions `inner` and `activation` of pointwise.UNARY
    with their parameters, or None. v is not rounded.
    """
    cdef Geometry g, pointwise
    cdef AnyEpilogue first, then
    if x.ndim != 5 or y.ndim != 5 or window.ndim != 5 or x.shape[4] < 1 or y.shape[4] < 1:
        raise ValueError(f"packed: x {np.shape(x)}, y {np.shape(y)} and the window {np.shape(window)} have five dimensions each")
    if not expands(np.shape(x), np.shape(y), np.shape(window), stride, pad, dilation, x.dtype):
        raise ValueError(f"packed: no form takes x {np.shape(x)} in {x.dtype} and a depthwise window {np.shape(window)}")
    depthwise_of(&g, np.shape(x), np.shape(y), np.shape(window), stride, pad, dilation)
    weights_of(&pointwise, "rows", (1, 1, 1, x.shape[4], g.c), ((1, 1, 1), (0, 0, 0), (1, 1, 1)))
    cdef int64_t inputs = x.shape[4]
    cdef void* py = data_of("y", y, y.size, x.dtype)
    cdef void* px = data_of("x", x, x.size, x.dtype)
    cdef void* pw = data_of("the weights", packed, size_for(x.dtype, 0, pointwise, 0), x.dtype)
    cdef void* pb = data_of("bias", bias, g.c, x.dtype)
    cdef void* pk = data_of("the window", window, window.size, x.dtype)
    cdef void* po = data_of("outer", outer, g.c, x.dtype)
    set_activation(&first, inner, inner_parameters)
    set_activation(&then, activation, parameters)
    cdef int kind = cnp.PyArray_TYPE(x)
    if y.size == 0:
        return
    with nogil:
        launch_expand(kind, py, px, pw, pb, inputs, first, pk, po, g, then)

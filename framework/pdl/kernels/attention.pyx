"""Attention without a matrix of scores, and dropout by position. float32, float64 and bfloat16 (computed in float32)."""

from libc.stdint cimport uint64_t

include "stored.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef struct AttentionArray:
        void* data
        int64_t[3] strides
    cdef enum:
        kRelu
        kGelu
        kGeluTanh
        kSilu
    cdef enum:
        kNoMask
        kKeepMask
        kAddMask
    cdef struct AttentionCall:
        int64_t n, heads, l, s, e, d
        AttentionArray q, k, v, y, g, dq, dk, dv, moved, places, dmoved, dplaces
        void* lse
        const void* mask
        int mask_kind
        int64_t[4] mask_strides
        bint causal, relative
        double scale, dropout
        uint64_t seed
    cdef cppclass AttentionTable:
        void* forward
        void* backward
        void* dropout
    cdef cppclass Table:
        const AttentionTable* attention[3]
    const Table& table() noexcept nogil


#: the activations that `dropout` applies on the way, by the names of `pointwise.unary`
ACTIVATIONS = {"relu": kRelu, "gelu": kGelu, "gelu_tanh": kGeluTanh, "silu": kSilu}


cdef int fill(AttentionArray* to, str label, cnp.ndarray x, cnp.ndarray like, int64_t n, int64_t heads, int64_t rows,
              int64_t columns) except -1:
    """Data and strides of x [n, heads, rows, columns], which has the dtype of `like`."""
    cdef int axis
    cdef int64_t item = x.itemsize
    if cnp.PyArray_TYPE(x) != cnp.PyArray_TYPE(like):
        raise DtypeError(f"attention: {label} is {x.dtype}, the others are {like.dtype}")
    if x.ndim != 4 or x.shape[0] != n or x.shape[1] != heads or x.shape[2] != rows or x.shape[3] != columns:
        raise ShapeError(f"attention: {label} {(<object>x).shape} is not {(n, heads, rows, columns)}")
    if (columns > 1 and x.strides[3] != item) or not cnp.PyArray_ISALIGNED(x):
        raise ShapeError(f"attention: {label} has strides {(<object>x).strides}; the values of a row must lie side by side")
    to.data = address("attention", cnp.PyArray_DATA(x))
    for axis in range(3):
        to.strides[axis] = x.strides[axis] // item
    return 0


cdef int fill_call(AttentionCall* c, cnp.ndarray lse, cnp.ndarray q, cnp.ndarray k, cnp.ndarray v, cnp.ndarray mask, double scale,
                   bint causal, double dropout, uint64_t seed) except -1:
    """What both directions share."""
    cdef int axis, wide = real_of(cnp.PyArray_TYPE(q))
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise ShapeError(f"attention: q, k and v have {q.ndim}, {k.ndim} and {v.ndim} dimensions, not 4")
    c.n, c.heads, c.l, c.e = q.shape[0], q.shape[1], q.shape[2], q.shape[3]
    c.s, c.d = k.shape[2], v.shape[3]
    fill(&c.q, "q", q, q, c.n, c.heads, c.l, c.e)
    fill(&c.k, "k", k, q, c.n, c.heads, c.s, c.e)
    fill(&c.v, "v", v, q, c.n, c.heads, c.s, c.d)
    if cnp.PyArray_TYPE(lse) != wide or not cnp.PyArray_IS_C_CONTIGUOUS(lse) or cnp.PyArray_SIZE(lse) != c.n * c.heads * c.l:
        raise ShapeError(f"attention: lse {lse.dtype} {(<object>lse).shape} is not contiguous with one number a query")
    c.lse = address("attention", cnp.PyArray_DATA(lse))
    c.scale, c.causal, c.dropout, c.seed = scale, causal, dropout, seed
    c.mask_kind, c.relative = kNoMask, False
    if mask is None:
        return 0
    if mask.ndim != 4 or mask.shape[0] != c.n or mask.shape[1] != c.heads or mask.shape[2] != c.l or mask.shape[3] != c.s:
        raise ShapeError(f"attention: mask {(<object>mask).shape} is not {(c.n, c.heads, c.l, c.s)}")
    if cnp.PyArray_TYPE(mask) != cnp.NPY_BOOL and cnp.PyArray_TYPE(mask) != cnp.PyArray_TYPE(q):
        raise DtypeError(f"attention: mask is {mask.dtype}; expected bool or {q.dtype}")
    c.mask_kind = kKeepMask if cnp.PyArray_TYPE(mask) == cnp.NPY_BOOL else kAddMask
    c.mask = address("attention", cnp.PyArray_DATA(mask))
    for axis in range(4):
        c.mask_strides[axis] = mask.strides[axis] // mask.itemsize
    return 0


cdef int fill_places(AttentionCall* c, cnp.ndarray q, cnp.ndarray moved, cnp.ndarray places) except -1:
    """What is relative, if anything is."""
    if (moved is None) != (places is None):
        raise ShapeError("attention: moved and places come together")
    if moved is not None:
        fill(&c.moved, "moved", moved, q, c.n, c.heads, c.l, c.e)
        fill(&c.places, "places", places, q, c.n, c.heads, c.l + c.s - 1, c.e)
        c.relative = True
    return 0


def attention(
    cnp.ndarray y not None,         # OUT [n, heads, l, d]
    cnp.ndarray lse not None,       # OUT [n, heads, l] contiguous; float32 for bfloat16
    cnp.ndarray q not None,         # IN  [n, heads, l, e]
    cnp.ndarray k not None,         # IN  [n, heads, s, e]
    cnp.ndarray v not None,         # IN  [n, heads, s, d]
    cnp.ndarray mask=None,          # IN  [n, heads, l, s] bool (False: kept out) or numbers that are added; or None
    cnp.ndarray moved=None,         # IN  [n, heads, l, e] or None
    cnp.ndarray places=None,        # IN  [n, heads, l + s - 1, e], with `moved`
    *,
    double scale,
    bint causal=False,
    double dropout=0.0,
    uint64_t seed=0,
):
    """y = dropout(softmax(scale q k^T + mask)) v, lse = log sum e^(scale q k^T + mask). Any strides but along a row. With
    `moved`, q_i k_j + moved_i places_(l - 1 - i + j) stands for q_i k_j."""
    cdef AttentionCall c
    cdef int kind = place_of(stored_type("attention", q))
    fill_call(&c, lse, q, k, v, mask, scale, causal, dropout, seed)
    fill(&c.y, "y", y, q, c.n, c.heads, c.l, c.d)
    fill_places(&c, q, moved, places)
    with nogil:
        launch(table().attention[kind].forward, c)


def attention_grad(
    cnp.ndarray dq not None,        # OUT [n, heads, l, e]
    cnp.ndarray dk not None,        # OUT [n, heads, s, e]
    cnp.ndarray dv not None,        # OUT [n, heads, s, d]
    cnp.ndarray g not None,         # IN  [n, heads, l, d]
    cnp.ndarray y not None,         # IN  [n, heads, l, d] as `attention` made it
    cnp.ndarray lse not None,       # IN  [n, heads, l] as `attention` made it
    cnp.ndarray q not None,         # IN  [n, heads, l, e]
    cnp.ndarray k not None,         # IN  [n, heads, s, e]
    cnp.ndarray v not None,         # IN  [n, heads, s, d]
    cnp.ndarray mask=None,          # IN  [n, heads, l, s] as in `attention`
    cnp.ndarray moved=None,         # IN  [n, heads, l, e] as in `attention`; not of bfloat16
    cnp.ndarray places=None,        # IN  [n, heads, l + s - 1, e]
    cnp.ndarray dmoved=None,        # OUT [n, heads, l, e], with `moved`
    cnp.ndarray dplaces=None,       # OUT [n, heads, l + s - 1, e], with `moved`
    *,
    double scale,
    bint causal=False,
    double dropout=0.0,
    uint64_t seed=0,
):
    """Gradients of q, k and v, and of moved and places, for the gradient g of y. Any strides but along a row; the outputs must not
    overlap."""
    cdef AttentionCall c
    cdef int kind = place_of(stored_type("attention", q))
    fill_call(&c, lse, q, k, v, mask, scale, causal, dropout, seed)
    fill(&c.y, "y", y, q, c.n, c.heads, c.l, c.d)
    fill(&c.g, "g", g, q, c.n, c.heads, c.l, c.d)
    fill(&c.dq, "dq", dq, q, c.n, c.heads, c.l, c.e)
    fill(&c.dk, "dk", dk, q, c.n, c.heads, c.s, c.e)
    fill(&c.dv, "dv", dv, q, c.n, c.heads, c.s, c.d)
    fill_places(&c, q, moved, places)
    if c.relative:
        if q.dtype.char not in "fd" or dmoved is None or dplaces is None:
            raise DtypeError(f"attention: gradients of places are float32 or float64, not {q.dtype}, and have arrays")
        fill(&c.dmoved, "dmoved", dmoved, q, c.n, c.heads, c.l, c.e)
        fill(&c.dplaces, "dplaces", dplaces, q, c.n, c.heads, c.l + c.s - 1, c.e)
    with nogil:
        launch(table().attention[kind].backward, c)


cdef void* plain(str label, cnp.ndarray x, cnp.ndarray like) except NULL:
    """The memory of a contiguous array like another."""
    if cnp.PyArray_TYPE(x) != cnp.PyArray_TYPE(like) or cnp.PyArray_SIZE(x) != cnp.PyArray_SIZE(like):
        raise ShapeError(f"dropout: {label} {x.dtype} {(<object>x).shape} is not like x {like.dtype} {(<object>like).shape}")
    if not cnp.PyArray_IS_C_CONTIGUOUS(x):
        raise ShapeError(f"dropout: {label} {(<object>x).shape} with strides {(<object>x).strides} is not contiguous")
    return address("dropout", cnp.PyArray_DATA(x))


def dropout(
    cnp.ndarray y not None,         # OUT [..., columns]
    cnp.ndarray x not None,         # IN  [..., columns]
    double p,
    uint64_t seed,
    str activation=None,            # one of ACTIVATIONS, f; else f(x) = x
    cnp.ndarray ref=None,           # IN  [..., columns] or None
):
    """y = f(x) times 0 (with probability p) or 1 / (1 - p), drawn by seed, row and column; with `ref` the gradient,
    y = x f'(ref) times that."""
    cdef int64_t n = cnp.PyArray_SIZE(x), columns = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1) if cnp.PyArray_NDIM(x) else 1
    cdef int kind = place_of(stored_type("dropout", x)), name = -1 if activation is None else ACTIVATIONS[activation]
    cdef void* to = plain("y", y, x)
    cdef void* source = plain("x", x, x)
    cdef void* beside = NULL if ref is None else plain("ref", ref, x)
    if n == 0:
        return
    with nogil:
        launch(table().attention[kind].dropout, to, source, beside, name, n // columns, columns, p, seed)

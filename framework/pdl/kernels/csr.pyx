"""Sparse matrices by rows: products with dense ones, dot products and softmax at the nonzeros, maxima.

A pattern is given by its starts `indptr` [rows + 1], the columns of its nonzeros `indices` [E], and where their values stand, `edges`
[E], or None: in the same order. Dense matrices are [rows, heads * channels], values [E, heads].
"""

from libc.stdint cimport int32_t

include "launch.pxi"

from pdl.errors import ShapeError

cnp.import_array()

ctypedef fused real:
    float
    double

cdef extern from "table.h" namespace "pdl":
    cdef struct CsrPattern:
        const int64_t* indptr
        const int32_t* indices
        const int32_t* edges
        int64_t rows, columns, nonzeros
    cdef cppclass CsrTable[T]:
        void* spmm
        void* spmm_scattered
        void* sddmm
        void* edge_softmax
        void* edge_softmax_grad
        void* extremum
        void* extremum_grad_x
        void* extremum_grad_value
        void* inverse_sizes
    CsrTable[T]* csr_table[T](const T* any) noexcept nogil


cdef CsrPattern pattern_of(
    str name, const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] edges, int64_t columns
) except *:
    """The pattern whose matrix has so many columns."""
    cdef CsrPattern p
    if indptr.shape[0] < 1 or indices.shape[0] >= <int64_t>1 << 31 or (edges is not None and edges.shape[0] != indices.shape[0]):
        raise ShapeError(f"{name}: {indptr.shape[0]} starts, {indices.shape[0]} nonzeros and "
                         f"{0 if edges is None else edges.shape[0]} places of values make no pattern")
    p.rows, p.columns, p.nonzeros = indptr.shape[0] - 1, columns, indices.shape[0]
    p.indptr = <const int64_t*>address(name, &indptr[0])
    p.indices = <const int32_t*>address(name, &indices[0] if p.nonzeros else NULL)
    p.edges = <const int32_t*>address(name, &edges[0] if edges is not None and p.nonzeros else NULL)
    return p


cdef real* matrix(str name, str label, const real[:, ::1] x, int64_t rows, int64_t columns) except? NULL:
    """What lies in x [rows, columns]; NULL where that is nothing, or x None. Raise where x has another shape."""
    if x is not None and (x.shape[0] != rows or x.shape[1] != columns):
        raise ShapeError(f"{name}: {label} {(<object>x).shape[:2]} must be {(rows, columns)}")
    if x is None or rows == 0 or columns == 0:
        return NULL
    return <real*>address(name, &x[0, 0])


cdef int32_t* winners(str name, const int32_t[:, ::1] winner, int64_t rows, int64_t columns) except? NULL:
    """`matrix` of the winners."""
    if winner.shape[0] != rows or winner.shape[1] != columns:
        raise ShapeError(f"{name}: winner {(<object>winner).shape[:2]} must be {(rows, columns)}")
    if rows == 0 or columns == 0:
        return NULL
    return <int32_t*>address(name, &winner[0, 0])


cdef int64_t split(str name, int64_t width, int64_t heads) except -1:
    """Channels of each head."""
    if heads < 1 or width % heads:
        raise ShapeError(f"{name}: {heads} heads do not divide the {width} numbers of a row")
    return width // heads


cdef int answer(str name, int64_t code, CsrPattern p) except -1:
    """Raise what a kernel has to say about the pattern."""
    cdef int64_t at
    if code == 0:
        return 0
    if code <= p.rows + 1:
        raise ShapeError(f"{name}: start {code - 1} of the rows is {p.indptr[code - 1]}; starts must rise from 0 to {p.nonzeros}, the "
                         "number of nonzeros")
    at = code - p.rows - 2
    if p.edges != NULL and (p.edges[at] < 0 or p.edges[at] >= p.nonzeros):
        raise ShapeError(f"{name}: the value of nonzero {at} stands at {p.edges[at]}, outside the {p.nonzeros} values")
    raise ShapeError(f"{name}: nonzero {at} is in column {p.indices[at]}, outside the {p.columns} columns")


def spmm(
    real[:, ::1] y not None,            # OUT [rows, width]
    const real[:, ::1] x not None,      # IN  [columns, width]
    const real[:, ::1] value,           # IN  [E, heads] or None
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    const int32_t[::1] edges,
    *,
    int64_t heads=1,
    str name="spmm",                    # who calls, for errors
):
    """y[i, h] = sum over the nonzeros e of row i of value[edges[e], h] x[indices[e], h]."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, edges, x.shape[0])
    cdef int64_t code, channels = split(name, y.shape[1], heads)
    cdef real* to = matrix(name, "y", y, p.rows, x.shape[1])
    cdef const real* source = matrix(name, "x", x, p.columns, x.shape[1])
    cdef const real* values = matrix(name, "value", value, p.nonzeros, heads)
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).spmm, to, source, values, p, heads, channels)
    answer(name, code, p)


def spmm_scattered(
    real[:, ::1] y not None,            # OUT [columns, width]
    const real[:, ::1] x not None,      # IN  [rows, width]
    const real[:, ::1] value,           # IN  [E, 1] or None
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    *,
    str name="spmm",
):
    """y[j] = sum over the nonzeros e of column j of value[e] x[row of e]: for y that is small beside the nonzeros."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, y.shape[0])
    cdef int64_t code, width = y.shape[1]
    cdef real* to = matrix(name, "y", y, p.columns, width)
    cdef const real* source = matrix(name, "x", x, p.rows, width)
    cdef const real* values = matrix(name, "value", value, p.nonzeros, 1)
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).spmm_scattered, to, source, values, p, width)
    answer(name, code, p)


def sddmm(
    real[:, ::1] y not None,            # OUT [E, heads]
    const real[:, ::1] q not None,      # IN  [rows, width]
    const real[:, ::1] k not None,      # IN  [columns, width]
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    *,
    int64_t heads=1,
    str name="sddmm",
):
    """y[e, h] = <q[row of e, h], k[indices[e], h]>."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, k.shape[0])
    cdef int64_t code, channels = split(name, k.shape[1], heads)
    cdef real* to = matrix(name, "y", y, p.nonzeros, heads)
    cdef const real* left = matrix(name, "q", q, p.rows, k.shape[1])
    cdef const real* right = matrix(name, "k", k, p.columns, k.shape[1])
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).sddmm, to, left, right, p, heads, channels)
    answer(name, code, p)


def edge_softmax(
    real[:, ::1] y not None,            # OUT [E, heads]
    const real[:, ::1] x not None,      # IN  [E, heads]
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    *,
    str name="edge_softmax",
):
    """Softmax over the nonzeros of each row, for each head."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, 0)
    cdef int64_t code, heads = y.shape[1]
    cdef real* to = matrix(name, "y", y, p.nonzeros, heads)
    cdef const real* source = matrix(name, "score", x, p.nonzeros, heads)
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).edge_softmax, to, source, p, heads)
    answer(name, code, p)


def edge_softmax_grad(
    real[:, ::1] dx not None,           # OUT [E, heads]
    const real[:, ::1] g not None,      # IN  [E, heads]
    const real[:, ::1] y not None,      # IN  [E, heads] the softmax
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    *,
    str name="edge_softmax",
):
    """dx = y (g - sum of y g over the row)."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, 0)
    cdef int64_t code, heads = dx.shape[1]
    cdef real* to = matrix(name, "dx", dx, p.nonzeros, heads)
    cdef const real* source = matrix(name, "g", g, p.nonzeros, heads)
    cdef const real* made = matrix(name, "y", y, p.nonzeros, heads)
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).edge_softmax_grad, to, source, made, p, heads)
    answer(name, code, p)


def extremum(
    real[:, ::1] y not None,            # OUT [rows, width], 0 in empty rows
    int32_t[:, ::1] winner not None,    # OUT [rows, width] the nonzero that attains it (the first of equals), -1 in empty rows
    const real[:, ::1] x not None,      # IN  [columns, width]
    const real[:, ::1] value,           # IN  [E, heads] or None
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    bint largest,                       # maximum, else minimum
    *,
    int64_t heads=1,
    str name="spmm",
):
    """y[i, h] = max or min over the nonzeros e of row i of value[e, h] x[indices[e], h]."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, x.shape[0])
    cdef int64_t code, channels = split(name, y.shape[1], heads)
    cdef real* to = matrix(name, "y", y, p.rows, x.shape[1])
    cdef int32_t* who = winners(name, winner, p.rows, x.shape[1])
    cdef const real* source = matrix(name, "x", x, p.columns, x.shape[1])
    cdef const real* values = matrix(name, "value", value, p.nonzeros, heads)
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).extremum, to, who, source, values, p, heads, channels, <real>(1 if largest else -1))
    answer(name, code, p)


def extremum_grad_x(
    real[:, ::1] dx not None,               # OUT [columns, width]
    const real[:, ::1] g not None,          # IN  [rows, width]
    const int32_t[:, ::1] winner not None,  # IN  [rows, width]
    const real[:, ::1] value,               # IN  [E, heads] or None
    const int64_t[::1] indptr not None,     # the transposed pattern
    const int32_t[::1] indices not None,
    const int32_t[::1] edges not None,
    *,
    int64_t heads=1,
    str name="spmm",
):
    """dx[j] = sum of value[e] g[row of e] over the nonzeros e of column j, where e is the winner."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, edges, g.shape[0])
    cdef int64_t code, channels = split(name, dx.shape[1], heads)
    cdef real* to = matrix(name, "dx", dx, p.rows, g.shape[1])
    cdef const real* source = matrix(name, "g", g, p.columns, g.shape[1])
    cdef const int32_t* who = winners(name, winner, p.columns, g.shape[1])
    cdef const real* values = matrix(name, "value", value, p.nonzeros, heads)
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).extremum_grad_x, to, source, who, values, p, heads, channels)
    answer(name, code, p)


def extremum_grad_value(
    real[:, ::1] dvalue not None,           # OUT [E, heads]
    const real[:, ::1] g not None,          # IN  [rows, width]
    const int32_t[:, ::1] winner not None,  # IN  [rows, width]
    const real[:, ::1] x not None,          # IN  [columns, width]
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    *,
    int64_t heads=1,
    str name="spmm",
):
    """dvalue[e, h] = sum of g[row of e] x[indices[e]] over the channels of head h where e is the winner."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, x.shape[0])
    cdef int64_t code, channels = split(name, x.shape[1], heads)
    cdef real* to = matrix(name, "dvalue", dvalue, p.nonzeros, heads)
    cdef const real* source = matrix(name, "g", g, p.rows, x.shape[1])
    cdef const real* other = matrix(name, "x", x, p.columns, x.shape[1])
    cdef const int32_t* who = winners(name, winner, p.rows, x.shape[1])
    if to == NULL:
        return
    with nogil:
        code = launch(csr_table(to).extremum_grad_value, to, source, who, other, p, heads, channels)
    answer(name, code, p)


def inverse_sizes(
    real[::1] y not None,               # OUT [rows]
    const int64_t[::1] indptr not None,
    const int32_t[::1] indices not None,
    *,
    str name="spmm",
):
    """1 / the number of nonzeros of each row; 1 for an empty one."""
    cdef CsrPattern p = pattern_of(name, indptr, indices, None, 0)
    cdef int64_t code
    if y.shape[0] != p.rows:
        raise ShapeError(f"{name}: y {(<object>y).shape[:1]} must be {(p.rows,)}")
    if p.rows == 0:
        return
    address(name, &y[0])
    with nogil:
        code = launch(csr_table(&y[0]).inverse_sizes, &y[0], p)
    answer(name, code, p)

"""Gathers, scatters and reductions of rows [R, C], and sparse mixtures of rows."""

from libc.stdint cimport int32_t, int64_t

cimport numpy as cnp

from pdl.errors import ShapeError

cnp.import_array()

ctypedef fused real:
    float
    double

cdef extern from "table.h" namespace "pdl":
    cdef cppclass RowsTable[T]:
        void take(char* out, const char* table, const int64_t* index, int64_t n, int64_t bytes) noexcept nogil
        void add(T* table, const int64_t* index, const T* g, int64_t rows, int64_t n, int64_t columns) noexcept nogil
        void extremum(T* y, int32_t* winner, const T* x, const int64_t* index, int64_t rows, int64_t n, int64_t columns,
                      T sign) noexcept nogil
        void mix(T* y, const T* x, const int64_t* start, const int64_t* source, const double* weight, int64_t outer,
                 int64_t out, int64_t inside, int64_t inner) noexcept nogil
        void combine(int64_t* rows, T* values, const int64_t* index, const T* g, int64_t n, int64_t columns) noexcept nogil
    RowsTable[T]* rows_table[T](const T* any) noexcept nogil


cdef int check(str name, const int64_t[::1] index, int64_t rows, bint drop) except -1:
    """Raise `ShapeError` at the first index outside [0, rows); with `drop` negative ones are allowed."""
    cdef int64_t i, low = -(<int64_t>1 << 62) if drop else 0
    for i in range(index.shape[0]):
        if index[i] < low or index[i] >= rows:
            raise ShapeError(f"{name}: index {index[i]} at flat position {i} is outside the {rows} rows")
    return 0


def take(
    cnp.ndarray out not None,       # OUT [n, ...] contiguous, any dtype
    cnp.ndarray table not None,     # IN  [rows, ...] contiguous, the same dtype
    const int64_t[::1] index,       # IN  [n] in [0, rows)
    *,
    bint drop=False,                # a negative index gives a row of zeros instead of an error
    str name="take",                # who calls, for errors
):
    """out[i] = table[index[i]]."""
    cdef int64_t n = index.shape[0], rows = table.shape[0], bytes_
    if out.shape[0] != n or (<object>out).shape[1:] != (<object>table).shape[1:] or out.dtype != table.dtype:
        raise ShapeError(f"{name}: out {out.dtype} {(<object>out).shape} does not fit {n} rows of {table.dtype} "
                         f"{(<object>table).shape}")
    if not (cnp.PyArray_IS_C_CONTIGUOUS(out) and cnp.PyArray_IS_C_CONTIGUOUS(table)):
        raise ShapeError(f"{name}: out and table must be contiguous")
    check(name, index, rows, drop)
    if out.size == 0:
        return
    bytes_ = out.nbytes // n
    cdef char* to = <char*>cnp.PyArray_DATA(out)
    cdef const char* source = <const char*>cnp.PyArray_DATA(table)
    with nogil:
        rows_table(<const float*>NULL).take(to, source, &index[0], n, bytes_)


def add(
    real[:, ::1] table,         # IN/OUT [rows, C]
    const int64_t[::1] index,   # IN     [n] in [0, rows)
    const real[:, ::1] g,       # IN     [n, C]
    *,
    bint drop=False,            # a negative index adds nothing instead of raising
    str name="add",             # who calls, for errors
):
    """table[index[i]] += g[i] in the order of i, whatever the number of threads."""
    if g.shape[0] != index.shape[0] or g.shape[1] != table.shape[1]:
        raise ShapeError(f"{name}: g {(<object>g).shape} does not fit {index.shape[0]} rows of table "
                         f"{(<object>table).shape}")
    check(name, index, table.shape[0], drop)
    if g.shape[0] and g.shape[1]:
        with nogil:
            rows_table(&table[0, 0]).add(&table[0, 0], &index[0], &g[0, 0], table.shape[0], g.shape[0], g.shape[1])


def extremum(
    real[:, ::1] y,             # OUT [rows, C], 0 in rows without members
    int32_t[:, ::1] winner,     # OUT [rows, C] the member that attains it (the first of equals), -1 without members
    const real[:, ::1] x,       # IN  [n, C]
    const int64_t[::1] index,   # IN  [n] below rows; negative ones belong to no row
    bint largest,               # maximum, else minimum
    *,
    str name="extremum",        # who calls, for errors
):
    """y[r] = max or min of the x[i] with index[i] = r."""
    cdef const real* source = NULL
    cdef const int64_t* at = NULL
    if x.shape[0] != index.shape[0] or x.shape[1] != y.shape[1] or \
            y.shape[0] != winner.shape[0] or y.shape[1] != winner.shape[1]:
        raise ShapeError(f"{name}: x {(<object>x).shape} does not fit {index.shape[0]} rows of y {(<object>y).shape}")
    check(name, index, y.shape[0], True)
    if x.shape[0] and x.shape[1]:
        source, at = &x[0, 0], &index[0]
    if y.shape[0] and y.shape[1]:
        with nogil:
            rows_table(&y[0, 0]).extremum(&y[0, 0], &winner[0, 0], source, at, y.shape[0], x.shape[0], y.shape[1],
                                          <real>(1 if largest else -1))


def mix(
    real[:, :, ::1] y,              # OUT [outer, O, inner]
    const real[:, :, ::1] x,        # IN  [outer, I, inner]
    const int64_t[::1] start,       # IN  [O + 1] where each output row's terms begin
    const int64_t[::1] source,      # IN  [terms] rows of x
    const double[::1] weight,       # IN  [terms]
):
    """y[a, o] = sum of weight[k] x[a, source[k]], k in [start[o], start[o + 1]): a sparse matrix on the middle axis."""
    if y.shape[0] != x.shape[0] or y.shape[2] != x.shape[2] or start.shape[0] != y.shape[1] + 1 or \
            source.shape[0] != weight.shape[0] or start[start.shape[0] - 1] > source.shape[0]:
        raise ShapeError(f"mix: y {(<object>y).shape}, x {(<object>x).shape}, {start.shape[0]} starts do not fit")
    check("mix", source, x.shape[1], False)
    if y.shape[0] and y.shape[1] and y.shape[2]:
        with nogil:
            rows_table(&y[0, 0, 0]).mix(&y[0, 0, 0], &x[0, 0, 0], &start[0], &source[0], &weight[0], y.shape[0],
                                        y.shape[1], x.shape[1], y.shape[2])


def combine(
    int64_t[::1] rows,          # OUT [n] the rows that index names, each once and in order; -1 behind them
    real[:, ::1] values,        # OUT [n, C] the sums of their g, zeros behind them
    const int64_t[::1] index,   # IN  [n] negative ones name no row
    const real[:, ::1] g,       # IN  [n, C]
):
    """values[k] = sum of the g[i] with index[i] = rows[k], in the order of i, whatever the number of threads."""
    cdef int64_t n = index.shape[0]
    if rows.shape[0] != n or values.shape[0] != n or g.shape[0] != n or g.shape[1] != values.shape[1]:
        raise ShapeError(f"combine: rows {(<object>rows).shape} and values {(<object>values).shape} do not fit index "
                         f"{(<object>index).shape} and g {(<object>g).shape}")
    if n and g.shape[1]:
        with nogil:
            rows_table(&g[0, 0]).combine(&rows[0], &values[0, 0], &index[0], &g[0, 0], n, g.shape[1])

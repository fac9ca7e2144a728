"""Gathers, scatters and reductions of rows [R, C], and sparse mixtures of rows."""

from libc.stdint cimport int32_t

include "launch.pxi"

from pdl.errors import ShapeError

cnp.import_array()

ctypedef fused real:
    float
    double

cdef extern from "bounds.h" namespace "pdl":
    void* first_outside "&pdl::first_outside"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass RowsTable[T]:
        void* take
        void* add
        void* extremum
        void* mix
        void* combine
    RowsTable[T]* rows_table[T](const T* any) noexcept nogil


cdef int check(str name, const int64_t[::1] index, int64_t rows, bint drop) except -1:
    """Raise `ShapeError` at the first index outside [0, rows); with `drop` negative ones are allowed."""
    cdef int64_t n = index.shape[0], low = -(<int64_t>1 << 62) if drop else 0
    if n == 0:
        return 0
    cdef const int64_t* at = <const int64_t*>address(name, &index[0])
    cdef int64_t bad = launch(first_outside, at, n, low, rows)
    if bad:
        raise ShapeError(f"{name}: index {at[bad - 1]} at flat position {bad - 1} is outside the {rows} rows")
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
    cdef char* to = <char*>address(name, cnp.PyArray_DATA(out))
    cdef const char* source = <const char*>address(name, cnp.PyArray_DATA(table))
    with nogil:
        launch(rows_table(<const float*>NULL).take, to, source, &index[0], n, bytes_)


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
        address(name, &table[0, 0])
        address(name, &g[0, 0])
        with nogil:
            launch(rows_table(&table[0, 0]).add, &table[0, 0], &index[0], &g[0, 0], table.shape[0], g.shape[0], g.shape[1])


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
        address(name, source)
    if y.shape[0] and y.shape[1]:
        address(name, &y[0, 0])
        address(name, &winner[0, 0])
        with nogil:
            launch(rows_table(&y[0, 0]).extremum, &y[0, 0], &winner[0, 0], source, at, y.shape[0], x.shape[0], y.shape[1],
                   <real>(1 if largest else -1))


def mix(
    real[:, :, ::1] y,              # OUT [outer, O, inner]
    const real[:, :, ::1] x,        # IN  [outer, I, inner]
    const int64_t[::1] start,       # IN  [O + 1] where each output row's terms begin; this and the next two never change
    const int64_t[::1] source,      # IN  [terms] rows of x
    const double[::1] weight,       # IN  [terms]
):
    """y[a, o] = sum of weight[k] x[a, source[k]], k in [start[o], start[o + 1]): a sparse matrix on the middle axis."""
    if y.shape[0] != x.shape[0] or y.shape[2] != x.shape[2] or start.shape[0] != y.shape[1] + 1 or \
            source.shape[0] != weight.shape[0] or start[start.shape[0] - 1] > source.shape[0]:
        raise ShapeError(f"mix: y {(<object>y).shape}, x {(<object>x).shape}, {start.shape[0]} starts do not fit")
    keep((<object>start).base)
    keep((<object>source).base)
    keep((<object>weight).base)
    check("mix", source, x.shape[1], False)
    if y.shape[0] and y.shape[1] and y.shape[2]:
        address("mix", &y[0, 0, 0])
        address("mix", &x[0, 0, 0])
        with nogil:
            launch(rows_table(&y[0, 0, 0]).mix, &y[0, 0, 0], &x[0, 0, 0], &start[0], &source[0], &weight[0], y.shape[0], y.shape[1],
                   x.shape[1], y.shape[2])


def combine(
    int64_t[::1] rows,          # OUT [n] the rows that index names, each once and in order; -1 behind them
    real[:, ::1] values,        # OUT [n, C] the sums of their g, zeros behind them
    const int64_t[::1] index,   # IN  [n] negative ones name no row
    const real[:, ::1] g,       # IN  [n, C]
    *,
    int64_t left_out=-1,        # a row that counts as none
):
    """values[k] = sum of the g[i] with index[i] = rows[k], in the order of i, whatever the number of threads."""
    cdef int64_t n = index.shape[0]
    if rows.shape[0] != n or values.shape[0] != n or g.shape[0] != n or g.shape[1] != values.shape[1]:
        raise ShapeError(f"combine: rows {(<object>rows).shape} and values {(<object>values).shape} do not fit index "
                         f"{(<object>index).shape} and g {(<object>g).shape}")
    if n and g.shape[1]:
        address("combine", &rows[0])
        address("combine", &values[0, 0])
        address("combine", &index[0])
        address("combine", &g[0, 0])
        with nogil:
            launch(rows_table(&g[0, 0]).combine, &rows[0], &values[0, 0], &index[0], &g[0, 0], n, g.shape[1],
                   left_out)

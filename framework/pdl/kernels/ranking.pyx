"""Places of scores among scores: counts above a target, the k highest of a row, the k highest products with a table."""

from pdl.kernels.launch import now

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass RankingTable[T]:
        void* count
        void* top
        void* products
    RankingTable[T]* ranking_table[T](const T* any) noexcept nogil


cdef int check_first(str name, int64_t first, int64_t columns) except -1:
    if first < 0 or first > columns:
        raise ShapeError(f"{name}: first={first} is outside [0, {columns}], the {columns} columns")
    return 0


cdef int check_excluded(str name, const int64_t[::1] start, const int64_t[::1] excluded, int64_t rows, int64_t columns) except -1:
    """Raise `ShapeError` unless the lists are one for each row, in ascending order, of columns that exist."""
    cdef int64_t r, i, before
    now("ranking: lists are checked")
    if (start is None) != (excluded is None):
        raise ShapeError(f"{name}: start and excluded come together")
    if start is None:
        return 0
    if start.shape[0] != rows + 1 or start[0] != 0 or start[rows] != excluded.shape[0]:
        raise ShapeError(f"{name}: {start.shape[0]} starts and {excluded.shape[0]} excluded columns are not {rows} lists")
    for r in range(rows):
        if start[r + 1] < start[r] or start[r + 1] > excluded.shape[0]:
            raise ShapeError(f"{name}: list {r} begins at {start[r]} and ends at {start[r + 1]}")
        before = -1
        for i in range(start[r], start[r + 1]):
            if excluded[i] <= before or excluded[i] >= columns:
                raise ShapeError(f"{name}: column {excluded[i]} in list {r} stands behind {before}; lists are in ascending order, each "
                                 f"column once, of [0, {columns})")
            before = excluded[i]
    return 0


cdef inline const int64_t* begin_of(const int64_t[::1] array) noexcept:
    if array is None or array.shape[0] == 0:
        return NULL
    return &array[0]


def count(
    int64_t[::1] above not None,            # OUT [N] how many ranked columns score more than the target
    int64_t[::1] equal not None,            # OUT [N] others that score the same
    const real[:, ::1] scores not None,     # IN  [N, C]
    const int64_t[::1] targets not None,    # IN  [N] in [0, C)
    *,
    int64_t first=1,                        # columns below are not ranked
    const int64_t[::1] start=None,          # IN  [N + 1] and
    const int64_t[::1] excluded=None,       # IN  [E]: row i does not rank excluded[start[i]:start[i + 1]], in ascending order
):
    """Where a target stands among the ranked columns of its row.

    NaN is below every number. A target that is not ranked, or whose own score is NaN or -infinity, has -1 above it.
    """
    cdef int64_t rows = scores.shape[0], columns = scores.shape[1], i
    if above.shape[0] != rows or equal.shape[0] != rows or targets.shape[0] != rows:
        raise ShapeError(f"ranks: {above.shape[0]}, {equal.shape[0]} outputs and {targets.shape[0]} targets do not fit {rows} rows")
    check_first("ranks", first, columns)
    check_excluded("ranks", start, excluded, rows, columns)
    for i in range(rows):
        if targets[i] < 0 or targets[i] >= columns:
            raise ShapeError(f"ranks: target {targets[i]} of row {i} is outside the {columns} columns")
    if rows == 0:
        return
    cdef const int64_t* starts = begin_of(start)
    cdef const int64_t* columns_out = begin_of(excluded)
    with nogil:
        launch(ranking_table(&scores[0, 0]).count, &above[0], &equal[0], &scores[0, 0], &targets[0], rows, columns, first,
               starts, columns_out)


cdef int64_t check_top(str name, real[:, ::1] values, int64_t[:, ::1] indices, int64_t rows) except -1:
    if values.shape[0] != rows or indices.shape[0] != rows or indices.shape[1] != values.shape[1]:
        raise ShapeError(f"{name}: values {(<object>values).shape} and indices {(<object>indices).shape} do not fit {rows} rows")
    return values.shape[1]


def top(
    real[:, ::1] values not None,           # OUT [N, k] best first
    int64_t[:, ::1] indices not None,       # OUT [N, k] their columns, of equal scores the lower first
    const real[:, ::1] scores not None,     # IN  [N, C]
    *,
    int64_t first=1,                        # columns below are not ranked
    const int64_t[::1] start=None,          # IN  as in `count`
    const int64_t[::1] excluded=None,
):
    """The k highest ranked scores above -infinity; where a row has fewer, -infinity and the column first - 1."""
    cdef int64_t rows = scores.shape[0], columns = scores.shape[1], k
    k = check_top[real]("top_k", values, indices, rows)
    check_first("top_k", first, columns)
    check_excluded("top_k", start, excluded, rows, columns)
    if rows == 0 or k == 0:
        return
    cdef const real* data = NULL
    cdef const int64_t* starts = begin_of(start)
    cdef const int64_t* columns_out = begin_of(excluded)
    if columns:
        data = &scores[0, 0]
    with nogil:
        launch(ranking_table(&values[0, 0]).top, &values[0, 0], &indices[0, 0], data, rows, columns, k, first,
               starts, columns_out)


def products(
    real[:, ::1] values not None,           # OUT [N, k] best first
    int64_t[:, ::1] indices not None,       # OUT [N, k] their rows of the table
    const real[:, ::1] queries not None,    # IN  [N, C]
    const real[:, ::1] table not None,      # IN  [M, C]
    const real[::1] bias=None,              # IN  [M] or None
    *,
    int64_t first=1,                        # rows of the table below are not ranked
    const int64_t[::1] start=None,          # IN  as in `count`
    const int64_t[::1] excluded=None,
):
    """`top` of queries @ table^T + bias, without that matrix."""
    cdef int64_t rows = queries.shape[0], inputs = queries.shape[1], columns = table.shape[0], k
    k = check_top[real]("top_products", values, indices, rows)
    if table.shape[1] != inputs or inputs == 0 or (bias is not None and bias.shape[0] != columns):
        raise ShapeError(f"top_products: queries {(<object>queries).shape}, table {(<object>table).shape} and "
                         f"{0 if bias is None else bias.shape[0]} biases do not fit")
    check_first("top_products", first, columns)
    check_excluded("top_products", start, excluded, rows, columns)
    if rows == 0 or k == 0:
        return
    cdef const real* data = NULL
    cdef const real* bias_data = NULL
    cdef const int64_t* starts = begin_of(start)
    cdef const int64_t* columns_out = begin_of(excluded)
    if columns:
        data = &table[0, 0]
    if columns and bias is not None:
        bias_data = &bias[0]
    with nogil:
        launch(ranking_table(&values[0, 0]).products, &values[0, 0], &indices[0, 0], &queries[0, 0], data, bias_data, rows, inputs,
               columns, k, first, starts, columns_out)

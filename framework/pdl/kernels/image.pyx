"""Pictures of bytes: resizing as OpenCV does it, and tables of 256 values. What they need in tables, the caller makes."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pdl.errors import ShapeError

cdef extern from "table.h" namespace "pdl":
    cdef cppclass ImageTable:
        void area(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t width, const int32_t* row_start,
                  const int32_t* row_source, const float* row_weight, const int32_t* column_start,
                  const int32_t* column_source, const float* column_weight, float scale, bint half_up) except + nogil
        void linear(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t width, const int32_t* rows,
                    const int32_t* columns) except + nogil
        void lookup(float* y, const uint8_t* x, const float* table, int64_t n, int64_t c) noexcept nogil
    cdef cppclass Table:
        const ImageTable* image
    const Table& table() noexcept nogil


cdef int check_terms(str axis, const int32_t[::1] start, const int32_t[::1] source, const float[::1] weight, int64_t out,
                     int64_t size) except -1:
    """Raise `ShapeError` unless the terms belong to `out` cells and name sources in [0, size)."""
    cdef int64_t i
    cdef int32_t last = 0
    if start.shape[0] != out + 1 or source.shape[0] != weight.shape[0]:
        raise ShapeError(f"area: {start.shape[0]} starts and {source.shape[0]} terms do not fit {out} {axis}")
    for i in range(start.shape[0]):
        if start[i] < last or start[i] > source.shape[0]:
            raise ShapeError(f"area: the terms of {axis} begin at {start[i]}, of {source.shape[0]}")
        last = start[i]
    for i in range(source.shape[0]):
        if source[i] < 0 or source[i] >= size:
            raise ShapeError(f"area: source {source[i]} is outside the {size} {axis}")
    return 0


def area(
    uint8_t[:, :, ::1] y,               # OUT [h, w, C]
    const uint8_t[:, :, ::1] x,         # IN  [H, W, C]
    const int32_t[::1] row_start,       # IN  [h + 1] where the terms of each output row begin
    const int32_t[::1] row_source,      # IN  [terms] rows of x
    const float[::1] row_weight,        # IN  [terms]
    const int32_t[::1] column_start,    # IN  [w + 1]
    const int32_t[::1] column_source,   # IN  [terms] columns of x
    const float[::1] column_weight,     # IN  [terms]
    float scale=1.0,
    bint half_up=False,                 # round halves up, else to even
):
    """y[i, j] = round(scale * sum over the terms of row i and column j of both weights * x[row, column])."""
    check_terms("rows", row_start, row_source, row_weight, y.shape[0], x.shape[0])
    check_terms("columns", column_start, column_source, column_weight, y.shape[1], x.shape[1])
    if y.shape[2] != x.shape[2]:
        raise ShapeError(f"area: y has {y.shape[2]} channels, x has {x.shape[2]}")
    if y.size == 0 or row_source.shape[0] == 0 or column_source.shape[0] == 0:
        raise ShapeError("area: an empty picture")
    with nogil:
        table().image.area(&y[0, 0, 0], &x[0, 0, 0], y.shape[0], y.shape[1], y.shape[2], x.shape[1], &row_start[0],
                           &row_source[0], &row_weight[0], &column_start[0], &column_source[0], &column_weight[0],
                           scale, half_up)


cdef int check_between(str axis, const int32_t[:, ::1] cells, int64_t out, int64_t size) except -1:
    cdef int64_t i
    if cells.shape[0] != 4 or cells.shape[1] != out:
        raise ShapeError(f"linear: {axis} {(<object>cells).shape} does not fit {out} outputs")
    for i in range(out):
        if not 0 <= cells[0, i] < size or not 0 <= cells[1, i] < size:
            raise ShapeError(f"linear: cells {cells[0, i]} and {cells[1, i]} are not both inside the {size} {axis}")
        if not 0 <= cells[2, i] <= 2048 or not 0 <= cells[3, i] <= 2048:
            raise ShapeError(f"linear: weights {cells[2, i]} and {cells[3, i]} of {axis} are not 0 to 2048")
    return 0


def linear(
    uint8_t[:, :, ::1] y,           # OUT [h, w, C]
    const uint8_t[:, :, ::1] x,     # IN  [H, W, C]
    const int32_t[:, ::1] rows,     # IN  [4, h] the two rows beside each output row, and their weights of 11 bits
    const int32_t[:, ::1] columns,  # IN  [4, w] the same for columns
):
    """y[i, j] between the four pixels of row i and column j, in integers, rounded as OpenCV rounds."""
    check_between("rows", rows, y.shape[0], x.shape[0])
    check_between("columns", columns, y.shape[1], x.shape[1])
    if y.size == 0 or y.shape[2] != x.shape[2]:
        raise ShapeError(f"linear: y {(<object>y).shape} does not fit x {(<object>x).shape}")
    with nogil:
        table().image.linear(&y[0, 0, 0], &x[0, 0, 0], y.shape[0], y.shape[1], y.shape[2], x.shape[1], &rows[0, 0],
                             &columns[0, 0])


def lookup(
    float[:, ::1] y,                # OUT [n, C]
    const uint8_t[:, ::1] x,        # IN  [n, C]
    const float[:, ::1] values,     # IN  [256, C]
):
    """y[i, c] = values[x[i, c], c]."""
    if y.shape[0] != x.shape[0] or y.shape[1] != x.shape[1] or values.shape[0] != 256 or values.shape[1] != x.shape[1]:
        raise ShapeError(f"lookup: y {(<object>y).shape}, x {(<object>x).shape} and values {(<object>values).shape} do "
                         f"not fit")
    if x.shape[0] and x.shape[1]:
        with nogil:
            table().image.lookup(&y[0, 0], &x[0, 0], &values[0, 0], x.shape[0] * x.shape[1], x.shape[1])

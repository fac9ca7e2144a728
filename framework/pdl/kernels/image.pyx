"""Pictures of bytes: resizing as OpenCV does it, and tables of 256 values (what they need in tables, the caller makes);
the class of the highest score of each pixel; images read at points and in regions that a net computes."""

from math import isfinite

from libc.stdint cimport int32_t, uint8_t

include "checks.pxi"

cdef extern from "stored.h":
    int64_t launch_grid_sample "PDL_REAL(regions, grid_sample)"(int kind, ...) except + nogil
    int64_t launch_grid_sample_grad "PDL_REAL(regions, grid_sample_grad)"(int kind, ...) except + nogil
    int64_t launch_roi_align "PDL_REAL(regions, roi_align)"(int kind, ...) except + nogil
    int64_t launch_roi_align_grad "PDL_REAL(regions, roi_align_grad)"(int kind, ...) except + nogil

cdef extern from "bounds.h" namespace "pdl":
    void* first_outside "&pdl::first_outside"

cdef extern from "table.h" namespace "pdl":
    cdef struct GridCall:
        int64_t n, h, w, c, cells
        int mode, padding
        bint corners
    cdef struct RoiCall:
        int64_t images, h, w, c, rois, rows, columns, ratio
        double scale
        bint half, largest
    cdef enum:
        kZeros
        kBorder
        kReflection
        kLinear
        kNearest
        kCubic
    cdef cppclass ImageTable:
        void area(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t y_step, int64_t width,
                  const int32_t* row_start, const int32_t* row_source, const float* row_weight, const int32_t* column_start,
                  const int32_t* column_source, const float* column_weight, float scale, bint half_up) except + nogil
        void linear(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t y_step, int64_t width,
                    const int32_t* rows, const int32_t* columns) except + nogil
        void lookup(float* y, const uint8_t* x, const float* table, int64_t n, int64_t c) noexcept nogil
        void highest(uint8_t* y, const float* x, int64_t h, int64_t w, int64_t c, int64_t height, int64_t width,
                     const double* factor, const double* shift) except + nogil
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


cdef int check_rows(str name, uint8_t[:, :, :] y) except -1:
    """Raise `ShapeError` unless the pixels of a row of y lie side by side."""
    if y.strides[2] != 1 or y.strides[1] != y.shape[2] or y.strides[0] < y.shape[1] * y.shape[2]:
        raise ShapeError(f"{name}: the pixels of a row of y {(<object>y).shape} do not lie side by side")
    return 0


def area(
    uint8_t[:, :, :] y,                 # OUT [h, w, C], rows any distance apart
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
        raise ShapeError("area: an empty image")
    check_rows("area", y)
    with nogil:
        table().image.area(&y[0, 0, 0], &x[0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0], x.shape[1],
                           &row_start[0], &row_source[0], &row_weight[0], &column_start[0], &column_source[0],
                           &column_weight[0], scale, half_up)


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
    uint8_t[:, :, :] y,             # OUT [h, w, C], rows any distance apart
    const uint8_t[:, :, ::1] x,     # IN  [H, W, C]
    const int32_t[:, ::1] rows,     # IN  [4, h] the two rows beside each output row, and their weights of 11 bits
    const int32_t[:, ::1] columns,  # IN  [4, w] the same for columns
):
    """y[i, j] between the four pixels of row i and column j, in integers, rounded as OpenCV rounds."""
    check_between("rows", rows, y.shape[0], x.shape[0])
    check_between("columns", columns, y.shape[1], x.shape[1])
    if y.size == 0 or y.shape[2] != x.shape[2]:
        raise ShapeError(f"linear: y {(<object>y).shape} does not fit x {(<object>x).shape}")
    check_rows("linear", y)
    with nogil:
        table().image.linear(&y[0, 0, 0], &x[0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0], x.shape[1],
                             &rows[0, 0], &columns[0, 0])


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


def highest(
    uint8_t[:, ::1] y,              # OUT [h, w]
    const float[:, :, ::1] x,       # IN  [H, W, C], of at most 256 channels
    tuple factor,                   # of rows and of columns
    tuple shift,
):
    """y[i, j] = the channel of the highest value, the first of equals, of x read bilinearly at row factor[0] i + shift[0]
    and column factor[1] j + shift[1]; outside, the nearest cell's."""
    cdef double[2] by
    cdef double[2] offset
    by[0], by[1] = factor
    offset[0], offset[1] = shift
    if not 1 <= x.shape[2] <= 256 or x.shape[0] == 0 or x.shape[1] == 0:
        raise ShapeError(f"highest: x {(<object>x).shape} holds no cell, or not 1 to 256 channels")
    if x.shape[1] * x.shape[2] > 0x7FFFFFFF:
        raise ShapeError(f"highest: a row of x {(<object>x).shape} is longer than 2^31 numbers")
    if not all(isfinite(value) for value in (*factor, *shift)):
        raise ValueError(f"highest: factor {factor} and shift {shift} are finite")
    if y.size:
        with nogil:
            table().image.highest(&y[0, 0], &x[0, 0, 0], x.shape[0], x.shape[1], x.shape[2], y.shape[0], y.shape[1], by, offset)


PADDING = {"zeros": kZeros, "border": kBorder, "reflection": kReflection}
BETWEEN = {"bilinear": kLinear, "nearest": kNearest, "bicubic": kCubic}


cdef int fill(str name, GridCall* call, cnp.ndarray x, cnp.ndarray grid, str mode, str padding, bint corners) except -1:
    if cnp.PyArray_NDIM(x) != 4 or cnp.PyArray_NDIM(grid) != 4 or x.shape[0] != grid.shape[0] or grid.shape[3] != 2:
        raise ShapeError(f"{name}: x {(<object>x).shape} and grid {(<object>grid).shape} are not [N, H, W, C] and [N, h, w, 2]")
    if mode not in BETWEEN or padding not in PADDING:
        raise ShapeError(f"{name}: mode {mode!r} and padding {padding!r} are not of {sorted(BETWEEN)} and {sorted(PADDING)}")
    call.n, call.h, call.w, call.c = x.shape[0], x.shape[1], x.shape[2], x.shape[3]
    call.cells = grid.shape[1] * grid.shape[2]
    call.mode, call.padding, call.corners = BETWEEN[mode], PADDING[padding], corners
    if cnp.PyArray_SIZE(grid) and call.h * call.w == 0:
        raise ShapeError(f"{name}: an empty image {(<object>x).shape}")
    return 0


def grid_sample(
    cnp.ndarray y not None,         # OUT [N, h, w, C]
    cnp.ndarray x not None,         # IN  [N, H, W, C]
    cnp.ndarray grid not None,      # IN  [N, h, w, 2] of (x, y), in [-1, 1] inside the image
    str mode,                       # bilinear, nearest, bicubic
    str padding,                    # zeros, border, reflection
    bint corners,                   # -1 and 1 are the centres of the corner cells, not their outer edges
):
    """y[n, i, j] = x[n] at the point grid[n, i, j]."""
    cdef GridCall call
    cdef int kind = real_type("grid_sample", x)
    fill("grid_sample", &call, x, grid, mode, padding, corners)
    cdef void* to = data_of("grid_sample", "y", y, kind, call.n * call.cells * call.c)
    cdef void* source = data_of("grid_sample", "x", x, kind, cnp.PyArray_SIZE(x))
    cdef void* at = data_of("grid_sample", "grid", grid, kind, cnp.PyArray_SIZE(grid))
    if cnp.PyArray_SIZE(y):
        with nogil:
            launch_grid_sample(kind, to, source, at, call)


def grid_sample_grad(
    cnp.ndarray dx not None,        # OUT [N, H, W, C]
    cnp.ndarray dgrid not None,     # OUT [N, h, w, 2]
    cnp.ndarray g not None,         # IN  [N, h, w, C]
    cnp.ndarray x not None,
    cnp.ndarray grid not None,
    str mode,
    str padding,
    bint corners,
):
    """Gradients of `grid_sample`."""
    cdef GridCall call
    cdef int kind = real_type("grid_sample_grad", x)
    fill("grid_sample_grad", &call, x, grid, mode, padding, corners)
    cdef void* to = data_of("grid_sample_grad", "dx", dx, kind, cnp.PyArray_SIZE(x))
    cdef void* slopes = data_of("grid_sample_grad", "dgrid", dgrid, kind, cnp.PyArray_SIZE(grid))
    cdef void* pg = data_of("grid_sample_grad", "g", g, kind, call.n * call.cells * call.c)
    cdef void* source = data_of("grid_sample_grad", "x", x, kind, cnp.PyArray_SIZE(x))
    cdef void* at = data_of("grid_sample_grad", "grid", grid, kind, cnp.PyArray_SIZE(grid))
    with nogil:
        launch_grid_sample_grad(kind, to, slopes, pg, source, at, call)


cdef int fill_regions(str name, RoiCall* call, cnp.ndarray y, cnp.ndarray x, const int64_t[::1] image, double scale, int64_t ratio,
                      bint half, bint largest) except -1:
    if cnp.PyArray_NDIM(x) != 4 or cnp.PyArray_NDIM(y) != 4 or x.shape[3] != y.shape[3] or y.shape[0] != image.shape[0] or ratio < 0:
        raise ShapeError(f"{name}: regions {(<object>y).shape}, index [{image.shape[0]}], images {(<object>x).shape} and ratio {ratio} "
                         f"do not fit")
    call.images, call.h, call.w, call.c, call.rois = x.shape[0], x.shape[1], x.shape[2], x.shape[3], y.shape[0]
    call.rows, call.columns, call.ratio, call.scale, call.half, call.largest = y.shape[1], y.shape[2], ratio, scale, half, largest
    if image.shape[0] == 0:
        return 0
    cdef const int64_t* at = <const int64_t*>address(name, &image[0])
    cdef int64_t bad = launch(first_outside, at, call.rois, <int64_t>-1, call.images)
    if bad:
        raise ShapeError(f"{name}: region {bad - 1} lies on image {at[bad - 1]}, of {call.images}")
    if call.h * call.w == 0:
        raise ShapeError(f"{name}: an empty image {(<object>x).shape}")
    return 0


def roi_align(
    cnp.ndarray y not None,         # OUT [R, rows, columns, C]
    cnp.ndarray x not None,         # IN  [N, H, W, C]
    cnp.ndarray rois not None,      # IN  [R, 4] x1, y1, x2, y2
    const int64_t[::1] image,       # IN  [R] in [0, N), or -1: zeros
    *,
    double scale=1.0,               # of coordinates
    int64_t ratio=0,                # samples along each axis of a bin; 0: about one a cell of the image
    bint half=True,                 # centres of cells lie at halves
    bint largest=False,             # of the samples, in place of their mean
):
    """y[r, i, j] = the mean of samples in bin (i, j) of region r."""
    cdef RoiCall call
    cdef int kind = real_type("roi_align", x)
    fill_regions("roi_align", &call, y, x, image, scale, ratio, half, largest)
    cdef void* to = data_of("roi_align", "y", y, kind, cnp.PyArray_SIZE(y))
    cdef void* source = data_of("roi_align", "x", x, kind, cnp.PyArray_SIZE(x))
    cdef void* at = data_of("roi_align", "rois", rois, kind, 4 * call.rois)
    if cnp.PyArray_SIZE(y):
        with nogil:
            launch_roi_align(kind, to, source, at, &image[0], call)


def roi_align_grad(
    cnp.ndarray dx not None,        # OUT [N, H, W, C]
    cnp.ndarray g not None,         # IN  [R, rows, columns, C]
    cnp.ndarray rois not None,      # IN  [R, 4]
    const int64_t[::1] image,       # IN  [R]
    *,
    double scale=1.0,
    int64_t ratio=0,
    bint half=True,
):
    """The gradient in x of `roi_align` with the mean."""
    cdef RoiCall call
    cdef int kind = real_type("roi_align_grad", g)
    cdef const int64_t* images = NULL
    fill_regions("roi_align_grad", &call, g, dx, image, scale, ratio, half, False)
    cdef void* to = data_of("roi_align_grad", "dx", dx, kind, cnp.PyArray_SIZE(dx))
    cdef void* pg = data_of("roi_align_grad", "g", g, kind, cnp.PyArray_SIZE(g))
    cdef void* at = data_of("roi_align_grad", "rois", rois, kind, 4 * call.rois)
    if image.shape[0]:
        images = &image[0]
    if cnp.PyArray_SIZE(dx):
        with nogil:
            launch_roi_align_grad(kind, to, pg, at, images, call)

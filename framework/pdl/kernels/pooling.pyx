"""Pooling kernels on [N, D, H, W, C] arrays; windows come as tables, see pdl.ops.pool.Windows."""

from libc.stdint cimport int32_t, int64_t

cimport numpy as cnp

from pdl.errors import ShapeError

cnp.import_array()

ctypedef fused real:
    float
    double

cdef extern from "table.h" namespace "pdl":
    cdef cppclass PoolGrid:
        int64_t batch, channels
        int64_t[3] to
        int64_t[3] source "from"
        const int32_t* lo[3]
        const int32_t* hi[3]
        int32_t[3] step
        const double* scale[3]
    cdef cppclass PoolingTable[T]:
        void max_pool(T* y, int32_t* index, const T* x, const PoolGrid& grid) noexcept nogil
        void max_pool_dx(T* dx, const T* g, const int32_t* index, const PoolGrid& cells,
                         const PoolGrid& windows) noexcept nogil
        void avg_pool(T* y, const T* x, const PoolGrid& grid) noexcept nogil
        void avg_pool_dx(T* dx, const T* g, const PoolGrid& cells, const PoolGrid& windows) noexcept nogil
        void pick(T* y, const T* x, const int32_t* index, int64_t batch, int64_t out, int64_t inside,
                  int64_t channels) noexcept nogil
        void place(T* dx, const T* g, const int32_t* index, int64_t batch, int64_t out, int64_t inside,
                   int64_t channels) noexcept nogil
    PoolingTable[T]* pooling_table[T](const T* any) noexcept nogil


cdef bint empty(const Py_ssize_t* shape, int ndim) noexcept:
    cdef int axis
    for axis in range(ndim):
        if shape[axis] == 0:
            return True
    return False


cdef int same(str name, const Py_ssize_t* a, const Py_ssize_t* b, int ndim) except -1:
    """Raise where an index has another shape than the array it belongs to."""
    cdef int axis
    for axis in range(ndim):
        if a[axis] != b[axis]:
            raise ShapeError(f"{name}: axis {axis} of the index has {a[axis]} entries, its array {b[axis]}")
    return 0


cdef int fill(
    PoolGrid* grid, const Py_ssize_t* to, const Py_ssize_t* source, const int32_t[::1] lo, const int32_t[::1] hi
) except -1:
    """Sizes and window tables of the walk over `to`; the tables hold the three axes after each other."""
    cdef int axis
    cdef int64_t at = 0
    if to[0] != source[0] or to[4] != source[4]:
        raise ShapeError(f"pooling: batch {to[0]} and {source[0]}, channels {to[4]} and {source[4]} must agree")
    grid.batch, grid.channels = to[0], to[4]
    if lo.shape[0] != to[1] + to[2] + to[3] or hi.shape[0] != lo.shape[0]:
        raise ShapeError(f"pooling: {lo.shape[0]} windows do not fit {to[1]} + {to[2]} + {to[3]} cells")
    for axis in range(3):
        grid.to[axis], grid.source[axis], grid.step[axis] = to[axis + 1], source[axis + 1], 1
        grid.lo[axis], grid.hi[axis] = &lo[0] + at, &hi[0] + at
        at += grid.to[axis]
    return 0


cdef int fill_scale(PoolGrid* grid, const Py_ssize_t* out, const double[::1] scale) except -1:
    """The factors of a mean, indexed by a cell of the pooled array."""
    cdef int axis
    cdef int64_t at = 0
    if scale.shape[0] != out[1] + out[2] + out[3]:
        raise ShapeError(f"pooling: {scale.shape[0]} factors do not fit {out[1]} + {out[2]} + {out[3]} cells")
    for axis in range(3):
        grid.scale[axis] = &scale[0] + at
        at += out[axis + 1]
    return 0


def max_pool(
    real[:, :, :, :, ::1] y,            # OUT [N, D', H', W', C]
    int32_t[:, :, :, :, ::1] index,     # OUT like y: flat position of the winner in D * H * W
    const real[:, :, :, :, ::1] x,      # IN  [N, D, H, W, C]
    const int32_t[::1] lo,              # IN  [D' + H' + W'] first cell of each window
    const int32_t[::1] hi,              # IN  like lo: end of each window
    tuple step,                         # IN  distance between the cells of a window, per axis
):
    """y = max over each window (a NaN wins, then the first of equals)."""
    cdef PoolGrid grid
    cdef int axis
    fill(&grid, y.shape, x.shape, lo, hi)
    same("max_pool", index.shape, y.shape, 5)
    for axis in range(3):
        grid.step[axis] = step[axis]
    if not empty(y.shape, 5):
        with nogil:
            pooling_table(&y[0, 0, 0, 0, 0]).max_pool(&y[0, 0, 0, 0, 0], &index[0, 0, 0, 0, 0], &x[0, 0, 0, 0, 0], grid)


def max_pool_dx(
    real[:, :, :, :, ::1] dx,               # OUT [N, D, H, W, C]
    const real[:, :, :, :, ::1] g,          # IN  [N, D', H', W', C]
    const int32_t[:, :, :, :, ::1] index,   # IN  like g, from max_pool
    const int32_t[::1] first,               # IN  [D + H + W] first window that may cover the cell
    const int32_t[::1] last,                # IN  like first: end of those windows
    const int32_t[::1] lo,                  # IN  [D' + H' + W'] as in max_pool
    const int32_t[::1] hi,                  # IN  like lo
    tuple step,                             # IN  as in max_pool
):
    """dx = sum of g over the windows that the cell won."""
    cdef PoolGrid cells, windows
    cdef int axis
    fill(&cells, dx.shape, g.shape, first, last)
    fill(&windows, g.shape, dx.shape, lo, hi)
    for axis in range(3):
        windows.step[axis] = step[axis]
    same("max_pool_dx", index.shape, g.shape, 5)
    if not empty(dx.shape, 5):
        with nogil:
            pooling_table(&dx[0, 0, 0, 0, 0]).max_pool_dx(&dx[0, 0, 0, 0, 0], &g[0, 0, 0, 0, 0], &index[0, 0, 0, 0,
                                                          0], cells, windows)


def avg_pool(
    real[:, :, :, :, ::1] y,        # OUT [N, D', H', W', C]
    const real[:, :, :, :, ::1] x,  # IN  [N, D, H, W, C]
    const int32_t[::1] lo,          # IN  [D' + H' + W'] first cell of each window
    const int32_t[::1] hi,          # IN  like lo: end of each window
    const double[::1] scale,        # IN  like lo: the axis' factor of each window
):
    """y = product of the three factors * sum over each window."""
    cdef PoolGrid grid
    fill(&grid, y.shape, x.shape, lo, hi)
    fill_scale(&grid, y.shape, scale)
    if not empty(y.shape, 5):
        with nogil:
            pooling_table(&y[0, 0, 0, 0, 0]).avg_pool(&y[0, 0, 0, 0, 0], &x[0, 0, 0, 0, 0], grid)


def avg_pool_dx(
    real[:, :, :, :, ::1] dx,       # OUT [N, D, H, W, C]
    const real[:, :, :, :, ::1] g,  # IN  [N, D', H', W', C]
    const int32_t[::1] first,       # IN  [D + H + W] first window over the cell
    const int32_t[::1] last,        # IN  like first: end of those windows
    const int32_t[::1] lo,          # IN  [D' + H' + W'] as in avg_pool
    const int32_t[::1] hi,          # IN  like lo
    const double[::1] scale,        # IN  like lo: the axis' factor of each window
):
    """dx = sum over the windows that cover the cell of factors * g."""
    cdef PoolGrid cells, windows
    fill(&cells, dx.shape, g.shape, first, last)
    fill_scale(&cells, g.shape, scale)
    fill(&windows, g.shape, dx.shape, lo, hi)
    fill_scale(&windows, g.shape, scale)
    if not empty(dx.shape, 5):
        with nogil:
            pooling_table(&dx[0, 0, 0, 0, 0]).avg_pool_dx(&dx[0, 0, 0, 0, 0], &g[0, 0, 0, 0, 0], cells, windows)


cdef int check_index(const int32_t[:, :, ::1] index, int64_t inside) except -1:
    """Raise where a position is not below `inside` (negative ones mean nothing)."""
    cdef int64_t i, worst = -1
    cdef const int32_t* p = &index[0, 0, 0]
    for i in range(index.shape[0] * index.shape[1] * index.shape[2]):
        if p[i] > worst:
            worst = p[i]
    if worst >= inside:
        raise ShapeError(f"position {worst} is outside the {inside} cells")
    return 0


def pick(
    real[:, :, ::1] y,              # OUT [N, O, C]
    const real[:, :, ::1] x,        # IN  [N, I, C]
    const int32_t[:, :, ::1] index,  # IN  [N, O, C], below I
):
    """y[n, o, c] = x[n, index[n, o, c], c], 0 where the index is negative."""
    cdef const real* source = NULL
    same("pick", index.shape, y.shape, 3)
    if y.shape[0] != x.shape[0] or y.shape[2] != x.shape[2]:
        raise ShapeError(f"pick: batch {y.shape[0]} and {x.shape[0]}, channels {y.shape[2]} and {x.shape[2]} must "
                         f"agree")
    if empty(y.shape, 3):
        return
    check_index(index, x.shape[1])
    if x.shape[1]:
        source = &x[0, 0, 0]
    with nogil:
        pooling_table(&y[0, 0, 0]).pick(&y[0, 0, 0], source, &index[0, 0, 0], x.shape[0], y.shape[1], x.shape[1],
                                        x.shape[2])


def place(
    real[:, :, ::1] dx,             # OUT [N, I, C]
    const real[:, :, ::1] g,        # IN  [N, O, C]
    const int32_t[:, :, ::1] index,  # IN  [N, O, C], below I
):
    """dx = 0, then dx[n, index[n, o, c], c] += g[n, o, c] in the order of o; negative indices add nothing."""
    cdef const real* source = NULL
    cdef const int32_t* at = NULL
    same("place", index.shape, g.shape, 3)
    if dx.shape[0] != g.shape[0] or dx.shape[2] != g.shape[2]:
        raise ShapeError(f"place: batch {dx.shape[0]} and {g.shape[0]}, channels {dx.shape[2]} and {g.shape[2]} must "
                         f"agree")
    if not empty(g.shape, 3):
        check_index(index, dx.shape[1])
        source, at = &g[0, 0, 0], &index[0, 0, 0]
    if not empty(dx.shape, 3):
        with nogil:
            pooling_table(&dx[0, 0, 0]).place(&dx[0, 0, 0], source, at, g.shape[0], g.shape[1], dx.shape[1], g.shape[2])

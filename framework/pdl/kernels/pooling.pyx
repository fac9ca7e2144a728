"""Pooling kernels on [N, D, H, W, C] arrays of float32, float64 or bfloat16; windows come as tables, see pdl.ops.pool.Windows."""

include "stored.pxi"
include "windows.pxi"

cdef extern from "stored.h":
    int64_t launch_max_pool "PDL_STORED(pooling, max_pool)"(int kind, ...) except + nogil
    int64_t launch_max_pool_dx "PDL_STORED(pooling, max_pool_dx)"(int kind, ...) except + nogil
    int64_t launch_avg_pool "PDL_STORED(pooling, avg_pool)"(int kind, ...) except + nogil
    int64_t launch_avg_pool_dx "PDL_STORED(pooling, avg_pool_dx)"(int kind, ...) except + nogil
    int64_t launch_pick "PDL_STORED(pooling, pick)"(int kind, ...) except + nogil
    int64_t launch_place "PDL_STORED(pooling, place)"(int kind, ...) except + nogil

cdef extern from "bounds.h" namespace "pdl":
    void* first_above "&pdl::first_above"


cdef int same(str name, cnp.ndarray a, cnp.ndarray b) except -1:
    """Raise where an index has another shape than the array it belongs to."""
    cdef int axis
    demand(name, "index", a, cnp.PyArray_NDIM(b))
    for axis in range(cnp.PyArray_NDIM(b)):
        if cnp.PyArray_DIM(a, axis) != cnp.PyArray_DIM(b, axis):
            raise ShapeError(
                f"{name}: axis {axis} of the index has {cnp.PyArray_DIM(a, axis)} entries, its array {cnp.PyArray_DIM(b, axis)}"
            )
    return 0


def max_pool(
    cnp.ndarray y not None,         # OUT [N, D', H', W', C]
    cnp.ndarray index,              # OUT like y, int32: flat position of the winner in D * H * W; or None
    cnp.ndarray x not None,         # IN  [N, D, H, W, C]
    cnp.ndarray lo not None,        # IN  [D' + H' + W'] int32, first cell of each window
    cnp.ndarray hi not None,        # IN  like lo: end of each window
    tuple step not None,            # IN  distance between the cells of a window, per axis
):
    """y = max over each window (a NaN wins, then the first of equals)."""
    cdef PoolGrid grid
    cdef int kind = stored_type("max_pool", x)
    cdef int64_t n = cnp.PyArray_SIZE(y)
    fill("max_pool", &grid, y, x, lo, hi)
    grid.step[0], grid.step[1], grid.step[2] = step
    cdef void* py = data_of("max_pool", "y", y, kind, n)
    cdef int32_t* at = NULL
    if index is not None:
        same("max_pool", index, y)
        at = <int32_t*>data_of("max_pool", "index", index, cnp.NPY_INT32, n)
    cdef void* px = data_of("max_pool", "x", x, kind, cnp.PyArray_SIZE(x))
    if n == 0:
        return
    with nogil:
        launch_max_pool(kind, py, at, px, grid)


def max_pool_dx(
    cnp.ndarray dx not None,        # OUT [N, D, H, W, C]
    cnp.ndarray g not None,         # IN  [N, D', H', W', C]
    cnp.ndarray index not None,     # IN  like g, from max_pool
    cnp.ndarray first not None,     # IN  [D + H + W] int32, first window that may cover the cell
    cnp.ndarray last not None,      # IN  like first: end of those windows
    cnp.ndarray lo not None,        # IN  [D' + H' + W'] int32, as in max_pool
    cnp.ndarray hi not None,        # IN  like lo
    tuple step not None,            # IN  as in max_pool
):
    """dx = sum of g over the windows that the cell won."""
    cdef PoolGrid cells, windows
    cdef int kind = stored_type("max_pool_dx", g)
    cdef int64_t n = cnp.PyArray_SIZE(g)
    fill("max_pool_dx", &cells, dx, g, first, last)
    fill("max_pool_dx", &windows, g, dx, lo, hi)
    windows.step[0], windows.step[1], windows.step[2] = step
    same("max_pool_dx", index, g)
    cdef void* to = data_of("max_pool_dx", "dx", dx, kind, cnp.PyArray_SIZE(dx))
    cdef void* pg = data_of("max_pool_dx", "g", g, kind, n)
    cdef const int32_t* at = <const int32_t*>data_of("max_pool_dx", "index", index, cnp.NPY_INT32, n)
    if cnp.PyArray_SIZE(dx) == 0:
        return
    with nogil:
        launch_max_pool_dx(kind, to, pg, at, cells, windows)


def avg_pool(
    cnp.ndarray y not None,         # OUT [N, D', H', W', C]
    cnp.ndarray x not None,         # IN  [N, D, H, W, C]
    cnp.ndarray lo not None,        # IN  [D' + H' + W'] int32, first cell of each window
    cnp.ndarray hi not None,        # IN  like lo: end of each window
    cnp.ndarray scale not None,     # IN  like lo, float64: the axis' factor of each window
):
    """y = product of the three factors * sum over each window."""
    cdef PoolGrid grid
    cdef int kind = stored_type("avg_pool", x)
    fill("avg_pool", &grid, y, x, lo, hi)
    fill_scale("avg_pool", &grid, y, scale)
    cdef void* py = data_of("avg_pool", "y", y, kind, cnp.PyArray_SIZE(y))
    cdef void* px = data_of("avg_pool", "x", x, kind, cnp.PyArray_SIZE(x))
    if cnp.PyArray_SIZE(y) == 0:
        return
    with nogil:
        launch_avg_pool(kind, py, px, grid)


def avg_pool_dx(
    cnp.ndarray dx not None,        # OUT [N, D, H, W, C]
    cnp.ndarray g not None,         # IN  [N, D', H', W', C]
    cnp.ndarray first not None,     # IN  [D + H + W] int32, first window over the cell
    cnp.ndarray last not None,      # IN  like first: end of those windows
    cnp.ndarray lo not None,        # IN  [D' + H' + W'] int32, as in avg_pool
    cnp.ndarray hi not None,        # IN  like lo
    cnp.ndarray scale not None,     # IN  like lo, float64: the axis' factor of each window
):
    """dx = sum over the windows that cover the cell of factors * g."""
    cdef PoolGrid cells, windows
    cdef int kind = stored_type("avg_pool_dx", g)
    fill("avg_pool_dx", &cells, dx, g, first, last)
    fill_scale("avg_pool_dx", &cells, g, scale)
    fill("avg_pool_dx", &windows, g, dx, lo, hi)
    fill_scale("avg_pool_dx", &windows, g, scale)
    cdef void* to = data_of("avg_pool_dx", "dx", dx, kind, cnp.PyArray_SIZE(dx))
    cdef void* pg = data_of("avg_pool_dx", "g", g, kind, cnp.PyArray_SIZE(g))
    if cnp.PyArray_SIZE(dx) == 0:
        return
    with nogil:
        launch_avg_pool_dx(kind, to, pg, cells, windows)


cdef const int32_t* checked_index(str name, cnp.ndarray index, cnp.ndarray like, cnp.ndarray cells) except? NULL:
    """The positions, of the shape of `like`; raise where batch or channels of the two arrays differ or a position is not below the
    number of cells (negative ones mean nothing)."""
    cdef int64_t inside = cnp.PyArray_DIM(cells, 1), n = cnp.PyArray_SIZE(index), bad
    demand(name, "an array", like, 3)
    demand(name, "an array", cells, 3)
    same(name, index, like)
    if cnp.PyArray_DIM(like, 0) != cnp.PyArray_DIM(cells, 0) or cnp.PyArray_DIM(like, 2) != cnp.PyArray_DIM(cells, 2):
        raise ShapeError(
            f"{name}: batch {cnp.PyArray_DIM(like, 0)} and {cnp.PyArray_DIM(cells, 0)}, channels {cnp.PyArray_DIM(like, 2)} and "
            f"{cnp.PyArray_DIM(cells, 2)} must agree"
        )
    cdef const int32_t* p = <const int32_t*>data_of(name, "index", index, cnp.NPY_INT32, cnp.PyArray_SIZE(like))
    bad = launch(first_above, p, n, inside)
    if bad:
        raise ShapeError(f"{name}: position {p[bad - 1]} is outside the {inside} cells")
    return p


def pick(
    cnp.ndarray y not None,         # OUT [N, O, C]
    cnp.ndarray x not None,         # IN  [N, I, C]
    cnp.ndarray index not None,     # IN  [N, O, C] int32, below I
):
    """y[n, o, c] = x[n, index[n, o, c], c], 0 where the index is negative."""
    cdef int kind = stored_type("pick", x)
    cdef const int32_t* at = checked_index("pick", index, y, x)
    cdef void* py = data_of("pick", "y", y, kind, cnp.PyArray_SIZE(y))
    cdef void* px = data_of("pick", "x", x, kind, cnp.PyArray_SIZE(x))
    cdef int64_t n = cnp.PyArray_DIM(x, 0), out = cnp.PyArray_DIM(y, 1), cells = cnp.PyArray_DIM(x, 1), c = cnp.PyArray_DIM(x, 2)
    if cnp.PyArray_SIZE(y) == 0:
        return
    with nogil:
        launch_pick(kind, py, px, at, n, out, cells, c)


def place(
    cnp.ndarray dx not None,        # OUT [N, I, C]
    cnp.ndarray g not None,         # IN  [N, O, C]
    cnp.ndarray index not None,     # IN  [N, O, C] int32, below I
):
    """dx = 0, then dx[n, index[n, o, c], c] += g[n, o, c] in the order of o; negative indices add nothing."""
    cdef int kind = stored_type("place", g)
    cdef const int32_t* at = checked_index("place", index, g, dx)
    cdef void* to = data_of("place", "dx", dx, kind, cnp.PyArray_SIZE(dx))
    cdef void* pg = data_of("place", "g", g, kind, cnp.PyArray_SIZE(g))
    cdef int64_t n = cnp.PyArray_DIM(g, 0), out = cnp.PyArray_DIM(g, 1), cells = cnp.PyArray_DIM(dx, 1), c = cnp.PyArray_DIM(g, 2)
    if cnp.PyArray_SIZE(dx) == 0:
        return
    with nogil:
        launch_place(kind, to, pg, at, n, out, cells, c)

# Windows of pooling as tables, for the kernels that walk them. Included after checks.pxi or stored.pxi.
from libc.stdint cimport int32_t

cdef extern from "table.h" namespace "pdl":
    cdef cppclass PoolGrid:
        int64_t batch, channels
        int64_t[3] to
        int64_t[3] source "from"
        const int32_t* lo[3]
        const int32_t* hi[3]
        int32_t[3] step
        const double* scale[3]


cdef int demand(str name, str label, cnp.ndarray array, int ndim) except -1:
    """Raise unless the array has so many dimensions."""
    if cnp.PyArray_NDIM(array) != ndim:
        raise ShapeError(f"{name}: {label} {(<object>array).shape} must have {ndim} dimensions")
    return 0


cdef int fill(str name, PoolGrid* grid, cnp.ndarray to, cnp.ndarray source, cnp.ndarray lo, cnp.ndarray hi) except -1:
    """Sizes and window tables of the walk over `to`; the tables hold the three axes after each other."""
    cdef int axis
    cdef int64_t at = 0, cells
    demand(name, "an array", to, 5)
    demand(name, "an array", source, 5)
    cells = cnp.PyArray_DIM(to, 1) + cnp.PyArray_DIM(to, 2) + cnp.PyArray_DIM(to, 3)
    grid.batch, grid.channels = cnp.PyArray_DIM(to, 0), cnp.PyArray_DIM(to, 4)
    if grid.batch != cnp.PyArray_DIM(source, 0) or grid.channels != cnp.PyArray_DIM(source, 4):
        raise ShapeError(
            f"{name}: batch {grid.batch} and {cnp.PyArray_DIM(source, 0)}, channels {grid.channels} and "
            f"{cnp.PyArray_DIM(source, 4)} must agree"
        )
    keep(lo)
    keep(hi)
    cdef const int32_t* first = <const int32_t*>data_of(name, "a table of windows", lo, cnp.NPY_INT32, cells)
    cdef const int32_t* last = <const int32_t*>data_of(name, "a table of windows", hi, cnp.NPY_INT32, cells)
    for axis in range(3):
        grid.to[axis], grid.source[axis] = cnp.PyArray_DIM(to, axis + 1), cnp.PyArray_DIM(source, axis + 1)
        grid.step[axis] = 1
        grid.lo[axis], grid.hi[axis] = first + at, last + at
        at += grid.to[axis]
    return 0


cdef int fill_scale(str name, PoolGrid* grid, cnp.ndarray out, cnp.ndarray scale) except -1:
    """The factors of a mean, indexed by a cell of the pooled array."""
    cdef int axis
    cdef int64_t at = 0, cells = cnp.PyArray_DIM(out, 1) + cnp.PyArray_DIM(out, 2) + cnp.PyArray_DIM(out, 3)
    keep(scale)
    cdef const double* factors = <const double*>data_of(name, "the factors", scale, cnp.NPY_DOUBLE, cells)
    for axis in range(3):
        grid.scale[axis] = factors + at
        at += cnp.PyArray_DIM(out, axis + 1)
    return 0

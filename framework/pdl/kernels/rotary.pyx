"""Rotary position embeddings; see rotary.h. float32, float64, bfloat16 (cosines and sines float32)."""

include "stored.pxi"

cdef extern from "stored.h":
    int64_t launch_rotate "PDL_STORED(rotary, rotate)"(int kind, ...) except + nogil


def rotate(
    cnp.ndarray y not None,         # OUT [..., C], may be x
    cnp.ndarray x not None,         # IN  [..., C]
    cnp.ndarray cos not None,       # IN  [turns, size / 2]
    cnp.ndarray sin not None,       # IN  [turns, size / 2]
    int64_t heads,                  # of size columns, which turn; those behind them are copied
    int64_t size,
    bint back=False,                # by the negative angles
):
    """y = x with (x[i], x[i + size / 2]) of each head turned by the angles of its row: that of row r is r modulo turns."""
    cdef int kind = stored_type("rotary", x)
    cdef int wide = real_of(kind)
    if cnp.PyArray_NDIM(x) == 0 or size < 2 or size % 2 or heads < 0 or heads > x.shape[cnp.PyArray_NDIM(x) - 1] // size:
        raise ShapeError(f"rotary: x {(<object>x).shape} does not hold {heads} heads of {size} columns, an even number")
    cdef int64_t columns = x.shape[cnp.PyArray_NDIM(x) - 1], rows = cnp.PyArray_SIZE(x) // columns
    cdef int64_t turns = cnp.PyArray_SIZE(cos) // (size // 2)
    if rows and (turns == 0 or rows % turns):
        raise ShapeError(f"rotary: angles of {turns} positions do not divide the {rows} rows of x {(<object>x).shape}")
    cdef void* to = data_of("rotary", "y", y, kind, rows * columns)
    cdef void* px = data_of("rotary", "x", x, kind, rows * columns)
    cdef void* pc = data_of("rotary", "cos", cos, wide, turns * (size // 2))
    cdef void* ps = data_of("rotary", "sin", sin, wide, turns * (size // 2))
    cdef bint turned_back = back
    with nogil:
        launch_rotate(kind, to, px, pc, ps, rows, columns, turns, heads, size, turned_back)

"""Distances of all pairs of rows of two matrices, and their gradients."""

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass DistanceTable[T]:
        void* forward
        void* backward
    DistanceTable[T]* distance_table[T](const T* any) noexcept nogil
    cdef enum Distance:
        kL1
        kL2
        kComplex

METRICS = {"l1": kL1, "l2": kL2, "complex": kComplex}


cdef int check(str metric, object out, object x, object y) except -1:
    """The number of the metric, where the shapes fit."""
    if metric not in METRICS:
        raise ShapeError(f"distance: metric {metric!r} is none of {', '.join(METRICS)}")
    if x.shape[1] != y.shape[1] or out.shape != (x.shape[0], y.shape[0]) or (metric == "complex" and x.shape[1] % 2):
        raise ShapeError(f"distance: out {out.shape}, x {x.shape} and y {y.shape} do not fit for {metric}")
    return METRICS[metric]


def forward(
    real[:, ::1] out not None,      # OUT [N, K]
    const real[:, ::1] x not None,  # IN  [N, D]
    const real[:, ::1] y not None,  # IN  [K, D]
    str metric,                     # l1, l2, complex (D even: real parts, then imaginary ones)
):
    """out[i, k] = sum_d |x_id - y_kd|, the root of the sum of squares, or the sum of the moduli of complex differences."""
    cdef int kind = check(metric, <object>out, <object>x, <object>y)
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    if x.shape[1] == 0:
        out[:, :] = 0
        return
    address("distance", &out[0, 0])
    address("distance", &x[0, 0])
    address("distance", &y[0, 0])
    with nogil:
        launch(distance_table(&out[0, 0]).forward, kind, &out[0, 0], &x[0, 0], &y[0, 0], out.shape[0], out.shape[1], x.shape[1])


def backward(
    real[:, ::1] dx not None,       # OUT [N, D]
    real[:, ::1] dy not None,       # OUT [K, D]
    const real[:, ::1] g not None,  # IN  [N, K] gradient of out; of l2 over out, 0 where that is 0
    const real[:, ::1] x not None,  # IN  [N, D]
    const real[:, ::1] y not None,  # IN  [K, D]
    str metric,
):
    """Gradients of `forward`; those of |0| are 0."""
    cdef int kind = check(metric, <object>g, <object>x, <object>y)
    if (<object>dx).shape != (<object>x).shape or (<object>dy).shape != (<object>y).shape:
        raise ShapeError(f"distance: dx {(<object>dx).shape} and dy {(<object>dy).shape} are not like x and y")
    if g.shape[0] == 0 or g.shape[1] == 0 or x.shape[1] == 0:
        dx[:, :] = 0
        dy[:, :] = 0
        return
    address("distance", &dx[0, 0])
    address("distance", &dy[0, 0])
    address("distance", &g[0, 0])
    address("distance", &x[0, 0])
    address("distance", &y[0, 0])
    with nogil:
        launch(distance_table(&g[0, 0]).backward, kind, &dx[0, 0], &dy[0, 0], &g[0, 0], &x[0, 0], &y[0, 0], g.shape[0], g.shape[1],
               x.shape[1])

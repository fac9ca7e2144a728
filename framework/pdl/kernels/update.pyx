"""Optimiser steps in place: one native call for all parameters of a group.

Every function takes lists of arrays of one dtype (float32 or float64): `params`, `grads` and the states have the same length, and entry i
of each the same size. Parameters and states are C-contiguous and changed in place; a gradient that is not contiguous is copied first.
A gradient may be a pair (rows int64 [n], values [n, C]) for a parameter [R, C]: the step is then taken in these rows alone, of the
parameter and its states; negative rows are left out. `scale` multiplies the gradients as they are read (clipping, averaging and loss
scaling cost no pass of their own): g' = scale g. Where the decay is coupled, d = g' + weight_decay p.
"""

from libc.stdlib cimport free, malloc

import numpy as np

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef struct UpdateRule:
        double lr, weight_decay, scale
        double momentum, dampening, beta1, beta2, eps
        double correction1, correction2
        bint nesterov, first, decoupled, under_root
    cdef enum Update:
        kSgd
        kAdam
        kAdamMax
        kLamb
        kRmsprop
        kRmspropMomentum
        kRmspropCentred
        kRmspropBoth
        kAdagrad
        kAdagradMomentum
        kAdadelta

cdef extern from "stored.h":
    void call_step "PDL_CALL(update, step)"(int kind, ...) except + nogil
    void call_axpy "PDL_CALL(update, axpy)"(int kind, ...) except + nogil
    void call_squares "PDL_CALL(update, squares)"(int kind, ...) except + nogil
    void call_adagrad_rows "PDL_CALL(update, adagrad_rows)"(int kind, ...) except + nogil


cdef class Lists:
    """Addresses and sizes of the arrays of some lists: pointers [list][array], sizes [array]."""
    cdef void** pointers
    cdef int64_t* sizes
    cdef int64_t count
    cdef int kind
    cdef list held

    def __cinit__(self):
        self.pointers = NULL
        self.sizes = NULL
        self.held = []

    def __dealloc__(self):
        free(self.pointers)
        free(self.sizes)


cdef Lists collect(str name, tuple lists, int gradients):
    """Check and gather; list number `gradients` may hold arrays that are not contiguous (they are copied), and pairs of
    rows and values: each row then counts as an array of its own."""
    cdef Lists found = Lists.__new__(Lists)
    cdef int64_t i, at = 0, arrays = len(lists[0])
    cdef int k, kinds = <int>len(lists)
    for k in range(kinds):
        if len(lists[k]) != arrays:
            raise ShapeError(f"{name}: {arrays} parameters, but {len(lists[k])} arrays in list {k} (parameters, gradients, states)")
    found.count = arrays
    for g in lists[gradients]:
        if type(g) is tuple:
            found.count += len(g[0]) - 1
    if found.count == 0:
        return found
    found.pointers = <void**>malloc(kinds * found.count * sizeof(void*))
    found.sizes = <int64_t*>malloc(found.count * sizeof(int64_t))
    if found.pointers == NULL or found.sizes == NULL:
        raise MemoryError
    found.kind = real_type(name, lists[0][0])
    for i in range(arrays):
        at = gather(name, found, lists, i, at, gradients)
    return found


cdef int64_t gather(str name, Lists found, tuple lists, int64_t i, int64_t at, int gradients) except -1:
    """Put entry i of all lists at number `at`; returns the next free number."""
    cdef cnp.ndarray array, rows = None
    cdef const int64_t* numbers = NULL
    cdef int k
    cdef int64_t row, n = 1, bytes_, size = cnp.PyArray_SIZE(lists[0][i])
    cdef char* data
    g = lists[gradients][i]
    if type(g) is tuple:
        rows, g = g
        n, size = rows.shape[0], check_rows(name, lists[0][i], rows, g)
        numbers = <const int64_t*>cnp.PyArray_DATA(rows)
    for row in range(n):
        found.sizes[at + row] = size if rows is None or numbers[row] >= 0 else 0
    for k in range(<int>len(lists)):
        array = g if k == gradients else lists[k][i]
        if k == gradients and not cnp.PyArray_IS_C_CONTIGUOUS(array):
            array = np.ascontiguousarray(array)
            found.held.append(array)
        data = <char*>data_of(name, "an array", array, found.kind,
                              n * size if k == gradients else cnp.PyArray_SIZE(lists[0][i]))
        bytes_ = size * cnp.PyArray_ITEMSIZE(array)
        for row in range(n):
            if rows is None or k == gradients:
                found.pointers[k * found.count + at + row] = data + row * bytes_
            else:
                found.pointers[k * found.count + at + row] = data + (numbers[row] if numbers[row] >= 0 else 0) * bytes_
    return at + n


cdef int64_t check_rows(str name, cnp.ndarray p, cnp.ndarray rows, cnp.ndarray values) except -1:
    """The size of a row; raises where rows and values do not fit the parameter."""
    cdef int64_t i, n = rows.shape[0]
    cdef const int64_t* numbers = <const int64_t*>data_of(name, "rows", rows, cnp.NPY_INT64, n)
    if p.ndim != 2 or values.ndim != 2 or values.shape[0] != n or values.shape[1] != p.shape[1]:
        raise ShapeError(f"{name}: {n} rows with values {(<object>values).shape} do not fit a parameter {(<object>p).shape}")
    for i in range(n):
        if numbers[i] >= p.shape[0]:
            raise ShapeError(f"{name}: the gradient names row {numbers[i]}, the parameter has {p.shape[0]}")
    return p.shape[1]


cdef int step(str name, int rule, tuple lists, UpdateRule* h) except -1:
    cdef Lists at = collect(name, lists, 1)
    if at.count == 0:
        return 0
    with nogil:
        call_step(at.kind, rule, at.pointers, at.sizes, at.count, h[0])
    return 0


cdef UpdateRule rule_of(double lr, double weight_decay, double scale) noexcept:
    cdef UpdateRule h
    h.lr, h.weight_decay, h.scale = lr, weight_decay, scale
    h.momentum = h.dampening = h.beta1 = h.beta2 = h.eps = 0
    h.correction1 = h.correction2 = 1
    h.nesterov = h.first = h.decoupled = h.under_root = False
    return h


def sgd(
    list params not None,           # IN/OUT
    list grads not None,            # IN
    list buffers=None,              # IN/OUT with momentum
    *,
    double lr,
    double momentum=0.0,
    double dampening=0.0,
    double weight_decay=0.0,
    bint nesterov=False,
    bint first=False,               # the buffers are empty: b = d
    double scale=1.0,
):
    """b = momentum b + (1 - dampening) d; p -= lr b, or lr (d + momentum b) with nesterov, or lr d without momentum."""
    cdef UpdateRule h = rule_of(lr, weight_decay, scale)
    h.momentum, h.dampening, h.nesterov, h.first = momentum, dampening, nesterov, first
    if momentum != 0 and buffers is None:
        raise ShapeError(f"sgd: momentum={momentum} needs a list of buffers")
    step("sgd", kSgd, (params, grads) if momentum == 0 else (params, grads, buffers), &h)


def adam(
    list params not None,           # IN/OUT
    list grads not None,            # IN
    list means not None,            # IN/OUT
    list squares not None,          # IN/OUT
    list largest=None,              # IN/OUT with AMSGrad
    *,
    double lr,
    double beta1=0.9,
    double beta2=0.999,
    double eps=1e-8,
    double weight_decay=0.0,
    int64_t count,                  # the number of this step, from 1
    bint decoupled=False,           # AdamW: p *= 1 - lr weight_decay, and the decay stays out of the gradient
    double scale=1.0,
):
    """m = b1 m + (1 - b1) d, v = b2 v + (1 - b2) d^2; p -= lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps). AMSGrad:
    the largest v so far."""
    cdef UpdateRule h = rule_of(lr, weight_decay, scale)
    h.beta1, h.beta2, h.eps, h.decoupled = beta1, beta2, eps, decoupled
    h.correction1, h.correction2 = 1 - beta1 ** count, 1 - beta2 ** count
    if largest is None:
        step("adam", kAdam, (params, grads, means, squares), &h)
    else:
        step("adam", kAdamMax, (params, grads, means, squares, largest), &h)


def lamb(
    list params not None,           # IN/OUT
    list grads not None,            # IN
    list means not None,            # IN/OUT
    list squares not None,          # IN/OUT
    list directions not None,       # scratch, like params
    *,
    double lr,
    double beta1=0.9,
    double beta2=0.999,
    double eps=1e-6,
    double weight_decay=0.0,
    int64_t count,                  # the number of this step, from 1
    double scale=1.0,
):
    """u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p; p -= lr |p| / |u| u array by array (1 where a
    norm is 0). You et al., 2020."""
    cdef UpdateRule h = rule_of(lr, weight_decay, scale)
    h.beta1, h.beta2, h.eps = beta1, beta2, eps
    h.correction1, h.correction2 = 1 - beta1 ** count, 1 - beta2 ** count
    step("lamb", kLamb, (params, grads, means, squares, directions), &h)
    p_norm, u_norm = np.sqrt(sum_squares(params)), np.sqrt(sum_squares(directions))
    ratio = np.divide(p_norm, u_norm, out=np.ones_like(p_norm), where=(p_norm > 0) & (u_norm > 0))
    axpy(params, directions, -lr * ratio)


def rmsprop(
    list params not None,           # IN/OUT
    list grads not None,            # IN
    list squares not None,          # IN/OUT
    list means=None,                # IN/OUT: centred
    list buffers=None,              # IN/OUT with momentum
    *,
    double lr,
    double alpha=0.99,
    double eps=1e-8,
    double momentum=0.0,
    double weight_decay=0.0,
    double scale=1.0,
):
    """s = alpha s + (1 - alpha) d^2 (centred: less the square of the mean of d); d / (sqrt(s) + eps) through the
    momentum buffer; p -= lr of that."""
    cdef UpdateRule h = rule_of(lr, weight_decay, scale)
    h.beta1, h.eps, h.momentum = alpha, eps, momentum
    if momentum != 0 and buffers is None:
        raise ShapeError(f"rmsprop: momentum={momentum} needs a list of buffers")
    lists = (params, grads, squares) if means is None else (params, grads, squares, means)
    if momentum == 0:
        step("rmsprop", kRmsprop if means is None else kRmspropCentred, lists, &h)
    else:
        step("rmsprop", kRmspropMomentum if means is None else kRmspropBoth, (*lists, buffers), &h)


def adagrad(
    list params not None,           # IN/OUT
    list grads not None,            # IN
    list sums not None,             # IN/OUT
    list velocities=None,           # IN/OUT with momentum
    *,
    double lr,                      # as decayed by the caller
    double eps=1e-10,
    bint under_root=False,          # sqrt(s + eps) in place of sqrt(s) + eps
    double momentum=0.0,
    double weight_decay=0.0,
    double scale=1.0,
):
    """s += d^2, q = d / (sqrt(s) + eps); p -= lr q, or u = momentum u - lr q, p += u with momentum."""
    cdef UpdateRule h = adagrad_rule(lr, eps, under_root, momentum, velocities, weight_decay, scale)
    if momentum == 0:
        step("adagrad", kAdagrad, (params, grads, sums), &h)
    else:
        step("adagrad", kAdagradMomentum, (params, grads, sums, velocities), &h)


def adagrad_rowwise(
    list params not None,           # IN/OUT, each [R, C]
    list grads not None,            # IN
    list sums not None,             # IN/OUT, each [R]
    list velocities=None,           # IN/OUT with momentum, like params
    *,
    double lr,
    double eps=1e-10,
    bint under_root=False,
    double momentum=0.0,
    double weight_decay=0.0,
    double scale=1.0,
):
    """`adagrad` with one sum for each row: s += the mean of d^2 over the row."""
    cdef UpdateRule h = adagrad_rule(lr, eps, under_root, momentum, velocities, weight_decay, scale)
    if not len(params) == len(grads) == len(sums) or (momentum != 0 and len(velocities) != len(params)):
        raise ShapeError(f"adagrad: {len(params)} parameters, {len(grads)} gradients and {len(sums)} sums")
    cdef cnp.ndarray p, total
    for i in range(len(params)):
        p, total = params[i], sums[i]
        step_rows(p, grads[i], total, None if momentum == 0 else velocities[i], &h)


cdef UpdateRule adagrad_rule(double lr, double eps, bint under_root, double momentum, list velocities, double weight_decay,
                             double scale) except *:
    cdef UpdateRule h = rule_of(lr, weight_decay, scale)
    h.eps, h.under_root, h.momentum = eps, under_root, momentum
    if momentum != 0 and velocities is None:
        raise ShapeError(f"adagrad: momentum={momentum} needs a list of velocities")
    return h


cdef int step_rows(cnp.ndarray p, object g, cnp.ndarray sums, object velocity, UpdateRule* h) except -1:
    """One parameter of `adagrad_rowwise`."""
    cdef int kind = real_type("adagrad", p)
    cdef const int64_t* numbers = NULL
    cdef int64_t n, columns
    if p.ndim != 2:
        raise ShapeError(f"adagrad: row by row goes with parameters [R, C], not {(<object>p).shape}")
    n, columns = p.shape[0], p.shape[1]
    if type(g) is tuple:
        rows, g = g
        n = len(rows)
        check_rows("adagrad", p, rows, g)
        numbers = <const int64_t*>cnp.PyArray_DATA(rows)
    g = np.ascontiguousarray(g)
    cdef void* at = data_of("adagrad", "a parameter", p, kind, p.shape[0] * columns)
    cdef void* given = data_of("adagrad", "a gradient", g, kind, n * columns)
    cdef void* total = data_of("adagrad", "the sums", sums, kind, p.shape[0])
    cdef void* moved = optional_data("adagrad", "the velocity", velocity, kind, p.shape[0] * columns)
    with nogil:
        call_adagrad_rows(kind, at, given, total, moved, numbers, n, columns, h[0])
    return 0


def adadelta(
    list params not None,           # IN/OUT
    list grads not None,            # IN
    list squares not None,          # IN/OUT
    list steps not None,            # IN/OUT
    *,
    double lr=1.0,
    double rho=0.9,
    double eps=1e-6,
    double weight_decay=0.0,
    double scale=1.0,
):
    """s = rho s + (1 - rho) d^2; u = sqrt((a + eps) / (s + eps)) d; a = rho a + (1 - rho) u^2; p -= lr u."""
    cdef UpdateRule h = rule_of(lr, weight_decay, scale)
    h.beta1, h.eps = rho, eps
    step("adadelta", kAdadelta, (params, grads, squares, steps), &h)


def axpy(
    list targets not None,          # IN/OUT
    list sources not None,          # IN
    object factor,                  # a number, or one for each array
    *,
    double keep=1.0,
):
    """t = keep t + factor s, array by array."""
    cdef Lists at = collect("axpy", (targets, sources), 1)
    cdef cnp.ndarray factors = np.ascontiguousarray(factor, np.float64)
    cdef bint shared = cnp.PyArray_SIZE(factors) == 1
    cdef const double* f = <const double*>data_of("axpy", "factor", factors, cnp.NPY_DOUBLE, 1 if shared else at.count)
    if at.count == 0:
        return
    with nogil:
        call_axpy(at.kind, at.pointers, at.sizes, at.count, keep, f, shared)


def ema(
    list averages not None,         # IN/OUT
    list params not None,           # IN
    double decay,
):
    """a = decay a + (1 - decay) p."""
    axpy(averages, params, 1 - decay, keep=decay)


def scale(
    list arrays not None,           # IN/OUT
    double factor,
):
    """x = factor x."""
    axpy(arrays, arrays, factor / 2, keep=factor / 2)  # halves are exact; 0 * inf would make a NaN


def sum_squares(
    list arrays not None,           # IN
):
    """The sum of squares of each array, float64 [len(arrays)]: in one fixed order, the same for any number of threads."""
    cdef Lists at = collect("sum_squares", (arrays,), 0)
    cdef cnp.ndarray out = np.zeros(len(arrays))
    cdef double* to = <double*>cnp.PyArray_DATA(out)
    if at.count == 0:
        return out
    with nogil:
        call_squares(at.kind, to, at.pointers, at.sizes, at.count)
    return out

"""Connectionist temporal classification: loss and gradient."""

include "launch.pxi"

import numpy as np

from pdl.errors import ShapeError
from pdl.kernels.launch import now
from pdl.kernels.memory import empty

ctypedef fused real:
    float
    double

cdef extern from "table.h" namespace "pdl":
    cdef cppclass CtcBatch[T]:
        const T* log_p
        const int64_t* target
        const int64_t* steps
        const int64_t* labels
        int64_t n, t, c, u, blank
    cdef cppclass CtcTable[T]:
        int64_t row_size(int64_t u) noexcept nogil
        void* loss
        void* gradient
    CtcTable[T]* ctc_table[T](const T* any) noexcept nogil


cdef int check(tuple log_p, int64_t losses, const int64_t[:, ::1] target, const int64_t[::1] steps,
               const int64_t[::1] labels, int64_t blank) except -1:
    """Raise `ShapeError` where lengths exceed the arrays or a label is no class."""
    now("ctc: lengths and labels are checked")
    cdef int64_t i, j, n = log_p[0], t = log_p[1], c = log_p[2]
    if losses != n or target.shape[0] != n or steps.shape[0] != n or labels.shape[0] != n:
        raise ShapeError(f"ctc_loss: {n} samples, but {target.shape[0]} targets, {steps.shape[0]} input lengths and "
                         f"{labels.shape[0]} target lengths")
    for i in range(n):
        if steps[i] < 0 or steps[i] > t:
            raise ShapeError(f"ctc_loss: input length {steps[i]} of sample {i} is outside [0, {t}], the steps of "
                             f"log_probs")
        if labels[i] < 0 or labels[i] > target.shape[1]:
            raise ShapeError(f"ctc_loss: target length {labels[i]} of sample {i} is outside [0, {target.shape[1]}], "
                             f"the width of targets")
        for j in range(labels[i]):
            if target[i, j] < 0 or target[i, j] >= c or target[i, j] == blank:
                raise ShapeError(f"ctc_loss: label {target[i, j]} at {j} of target {i} must be in [0, {c}) and not the "
                                 f"blank {blank}")
    return 0


def loss(
    real[::1] out,                      # OUT [N]
    const real[:, :, ::1] log_p,        # IN  [N, T, C]
    const int64_t[:, ::1] target,       # IN  [N, U]
    const int64_t[::1] steps,           # IN  [N] up to T
    const int64_t[::1] labels,          # IN  [N] up to U
    int64_t blank,
):
    """out = -log p(target | log_p), infinite where no alignment exists."""
    cdef CtcBatch[real] batch
    cdef real[:, :, ::1] scratch
    check((log_p.shape[0], log_p.shape[1], log_p.shape[2]), out.shape[0], target, steps, labels, blank)
    if out.shape[0] == 0:
        return
    scratch = empty((log_p.shape[0], 4, ctc_table(&out[0]).row_size(target.shape[1])),
                    np.dtype("f4" if real is float else "f8"))
    batch.log_p = &log_p[0, 0, 0] if log_p.shape[1] and log_p.shape[2] else NULL
    batch.target = &target[0, 0] if target.shape[1] else NULL
    batch.steps, batch.labels = &steps[0], &labels[0]
    batch.n, batch.t, batch.c = log_p.shape[0], log_p.shape[1], log_p.shape[2]
    batch.u, batch.blank = target.shape[1], blank
    with nogil:
        launch(ctc_table(&out[0]).loss, &out[0], &scratch[0, 0, 0], batch)


def gradient(
    real[:, :, ::1] d,                  # OUT [N, T, C]
    const real[::1] g,                  # IN  [N]
    const real[:, :, ::1] log_p,        # IN  [N, T, C]
    const int64_t[:, ::1] target,       # IN  [N, U]
    const int64_t[::1] steps,           # IN  [N] up to T
    const int64_t[::1] labels,          # IN  [N] up to U
    int64_t blank,
):
    """d = g times the gradient of the loss with respect to log_p; 0 where no alignment exists."""
    cdef CtcBatch[real] batch
    cdef real[:, :, ::1] scratch
    check((log_p.shape[0], log_p.shape[1], log_p.shape[2]), g.shape[0], target, steps, labels, blank)
    if d.shape[0] != log_p.shape[0] or d.shape[1] != log_p.shape[1] or d.shape[2] != log_p.shape[2]:
        raise ShapeError("ctc_loss: the gradient must have the shape of log_probs")
    if d.shape[0] * d.shape[1] * d.shape[2] == 0:
        return
    scratch = empty((log_p.shape[0], log_p.shape[1] + 3, ctc_table(&g[0]).row_size(target.shape[1])),
                    np.dtype("f4" if real is float else "f8"))
    batch.log_p = &log_p[0, 0, 0]
    batch.target = &target[0, 0] if target.shape[1] else NULL
    batch.steps, batch.labels = &steps[0], &labels[0]
    batch.n, batch.t, batch.c = log_p.shape[0], log_p.shape[1], log_p.shape[2]
    batch.u, batch.blank = target.shape[1], blank
    with nogil:
        launch(ctc_table(&d[0, 0, 0]).gradient, &d[0, 0, 0], &scratch[0, 0, 0], &g[0], batch)

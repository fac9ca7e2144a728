"""Linear layer and cross-entropy in one, for many classes: forward, and the gradients."""

import math

from pdl.errors import DataError
from pdl.kernels.launch import now

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass Classifier "pdl::Classifier<void>":
        int64_t rows, inputs, classes, block, width, ignored
        double smoothing, factor
        bint shared
        const void* x
        const void* w
        const void* bias
        const int64_t* labels
        const int64_t* ids
        void* loss
        void* lse
        void* scores
        const void* g
        const void* lse_in
        const void* scores_in
        void* dx
        void* dw
        void* dbias

cdef extern from "stored.h":
    int64_t launch_forward "PDL_REAL(classifier, forward)"(int kind, ...) except + nogil
    int64_t launch_backward "PDL_REAL(classifier, backward)"(int kind, ...) except + nogil

cdef str NAME = "linear_cross_entropy"
cdef int64_t ROW_BLOCK = 128


def block_of(int64_t classes, bint by_rows=False):
    """Classes in a block: a block of w and of the scores of some rows stay in a second-level cache."""
    if by_rows:
        return ROW_BLOCK
    return 512 if classes >= 4096 else max(64, (classes + 255) // 256 * 32)


def width_of(int64_t rows):
    """Rows of x that a block of a table by rows is multiplied with at a time: up to 128, a multiple of 16."""
    cdef int64_t groups = max(1, (rows + 127) // 128)
    return max(16, ((rows + groups - 1) // groups + 15) // 16 * 16)


def scores_shape(int64_t rows, int64_t classes, bint by_rows):
    """What `forward` keeps: [blocks, N, block], or [groups, K, width] for a table by rows."""
    if by_rows:
        return -(-rows // width_of(rows)), classes, width_of(rows)
    return -(-classes // block_of(classes)), rows, block_of(classes)


cdef void* behind(cnp.ndarray array, void* data, int64_t values) noexcept:
    """`data` of an array, so many values on; NULL stays."""
    return NULL if data == NULL else <void*>(<char*>data + values * cnp.PyArray_ITEMSIZE(array))


cdef int64_t prepare(Classifier* p, cnp.ndarray x, cnp.ndarray w, bias, cnp.ndarray labels, double smoothing,
                     int64_t ignored, bint by_rows, int64_t first) except -1:
    """Fill in what both ways read; returns the number of labels that count. Labels are counted from `first` already."""
    cdef int kind = real_type(NAME, x)
    cdef int64_t r, counted = 0, label
    now("linear_cross_entropy: labels are checked and counted")
    p.rows, p.inputs, p.classes = x.shape[0], x.shape[1], w.shape[0 if by_rows else 1] - first
    p.block, p.width, p.smoothing, p.ignored = block_of(p.classes, by_rows), 0, smoothing, ignored - first
    if first < 0 or p.classes < 1 or (first > 0 and not by_rows):
        raise ShapeError(f"{NAME}: first={first} of w {(<object>w).shape}; it goes with a table by rows, and leaves one class")
    if by_rows:
        p.width = width_of(p.rows)
    p.x = data_of(NAME, "x", x, kind, p.rows * p.inputs)
    p.w = behind(w, data_of(NAME, "w", w, kind, p.inputs * (p.classes + first)), first * p.inputs)
    p.bias = behind(x, optional_data(NAME, "b", bias, kind, p.classes + first), first)
    p.ids = NULL
    p.labels = <const int64_t*>data_of(NAME, "labels", labels, cnp.NPY_INT64, p.rows)
    for r in range(p.rows):
        label = p.labels[r]
        if label == p.ignored:
            continue
        if label < 0 or label >= p.classes:
            classes = f"the {p.classes} classes {first}..{first + p.classes - 1} (ignore_index is {ignored})"
            raise DataError(f"{NAME}: label {label + first} at position {r} is none of {classes}")
        counted += 1
    return counted


cdef int take_ids(Classifier* p, cnp.ndarray ids) except -1:
    """Let classes have ids; those of labels must be fit for 32 bits."""
    cdef int64_t r
    if p.width == 0:
        raise ShapeError(f"{NAME}: ids go with a table by rows")
    p.ids = <const int64_t*>data_of(NAME, "ids", ids, cnp.NPY_INT64, p.classes)
    for r in range(p.rows):
        if p.labels[r] != p.ignored and not 0 <= p.ids[p.labels[r]] < 1 << 31:
            raise DataError(f"{NAME}: label {p.labels[r]} at position {r} has the id {p.ids[p.labels[r]]}, which takes no part")
    return 0


def forward(
    cnp.ndarray loss not None,      # OUT [N]
    cnp.ndarray lse not None,       # OUT [N] log sum_c e^score[c]
    cnp.ndarray scores not None,    # OUT `scores_shape`: x @ w + b, by blocks of classes or by groups of rows
    cnp.ndarray x not None,         # IN  [N, C]
    cnp.ndarray w not None,         # IN  [C, K]; [K, C] with `by_rows`
    bias,                           # IN  [K] or None
    cnp.ndarray labels not None,    # IN  int64 [N]
    *,
    double smoothing=0.0,
    int64_t ignore_index=-100,
    bint by_rows=False,             # the rows of w are the classes
    int64_t first=0,                # classes below this one take no part (by rows)
    ids=None,                       # IN  int64 [K] or None: what each class is (by rows)
):
    """loss = (1 - s) (lse - score[label]) + s / K sum_c (lse - score[c]), 0 for ignored labels.

    With `ids` a class that has the id of the row's label, but is not the label, takes no part in that row, and one with a
    negative id in none. Returns how many labels are not ignored. Raises `DataError` for a label outside [first, K).
    """
    cdef Classifier p
    if first:
        labels = labels - first
    cdef int kind = real_type(NAME, x)
    cdef int64_t counted = prepare(&p, x, w, bias, labels, smoothing, ignore_index, by_rows, first)
    if ids is not None:
        take_ids(&p, ids)
    p.loss = data_of(NAME, "loss", loss, kind, p.rows)
    p.lse = data_of(NAME, "lse", lse, kind, p.rows)
    p.scores = data_of(NAME, "scores", scores, kind, math.prod(scores_shape(p.rows, p.classes, by_rows)))
    with nogil:
        launch_forward(kind, p)
    return counted


def backward(
    cnp.ndarray dx not None,        # OUT [N, C]
    cnp.ndarray dw not None,        # OUT like w
    dbias,                          # OUT [K] or None
    cnp.ndarray g not None,         # IN  [N], or one value for all rows: the gradient of the loss
    cnp.ndarray x not None,         # IN  [N, C]
    cnp.ndarray w not None,         # IN  [C, K]; [K, C] with `by_rows`
    cnp.ndarray labels not None,    # IN  int64 [N]
    cnp.ndarray lse not None,       # IN  [N] from `forward`
    cnp.ndarray scores not None,    # IN  from `forward`
    *,
    double smoothing=0.0,
    int64_t ignore_index=-100,
    double factor=1.0,              # g is multiplied by this
    bint by_rows=False,             # the rows of w are the classes
    int64_t first=0,                # as in `forward`
):
    """Gradients of `forward`: d = g factor (softmax(scores) - q), dx = d w^T, dw = x^T d (by rows: d^T x), db = sum of d
    over the rows; 0 for classes below `first`."""
    cdef Classifier p
    if first:
        labels = labels - first
    cdef int kind = real_type(NAME, x)
    prepare(&p, x, w, None, labels, smoothing, ignore_index, by_rows, first)
    for written in (dw, dbias):
        if written is not None:
            written[:None if p.rows == 0 else first] = 0
    if p.rows == 0:
        return
    p.factor, p.shared = factor, cnp.PyArray_SIZE(g) == 1 and p.rows != 1
    p.g = data_of(NAME, "g", g, kind, 1 if p.shared else p.rows)
    p.lse_in = data_of(NAME, "lse", lse, kind, p.rows)
    p.scores_in = data_of(NAME, "scores", scores, kind, math.prod(scores_shape(p.rows, p.classes, by_rows)))
    p.dx = data_of(NAME, "dx", dx, kind, p.rows * p.inputs)
    p.dw = behind(dw, data_of(NAME, "dw", dw, kind, p.inputs * (p.classes + first)), first * p.inputs)
    p.dbias = behind(dw, optional_data(NAME, "db", dbias, kind, p.classes + first), first)
    with nogil:
        launch_backward(kind, p)

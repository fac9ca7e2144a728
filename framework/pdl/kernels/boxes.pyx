"""Boxes (x1, y1, x2, y2): how much they overlap, and which are left of those that overlap one with a higher score."""

include "checks.pxi"

cdef extern from "stored.h":
    int64_t launch_select "PDL_REAL(boxes, select)"(int kind, ...) except + nogil
    int64_t launch_overlap "PDL_REAL(boxes, overlap)"(int kind, ...) except + nogil
    int64_t launch_overlap_grad "PDL_REAL(boxes, overlap_grad)"(int kind, ...) except + nogil
    int64_t call_suppress "PDL_CALL(boxes, suppress)"(int kind, ...) except + nogil

cdef extern from "table.h" namespace "pdl":
    cdef struct SelectCall:
        int64_t images, anchors, classes, candidates, most
        int how
        double overlap, lowest, sigma
        bint apart, each
    cdef struct OverlapCall:
        int64_t outer, n, m
        int measure
    cdef enum:
        kKeepAll
        kHard
        kLinearDecay
        kGaussianDecay
        kMatrixDecay
        kIou
        kGiou
        kDiou
        kCiou

KINDS = {"hard": kHard, "linear": kLinearDecay, "gaussian": kGaussianDecay, "matrix": kMatrixDecay, "none": kKeepAll}
MEASURES = {"iou": kIou, "giou": kGiou, "diou": kDiou, "ciou": kCiou}


def select(
    cnp.ndarray boxes not None,     # OUT [N, K, 4]
    cnp.ndarray scores not None,    # OUT [N, K]
    int64_t[:, ::1] labels,         # OUT [N, K] -1 behind the last
    int64_t[:, ::1] index,          # OUT [N, K] -1 behind the last
    cnp.ndarray source not None,    # IN  [N, A, 4] or [N, A, C, 4]
    cnp.ndarray values not None,    # IN  [N, A, C]
    *,
    str how,                        # of KINDS
    double overlap,
    double lowest,                  # scores that are not above do not count
    double sigma,
    bint apart,                     # boxes of several classes do not meet
    int64_t candidates,
):
    """The K best scores of each image, with their boxes, classes and places, of those that the suppression leaves."""
    cdef int kind = real_type("select", values)
    cdef SelectCall call
    if cnp.PyArray_NDIM(values) != 3 or how not in KINDS or candidates < 1 or labels.shape[0] != values.shape[0] or \
            (<object>index).shape != (<object>labels).shape:
        raise ShapeError(f"select: scores {(<object>values).shape}, labels {(<object>labels).shape}, index {(<object>index).shape}, "
                         f"{how!r} and {candidates} candidates do not fit")
    call.images, call.anchors, call.classes = values.shape[0], values.shape[1], values.shape[2]
    call.candidates, call.most, call.how, call.apart = candidates, labels.shape[1], KINDS[how], apart
    call.overlap, call.lowest, call.sigma, call.each = overlap, lowest, sigma, cnp.PyArray_NDIM(source) == 4
    cdef int64_t total = call.images * call.anchors
    cdef void* to = data_of("select", "boxes", boxes, kind, call.images * call.most * 4)
    cdef void* best = data_of("select", "scores", scores, kind, call.images * call.most)
    cdef void* from_boxes = data_of("select", "boxes", source, kind, total * 4 * (call.classes if call.each else 1))
    cdef void* from_scores = data_of("select", "scores", values, kind, total * call.classes)
    if call.images == 0 or call.most == 0:
        return
    address("select", &labels[0, 0])
    address("select", &index[0, 0])
    with nogil:
        launch_select(kind, to, best, &labels[0, 0], &index[0, 0], from_boxes, from_scores, call)


def suppress(
    int64_t[:, ::1] kept not None,  # OUT [N K, most] the first counts[i] of row i are boxes
    int64_t[::1] counts not None,   # OUT [N K]
    cnp.ndarray boxes not None,     # IN  [N, n, 4] two opposite corners (y, x), or centre and size (x, y, width, height)
    cnp.ndarray scores not None,    # IN  [N, K, n]
    *,
    double overlap,                 # intersection over union up to which boxes live beside each other
    object lowest=None,             # scores that are not above do not count
    bint centred=False,
):
    """The boxes of each class that overlap none of its boxes with a higher score, by descending score."""
    cdef int kind = real_type("suppress", scores)
    if cnp.PyArray_NDIM(scores) != 3 or counts.shape[0] != scores.shape[0] * scores.shape[1] or kept.shape[0] != counts.shape[0]:
        raise ShapeError(f"suppress: kept {(<object>kept).shape}, scores {(<object>scores).shape} do not fit")
    cdef int64_t groups = counts.shape[0], kinds = scores.shape[1], n = scores.shape[2], most = kept.shape[1]
    cdef void* corners = data_of("suppress", "boxes", boxes, kind, scores.shape[0] * n * 4)
    cdef void* values = data_of("suppress", "scores", scores, kind, groups * n)
    cdef bint any = lowest is None
    cdef double low = 0 if any else lowest
    counts[:] = 0
    if groups and n and most:
        with nogil:
            call_suppress(kind, &kept[0, 0], &counts[0], corners, values, groups, kinds, n, most, overlap, low, any, centred)


cdef int fill(str name, OverlapCall* call, cnp.ndarray a, cnp.ndarray b, str measure) except -1:
    if cnp.PyArray_NDIM(a) != 3 or cnp.PyArray_NDIM(b) != 3 or a.shape[0] != b.shape[0] or a.shape[2] != 4 or b.shape[2] != 4:
        raise ShapeError(f"{name}: boxes {(<object>a).shape} and {(<object>b).shape} are not [outer, n, 4] and [outer, m, 4]")
    if measure not in MEASURES:
        raise ShapeError(f"{name}: {measure!r} is none of {', '.join(MEASURES)}")
    call.outer, call.n, call.m, call.measure = a.shape[0], a.shape[1], b.shape[1], MEASURES[measure]
    return 0


def overlap(
    cnp.ndarray y not None,         # OUT [outer, n, m]
    cnp.ndarray a not None,         # IN  [outer, n, 4]
    cnp.ndarray b not None,         # IN  [outer, m, 4]
    str measure,                    # of MEASURES
):
    """y[o, i, j] = the measure of boxes a[o, i] and b[o, j]."""
    cdef OverlapCall call
    cdef int kind = real_type("overlap", a)
    fill("overlap", &call, a, b, measure)
    cdef void* to = data_of("overlap", "y", y, kind, call.outer * call.n * call.m)
    cdef void* left = data_of("overlap", "a", a, kind, call.outer * call.n * 4)
    cdef void* right = data_of("overlap", "b", b, kind, call.outer * call.m * 4)
    if cnp.PyArray_SIZE(y):
        with nogil:
            launch_overlap(kind, to, left, right, call)


def overlap_grad(
    cnp.ndarray da not None,        # OUT [outer, n, 4]
    cnp.ndarray g not None,         # IN  [outer, n, m]
    cnp.ndarray a not None,         # IN  [outer, n, 4]
    cnp.ndarray b not None,         # IN  [outer, m, 4]
    str measure,
):
    """The gradient of `overlap` in a; of CIoU with its weight alpha as a constant."""
    cdef OverlapCall call
    cdef int kind = real_type("overlap_grad", a)
    fill("overlap_grad", &call, a, b, measure)
    cdef void* to = data_of("overlap_grad", "da", da, kind, call.outer * call.n * 4)
    cdef void* pg = data_of("overlap_grad", "g", g, kind, call.outer * call.n * call.m)
    cdef void* left = data_of("overlap_grad", "a", a, kind, call.outer * call.n * 4)
    cdef void* right = data_of("overlap_grad", "b", b, kind, call.outer * call.m * 4)
    if cnp.PyArray_SIZE(da):
        with nogil:
            launch_overlap_grad(kind, to, pg, left, right, call)

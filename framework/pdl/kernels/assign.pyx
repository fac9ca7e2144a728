"""Target assignment: which ground truth each anchor or point of an image is to find."""

include "checks.pxi"

cdef extern from "assign.h":
    int64_t launch_max_iou "PDL_ASSIGN(max_iou)"(int kind, ...) except + nogil
    int64_t launch_atss "PDL_ASSIGN(atss)"(int kind, ...) except + nogil

cdef extern from "assign_points.h":
    int64_t launch_task_aligned "PDL_ASSIGN(task_aligned)"(int kind, ...) except + nogil
    int64_t launch_simota "PDL_ASSIGN(simota)"(int kind, ...) except + nogil

cdef extern from "assign_pairs.h":
    int64_t launch_hungarian "PDL_ASSIGN(hungarian)"(int kind, ...) except + nogil

cdef extern from "assigned.h":
    int64_t launch_hard_negatives "PDL_ASSIGN(hard_negatives)"(int kind, ...) except + nogil
    int64_t launch_targets "PDL_ASSIGN(targets)"(int kind, ...) except + nogil
    void* c_sample "&pdl::assign::sample"
    void* c_take "&pdl::assign::take"

cdef extern from "assign_points.h" namespace "pdl::assign":
    cdef cppclass Truth "pdl::assign::Truth<void>":
        const void* boxes
        const int64_t* labels
        int64_t n, m
    cdef cppclass Found "pdl::assign::Found<void>":
        const void* points
        const void* boxes
        const void* scores
        int64_t a, classes


cdef inline int64_t* places(str name, str label, cnp.ndarray array, int64_t size) except? NULL:
    return <int64_t*>data_of(name, label, array, cnp.NPY_INT64, size)


cdef int fill_truth(str name, Truth* truth, cnp.ndarray boxes, cnp.ndarray labels, int kind) except -1:
    if cnp.PyArray_NDIM(labels) != 2:
        raise ShapeError(f"{name}: labels {(<object>labels).shape}; expected [N, M]")
    truth.n, truth.m = labels.shape[0], labels.shape[1]
    truth.labels = places(name, "labels", labels, truth.n * truth.m)
    truth.boxes = data_of(name, "boxes", boxes, kind, truth.n * truth.m * 4)
    return 0


cdef int fill_found(str name, Found* found, int64_t n, cnp.ndarray points, cnp.ndarray predicted, cnp.ndarray scores, int kind) except -1:
    if cnp.PyArray_NDIM(scores) != 3:
        raise ShapeError(f"{name}: scores {(<object>scores).shape}; expected [N, A, C]")
    found.a, found.classes = scores.shape[1], scores.shape[2]
    found.points = data_of(name, "points", points, kind, found.a * 2)
    found.boxes = data_of(name, "predicted", predicted, kind, n * found.a * 4)
    found.scores = data_of(name, "scores", scores, kind, n * found.a * found.classes)
    return 0


cdef int raise_label(str name, int64_t place, int64_t m, cnp.ndarray labels, int64_t classes) except -1:
    label = (<object>labels).reshape(-1)[place]
    raise ShapeError(f"{name}: label {label} of box {place % m} of image {place // m} is outside [0, {classes}), the classes")


cdef int raise_index(str name, int64_t place, int64_t a, cnp.ndarray index, int64_t m) except -1:
    at = (<object>index).reshape(-1)[place]
    raise ShapeError(f"{name}: index {at} of place {place % a} of image {place // a} is outside the {m} boxes")


def max_iou(
    cnp.ndarray index not None,     # OUT int64 [N, A]
    cnp.ndarray anchors not None,   # IN  [A, 4] or [N, A, 4]
    cnp.ndarray boxes not None,     # IN  [N, M, 4]
    cnp.ndarray labels not None,    # IN  int64 [N, M] -1: no box
    *,
    double positive,                # IoU from which an anchor finds the box that it overlaps most
    double negative,                # IoU below which it is background
    bint best,                      # the anchors of a box's highest IoU find something
    bint forced,                    # namely this box, and only the first of them
):
    """The box that each anchor overlaps most: from `positive` on, -1 below `negative`, -2 between."""
    cdef Truth truth
    cdef int kind = real_type("max_iou_assign", boxes)
    cdef bint own = cnp.PyArray_NDIM(anchors) == 3
    fill_truth("max_iou_assign", &truth, boxes, labels, kind)
    cdef int64_t a = anchors.shape[1] if own else anchors.shape[0]
    cdef int64_t step = 4 * a if own else 0
    cdef int64_t* to = places("max_iou_assign", "index", index, truth.n * a)
    cdef void* source = data_of("max_iou_assign", "anchors", anchors, kind, (truth.n if own else 1) * a * 4)
    with nogil:
        launch_max_iou(kind, to, source, a, step, truth, positive, negative, best, forced)


def atss(
    cnp.ndarray index not None,     # OUT int64 [N, A]
    cnp.ndarray anchors not None,   # IN  [A, 4]
    cnp.ndarray boxes not None,     # IN  [N, M, 4]
    cnp.ndarray labels not None,    # IN  int64 [N, M] -1: no box
    const int64_t[::1] levels not None,  # IN  how many of the anchors each level has
    int64_t k,                      # candidates of a box from each level
):
    """The box whose candidate an anchor is, of IoU at least the mean and standard deviation of all its candidates'."""
    cdef Truth truth
    cdef int kind = real_type("atss_assign", boxes)
    cdef int64_t a = anchors.shape[0], count = levels.shape[0], i, total = 0
    for i in range(count):
        total += levels[i]
        if levels[i] < 0:
            raise ShapeError(f"atss_assign: a level of {levels[i]} anchors")
    if total != a or k < 0:
        raise ShapeError(f"atss_assign: levels of {total} anchors do not fit {a} anchors; k={k}")
    fill_truth("atss_assign", &truth, boxes, labels, kind)
    cdef int64_t* to = places("atss_assign", "index", index, truth.n * a)
    cdef void* source = data_of("atss_assign", "anchors", anchors, kind, a * 4)
    cdef const int64_t* counts = NULL
    if count:
        counts = <const int64_t*>address("atss_assign", &levels[0])
    with nogil:
        launch_atss(kind, to, source, a, truth, counts, count, k)


def task_aligned(
    cnp.ndarray index not None,     # OUT int64 [N, A]
    cnp.ndarray quality not None,   # OUT [N, A]
    cnp.ndarray points not None,    # IN  [A, 2]
    cnp.ndarray predicted not None,  # IN  [N, A, 4]
    cnp.ndarray scores not None,    # IN  [N, A, C]
    cnp.ndarray boxes not None,     # IN  [N, M, 4]
    cnp.ndarray labels not None,    # IN  int64 [N, M] -1: no box
    *,
    int64_t k,
    double alpha,
    double beta,
):
    """Of the points inside a box the k best by score^alpha IoU^beta; quality is that measure, scaled by the box's best."""
    cdef Truth truth
    cdef Found found
    cdef int kind = real_type("task_aligned_assign", quality)
    cdef int64_t bad = 0
    fill_truth("task_aligned_assign", &truth, boxes, labels, kind)
    fill_found("task_aligned_assign", &found, truth.n, points, predicted, scores, kind)
    cdef int64_t* to = places("task_aligned_assign", "index", index, truth.n * found.a)
    cdef void* measure = data_of("task_aligned_assign", "quality", quality, kind, truth.n * found.a)
    if k < 0:
        raise ShapeError(f"task_aligned_assign: k={k}")
    with nogil:
        bad = launch_task_aligned(kind, to, measure, found, truth, k, alpha, beta)
    if bad:
        raise_label("task_aligned_assign", bad - 1, truth.m, labels, found.classes)


def simota(
    cnp.ndarray index not None,     # OUT int64 [N, A]
    cnp.ndarray iou not None,       # OUT [N, A]
    cnp.ndarray points not None,    # IN  [A, 2]
    cnp.ndarray strides not None,   # IN  [A]
    cnp.ndarray predicted not None,  # IN  [N, A, 4]
    cnp.ndarray scores not None,    # IN  [N, A, C]
    cnp.ndarray boxes not None,     # IN  [N, M, 4]
    cnp.ndarray labels not None,    # IN  int64 [N, M] -1: no box
    *,
    double radius,                  # of the centre of a box, in strides
    int64_t k,                      # IoUs that sum up to how many points a box takes
    double iou_weight,
):
    """The points of lowest cost for each box, as many as its k highest IoUs sum up to; iou: with the box found."""
    cdef Truth truth
    cdef Found found
    cdef int kind = real_type("simota_assign", iou)
    cdef int64_t bad = 0
    fill_truth("simota_assign", &truth, boxes, labels, kind)
    fill_found("simota_assign", &found, truth.n, points, predicted, scores, kind)
    cdef int64_t* to = places("simota_assign", "index", index, truth.n * found.a)
    cdef void* share = data_of("simota_assign", "iou", iou, kind, truth.n * found.a)
    cdef void* reach = data_of("simota_assign", "strides", strides, kind, found.a)
    if k < 0:
        raise ShapeError(f"simota_assign: k={k}")
    with nogil:
        bad = launch_simota(kind, to, share, reach, found, truth, radius, k, iou_weight)
    if bad:
        raise_label("simota_assign", bad - 1, truth.m, labels, found.classes)


def hungarian(
    cnp.ndarray index not None,     # OUT int64 [N, Q]
    cnp.ndarray cost not None,      # IN  [N, Q, M]
    cnp.ndarray labels not None,    # IN  int64 [N, M] -1: no box
):
    """Pairs of queries and boxes whose costs have the lowest sum, as many as there are of the fewer; else -1."""
    cdef int kind = real_type("hungarian_assign", cost)
    if cnp.PyArray_NDIM(cost) != 3:
        raise ShapeError(f"hungarian_assign: cost {(<object>cost).shape}; expected [N, Q, M]")
    cdef int64_t n = cost.shape[0], q = cost.shape[1], m = cost.shape[2]
    cdef int64_t* to = places("hungarian_assign", "index", index, n * q)
    cdef void* source = data_of("hungarian_assign", "cost", cost, kind, n * q * m)
    cdef int64_t* own = places("hungarian_assign", "labels", labels, n * m)
    with nogil:
        launch_hungarian(kind, to, source, own, n, q, m)


def sample(
    cnp.ndarray sampled not None,   # OUT int64 [N, A]
    cnp.ndarray index not None,     # IN  int64 [N, A]
    cnp.ndarray seed not None,      # IN  int64 []
    *,
    int64_t count,                  # places of an image that are kept
    int64_t positives,              # of them at most so many that find something
):
    """index, where all but a random sample is -2."""
    if cnp.PyArray_NDIM(index) != 2 or count < 0 or not 0 <= positives <= count:
        raise ShapeError(f"sample_assigned: index {(<object>index).shape}, {positives} positives of {count}; expected [N, A]")
    cdef int64_t n = index.shape[0], a = index.shape[1]
    cdef int64_t* to = places("sample_assigned", "out", sampled, n * a)
    cdef int64_t* source = places("sample_assigned", "index", index, n * a)
    cdef int64_t* drawn = places("sample_assigned", "seed", seed, 1)
    with nogil:
        launch(c_sample, to, source, drawn, n, a, count, positives)


def hard_negatives(
    cnp.ndarray sampled not None,   # OUT int64 [N, A]
    cnp.ndarray loss not None,      # IN  [N, A]
    cnp.ndarray index not None,     # IN  int64 [N, A]
    double ratio,                   # background that is kept for each place that finds something
):
    """index, where background is -2 but for the places of the highest loss."""
    cdef int kind = real_type("hard_negatives", loss)
    if cnp.PyArray_NDIM(index) != 2 or not ratio >= 0:
        raise ShapeError(f"hard_negatives: index {(<object>index).shape}, ratio {ratio}; expected [N, A]")
    cdef int64_t n = index.shape[0], a = index.shape[1]
    cdef int64_t* to = places("hard_negatives", "out", sampled, n * a)
    cdef int64_t* own = places("hard_negatives", "index", index, n * a)
    cdef void* source = data_of("hard_negatives", "loss", loss, kind, n * a)
    with nogil:
        launch_hard_negatives(kind, to, source, own, n, a, ratio)


def take(
    cnp.ndarray y not None,         # OUT [N, A, ...]
    cnp.ndarray values not None,    # IN  [N, M, ...] of the same dtype
    cnp.ndarray index not None,     # IN  int64 [N, A] below M
):
    """y[n, a] = values[n, index[n, a]], zeros where the index is negative."""
    cdef int64_t bad = 0
    if cnp.PyArray_NDIM(index) != 2 or cnp.PyArray_NDIM(values) < 2 or values.dtype != y.dtype:
        raise ShapeError(f"take_assigned: values {values.dtype} {(<object>values).shape}, index {(<object>index).shape}; expected "
                         f"[N, M, ...] and [N, A]")
    cdef int64_t n = index.shape[0], a = index.shape[1], m = values.shape[1], each = 1
    cdef int axis, kind = cnp.PyArray_TYPE(values)
    for axis in range(2, cnp.PyArray_NDIM(values)):
        each *= values.shape[axis]
    cdef char* source = <char*>data_of("take_assigned", "values", values, kind, n * m * each)
    cdef char* to = <char*>data_of("take_assigned", "out", y, kind, n * a * each)
    each *= cnp.PyArray_ITEMSIZE(values)
    cdef int64_t* own = places("take_assigned", "index", index, n * a)
    with nogil:
        bad = launch(c_take, to, source, own, n, a, m, each)
    if bad:
        raise_index("take_assigned", bad - 1, a, index, m)


def targets(
    cnp.ndarray y not None,         # OUT [N, A, C]
    cnp.ndarray index not None,     # IN  int64 [N, A] below M
    cnp.ndarray labels not None,    # IN  int64 [N, M] below C
    cnp.ndarray quality,            # IN  [N, A] or None
):
    """y[n, a, labels[n, index[n, a]]] = quality[n, a], or 1; 0 elsewhere, and where the index is negative."""
    cdef int kind = real_type("class_targets", y)
    cdef int64_t bad = 0
    if cnp.PyArray_NDIM(y) != 3 or cnp.PyArray_NDIM(labels) != 2:
        raise ShapeError(f"class_targets: y {(<object>y).shape}, labels {(<object>labels).shape}; expected [N, A, C] and [N, M]")
    cdef int64_t n = y.shape[0], a = y.shape[1], classes = y.shape[2], m = labels.shape[1]
    cdef void* to = data_of("class_targets", "y", y, kind, n * a * classes)
    cdef int64_t* own = places("class_targets", "index", index, n * a)
    cdef int64_t* named = places("class_targets", "labels", labels, n * m)
    cdef void* weight = optional_data("class_targets", "quality", quality, kind, n * a)
    with nogil:
        bad = launch_targets(kind, to, own, named, weight, n, a, m, classes)
    if bad > 0:
        raise_label("class_targets", bad - 1, m, labels, classes)
    if bad < 0:
        raise_index("class_targets", -bad - 1, a, index, m)
